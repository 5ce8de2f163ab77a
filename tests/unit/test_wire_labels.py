"""Labels: what the agent writes for known machines, and what people write by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common import vocabulary, wire
from kubenexus.common.topology import Gpu, NodeTopology, NumaNode, NvlinkKind
from kubenexus.common.vocabulary import TOPOLOGY_HASH_LABEL
from kubenexus.common.wire import Reading
from tests import machines

GIB = 1 << 30
NUMA, GPU = vocabulary.NUMA_PREFIX, vocabulary.GPU_PREFIX


def read(labels: dict[str, str]) -> Reading:
    return wire.read_topology(labels, {})


def test_labels_of_a_dgx() -> None:
    topology = machines.dgx_h100(lost=[6])
    labels, omitted = wire.encode_labels(topology)
    assert omitted == []
    assert labels.pop(TOPOLOGY_HASH_LABEL) == wire.topology_hash(topology)
    assert labels == {
        f"{NUMA}node-count": "2",
        f"{NUMA}node-ids": "0-1",
        f"{NUMA}threads-per-core": "2",
        f"{NUMA}l3-count": "2",
        f"{NUMA}node-0-cpus": "0-15_32-47",
        f"{NUMA}node-0-cpu-count": "32",
        f"{NUMA}node-0-memory": "68719476736",
        f"{NUMA}node-0-distance-0": "10",
        f"{NUMA}node-0-distance-1": "21",
        f"{NUMA}node-1-cpus": "16-31_48-63",
        f"{NUMA}node-1-cpu-count": "32",
        f"{NUMA}node-1-memory": "68719476736",
        f"{NUMA}node-1-distance-0": "21",
        f"{NUMA}node-1-distance-1": "10",
        f"{GPU}count": "7",
        f"{GPU}lost": "1",
        f"{GPU}model": "NVIDIA-H100-80GB-HBM3",
        f"{GPU}vram": "85520809984",
        f"{GPU}driver": "580.105.08",
        f"{GPU}nvlink": "nvswitch",
        f"{GPU}nvlink-island-count": "1",
        f"{GPU}topology": "nvswitch",
        **{f"{GPU}gpu{index}-numa": str(index // 4) for index in range(8)},
    }


def labels_of(**facts: Any) -> dict[str, str]:
    labels = wire.encode_labels(NodeTopology(**facts))[0]
    del labels[TOPOLOGY_HASH_LABEL]
    return labels


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (NodeTopology(), {}),
        (NodeTopology(gpus=(), nics=()), {}),
        (
            NodeTopology(numa=(NumaNode(id=0, cpus=(0,)), NumaNode(id=250, cpus=()), NumaNode(id=251, cpus=()))),
            {"node-count": "1", "node-ids": "0", "memory-node-ids": "250-251", "node-0-cpus": "0"}
            | {"node-0-cpu-count": "1"},
        ),
        (
            NodeTopology(numa=tuple(NumaNode(id=i, cpu_count=2, package=0) for i in (0, 8))),
            {"node-count": "2", "node-ids": "0_8", "snc": "2", "node-0-cpu-count": "2", "node-8-cpu-count": "2"},
        ),
        (
            NodeTopology(numa=(NumaNode(id=0, hugepages_2mi=0, hugepages_1gi=4, read_bandwidth=102400),)),
            {"node-count": "1", "node-ids": "0", "node-0-hugepages-1Gi": "4", "node-0-bandwidth": "102400"},
        ),
    ],
    ids=["unknown", "no-gpus", "memory-only", "sparse-snc", "hugepages-and-bandwidth"],
)
def test_numa_labels(topology: NodeTopology, expected: dict[str, str]) -> None:
    labels = wire.encode_labels(topology)[0]
    labels.pop(TOPOLOGY_HASH_LABEL)
    assert labels == {NUMA + name: value for name, value in expected.items()}


def test_what_is_too_long_for_a_label_is_left_out_and_said() -> None:
    scattered = tuple(n * n for n in range(40))
    labels, omitted = wire.encode_labels(NodeTopology(numa=(NumaNode(id=0, cpus=scattered),)))
    assert f"{NUMA}node-0-cpus" not in labels
    assert labels[f"{NUMA}node-0-cpu-count"] == "40"
    assert len(omitted) == 1
    assert f"{NUMA}node-0-cpus" in omitted[0]


def test_distance_labels_end_at_eight_cpu_nodes() -> None:
    nine = tuple(NumaNode(id=i, cpus=(i,), distances=(10,) * 9) for i in range(9))
    assert not [key for key in labels_of(numa=nine) if "distance" in key]
    assert len([key for key in wire.encode_labels(machines.gb200())[0] if "distance" in key]) == 4


def test_gpus_that_differ_have_no_common_label() -> None:
    labels = labels_of(gpus=(Gpu(index=0, product="A", memory=1), Gpu(index=1, product="B", memory=1)))
    assert labels == {f"{GPU}count": "2", f"{GPU}vram": "1"}


def test_hand_written_labels() -> None:
    reading = read(
        {
            f"{NUMA}node-count": "2",
            f"{NUMA}node-0-cpus": "0-15_32-47",
            f"{NUMA}node-0-memory": "64Gi",
            f"{NUMA}node-1-cpus": "16,18,20-31",
            f"{NUMA}node-1-memory": "68719476736",
            f"{GPU}count": "2",
            f"{GPU}numa-node-0": "0",
            f"{GPU}numa-node-1": "1",
            f"{GPU}topology": "nvswitch",
        }
    )
    assert (reading.sources, reading.problems, reading.topology.unknowns) == (("labels",), (), {})
    assert [(node.id, node.cpu_count, node.memory) for node in reading.topology.cpu_nodes] == [
        (0, 32, 64 * GIB),
        (1, 14, 64 * GIB),
    ]
    assert reading.topology.gpus == (Gpu(index=0, numa=0), Gpu(index=1, numa=1))
    assert reading.topology.nvlink is NvlinkKind.NVSWITCH


DGX_LABELS = wire.encode_labels(machines.dgx_h100())[0]


@pytest.mark.parametrize(
    ("label", "text", "unknown"),
    [
        (f"{NUMA}node-0-memory", "64GB", f"{NUMA}node-0-memory"),
        (f"{NUMA}node-0-memory", "-1", f"{NUMA}node-0-memory"),
        (f"{NUMA}node-0-memory", "0.5", f"{NUMA}node-0-memory"),
        (f"{NUMA}node-0-cpus", "", f"{NUMA}node-0-cpus"),
        (f"{NUMA}node-0-cpus", "0-15", "numa-0.cpus"),
        (f"{NUMA}node-0-cpu-count", "31", "numa-0.cpus"),
        (f"{NUMA}node-count", "3", "numa"),
        (f"{NUMA}node-ids", "0", "numa"),
        (f"{NUMA}node-7-memory", "64Gi", "numa"),
        (f"{NUMA}node-0-distance-1", "2l", f"{NUMA}node-0-distance-1"),
        (f"{NUMA}threads-per-core", "0", f"{NUMA}threads-per-core"),
        (f"{GPU}count", "eight", f"{GPU}count"),
        (f"{GPU}count", "7", "gpu"),
        (f"{GPU}count", "99999999", "gpu"),
        (f"{GPU}gpu3-numa", "-1", f"{GPU}gpu3-numa"),
        (f"{GPU}vram", "0", f"{GPU}vram"),
        (f"{GPU}nvlink", "nvlink", f"{GPU}nvlink"),
        (f"{GPU}lost", "1", "gpu.health"),
    ],
)
def test_a_mangled_label_is_unknown_with_a_reason(label: str, text: str, unknown: str) -> None:
    topology = read({**DGX_LABELS, label: text}).topology
    assert list(topology.unknowns) == [unknown]


def test_labels_that_only_count_numa_nodes_name_none() -> None:
    topology = read({f"{NUMA}node-count": "2"}).topology
    assert topology.numa is None
    assert "numa" in topology.unknowns
