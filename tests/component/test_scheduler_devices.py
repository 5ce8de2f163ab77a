"""NUMA nodes and GPUs on the sandbox: what pods are assigned, across restarts and against what kubelets say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import NODES, PODS, RESOURCE_SLICES
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.sandbox.controllers.kubelet_numa import POLICY_ANNOTATION, REJECTION
from kubenexus.common.wire.kubelet import CpuPolicy, MemoryPolicy, TopologyPolicy, TopologyScope
from tests.builders import PodBuilder, pod
from tests.machines import dgx_h100
from tests.schedulers import Cluster, connected, scheduling
from tests.stub_server import until

TOPOLOGY = dgx_h100()
ROOM: dict[str, Any] = {"cpu": "64", "memory": "128Gi", "nvidia.com/gpu": "8"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Sandbox(controllers=True) as box, connected(box, tmp_path) as made:
        yield made


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


def notes(cluster: Cluster, name: str) -> dict[str, str]:
    found: dict[str, str] = cluster.pod(name)["metadata"].get("annotations") or {}
    return found


def submit(cluster: Cluster, built: PodBuilder) -> None:
    made = built.build()
    del made["metadata"]["uid"], made["status"]
    cluster.client.create(PODS, made)


def gpus(cluster: Cluster, *names: str) -> list[int]:
    return [int(index) for name in names for index in notes(cluster, name)[v.GPU_ASSIGNED].split(",")]


def add_machine(cluster: Cluster, **annotations: Any) -> None:
    snapshot = {v.TOPOLOGY_SNAPSHOT: wire.encode_annotation(TOPOLOGY)}
    cluster.add_nodes("dgx", annotations={**snapshot, **annotations}, **ROOM)


def test_pods_are_bound_with_what_they_were_assigned(cluster: Cluster, kubeconfig: Path) -> None:
    add_machine(cluster)
    with scheduling(kubeconfig):
        submit(cluster, pod("train").guaranteed(8, "16Gi").gpu(4).annotation(v.NUMA_POLICY, "single-numa"))
        cluster.await_node("train")
    assert {key: text for key, text in notes(cluster, "train").items() if key != v.NUMA_POLICY} == {
        v.NUMA_ASSIGNED: "0",
        v.GPU_ASSIGNED: "0,1,2,3",
        v.TOPOLOGY_HASH: wire.topology_hash(TOPOLOGY),
    }


def test_a_new_scheduler_knows_who_has_which_gpu(cluster: Cluster, kubeconfig: Path) -> None:
    add_machine(cluster)
    for first, second in (("a", "b"), ("c", "d")):
        with scheduling(kubeconfig):
            for name in (first, second):
                submit(cluster, pod(name).cpu(1).gpu(2))
            cluster.await_node(first, second)
    assert sorted(gpus(cluster, "a", "b", "c", "d")) == list(range(8))


def test_a_pod_waits_for_the_topology_and_then_for_room(cluster: Cluster, kubeconfig: Path) -> None:
    cluster.add_nodes("dgx", **ROOM)
    uid = cluster.client.get(NODES, "dgx")["metadata"]["uid"]
    with scheduling(kubeconfig):
        for name in ("first", "second"):
            submit(cluster, pod(name).guaranteed(20, "16Gi").gpu(1).annotation(v.NUMA_POLICY, "isolated"))
        cluster.await_pending("first", "whose NUMA nodes are not known, which policy isolated needs")
        for one in wire.encode_slices(TOPOLOGY, "dgx", uid)[0]:
            cluster.client.create(RESOURCE_SLICES, one)
        cluster.await_node("first", "second")
        submit(cluster, pod("third").guaranteed(1, "1Gi").annotation(v.NUMA_POLICY, "single-numa"))
        cluster.await_pending("third", "Insufficient cpu")
        cluster.client.delete(PODS, "first", "default")
        cluster.await_node("third")
    assert notes(cluster, "third")[v.NUMA_ASSIGNED] != notes(cluster, "second")[v.NUMA_ASSIGNED]


def test_what_the_kubelet_gave_counts(cluster: Cluster, kubeconfig: Path) -> None:
    add_machine(cluster)
    with scheduling(kubeconfig) as running:
        submit(cluster, pod("a").cpu(1).gpu(4))
        cluster.await_node("a")
        assert gpus(cluster, "a") == [0, 1, 2, 3]
        given = {cluster.pod("a")["metadata"]["uid"]: wire.Given((), (4, 5, 6, 7), (1,))}
        told = {"metadata": {"annotations": {v.ALLOCATIONS: wire.encode_allocations(given)}}}
        cluster.client.patch(NODES, "dgx", told, kind=PatchType.MERGE)
        state = running.scheduler.desk.state
        until(lambda: v.ALLOCATIONS in state.node(0).meta.annotations, 10)
        submit(cluster, pod("b").cpu(1).gpu(4))
        cluster.await_node("b")
    assert gpus(cluster, "b") == [0, 1, 2, 3]
    assert running.scheduler.desk.state.devices.misses == 1


def strict_node(cluster: Cluster, policy: str, *, told: bool) -> None:
    """A node whose kubelet aligns whole pods, CPUs and memory; its labels may say so."""
    labels, _ = wire.encode_labels(TOPOLOGY)
    if told:
        settings = wire.KubeletSettings(
            TopologyPolicy(policy), TopologyScope.POD, CpuPolicy.STATIC, MemoryPolicy.STATIC
        )
        labels |= wire.encode_kubelet(settings)
    notes = {v.TOPOLOGY_SNAPSHOT: wire.encode_annotation(TOPOLOGY), POLICY_ANNOTATION: policy}
    cluster.add_nodes("dgx", labels=labels, annotations=notes, **ROOM)


def misfits() -> list[PodBuilder]:
    """Pods that the node has room for as long as nobody asks which NUMA nodes it is on, and some that always fit."""
    built = [pod(f"cpu-{number}").guaranteed(cpus, "2Gi") for number, cpus in enumerate((20, 24, 14, 4, 7))]
    built += [pod(f"gpu-{number}").cpu("100m").gpu(gpus) for number, gpus in enumerate((1, 3, 2, 2))]
    policies = [pod(f"wish-{policy}").guaranteed(3, "1Gi").annotation(v.NUMA_POLICY, policy) for policy in v.NumaPolicy]
    return [*built, *policies, pod("both").guaranteed(40, "2Gi").gpu(1)]


def settled(obj: dict[str, Any]) -> bool:
    """Its kubelet has decided, or the scheduler has found no place for it."""
    conditions = {one["type"]: one["status"] for one in obj["status"].get("conditions") or ()}
    return obj["status"]["phase"] != "Pending" or conditions.get("PodScheduled") == "False"


@pytest.mark.parametrize("policy", ["single-numa-node", "restricted"])
@pytest.mark.parametrize("told", [True, False], ids=["the node says so", "nobody knows"])
def test_a_kubelet_refuses_nothing_that_we_place(cluster: Cluster, kubeconfig: Path, policy: str, told: bool) -> None:
    strict_node(cluster, policy, told=told)
    with scheduling(kubeconfig):
        for built in misfits():
            submit(cluster, built)
            until(lambda: all(map(settled, cluster.pods())), 20)
        refused = [one["metadata"]["name"] for one in cluster.pods() if one["status"].get("reason") == REJECTION.reason]
        running = sum(one["status"]["phase"] == "Running" for one in cluster.pods())
    assert bool(refused) is not told, refused
    assert running >= 8
