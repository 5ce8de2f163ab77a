"""The annotation, and one topology out of several sources that agree or do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kubenexus.common import vocabulary, wire
from kubenexus.common.topology import Gpu, Health, NodeTopology, NumaNode
from kubenexus.common.vocabulary import DRA_DRIVER, TOPOLOGY_SNAPSHOT
from kubenexus.common.wire import MangledError, Reading
from tests import machines

Obj = dict[str, Any]
GIB = 1 << 30
NUMA, GPU = vocabulary.NUMA_PREFIX, vocabulary.GPU_PREFIX


def slices_of(topology: NodeTopology, node: str = "n1") -> dict[str, Obj]:
    """The three slices by kind."""
    slices = wire.encode_slices(topology, node, "uid-1", 7)[0]
    return {obj["spec"]["pool"]["name"].rpartition("/")[2]: obj for obj in slices}


def read(labels: Obj | None = None, annotation: str | None = None, slices: Any = ()) -> Reading:
    annotations = {} if annotation is None else {TOPOLOGY_SNAPSHOT: annotation}
    return wire.read_topology(labels or {}, annotations, map(wire.read_slice, slices))


def test_the_hash_is_of_the_machine_and_not_of_the_reasons() -> None:
    topology = machines.dgx_h100()
    digest = wire.topology_hash(topology)
    assert len(digest) == 12
    assert set(digest) <= set("0123456789abcdef")
    assert wire.topology_hash(replace(topology, unknowns={"nics": "no permission"})) == digest
    assert wire.topology_hash(machines.dgx_h100(lost=[1])) != digest


@pytest.mark.parametrize("machine", [machines.dgx_h100, machines.dgx1_v100, machines.gb200])
def test_the_annotation_is_small(machine: Any) -> None:
    assert len(wire.encode_annotation(machine())) < 16 << 10


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", "null", "1" * 5000, "[" * 100_000),
        '{"hash":"0123456789ab"}',
        '{"hash":5,"topology":{}}',
        '{"hash":"0123456789ab","topology":{"version":1}}',
        wire.encode_annotation(machines.dgx_h100()).replace("85520809984", "85520809985", 1),
        wire.encode_annotation(machines.dgx_h100())[:-1],
    ],
    ids=lambda text: text[:24],
)
def test_a_mangled_annotation_is_not_used(text: str) -> None:
    with pytest.raises(MangledError):
        wire.decode_annotation(text)
    reading = read(annotation=text)
    assert reading.topology == NodeTopology()
    assert TOPOLOGY_SNAPSHOT in reading.problems[0]


def test_all_three_sources_of_one_state_give_the_whole_topology() -> None:
    topology = machines.gb200()
    reading = read(wire.encode_labels(topology)[0], wire.encode_annotation(topology), slices_of(topology).values())
    assert reading == Reading(topology, ("annotation",), (), wire.topology_hash(topology))


def test_sources_of_different_states_are_reported_and_not_mixed() -> None:
    now, before = machines.dgx_h100(lost=[1]), machines.dgx_h100()
    reading = read(wire.encode_labels(before)[0], wire.encode_annotation(before), slices_of(now).values())
    assert reading.sources == ("slices",)
    assert [gpu.health for gpu in reading.topology.gpus or ()].count(Health.LOST) == 1
    assert len(reading.problems) == 2
    assert all(wire.topology_hash(now) in sentence for sentence in reading.problems)
    assert reading.digest == wire.topology_hash(now)


def test_slices_of_different_states_are_reported() -> None:
    mixed = slices_of(machines.dgx_h100()) | {"gpu": slices_of(machines.dgx_h100(lost=[1]))["gpu"]}
    reading = read(slices=mixed.values())
    assert len(reading.problems) == 1
    assert len(reading.topology.usable_gpus) == 7


def test_a_wiped_slice_is_made_up_for() -> None:
    topology = machines.dgx_h100()
    numa_only = [slices_of(topology)["numa"]]
    assert read(annotation=wire.encode_annotation(topology), slices=numa_only).topology == topology
    by_labels = read(wire.encode_labels(topology)[0], slices=numa_only)
    assert by_labels.sources == ("slices", "labels")
    assert [gpu.numa for gpu in by_labels.topology.gpus or ()] == [0] * 4 + [1] * 4


def test_a_label_added_by_hand_fills_what_the_agent_could_not_find() -> None:
    topology = NodeTopology(gpus=(Gpu(index=0),), unknowns={"gpu-0.numaNode": "numa_node is -1"})
    labels = wire.encode_labels(topology)[0] | {f"{GPU}gpu0-numa": "1"}
    reading = read(labels, wire.encode_annotation(topology), slices_of(topology).values())
    assert reading.sources == ("annotation", "labels")
    assert reading.topology == NodeTopology(gpus=(Gpu(index=0, numa=1),))


def test_hand_written_labels_fill_what_slices_do_not_say() -> None:
    slices = slices_of(NodeTopology(numa=(NumaNode(id=0, cpu_count=8),)))
    del slices["numa"]["metadata"]["labels"]
    labels = {f"{NUMA}node-0-cpus": "0-7", f"{NUMA}node-0-memory": "64Gi"}
    node = (read(labels, slices=slices.values()).topology.numa or ())[0]
    assert (node.cpus, node.memory) == (tuple(range(8)), 64 * GIB)
    contradiction = {f"{NUMA}node-0-cpus": "0-3"}
    node = (read(contradiction, slices=slices.values()).topology.numa or ())[0]
    assert (node.cpus, node.cpu_count) == (None, 8)


FEATURE_DISCOVERY = {
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.clique": "uuid.1",
}


@pytest.mark.parametrize(
    ("labels", "gpu"),
    [
        ({}, Gpu(index=1, product="NVIDIA-H100-80GB-HBM3", memory=81559 << 20, fabric_clique="uuid.1")),
        (
            {"nvidia.com/gpu.product": "Tesla-T4-SHARED"},
            Gpu(index=1, product="Tesla-T4", memory=81559 << 20, fabric_clique="uuid.1"),
        ),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-MIG-1g.5gb"}, Gpu(index=1, fabric_clique="uuid.1", mig=True)),
        ({"nvidia.com/gpu.memory": "80GB"}, Gpu(index=1, product="NVIDIA-H100-80GB-HBM3", fabric_clique="uuid.1")),
        ({"nvidia.com/gpu.count": "two"}, None),
    ],
    ids=["plain", "time-slicing", "mig", "bad-memory", "bad-count"],
)
def test_gpu_feature_discovery(labels: dict[str, str], gpu: Gpu | None) -> None:
    gpus = read({**FEATURE_DISCOVERY, **labels}).topology.gpus
    assert gpus == (None if gpu is None else (replace(gpu, index=0), gpu))


@pytest.mark.parametrize(
    ("labels", "count"),
    [
        ({f"{GPU}vram": "80Gi"}, 4),
        ({f"{GPU}model": "H100"}, 4),
        ({f"{GPU}vram": "80Gi", f"{GPU}count": "2"}, 2),
        ({f"{GPU}vram": "80Gi", "nvidia.com/gpu.count": "3"}, 3),
        ({f"{GPU}vram": "80Gi", f"{GPU}gpu0-numa": "0"}, 1),
        ({f"{GPU}vram": "80Gi", f"{GPU}gpu1-numa": "0"}, None),
        ({f"{GPU}topology": "pcie"}, None),
    ],
    ids=["memory", "model", "counted", "counted by others", "described", "described in part", "neither"],
)
def test_gpus_that_labels_do_not_count_are_those_that_pods_get(labels: dict[str, str], count: int | None) -> None:
    gpus = wire.read_topology(labels, {}, gpus=4).topology.gpus
    assert (None if gpus is None else len(gpus)) == count


def nvidia_slice(*devices: Obj, generation: int = 1) -> Obj:
    pool = {"name": "n1", "generation": generation, "resourceSliceCount": 1}
    return {"spec": {"driver": "gpu.nvidia.com", "nodeName": "n1", "pool": pool, "devices": list(devices)}}


def nvidia_gpu(minor: int, bus: str | None, **attributes: Obj) -> Obj:
    own: Obj = {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{minor}"}, **attributes}
    if bus:
        own["resource.kubernetes.io/pciBusID"] = {"string": bus}
    return {"name": f"gpu-{minor}", "attributes": own, "capacity": {"memory": {"value": "80Gi"}}}


def test_nvidia_slices_are_numbered_by_pci_address() -> None:
    node: Obj = {"resource.kubernetes.io/numaNode": {"int": 1}, "cudaComputeCapability": {"version": "9.0.0"}}
    mig = {"name": "gpu-0-mig-1g", "attributes": {"type": {"string": "mig"}}}
    old = nvidia_slice(nvidia_gpu(7, "0000:99:00.0"), generation=0)
    new = nvidia_slice(nvidia_gpu(0, "0000:2a:00.0", **node), nvidia_gpu(1, "0000:1b:00.0"), mig)
    reading = read(slices=[old, new])
    assert reading.sources == ("NVIDIA slices",)
    assert reading.topology.gpus == (
        Gpu(index=0, minor=1, uuid="GPU-1", pci_bus_id="0000:1b:00.0", memory=80 * GIB),
        Gpu(
            index=1, minor=0, uuid="GPU-0", pci_bus_id="0000:2a:00.0", memory=80 * GIB, numa=1, compute_capability="9.0"
        ),
    )


def test_nvidia_gpus_without_an_address_cannot_be_numbered() -> None:
    topology = read(slices=[nvidia_slice(nvidia_gpu(0, None))]).topology
    assert topology.gpus is None
    assert "PCI address" in topology.unknowns["gpu"]


def test_nvidia_slices_fill_our_gpus_by_identity() -> None:
    ours = NodeTopology(gpus=(Gpu(index=0, uuid="GPU-8"), Gpu(index=1, pci_bus_id="0000:1b:00.0"), Gpu(index=2)))
    theirs = nvidia_slice(nvidia_gpu(8, "0000:2a:00.0"), nvidia_gpu(9, "0000:1b:00.0"))
    gpus = read(slices=[*slices_of(ours).values(), theirs]).topology.gpus or ()
    assert [gpu.minor for gpu in gpus] == [8, 9, None]
    assert [gpu.pci_bus_id for gpu in gpus] == ["0000:2a:00.0", "0000:1b:00.0", None]


def test_other_slices_say_nothing() -> None:
    assert wire.read_slice({"spec": {"driver": "dra.cpu", "pool": {"name": "n1/gpu"}}}) is None
    assert wire.read_slice({"spec": {"driver": DRA_DRIVER, "pool": {"name": "n1/tpu"}}}) is None
