"""`kubenexus scheduler` as a program, with the rights it is shipped with, on a real API server with its controllers.

There are no kubelets: a pod that has a node has arrived; where one has to run, the test says so in its kubelet's place.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hack.control_plane import binaries
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    NODES,
    PERSISTENT_VOLUMES,
    PODS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Resource,
)
from tests.contract.objects import unique
from tests.schedulers import POOL, ZONE, Cluster, Obj, pod_spec
from tests.servers import Server
from tests.stub_server import until

pytestmark = pytest.mark.e2e

DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
PATIENCE = 40.0


def workload(cluster: Cluster, name: str, spec: Obj, **pod: Any) -> Obj:
    selected = {"nodeSelector": {POOL: cluster.namespace}, "schedulerName": cluster.scheduler_name, **pod}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec("100m", **selected)}
    return {"metadata": {"name": name, "namespace": cluster.namespace}, "spec": {"template": template, **spec}}


def nodes_of(cluster: Cluster, app: str, count: int) -> list[str]:
    """Where the pods of a workload are, once all of them are somewhere."""

    def found() -> list[str]:
        pods = cluster.client.list(PODS, cluster.namespace, label_selector=f"app={app}").items
        return [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]

    until(lambda: len(found()) == count, PATIENCE)
    return found()


def zones(cluster: Cluster, nodes: list[str]) -> Counter[str]:
    return Counter(cluster.client.get(NODES, node)["metadata"]["labels"][ZONE] for node in nodes)


def says(cluster: Cluster, phase: str) -> None:
    """Say in the kubelets' place that all pods with a node are in this phase."""
    for pod in cluster.pods():
        if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
            status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(phase == "Running")}]}
            cluster.client.patch(
                PODS,
                pod["metadata"]["name"],
                {"status": status},
                cluster.namespace,
                kind=PatchType.STRATEGIC,
                subresource="status",
            )


def selector(app: str) -> Obj:
    return {"matchLabels": {"app": app}}


def test_workloads_run(cluster: Cluster) -> None:
    client = cluster.client
    client.create(DEPLOYMENTS, workload(cluster, "web", {"replicas": 1, "selector": selector("web")}))
    nodes_of(cluster, "web", 1)  # a pod that is seen before its ReplicaSet is not spread, here as by kube-scheduler
    client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 6}}, cluster.namespace, kind=PatchType.MERGE)
    client.create(JOBS, workload(cluster, "sum", {"parallelism": 2, "completions": 4}, restartPolicy="Never"))
    assert len(set(nodes_of(cluster, "web", 6))) == 6, "the defaults spread the pods of a Deployment"

    def done() -> bool:
        says(cluster, "Succeeded")
        return bool(client.get(JOBS, "sum", cluster.namespace)["status"].get("succeeded") == 4)

    client.delete(DEPLOYMENTS, "web", cluster.namespace)
    until(done, PATIENCE)


def test_spread_and_affinity(cluster: Cluster) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector("even"),
    }
    spread = {"replicas": 9, "selector": selector("even")}
    cluster.client.create(DEPLOYMENTS, workload(cluster, "even", spread, topologySpreadConstraints=[constraint]))
    assert set(zones(cluster, nodes_of(cluster, "even", 9)).values()) == {3}

    alone = {"labelSelector": selector("alone"), "topologyKey": "kubernetes.io/hostname"}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}}
    apart = {"replicas": 6, "selector": selector("alone")}
    cluster.client.create(DEPLOYMENTS, workload(cluster, "alone", apart, affinity=anti))
    assert len(set(nodes_of(cluster, "alone", 6))) == 6

    near = {"labelSelector": selector("near"), "topologyKey": ZONE}
    together = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    close = {"replicas": 4, "selector": selector("near")}
    cluster.client.create(DEPLOYMENTS, workload(cluster, "near", close, affinity=together))
    assert len(zones(cluster, nodes_of(cluster, "near", 4))) == 1


def test_daemon_set_has_a_pod_on_every_node(cluster: Cluster) -> None:
    """Its controller pins each pod by a matchFields term, and wants it on nodes that take no others, too."""
    cordoned, tainted, *_ = nodes = cluster.pool()
    taint = {"key": "only", "value": "them", "effect": "NoSchedule"}
    for node, spec in ((cordoned, {"unschedulable": True}), (tainted, {"taints": [taint]})):
        cluster.client.patch(NODES, node, {"spec": spec}, kind=PatchType.MERGE)
    made = workload(cluster, "log", {"selector": selector("log")}, tolerations=[{"key": "only", "operator": "Exists"}])
    cluster.client.create(DAEMON_SETS, made)
    assert sorted(nodes_of(cluster, "log", 6)) == sorted(nodes)
    assert all(pinned(pod) == [pod["spec"]["nodeName"]] for pod in cluster.pods())
    cluster.client.delete(DAEMON_SETS, "log", cluster.namespace)


def pinned(pod: Obj) -> list[str]:
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = required["nodeSelectorTerms"]
    [field] = term["matchFields"]
    assert field["key"] == "metadata.name"
    values: list[str] = field["values"]
    return values


def test_impossible_pod_explains_itself_to_kubectl_describe(
    cluster: Cluster, real_server: Server, tmp_path: Path
) -> None:
    cluster.add_pod("big", cpu="900", nodeSelector={POOL: cluster.namespace})
    # News of the pod may come before that of the last node.
    message = cluster.await_pending("big", "6 Insufficient cpu", seconds=PATIENCE)
    # What other nodes there are depends on the tests beside us, which share the server.
    form = (
        r"0/(\d+) nodes are available: (\d+ node\(s\) [^,]+, )*6 Insufficient cpu(, \d+ node\(s\) [^,.]+)*\. "
        r"preemption: 0/\1 nodes are available: \d+ Preemption is not helpful for scheduling\. "
        r"No node has more than \d+m? cpu: request less, or add a larger node\."
    )
    assert re.fullmatch(form, message)
    assert cluster.condition("big")["reason"] == "Unschedulable"
    until(lambda: message in [event["note"] for event in cluster.events("big", "FailedScheduling")], PATIENCE)
    text = kubectl(real_server, tmp_path, "describe", "pod", "big")
    assert re.search(r"PodScheduled +False", text)
    told = re.findall(r"Warning +FailedScheduling +(?:\S+ \(.*?\)|\S+) +(\S+) +(.*)", text)
    assert (cluster.scheduler_name, message) in [(source, note.strip()) for source, note in told]


def kubectl(server: Server, home: Path, *words: str) -> str:
    """What kubectl prints in the test's namespace."""
    command = [str(binaries.find("kubectl")), f"--kubeconfig={server.kubeconfig}", f"--namespace={server.namespace}"]
    environment = {**os.environ, "HOME": str(home)}
    return subprocess.run(
        [*command, *words], env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout


def test_stateful_set_gets_volumes_where_its_pods_go(cluster: Cluster) -> None:
    client, name = cluster.client, unique("local")
    client.create(
        STORAGE_CLASSES,
        {
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    nodes = cluster.pool()
    for node in nodes[:2]:
        client.create(PERSISTENT_VOLUMES, local_volume(unique("pv"), name, node))
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    spec = {"replicas": 2, "selector": selector("db"), "serviceName": "db", "podManagementPolicy": "Parallel"}
    client.create(STATEFUL_SETS, workload(cluster, "db", {**spec, "volumeClaimTemplates": [claim]}))
    assert set(nodes_of(cluster, "db", 2)) == set(nodes[:2])
    client.delete(STORAGE_CLASSES, name)


def local_volume(name: str, storage_class: str, node: str) -> Obj:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }
