"""Which GPUs a pod gets, and what that leaves of the machine's islands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kubenexus.common.topology import Gpu, Nic, NodeTopology, NumaNode, NvlinkKind, link_row
from kubenexus.scheduler.devices.choose import Choice, choose
from kubenexus.scheduler.devices.islands import destroyed, islands, joined
from kubenexus.scheduler.devices.links import Layout, layout_of, mask_of
from tests import machines
from tests.gpu_layouts import complete, gpus, linked

RING = {(0, 1): 1, (1, 2): 1, (2, 3): 1, (0, 3): 1}
STAR = {(0, 1): 1, (0, 2): 1, (0, 3): 1}
CHAIN = {(0, 1): 1, (1, 2): 1, (2, 3): 1}
PAIRS = {(0, 1): 4, (2, 3): 4}
FOURS = complete(range(4), range(4, 8))


def chosen(layout: Layout, count: int, busy: tuple[int, ...] = (), must: tuple[int, ...] = ()) -> list[int] | None:
    found = choose(layout, layout.everything & ~mask_of(busy), count, mask_of(must))
    return found and gpus(found.mask)


def told(kind: NvlinkKind) -> NodeTopology:
    """Two GPUs in each of two NUMA nodes, of which somebody wrote what joins them."""
    return NodeTopology(gpus=tuple(Gpu(index=i, numa=i // 2) for i in range(4)), nvlink=kind)


# --- Links -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (linked(2, {(0, 1): 2}), linked(2, {(0, 1): 1})),
        (linked(2, {(0, 1): 1}, {(0, 1): "S"}), linked(2, {}, {(0, 1): "I"}, [0, 0])),
        (linked(2, {}, {(0, 1): "I"}), linked(2, {}, {(0, 1): "B"}, [0, 0])),
        (linked(2, {}, {(0, 1): "B"}), linked(2, {}, {(0, 1): "H"}, [0, 0])),
        (linked(2, {}, {(0, 1): "H"}), linked(2, {}, {(0, 1): "N"}, [0, 0])),
        (linked(2, {}, {(0, 1): "N"}), linked(2, {}, {(0, 1): "S"}, [0, 1])),
        (linked(2, {}, numa=[0, 0]), linked(2, {}, numa=[0, 1])),
        (linked(2, {}, numa=[0, 0]), linked(2, {}, numa=[0, None])),
    ],
    ids=["more NVLinks", "NVLink, not PCIe", "PIX", "PXB", "PHB", "NODE", "one NUMA node", "NUMA node unknown"],
)
def test_a_link_is_worth_its_nvlinks_then_its_path_then_its_numa_nodes(better: Layout, worse: Layout) -> None:
    assert better.weight(0, 1) == better.weight(1, 0) > worse.weight(0, 1)


def test_a_numa_node_of_the_same_package_is_closer_than_one_of_the_other() -> None:
    rows = ((10, 12, 32), (12, 10, 32), (32, 32, 10))
    numa = tuple(NumaNode(id=id_, distances=row) for id_, row in enumerate(rows))
    cards = tuple(Gpu(index=index, numa=index, peer_links="000", peer_classes="SSS") for index in range(3))
    layout = layout_of(NodeTopology(numa=numa, gpus=cards))
    assert layout.weight(0, 1) > layout.weight(0, 2) == layout.weight(1, 2)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (layout_of(machines.dgx_h100()), [[0, 1, 2, 3, 4, 5, 6, 7]]),
        (layout_of(machines.dgx_h100(lost=[2])), [[0, 1, 3, 4, 5, 6, 7]]),
        (layout_of(machines.pairs_across_numa()), [[0, 2], [1, 3]]),
        (linked(3, {(0, 2): 1}), [[0, 2], [1]]),
        (linked(4, None, {(0, 1): "I", (2, 3): "N", (0, 2): "S"}), [[0, 1], [2, 3]]),
        (linked(4, None, numa=[0, 1, 0, None]), [[0, 2], [1], [3]]),
        (layout_of(told(NvlinkKind.NVSWITCH)), [[0, 1, 2, 3]]),
        (layout_of(told(NvlinkKind.NONE)), [[0], [1], [2], [3]]),
        (layout_of(told(NvlinkKind.PAIRS)), [[0, 1], [2, 3]]),
        (layout_of(NodeTopology()), []),
    ],
    ids=[
        *("switch", "a lost one", "pairs", "one alone", "NVLink unknown: PCIe", "unknown: NUMA"),
        *("unknown: switches", "unknown: no NVLinks", "unknown: pairs, so by NUMA", "no GPUs"),
    ],
)
def test_islands(layout: Layout, expected: list[list[int]]) -> None:
    assert [gpus(island) for island in layout.islands] == expected


@pytest.mark.parametrize(
    ("rows", "numa", "expected"),
    [
        pytest.param([], [], [0, 1], id="none"),
        pytest.param(["SSII"], [None], [2, 3], id="behind the switch of two"),
        pytest.param(["SSHH", "SSIS"], [None, None], [2, 3], id="the nearest counts"),
        pytest.param(["IIII"], [None], [0, 1], id="as near to all"),
        pytest.param([None], [1], [2, 3], id="in the NUMA node of two"),
    ],
)
def test_of_equal_sets_the_one_near_network_cards(
    rows: list[str | None], numa: list[int | None], expected: list[int]
) -> None:
    """Two pairs of GPUs, linked alike."""
    links = [link_row(4 if i ^ 1 == j else 0 for j in range(4)) for i in range(4)]
    cards = tuple(Gpu(index=i, numa=i // 2, peer_links=links[i]) for i in range(4))
    nics = tuple(Nic(index=i, gpu_classes=row, numa=home) for i, (row, home) in enumerate(zip(rows, numa, strict=True)))
    assert chosen(layout_of(NodeTopology(gpus=cards, nics=nics)), 2) == expected


@pytest.mark.parametrize(
    ("busy", "must", "expected"),
    [((), (), [6, 7]), ((6,), (), [0, 7]), ((), (2,), [2, 6])],
    ids=["all free", "one is taken", "one is given"],
)
def test_of_gpus_that_are_all_alike_those_near_network_cards(
    busy: tuple[int, ...], must: tuple[int, ...], expected: list[int]
) -> None:
    links = [link_row(0 if i == j else 18 for j in range(8)) for i in range(8)]
    cards = tuple(Gpu(index=i, numa=0, peer_links=links[i]) for i in range(8))
    layout = layout_of(NodeTopology(gpus=cards, nics=(Nic(index=0, gpu_classes="NNNNNNII"),)))
    assert chosen(layout, 2, busy, must) == expected


@pytest.mark.parametrize("count", [24, 48])
def test_machine_of_very_many_unlike_gpus_is_not_searched_for_ever(count: int) -> None:
    """No two alike: there are more sets than could be looked at."""
    links = [link_row(0 if i == j else 1 + (i * j + i + j) % 7 for j in range(count)) for i in range(count)]
    layout = layout_of(NodeTopology(gpus=tuple(Gpu(index=i, peer_links=links[i]) for i in range(count))))
    for size in (2, 5, 8):
        found = choose(layout, layout.everything, size)
        assert found is not None
        assert found.mask.bit_count() == size
        assert sum(islands(layout, layout.everything & ~found.mask)) > 0


def test_machines_that_are_linked_alike_share_a_layout() -> None:
    one = machines.dgx_h100()
    cards = tuple(replace(gpu, uuid=f"other-{gpu.index}", pci_bus_id=None) for gpu in one.gpus or ())
    assert layout_of(one) is layout_of(replace(one, gpus=cards, nics=()))
    assert layout_of(one) is not layout_of(machines.dgx_h100(lost=[7]))


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (linked(8, complete(range(8))), 9),
        (layout_of(machines.dgx_h100()), 15),
        (linked(8, complete((0, 4), (1, 5), (2, 6), (3, 7))), 15),
        (linked(4, STAR), 8),
        (linked(4, {(0, 1): 2, (2, 3): 4}), 9),
        (layout_of(machines.dgx1_v100()), 256),
    ],
    ids=[
        "all alike",
        "two NUMA nodes of four",
        "four pairs",
        "a centre and three arms",
        "two unlike pairs",
        "no two alike",
    ],
)
def test_sets_that_differ_only_in_names_are_one(layout: Layout, expected: int) -> None:
    assert len({layout.symmetry.canonical(mask) for mask in range(layout.everything + 1)}) == expected


def test_lost_gpus_and_those_cut_into_slices_are_not_given_out() -> None:
    whole = machines.dgx_h100(lost=[0]).gpus or ()
    layout = layout_of(NodeTopology(gpus=tuple(replace(gpu, mig=gpu.index == 3) for gpu in whole)))
    assert layout.gpus == (1, 2, 4, 5, 6, 7)
    assert choose(layout, 0b1001, 1) is None, "whoever says that they are free"
    assert islands(layout, 0b1011) == (1, 0, 0, 0)


# --- Choices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "count", "busy", "expected"),
    [
        (layout_of(machines.dgx_h100()), 1, (), [0]),
        (layout_of(machines.dgx_h100()), 1, (5,), [4]),
        (layout_of(machines.dgx_h100()), 2, (5,), [4, 6]),
        (layout_of(machines.dgx_h100()), 4, (0,), [4, 5, 6, 7]),
        (layout_of(machines.dgx_h100()), 8, (), [0, 1, 2, 3, 4, 5, 6, 7]),
        (layout_of(machines.pairs_across_numa()), 2, (), [0, 2]),
        (layout_of(machines.pairs_across_numa()), 1, (2,), [0]),
        (layout_of(machines.dgx1_v100()), 4, (), [0, 1, 2, 3]),
        (layout_of(machines.dgx1_v100()), 1, (6,), [5]),
        (linked(8, FOURS), 1, (0,), [1]),
        (linked(8, FOURS), 2, (4,), [5, 6]),
        (linked(8, FOURS), 3, (0, 4, 5), [1, 2, 3]),
        (linked(6, complete(range(3), range(3, 6))), 1, (3,), [4]),
        (linked(9, complete(range(5), range(5, 9))), 1, (), [0]),
        (linked(8, {}, numa=[0, 0, 0, 0, 1, 1, 1, 1]), 2, (0, 4, 5, 6), [1, 2]),
    ],
    ids=[
        "one of an empty machine",
        "one where others are, on its NUMA node",
        "two where others are, on one NUMA node",
        "four on the NUMA node that has them",
        "all",
        "a pair, though on two NUMA nodes",
        "one whose partner is taken",
        "four that are all linked",
        "one beside the one that is taken",
        "one of the island that is no longer whole",
        "two of the island that is no longer whole",
        "three on one island, not 2 + 1",
        "one of three: the other three stay whole",
        "one of five: two fours remain",
        "no NVLink: two on one NUMA node, the lowest",
    ],
)
def test_what_is_chosen(layout: Layout, count: int, busy: tuple[int, ...], expected: list[int]) -> None:
    assert chosen(layout, count, busy) == expected


@pytest.mark.parametrize(
    ("count", "busy", "must"),
    [(9, (), ()), (5, (0, 1, 2, 3), ()), (2, (3,), (3,)), (1, (), (0, 1)), (1, (), (11,))],
    ids=["more than there are", "more than are free", "one that is busy", "fewer than it must have", "one it has not"],
)
def test_what_cannot_be_chosen(count: int, busy: tuple[int, ...], must: tuple[int, ...]) -> None:
    assert chosen(layout_of(machines.dgx_h100()), count, busy, must) is None


@pytest.mark.parametrize(
    ("count", "must", "expected"),
    [(2, (5,), [5, 6]), (4, (5,), [4, 5, 6, 7]), (2, (0, 7), [0, 7]), (3, (0, 7), [0, 4, 7]), (0, (), [])],
    ids=["one more", "its island", "all given", "the best beside two", "nothing"],
)
def test_what_it_must_have_is_in(count: int, must: tuple[int, ...], expected: list[int]) -> None:
    assert chosen(layout_of(machines.dgx1_v100()), count, (), must) == expected


def test_a_set_is_not_split_for_better_links() -> None:
    """The weak chain of three rather than the strong pair and a stranger."""
    layout = linked(6, {(0, 1): 1, (1, 2): 1, (3, 4): 18})
    assert chosen(layout, 3) == [0, 1, 2]
    assert chosen(layout, 3, (1,)) == [0, 3, 4], "what the middle joined is no island any more"


def test_what_it_must_have_is_not_joined_by_strangers() -> None:
    """Nor would another island be a reason, though the machine as a whole would have better links."""
    layout = linked(7, {(0, 1): 1, (1, 2): 1, (3, 4): 18, (4, 5): 1, (5, 6): 18})
    assert chosen(layout, 3, must=(0,)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("layout", "busy", "count", "expected"),
    [
        (linked(4, PAIRS), (), 2, Choice(0b0011, 100, 100)),
        (linked(4, PAIRS), (0,), 2, Choice(0b1100, 100, 100)),
        (linked(4, PAIRS), (0, 2), 2, Choice(0b1010, 2, 100)),
        (linked(4, complete(range(4))), (0,), 1, Choice(0b0010, 100, 100)),
        (linked(4, STAR), (), 1, Choice(0b0010, 100, 100)),
    ],
    ids=["the best pair", "the only pair", "strangers", "one has no links", "not the centre of the star"],
)
def test_how_good_it_is(layout: Layout, busy: tuple[int, ...], count: int, expected: Choice) -> None:
    assert choose(layout, layout.everything & ~mask_of(busy), count) == expected


def test_what_is_preserved_falls_with_the_links_that_are_lost() -> None:
    layout = linked(4, STAR)
    found = choose(layout, layout.everything, 1, 0b0001)
    assert found is not None
    assert found.preserved < 20, "without the centre nothing is linked"


# --- Islands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "busy", "expected"),
    [
        (layout_of(machines.dgx_h100()), (), (8, 4, 2, 1)),
        (layout_of(machines.dgx_h100()), (3,), (7, 3, 1, 0)),
        (layout_of(machines.dgx1_v100()), (), (8, 4, 2, 1)),
        (layout_of(machines.dgx1_v100()), (1, 6), (6, 3, 1, 0)),
        (linked(4, STAR), (), (4, 1, 0, 0)),
        (linked(4, CHAIN), (), (4, 2, 0, 0)),
        (linked(4, RING), (), (4, 2, 1, 0)),
        (linked(4, PAIRS), (), (4, 2, 0, 0)),
        (linked(5, complete(range(1, 5)) | {(0, 1): 1}), (), (5, 2, 1, 0)),
        (linked(8, FOURS), (), (8, 4, 2, 0)),
        (linked(8, FOURS), (0, 4), (6, 2, 0, 0)),
        (linked(8, {}), (), (8, 0, 0, 0)),
        (linked(8, None, numa=[0] * 4 + [1] * 4), (), (8, 4, 2, 0)),
    ],
    ids=[
        "switch",
        "switch, one busy",
        "cube mesh",
        "cube mesh, 2 busy",
        "star of four",
        "chain of four",
        "ring of four",
        "two pairs",
        "four and one that hangs on them",
        "two fours",
        "two fours, one of each busy",
        "no NVLink",
        "NVLink unknown: NUMA nodes",
    ],
)
def test_how_many_islands_are_free(layout: Layout, busy: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Only sets that work as one count, and only GPUs that are free."""
    assert islands(layout, layout.everything & ~mask_of(busy)) == expected


@pytest.mark.parametrize(
    ("layout", "mask", "expected"),
    [
        (linked(4, STAR), 0b1111, False),
        (linked(4, STAR), 0b0011, True),
        (linked(4, RING), 0b1111, True),
        (linked(4, RING), 0b0111, False),
        (linked(4, PAIRS), 0b1111, False),
        (layout_of(machines.dgx1_v100()), 0b10001001, False),
        (layout_of(machines.dgx1_v100()), 0b10011001, True),
        (layout_of(machines.dgx1_v100()), 0b11111111, True),
    ],
    ids=["star", "arm", "ring", "arc", "two pairs", "mesh: path of 3", "mesh: square", "mesh: all"],
)
def test_what_works_as_one(layout: Layout, mask: int, expected: bool) -> None:
    assert joined(layout, mask) is expected


@pytest.mark.parametrize(
    ("mask", "after"),
    [(0b1, (7, 3, 1, 0)), (0b11, (6, 3, 1, 0)), (0b10001, (6, 2, 0, 0)), (0b1111, (4, 2, 1, 0))],
    ids=["one", "two of one island", "one of each", "a whole island"],
)
def test_what_a_choice_destroys(mask: int, after: tuple[int, ...]) -> None:
    layout = linked(8, FOURS)
    assert destroyed(layout, layout.everything, mask) == ((8, 4, 2, 0), after)


# --- Large machines --------------------------------------------------------------------------------------------------


def switched(count: int) -> Layout:
    return linked(count, complete(range(count), links=6), numa=[index * 2 // count for index in range(count)])


def scattered(count: int) -> Layout:
    """No two GPUs of it are alike."""
    return linked(count, {(a, b): (a * a + 3 * b) % 7 for a in range(count) for b in range(a + 1, count)})


@pytest.mark.parametrize(
    "build", [lambda: switched(16), lambda: switched(64), lambda: scattered(16), lambda: scattered(40)],
    ids=["16 behind switches", "64 behind switches", "16 without likeness", "40 without likeness"],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_large_machines_are_no_trouble(build: Callable[[], Layout], count: int) -> None:
    layout = build()
    free = layout.everything & ~0b1001
    found = choose(layout, free, count)
    assert found is not None
    assert (found.mask.bit_count(), found.mask & ~free) == (count, 0)
