"""What a topology answers: distances, pair classes, islands, and what it does not know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kubenexus.common.topology import Gpu, Health, Nic, NodeTopology, NumaNode, NvlinkKind, PairClass, nvlink_kind
from tests import machines


def test_nothing_is_known_of_a_node_nobody_looked_at() -> None:
    empty = NodeTopology()
    assert (empty.numa, empty.gpus, empty.nics) == (None, None, None)
    assert not any((empty.cpu_nodes, empty.memory_nodes, empty.usable_gpus, empty.islands, empty.nics_near(0)))
    assert (empty.snc, empty.distance(0, 0), empty.nvlinks(0, 1), empty.pair_class(0, 1)) == (None,) * 4


def test_parts_are_in_canonical_order() -> None:
    nodes = tuple(NumaNode(id=number) for number in (8, 0, 250))
    assert [node.id for node in NodeTopology(numa=nodes).numa or ()] == [0, 8, 250]
    assert NodeTopology(gpus=(Gpu(index=1), Gpu(index=0))) == NodeTopology(gpus=(Gpu(index=0), Gpu(index=1)))


@pytest.mark.parametrize(
    ("node", "count", "memory_only"),
    [
        (NumaNode(id=0), None, False),
        (NumaNode(id=0, cpu_count=64), 64, False),
        (NumaNode(id=0, cpus=(0, 1)), 2, False),
        (NumaNode(id=0, cpus=()), 0, True),
    ],
    ids=["unknown", "counted", "listed", "memory"],
)
def test_the_number_of_cpus(node: NumaNode, count: int | None, memory_only: bool) -> None:
    assert (node.cpu_count, node.memory_only) == (count, memory_only)
    assert (NodeTopology(numa=(node,)).cpu_nodes == ()) is memory_only


def test_distances_are_by_id_and_need_not_be_symmetric() -> None:
    numa = (
        NumaNode(id=0, distances=(10, 21, None)),
        NumaNode(id=8, distances=(20, 10, 40)),
        NumaNode(id=250),
    )
    topology = NodeTopology(numa=numa)
    assert [topology.distance(0, far) for far in (0, 8, 250, 1)] == [10, 21, None, None]
    assert topology.distance(8, 0) == 20
    assert topology.distance(250, 0) is None


@pytest.mark.parametrize(
    ("packages", "snc"),
    [((0, 1), 1), ((0, 0, 1, 1), 2), ((36, 36, 8442), 2), ((0, None), None)],
    ids=["plain", "snc2", "uneven", "unknown"],
)
def test_sub_numa_clustering(packages: tuple[int | None, ...], snc: int | None) -> None:
    nodes = tuple(NumaNode(id=number, cpus=(number,), package=package) for number, package in enumerate(packages))
    memory = NumaNode(id=99, cpus=(), package=0)
    assert NodeTopology(numa=(*nodes, memory)).snc == snc


@pytest.mark.parametrize(
    ("machine", "kind", "islands"),
    [
        (machines.dgx_h100, NvlinkKind.NVSWITCH, [tuple(range(8))]),
        (lambda: machines.dgx_h100(lost=[3]), NvlinkKind.NVSWITCH, [(0, 1, 2, 4, 5, 6, 7)]),
        (machines.dgx1_v100, NvlinkKind.MESH, [tuple(range(8))]),
        (machines.pairs_across_numa, NvlinkKind.PAIRS, [(0, 2), (1, 3)]),
        (machines.gb200, NvlinkKind.NVSWITCH, [(0, 1, 2, 3)]),
    ],
    ids=["dgx-h100", "dgx-h100-one-lost", "dgx-1", "pairs", "gb200"],
)
def test_islands(machine: Callable[[], NodeTopology], kind: NvlinkKind, islands: list[tuple[int, ...]]) -> None:
    topology = machine()
    assert list(topology.islands) == islands
    assert topology.nvlink == kind
    assert nvlink_kind(topology.gpus or ()) == kind, "it shows in the numbers of links alone"


def test_links_between_gpus() -> None:
    topology = machines.dgx1_v100()
    assert (topology.nvlinks(0, 3), topology.nvlinks(3, 0), topology.nvlinks(0, 5)) == (2, 2, 0)
    assert topology.nvlinks(0, 8) is None
    assert machines.dgx_h100(lost=[3]).nvlinks(0, 3) == 0


def gpus(*rows: str | None, links: int | None = 18, health: Health | None = None) -> tuple[Gpu, ...]:
    return tuple(Gpu(index=i, peer_links=row, nvlinks=links, health=health) for i, row in enumerate(rows))


@pytest.mark.parametrize(
    ("found", "switched", "kind"),
    [
        ((), None, None),
        (gpus("00", "00"), None, NvlinkKind.NONE),
        (gpus("00", None), None, None),
        (gpus("0i", "i0"), None, None),
        (gpus("0i", "i0"), True, NvlinkKind.NVSWITCH),
        (gpus("0i", "i0"), False, NvlinkKind.PAIRS),
        (gpus("0ii", "i0i", "ii0"), None, NvlinkKind.NVSWITCH),
        (gpus("0ii", "i0i", "ii0", links=None), None, None),
        (gpus("0cc", "c0c", "cc0", links=24), None, NvlinkKind.MESH),
        (gpus("000", "00i", "0i0"), True, NvlinkKind.NVSWITCH),
    ],
    ids=[
        "none",
        "no-links",
        "row-unknown",
        "two",
        "two-switched",
        "two-bridged",
        "switch",
        "links-unknown",
        "mesh",
        "odd",
    ],
)
def test_nvlink_kind(found: tuple[Gpu, ...], switched: bool | None, kind: NvlinkKind | None) -> None:
    assert nvlink_kind(found, switched=switched) == kind


def test_a_link_counts_when_either_end_tells() -> None:
    assert NodeTopology(gpus=gpus("04", None)).nvlinks(1, 0) == 4
    assert NodeTopology(gpus=gpus(None, None)).nvlinks(0, 1) is None


def test_pair_classes() -> None:
    topology = NodeTopology(gpus=(Gpu(index=0, peer_classes="XI?"), Gpu(index=1), Gpu(index=2, peer_classes="S?X")))
    assert topology.pair_class(0, 0) is PairClass.SELF
    assert topology.pair_class(0, 1) is topology.pair_class(1, 0) is PairClass.PIX
    assert topology.pair_class(0, 2) is PairClass.SYS, "the other row knows"
    assert topology.pair_class(1, 2) is None


def test_gpus_by_numa_leaves_out_lost_ones() -> None:
    topology = machines.dgx_h100(lost=[0])
    first = replace((topology.gpus or ())[7], numa=None)
    topology = replace(topology, gpus=(*(topology.gpus or ())[:7], first))
    assert topology.gpus_by_numa == {0: (1, 2, 3), 1: (4, 5, 6), None: (7,)}


def test_nics_near_a_gpu() -> None:
    topology = machines.dgx_h100()
    assert [nic.name for nic in topology.nics_near(5)] == ["mlx5_5"]
    assert (topology.nics or ())[5].nearest_gpus == (5,)
    far = NodeTopology(gpus=gpus("00", "00"), nics=(Nic(index=0, gpu_classes="S?"), Nic(index=1, gpu_classes="SS")))
    assert [nic.index for nic in far.nics_near(0)] == [0, 1]
    assert [nic.index for nic in far.nics_near(1)] == [1]
    assert Nic(index=0, gpu_classes="??").nearest_gpus == Nic(index=0).nearest_gpus == ()


def test_a_nic_has_a_name() -> None:
    assert Nic(index=0, rdma_name="mlx5_0", if_name="eth0").name == "mlx5_0"
    assert Nic(index=0, if_name="eth0").name == "eth0"
    assert Nic(index=4).name == "nic4"
