"""`kubenexus scheduler` as a program, with the rights it is shipped with, on a real API server with its controllers.

There are no kubelets: a pod that has a node has arrived; where one has to run, the test says so in its kubelet's place.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common.kube.client import Client
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    NODES,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Resource,
)
from kubenexus.scheduler.rights import LEASE_RULES, RULES
from tests.contract.objects import unique
from tests.schedulers import Cluster, Obj, pod_spec
from tests.servers import Server
from tests.stub_server import until

pytestmark = pytest.mark.e2e

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ZONE = "topology.kubernetes.io/zone"
POOL = "test-pool"
PATIENCE = 40.0


@pytest.fixture
def cluster(real_server: Server) -> Iterator[Cluster]:
    """Six nodes in three zones; pods of this test are kept on them by a label."""
    with Client.connect(str(real_server.kubeconfig), agent="test") as client:
        made = Cluster(client, real_server.namespace)
        names = [unique("node") for _ in range(6)]
        for number, name in enumerate(names):
            made.add_nodes(name, labels={ZONE: f"zone-{number % 3}", POOL: real_server.namespace})
        yield made
        for name in names:
            client.delete(NODES, name)


@pytest.fixture
def account(cluster: Cluster, real_server: Server, tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a service account with the scheduler's rights and no others."""
    client, name, space = cluster.client, f"scheduler-{cluster.namespace}", cluster.namespace
    client.create(ROLES, {"metadata": {"name": name}, "rules": [*RULES, *LEASE_RULES]})
    subject = {"kind": "ServiceAccount", "name": "scheduler", "namespace": space}
    reference = {"apiGroup": RBAC, "kind": ROLES.kind, "name": name}
    client.create(BINDINGS, {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference})
    client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "scheduler"}}, space)
    ask = {"metadata": {"name": "scheduler"}, "spec": {}}
    token = client.create(SERVICE_ACCOUNTS, ask, space, subresource="token")["status"]["token"]
    config = json.loads(real_server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = tmp_path / "scheduler-kubeconfig"
    path.write_text(json.dumps(config))
    yield path
    client.delete(BINDINGS, name)
    client.delete(ROLES, name)


@pytest.fixture
def scheduler(account: Path, cluster: Cluster, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program, electing itself by a Lease in the test's namespace."""
    config = tmp_path / "config.yaml"
    lease = f"leaderElection: {{resourceNamespace: {cluster.namespace}}}"
    config.write_text(f"apiVersion: kubenexus.io/v1alpha1\nkind: SchedulerConfiguration\n{lease}\n")
    command = [str(Path(sys.executable).with_name("kubenexus")), "scheduler", "--kubeconfig", str(account)]
    log = tmp_path / "log"
    with log.open("wb") as output, contextlib.ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen([*command, "--config", str(config)], stderr=output, env=os.environ)
        )
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()
    assert "internal error" not in log.read_text()
    assert "Traceback" not in log.read_text()


def workload(cluster: Cluster, name: str, spec: Obj, **pod: Any) -> Obj:
    selected = {"nodeSelector": {POOL: cluster.namespace}, **pod}
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


@pytest.mark.usefixtures("scheduler")
def test_workloads_run(cluster: Cluster) -> None:
    client = cluster.client
    client.create(DEPLOYMENTS, workload(cluster, "web", {"replicas": 6, "selector": selector("web")}))
    client.create(JOBS, workload(cluster, "sum", {"parallelism": 2, "completions": 4}, restartPolicy="Never"))
    assert len(set(nodes_of(cluster, "web", 6))) == 6, "the defaults spread the pods of a Deployment"

    def done() -> bool:
        says(cluster, "Succeeded")
        return bool(client.get(JOBS, "sum", cluster.namespace)["status"].get("succeeded") == 4)

    client.delete(DEPLOYMENTS, "web", cluster.namespace)
    until(done, PATIENCE)


@pytest.mark.usefixtures("scheduler")
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


@pytest.mark.usefixtures("scheduler")
def test_impossible_pod_explains_itself(cluster: Cluster) -> None:
    cluster.add_pod("big", cpu="900", nodeSelector={POOL: cluster.namespace})
    message = cluster.await_pending("big", seconds=PATIENCE)
    # How many there are in all depends on the tests beside us, which share the server.
    assert re.match(r"0/[0-9]+ nodes are available: ", message)
    assert "6 Insufficient cpu" in message
    assert "No node has more than " in message
    until(lambda: bool(cluster.events("big", "FailedScheduling")), PATIENCE)
    assert cluster.condition("big")["reason"] == "Unschedulable"


@pytest.mark.usefixtures("scheduler")
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
    nodes = [one["metadata"]["name"] for one in client.list(NODES, label_selector=f"{POOL}={cluster.namespace}").items]
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
