"""Nodes whose kubelet refuses what it cannot align: which pods go there, to which NUMA nodes, and why others do not."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.topology import Gpu, Health, NodeTopology, NumaNode
from kubenexus.scheduler.simulation import Simulation
from tests.builders import Builder, NodeBuilder, PodBuilder, node, pod

GIB = 1 << 30
SINGLE, RESTRICTED = {v.KUBELET_POLICY: "single-numa-node"}, {v.KUBELET_POLICY: "restricted"}
BY_POD = {v.KUBELET_SCOPE: "pod"}
MANAGED = {v.KUBELET_MEMORY: "Static"}
CORES = {v.KUBELET_OPTIONS: "full-pcpus-only", v.KUBELET_CPU: "static"}
# How far four NUMA nodes are from each other: 0 and 2 are neighbours, and so are 1 and 3.
NEIGHBOURS = ((10, 32, 12, 32), (32, 10, 32, 12), (12, 32, 10, 32), (32, 12, 32, 10))


def machine(
    labels: dict[str, str], *, zones: int = 2, gpus: tuple[int, ...] = (0, 0, 1, 1), lost: tuple[int, ...] = ()
) -> NodeBuilder:
    """So many NUMA nodes with 8 CPUs (four cores) and 16Gi each; `gpus` are the NUMA nodes of its GPUs."""
    numa = tuple(
        NumaNode(id=i, cpus=tuple(range(8 * i, 8 * i + 8)), memory=16 * GIB, distances=NEIGHBOURS[i][:zones])
        for i in range(zones)
    )
    cards = tuple(
        Gpu(index=i, numa=home, health=Health.LOST if i in lost else Health.OK) for i, home in enumerate(gpus)
    )
    topology = NodeTopology(numa=numa, gpus=cards, threads_per_core=2)
    built = node("n").capacity(cpu=8 * zones, memory=f"{16 * zones}Gi", gpu=len(gpus) - len(lost))
    for key, text in labels.items():
        built.label(key, text)
    return built.annotation(v.TOPOLOGY_SNAPSHOT, wire.encode_annotation(topology))


def wants(name: str, cpu: int | str, memory: str = "1Gi", *, gpu: int = 0, policy: str = "") -> PodBuilder:
    """A Guaranteed pod."""
    built = pod(name).guaranteed(cpu, memory)
    if gpu:
        built.gpu(gpu)
    return built.annotation(v.NUMA_POLICY, policy) if policy else built


def burstable(name: str, *, gpu: int = 0, policy: str = "") -> PodBuilder:
    built = pod(name).cpu(1).gpu(gpu) if gpu else pod(name).cpu(1)
    return built.annotation(v.NUMA_POLICY, policy) if policy else built


def beside(built: PodBuilder, cpu: int | str, memory: str = "1Gi", *, before: bool = False) -> PodBuilder:
    """The pod with one more Guaranteed container, or with one that ends before the others begin."""
    amounts = {"cpu": str(cpu), "memory": memory}
    resources = {"requests": amounts, "limits": amounts}
    return built.append("spec.initContainers" if before else "spec.containers", {"name": "x", "resources": resources})


def sits(built: PodBuilder, numa: str = "") -> PodBuilder:
    """The pod runs there already."""
    return (built.annotation(v.NUMA_ASSIGNED, numa) if numa else built).node("n")


def holding(name: str, gpus: str) -> PodBuilder:
    """A pod that runs there with these GPUs."""
    return sits(burstable(name, gpu=len(gpus.split(","))).annotation(v.GPU_ASSIGNED, gpus))


def result(*objects: Builder) -> dict[str, Any]:
    """Pod → its NUMA nodes if it was placed, else why not, with all that can be said of the node."""
    found = Simulation([one.build() for one in objects], explain=True).run()
    placed = {one["pod"]: one["numa"] for one in found["placements"]}
    pending = {one["pod"]: "; ".join(one["nodes"]["n"]["reasons"]) for one in found["pending"]}
    return {key.partition("/")[2]: what for key, what in (placed | pending).items()}


REFUSED = "whose kubelet (topology policy single-numa-node) would refuse the pod"
TOO_STRICT = "whose kubelet (topology policy restricted) would refuse the pod"
ELSEWHERE = "whose kubelet (topology policy single-numa-node) would choose NUMA nodes that the pod must not have"
TEN_EACH = [sits(wants("r", "500m", "10Gi")), sits(wants("s", "500m", "10Gi"), "1")]
FIVE_EACH = [sits(wants(f"r{numa}", 5), str(numa)) for numa in (0, 1)]

SCENARIOS: dict[str, tuple[list[Builder], dict[str, Any]]] = {
    "nobody says what the kubelet does": ([machine({}), *FIVE_EACH, wants("a", 6)], {"a": [0, 1]}),
    "its kubelet refuses nobody": (
        [machine({v.KUBELET_POLICY: "best-effort"}), *FIVE_EACH, wants("a", 6)],
        {"a": [0, 1]},
    ),
    "best effort is not enough for it": (
        [machine(SINGLE), *FIVE_EACH, wants("a", 6)],
        {"a": f"{REFUSED} (numa 0: 5 of 8 CPUs taken; numa 1: 5 of 8 CPUs taken)"},
    ),
    "nor is no policy at all": ([machine(SINGLE), *FIVE_EACH, wants("a", 6, policy="none")], {"a": REFUSED}),
    "too large for one even when empty": ([machine(SINGLE), wants("a", 12)], {"a": REFUSED}),
    "a pod without whole CPUs is nothing to it": ([machine(SINGLE), *FIVE_EACH, wants("a", "5500m")], {"a": []}),
    "a pod that is not Guaranteed is nothing to it": (
        [machine(SINGLE), *FIVE_EACH, pod("a").cpu(6)],
        {"a": []},
    ),
    "its GPUs are, whatever the pod's class": (
        [machine(SINGLE), burstable("a", gpu=1), burstable("b", gpu=1), burstable("c", gpu=2), burstable("d", gpu=2)],
        {"a": [0], "b": [0], "c": [1], "d": "Insufficient nvidia.com/gpu"},
    ),
    "three GPUs are not in one": ([machine(SINGLE), burstable("a", gpu=3, policy="none")], {"a": REFUSED}),
    "one each is left, and two are asked for": (
        [machine(SINGLE), holding("r", "0"), holding("s", "2"), burstable("a", gpu=2)],
        {"a": f"{REFUSED} (numa 0: 1 of 2 GPUs free; numa 1: 1 of 2 GPUs free)"},
    ),
    "CPUs in one, GPUs in the other": (
        [machine(SINGLE), sits(wants("r", 5), "0"), holding("s", "2,3"), wants("a", 6, gpu=1)],
        {"a": f"{REFUSED} (numa 0: 5 of 8 CPUs taken; numa 1: 0 of 2 GPUs free)"},
    ),
    "CPUs that are not static are nothing to it": (
        [machine({**SINGLE, v.KUBELET_CPU: "none"}), *FIVE_EACH, wants("a", 6)],
        {"a": [0, 1]},
    ),
    "memory counts where it is known to be": (
        [machine({**SINGLE, **MANAGED}), sits(wants("r", "500m", "10Gi"), "1"), wants("a", "500m", "10Gi")],
        {"a": [0]},
    ),
    "reserved CPUs, one in each": (
        [machine({**SINGLE, v.KUBELET_RESERVED: "0_8"}).capacity(cpu=14), wants("a", 8), wants("b", 7), wants("c", 7)],
        {"a": f"{REFUSED} (numa 0: only 7 CPUs; numa 1: only 7 CPUs)", "b": [0], "c": [1]},
    ),
    "restricted takes the smallest size": ([machine(RESTRICTED), wants("a", 12)], {"a": [0, 1]}),
    "restricted takes no larger one": ([machine(RESTRICTED), *FIVE_EACH, wants("a", 6)], {"a": TOO_STRICT}),
    "restricted wants all sizes to agree": (
        [machine(RESTRICTED), wants("a", 12, gpu=1)],
        {"a": f"{TOO_STRICT} (CPUs take 2 NUMA node(s), GPUs take 1 NUMA node(s))"},
    ),
    "a lost GPU counts in the smallest size": (
        [machine(RESTRICTED, gpus=(0, 0, 1, 1), lost=(0, 2)), burstable("a", gpu=2)],
        {"a": TOO_STRICT},
    ),
    "it takes the lowest": ([machine(SINGLE), sits(wants("r", 4), "1"), wants("a", 4)], {"a": [0]}),
    "the lowest two": ([machine(RESTRICTED, zones=4, gpus=()), wants("a", 12)], {"a": [0, 1]}),
    "the closest two": (
        [machine({**RESTRICTED, v.KUBELET_OPTIONS: "prefer-closest-numa-nodes"}, zones=4, gpus=()), wants("a", 12)],
        {"a": [0, 2]},
    ),
    "memory is nothing to it": ([machine(SINGLE), wants("a", 1, "20Gi")], {"a": [0]}),
    "unless it manages it": (
        [machine(SINGLE | MANAGED), wants("a", 1, "20Gi")],
        {"a": REFUSED},
    ),
    "also of pods that know nothing of NUMA nodes": (
        [machine(SINGLE | MANAGED), *TEN_EACH, wants("a", "500m", "7Gi"), wants("b", "500m", "6Gi")],
        {"a": f"{REFUSED} (numa 0: 10Gi of 16Gi memory taken; numa 1: 10Gi of 16Gi memory taken)", "b": [0]},
    ),
    "memory of one set is not for another": (
        [machine(RESTRICTED | MANAGED), sits(wants("r", 1, "2Gi"), "0"), wants("a", 12, "20Gi")],
        {"a": TOO_STRICT},
    ),
    "a policy of the pod that its choice keeps": ([machine(SINGLE), wants("a", 4, policy="single-numa")], {"a": [0]}),
    "a policy of the pod that its choice would break": (
        [machine(SINGLE), sits(wants("r", 1), "0"), wants("a", 4, policy="isolated")],
        {"a": f"{ELSEWHERE} (its kubelet would choose numa 0; numa 0: other pods have CPUs or GPUs there;"},
    ),
    "a policy that cannot be kept anyway": (
        [machine(SINGLE), wants("a", 1, "20Gi", policy="single-numa")],
        {"a": "without a NUMA node that is large enough for 1 CPU and 20Gi memory"},
    ),
    "an isolated pod's NUMA node that it would choose": (
        [machine(SINGLE), sits(wants("r", 2, policy="isolated"), "0"), wants("a", 4)],
        {"a": ELSEWHERE},
    ),
    "whole cores only": (
        [machine(CORES), wants("a", 3), wants("b", 4)],
        {
            "a": "(CPU option full-pcpus-only) would refuse the pod (it gives out whole cores of 2 CPUs each)",
            "b": [0],
        },
    ),
    "two containers, each by itself": ([machine(SINGLE), beside(wants("a", 6), 6)], {"a": [0, 1]}),
    "two containers together": ([machine(SINGLE | BY_POD), beside(wants("a", 6), 6)], {"a": REFUSED}),
    "the second container finds no room": (
        [machine(SINGLE), sits(wants("r", 3), "1"), beside(wants("a", 6), 6)],
        {"a": f"{REFUSED} (no NUMA nodes are left that would do for each of its containers)"},
    ),
    "what an init container had is used again": (
        [machine(SINGLE), sits(wants("r", 8), "1"), beside(wants("a", 6), 8, before=True)],
        {"a": [0]},
    ),
    "and must be, where it is": (
        [machine(SINGLE), sits(wants("r", 2), "0"), beside(wants("a", 8), 4, before=True)],
        {"a": REFUSED},
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    objects, expected = SCENARIOS[name]
    found = result(*objects)
    for one, wanted in expected.items():
        if isinstance(wanted, str):
            assert wanted in found[one]
        else:
            assert found[one] == wanted


def test_where_the_topology_is_not_known_nobody_is_refused() -> None:
    built = node("n").capacity(cpu=16, memory="32Gi").label(v.KUBELET_POLICY, "single-numa-node")
    assert result(built, wants("a", 12)) == {"a": []}


def test_gpus_that_are_not_given_out_whole_are_left_to_the_kubelet() -> None:
    assert result(machine(SINGLE).capacity(gpu=16), burstable("a", gpu=3)) == {"a": [0]}
