"""The scheduler on the sandbox: what becomes of pods, and what people read about those that stay pending."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import DEPLOYMENTS, JOBS, NODES, PODS, PRIORITY_CLASSES
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.sandbox.controllers.kubelet_numa import POLICY_ANNOTATION
from kubenexus.common.vocabulary import NUMA_NODE_COUNT, SCHEDULER_NAME, numa_node_label
from tests.schedulers import Cluster, Obj, connected, pod_spec, profiles, scheduling
from tests.stub_server import until

REJECTED_NOTE = "1 node(s) lately rejected this workload with TopologyAffinityError"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Sandbox(controllers=True) as box, connected(box, tmp_path) as made:
        yield made


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


def workload(name: str, kind_spec: Obj, **spec: Any) -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(**spec)}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"template": template, **kind_spec}}


def test_deployment_and_job_run_to_completion(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_nodes("n1", "n2")
    selector = {"matchLabels": {"app": "web"}}
    with scheduling(kubeconfig):
        cluster.client.create(DEPLOYMENTS, workload("web", {"replicas": 4, "selector": selector}))
        cluster.client.create(
            JOBS, workload("sum", {"parallelism": 2, "completions": 6}, cpu="2", restartPolicy="Never")
        )
        until(lambda: cluster.client.get(DEPLOYMENTS, "web", "default")["status"].get("availableReplicas") == 4, 20)
        until(lambda: cluster.client.get(JOBS, "sum", "default")["status"].get("succeeded") == 6, 30)
    assert not cluster.overcommitted()


def test_impossible_pod_reads_as_with_kube_scheduler(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_nodes("small-1", "small-2")
    cluster.client.create(
        NODES,
        {
            "metadata": {"name": "tainted"},
            "spec": {"taints": [{"key": "only", "value": "them", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "64", "memory": "1Ti", "pods": "110"}},
        },
    )
    with scheduling(kubeconfig):
        cluster.add_pod("big", cpu="9")
        message = cluster.await_pending("big")
        until(lambda: bool(cluster.events("big", "FailedScheduling")), 10)
    assert message.startswith("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. ")
    assert message.endswith(" Add a toleration of the taint only=them:NoSchedule if the pod may run on such nodes.")
    condition = cluster.condition("big")
    assert (condition["reason"], condition["status"]) == ("Unschedulable", "False")
    assert condition["lastTransitionTime"]
    [event] = cluster.events("big", "FailedScheduling")
    assert (event["type"], event["action"], event["note"]) == ("Warning", "Scheduling", message)
    assert event["reportingController"] == SCHEDULER_NAME


def test_pod_waits_until_there_is_room(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_nodes("n1")
    with scheduling(kubeconfig):
        cluster.add_pod("first", cpu="6")
        cluster.await_node("first")
        cluster.add_pod("second", cpu="6")
        cluster.await_pending("second", "Insufficient cpu")
        cluster.client.delete(PODS, "first", "default")
        cluster.await_node("second")
        until(lambda: bool(cluster.events("second", "Scheduled")), 10)
        assert cluster.condition("second")["status"] == "True"
    assert cluster.events("second", "Scheduled")[0]["note"] == "Successfully assigned default/second to n1"


def test_new_node_takes_who_waits(cluster: Cluster, kubeconfig: Path) -> None:
    with scheduling(kubeconfig):
        cluster.add_pod("early")
        assert cluster.await_pending("early").startswith("0/0 nodes are available")
        cluster.add_nodes("n1")
        cluster.await_node("early")


def test_gated_pod_is_left_alone_until_its_gates_are_gone(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_nodes("n1")
    with scheduling(kubeconfig):
        cluster.add_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
        cluster.add_pod("free")
        cluster.await_node("free")
        assert not cluster.node_of("gated")
        assert cluster.condition("gated")["reason"] == "SchedulingGated"
        cluster.client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, "default", kind=PatchType.MERGE)
        cluster.await_node("gated")


def test_two_profiles_and_pods_of_others(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_nodes("n1")
    with scheduling(kubeconfig, profiles("one", "two")):
        cluster.add_pod("theirs", schedulerName="somebody-else")
        cluster.add_pod("a", schedulerName="one", cpu="2")
        cluster.add_pod("b", schedulerName="two", cpu="2")
        cluster.await_node("a", "b")
        until(lambda: bool(cluster.events("b", "Scheduled")), 10)
        assert not cluster.node_of("theirs")
        assert not cluster.condition("theirs")
        bind = {"metadata": {"name": "theirs", "namespace": "default"}, "target": {"kind": "Node", "name": "n1"}}
        cluster.client.create(PODS, bind, subresource="binding")
        cluster.add_pod("c", schedulerName="one", cpu="4")
        cluster.await_pending("c", "Insufficient cpu")
    assert cluster.events("b", "Scheduled")[0]["reportingController"] == "two"


def test_pod_deleted_in_mid_cycle_delays_nobody(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_nodes("n1", cpu="4")
    cluster.add_pod("doomed", cpu="4")
    cluster.client.delete(PODS, "doomed", "default", grace_seconds=0)
    with scheduling(kubeconfig) as running:
        cluster.add_pod("next", cpu="4")
        cluster.await_node("next")
        running_pods = {pod.name for pod, _ in running.scheduler.desk.state.pods()}
    assert running_pods == {"next"}


def test_node_that_vanishes_gets_nothing_more(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_nodes("n1", "n2")
    with scheduling(kubeconfig) as running:
        cluster.add_pod("a")
        cluster.await_node("a")
        gone = cluster.node_of("a")
        cluster.client.delete(NODES, gone)
        # nodes and pods come by watches of their own: what is gone on the server may be there for the scheduler still
        until(lambda: running.scheduler.desk.state.index(gone) is None, 15)
        for name in ("b", "c", "d"):
            cluster.add_pod(name)
        cluster.await_node("b", "c", "d")
    assert {cluster.node_of(name) for name in ("b", "c", "d")} == {"n1", "n2"} - {gone}


def test_odd_pod_parks_with_its_reason_and_delays_nobody(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_nodes("n1")
    term = {"key": "disk", "operator": "Gt", "values": ["many"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    with scheduling(kubeconfig):
        cluster.add_pod("odd", affinity=affinity)
        cluster.add_pod("ordinary")
        cluster.await_node("ordinary")
        cluster.await_pending("odd")
        assert not cluster.node_of("odd")


def test_higher_priority_makes_room(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_nodes("n1", cpu="4")
    cluster.client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    with scheduling(kubeconfig):
        cluster.add_pod("low", cpu="4")
        cluster.await_node("low")
        cluster.add_pod("high", cpu="4", priorityClassName="high")
        cluster.await_node("high")
        until(lambda: bool(cluster.events("low", "Preempted")), 10)
    [event] = cluster.events("low", "Preempted")
    assert event["related"]["name"] == "high"
    assert not cluster.overcommitted()


def test_node_that_rejects_a_pod_does_not_get_the_next_one(cluster: Cluster, kubeconfig: Path) -> None:
    """It has CPUs enough, but on two NUMA nodes; its kubelet wants them from one, which we do not look at here."""
    whole = {"cpu": "3", "memory": "1Gi"}
    size = {"cpu-count": "2", "memory": "8Gi"}
    numa = {numa_node_label(number, key): value for number in (0, 1) for key, value in size.items()}
    policy = {POLICY_ANNOTATION: "single-numa-node"}
    cluster.add_nodes("strict", labels={**numa, NUMA_NODE_COUNT: "2"}, annotations=policy)
    selector = {"matchLabels": {"app": "web"}}
    container = {"name": "main", "image": "i", "resources": {"requests": whole, "limits": whole}}
    with scheduling(kubeconfig) as running:
        made = workload("web", {"replicas": 1, "selector": selector}, containers=[container])
        cluster.client.create(DEPLOYMENTS, made)
        until(lambda: any(pod["status"].get("reason") == "TopologyAffinityError" for pod in cluster.pods()), 15)
        until(lambda: any(REJECTED_NOTE in _message(pod) for pod in cluster.pods()), 15)
        cluster.add_nodes("lenient")
        until(lambda: any(pod["spec"].get("nodeName") == "lenient" for pod in cluster.pods()), 15)
        assert running.scheduler.desk.state.objects.rejections
    assert sum(pod["status"].get("reason") == "TopologyAffinityError" for pod in cluster.pods()) <= 2


def _message(pod: Obj) -> str:
    return " ".join(one.get("message", "") for one in pod["status"].get("conditions") or ())


def test_restart_rebuilds_the_same_state(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_nodes("n1", "n2", "n3")
    with scheduling(kubeconfig) as first:
        for number in range(20):
            cluster.add_pod(f"p{number}", cpu="500m")
        until(lambda: cluster.bound() == 20, 15)
        until(lambda: len(first.scheduler.desk.queue) == 0, 5)
    with scheduling(kubeconfig) as second:
        until(lambda: second.scheduler.ready() is None, 10)
        cluster.add_pod("last")
        cluster.await_node("last")
        cluster.client.delete(PODS, "last", "default", grace_seconds=0)
        until(lambda: len(list(second.scheduler.desk.state.pods())) == 20, 10)
    assert usage(first.scheduler.desk.state) == usage(second.scheduler.desk.state)


def usage(state: Any) -> dict[str, list[str]]:
    return {state.name(node): sorted(state.slots[node].pods) for node in state.live()}
