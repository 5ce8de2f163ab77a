"""ResourceSlices of known machines, as written and as read back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import pytest

from kubenexus.common import vocabulary, wire
from kubenexus.common.sandbox.validation import apply_defaults, validate_create
from kubenexus.common.topology import Gpu, Nic, NodeTopology, NumaNode, NvlinkKind
from kubenexus.common.vocabulary import DRA_DRIVER, INFORMATIONAL_TAINT, TOPOLOGY_HASH_LABEL, TOPOLOGY_SNAPSHOT
from tests import machines

Obj = dict[str, Any]
GIB = 1 << 30
NUMA, GPU = vocabulary.NUMA_PREFIX, vocabulary.GPU_PREFIX


def slices_of(topology: NodeTopology, node: str = "n1") -> dict[str, Obj]:
    """The three slices by kind."""
    slices = wire.encode_slices(topology, node, "uid-1", 7)[0]
    return {obj["spec"]["pool"]["name"].rpartition("/")[2]: obj for obj in slices}


def read(slices: Iterable[Obj]) -> NodeTopology:
    return wire.read_topology({}, {}, map(wire.read_slice, slices)).topology


@pytest.mark.parametrize("kind", wire.KINDS, ids=lambda kind: kind.name)
def test_every_fact_travels(kind: wire.Kind) -> None:
    assert [fact.field for fact in kind.facts] == list(dict.fromkeys(fact.field for fact in kind.facts))
    assert {fact.field for fact in kind.facts} == {field.name for field in fields(kind.device)}


def test_what_only_the_annotation_carries() -> None:
    numa = NumaNode(id=0, cpus=(0, 1), die_count=2, cluster_count=4)
    gpus = (Gpu(index=0, p2p="?1"), Gpu(index=1, p2p="0?"))
    topology = NodeTopology(numa=(numa,), gpus=gpus, nics=())
    assert wire.decode_annotation(wire.encode_annotation(topology))[0] == topology
    devices = [device for obj in slices_of(topology).values() for device in obj["spec"].get("devices", ())]
    assert not {"dieCount", "clusterCount", "p2p"} & {name for device in devices for name in device["attributes"]}


def test_the_slices_of_a_dgx() -> None:
    topology = machines.dgx_h100(lost=[6])
    slices = slices_of(topology)
    assert list(slices) == ["numa", "gpu", "nic"]
    gpu = slices["gpu"]
    assert gpu["metadata"] == {
        "name": "kubenexus-gpu-n1",
        "labels": {TOPOLOGY_HASH_LABEL: wire.topology_hash(topology)},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1", "controller": True},
        ],
    }
    assert {key: value for key, value in gpu["spec"].items() if key != "devices"} == {
        "driver": DRA_DRIVER,
        "nodeName": "n1",
        "pool": {"name": "n1/gpu", "generation": 7, "resourceSliceCount": 1},
    }
    assert gpu["spec"]["devices"][1] == {
        "name": "gpu-1",
        "taints": [{"key": INFORMATIONAL_TAINT, "effect": "NoSchedule"}],
        "capacity": {"memory": {"value": "85520809984"}},
        "attributes": {
            "type": {"string": "gpu"},
            "index": {"int": 1},
            "minor": {"int": 1},
            "uuid": {"string": "GPU-1"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "driverVersion": {"version": "580.105.8"},
            "resource.kubernetes.io/numaNode": {"int": 0},
            "resource.kubernetes.io/pciBusID": {"string": "0000:11:00.0"},
            "nvlinkLinks": {"int": 18},
            "nvlinkDomain": {"int": 0},
            "nvlinkPeerMask": {"int": 0b10111101},
            "nvlinkPeerLinks": {"string": "i0iiii0i"},
            "peerClasses": {"string": "NXNNSSSS"},
            "health": {"string": "ok"},
        },
    }
    lost = gpu["spec"]["devices"][6]["attributes"]
    assert (lost["health"], lost["nvlinkPeerMask"], "nvlinkDomain" in lost) == ({"string": "lost"}, {"int": 0}, False)
    nic = slices["nic"]["spec"]["devices"][2]["attributes"]
    assert (nic["gpuClasses"], nic["nearestGpuMask"]) == ({"string": "NNINSSSS"}, {"int": 4})


def test_the_numa_slice() -> None:
    numa = slices_of(machines.dgx_h100())["numa"]["spec"]["devices"][1]
    assert numa["name"] == "numa-1"
    assert numa["capacity"] == {"memory": {"value": "68719476736"}, "cpu": {"value": "32"}}
    assert numa["attributes"] == {
        "type": {"string": "numa"},
        "resource.kubernetes.io/numaNode": {"int": 1},
        "cpus": {"string": "16-31_48-63"},
        "cpuCount": {"int": 32},
        "memoryOnly": {"bool": False},
        "threadsPerCore": {"int": 2},
        "l3Count": {"int": 1},
        "package": {"int": 1},
        "distances": {"string": "21_10"},
    }


def test_a_kind_that_is_unknown_has_no_slice_and_an_empty_one_an_empty_slice() -> None:
    slices = slices_of(NodeTopology(gpus=()))
    assert list(slices) == ["gpu"]
    assert "devices" not in slices["gpu"]["spec"]
    assert read(slices.values()).gpus == ()


def test_unknown_health_is_said() -> None:
    slices = slices_of(NodeTopology(gpus=(Gpu(index=0),)))
    assert slices["gpu"]["spec"]["devices"][0]["attributes"]["health"] == {"string": "unknown"}
    assert read(slices.values()) == NodeTopology(gpus=(Gpu(index=0),))


def test_a_gb200_fits() -> None:
    topology = machines.gb200()
    slices, omitted = wire.encode_slices(topology, "n1", "uid-1")
    for obj in slices:
        assert validate_create("ResourceSlice", apply_defaults("ResourceSlice", obj)) == []
    assert len(omitted) == 34
    assert all("distances" in sentence for sentence in omitted)
    found = read(slices)
    assert [node.id for node in found.cpu_nodes] == [0, 1]
    assert len(found.memory_nodes) == 32
    assert found.gpus_by_numa == {0: (0, 1), 1: (2, 3)}
    assert found.nvlink is NvlinkKind.NVSWITCH


def test_a_slice_has_no_room_for_more_than_64_devices() -> None:
    topology = NodeTopology(
        numa=tuple(NumaNode(id=i, cpus=() if i < 10 else (i,)) for i in range(70)),
        nics=tuple(Nic(index=i) for i in range(70)),
    )
    slices, omitted = wire.encode_slices(topology, "n1", "uid-1")
    assert [sentence.split(":")[0] for sentence in omitted] == ["6 of 70 numa devices", "6 of 70 nic devices"]
    found = read(slices)
    assert [node.id for node in found.cpu_nodes] == list(range(10, 70)), "memory is left out first"
    assert set(found.unknowns) == {"numa", "nic"}
    annotations = {TOPOLOGY_SNAPSHOT: wire.encode_annotation(topology)}
    whole = wire.read_topology({}, annotations, map(wire.read_slice, slices)).topology
    assert whole == topology, "the annotation has them all"


@pytest.mark.parametrize("node", ["n" * 253, "a." * 126 + "b"], ids=["label", "dotted"])
def test_long_node_names(node: str) -> None:
    names = {obj["metadata"]["name"] for obj in slices_of(machines.dgx_h100(), node).values()}
    assert len(names) == 3
    assert all(len(name) <= 253 for name in names)
    assert names == {wire.slice_name(kind, node) for kind in wire.KINDS}


def edited(kind: str, device: int, **attributes: Any) -> list[Obj]:
    """The slices of a DGX, in which one device has other attributes."""
    slices = slices_of(machines.dgx_h100())
    slices[kind]["spec"]["devices"][device]["attributes"] |= attributes
    return list(slices.values())


@pytest.mark.parametrize(
    ("slices", "unknown"),
    [
        (edited("gpu", 3, index={"int": 4}), ["gpu-3.index", "gpu"]),
        (edited("gpu", 3, minor={"int": "3"}), ["gpu-3.minor"]),
        (edited("gpu", 3, minor={"int": True}), ["gpu-3.minor"]),
        (edited("gpu", 3, minor={"string": "3"}), ["gpu-3.minor"]),
        (edited("gpu", 3, minor=7), ["gpu-3.minor"]),
        (edited("gpu", 3, pcieGen={"int": 0}), ["gpu-3.pcieGen"]),
        (edited("gpu", 3, nvlinkPeerMask={"int": 1}), ["gpu-3.nvlinkPeerLinks"]),
        (
            edited("gpu", 3, nvlinkPeerLinks={"string": "iii0iii"}, nvlinkPeerMask={"int": 0b1110111}),
            ["gpu-3.nvlinkPeerLinks"],
        ),
        (edited("gpu", 3, peerClasses={"string": "NNNNSSSS"}), ["gpu-3.peerClasses"]),
        (edited("gpu", 3, health={"string": "fine"}), ["gpu-3.health"]),
        (edited("numa", 1, cpuCount={"int": 31}), ["numa-1.cpus"]),
        (edited("numa", 1, memoryOnly={"bool": True}), ["numa-1.cpus"]),
        (edited("numa", 1, distances={"string": "10"}), ["numa-1.distances"]),
        (edited("nic", 0, gpuClasses={"string": "IN"}), ["nic-0.gpuClasses"]),
        (edited("nic", 0, rateGbps={"int": 10**30}), ["nic-0.rateGbps"]),
    ],
    ids=lambda value: "-".join(value) if value and isinstance(value[0], str) else "",
)
def test_a_mangled_attribute_is_unknown_with_a_reason(slices: list[Obj], unknown: list[str]) -> None:
    topology = read(slices)
    assert list(topology.unknowns) == unknown
    assert (topology.gpus is None) is ("gpu" in unknown)


def test_qualified_attributes_and_quantities_of_other_writers_are_read() -> None:
    slices = slices_of(NodeTopology(numa=(NumaNode(id=3, cpu_count=8, memory=64 * GIB),)))
    device = slices["numa"]["spec"]["devices"][0]
    device["capacity"] = {"memory": {"value": "64Gi"}, "cpu": {"value": "8"}}
    device["attributes"] = {f"{DRA_DRIVER}/package": {"int": 1}}
    found = read(slices.values())
    assert found.numa == (NumaNode(id=3, cpu_count=8, memory=64 * GIB, package=1),)


def test_the_highest_generation_counts() -> None:
    old = slices_of(machines.dgx_h100())["gpu"]
    new = slices_of(NodeTopology(gpus=()))["gpu"]
    new["spec"]["pool"]["generation"] = 8
    assert read([new, old]).gpus == ()
