"""What a placement leaves to others: exact fits first, machines that nobody has touched last."""

from __future__ import annotations

import pytest

from kubenexus.scheduler.devices.choose import choose
from kubenexus.scheduler.devices.islands import SIZES, Mix, mix_of, score_leftover
from kubenexus.scheduler.devices.links import Layout, layout_of
from tests import machines
from tests.gpu_layouts import complete, linked

EVEN = (1, 1, 1, 1)
SMALL = (5, 3, 0, 0)
LARGE = (1, 0, 0, 9)

SWITCH = layout_of(machines.dgx_h100())
MESH = layout_of(machines.dgx1_v100())
FOURS = linked(8, complete(range(4), range(4, 8)))
FOUR = linked(4, complete(range(4)))
BRIDGED = linked(8, complete((0, 1), (2, 3), (4, 5), (6, 7)))
PCIE_8 = linked(8, {}, numa=[0] * 4 + [1] * 4)
PCIE_2 = linked(2, {}, numa=[0, 0])
ALONE = linked(1, {})


def scored(place: tuple[Layout, int], count: int, mix: Mix) -> int:
    """The score of the GPUs chosen on a machine with so many free, the highest indices."""
    layout, number = place
    free = layout.everything >> (len(layout.gpus) - number) << (len(layout.gpus) - number)
    found = choose(layout, free, count)
    assert found is not None
    return score_leftover(layout, free, found.mask, mix)


@pytest.mark.parametrize("mix", [EVEN, SMALL, LARGE, (0, 0, 0, 0)], ids=["even", "small", "large", "nothing known"])
@pytest.mark.parametrize(
    ("count", "better", "worse"),
    [
        (1, (SWITCH, 6), (SWITCH, 8)),
        (2, (SWITCH, 6), (SWITCH, 8)),
        (2, (SWITCH, 7), (MESH, 8)),
        (2, (PCIE_8, 7), (SWITCH, 8)),
        (1, (SWITCH, 7), (PCIE_8, 8)),
        (2, (PCIE_2, 2), (SWITCH, 8)),
        (2, (SWITCH, 3), (FOUR, 4)),
        (2, (FOURS, 6), (FOURS, 8)),
        (2, (PCIE_2, 2), (SWITCH, 6)),
        (2, (SWITCH, 2), (SWITCH, 6)),
        (4, (FOUR, 4), (SWITCH, 6)),
        (4, (SWITCH, 4), (SWITCH, 6)),
        (4, (SWITCH, 6), (SWITCH, 8)),
        (1, (ALONE, 1), (SWITCH, 3)),
        (1, (BRIDGED, 7), (SWITCH, 8)),
        (2, (SWITCH, 3), (SWITCH, 6)),
    ],
    ids=[
        "F1: 1 GPU, 6 free or 8 untouched",
        "F1: 2 GPUs, 6 free or 8 untouched",
        "F1: 2 GPUs, 7 free or 8 untouched of a mesh",
        "F1: 2 GPUs, 7 free on PCIe or 8 untouched",
        "F1: 1 GPU, 7 free or 8 untouched on PCIe",
        "F1: 2 GPUs, 2 on PCIe or 8 untouched",
        "2 GPUs, 3 free or 4 untouched",
        "2 GPUs, beside others or on a machine untouched",
        "F2: 2 GPUs, exact on PCIe or 6 free",
        "F2: 2 GPUs, exact or 6 free",
        "F2: 4 GPUs, exact and untouched or 6 free",
        "F2: 4 GPUs, exact or 6 free",
        "4 GPUs, 6 free or 8 untouched",
        "1 GPU, exact or 3 free",
        "1 GPU, one without partner or 8 untouched",
        "2 GPUs, 3 free or 6",
    ],
)
def test_which_place_is_better(count: int, better: tuple[Layout, int], worse: tuple[Layout, int], mix: Mix) -> None:
    assert scored(better, count, mix) > scored(worse, count, mix)


def test_f3_eight_gpus_go_where_eight_are_free() -> None:
    assert scored((SWITCH, 8), 8, EVEN) == 100
    assert choose(SWITCH, 0b00111111, 8) is None


@pytest.mark.parametrize(
    ("mix", "better", "worse"),
    [
        ((0, 0, 1, 0), (SWITCH, 7), (SWITCH, 5)),
        ((1, 0, 0, 0), (SWITCH, 5), (SWITCH, 7)),
        ((0, 0, 0, 1), (FOUR, 4), (SWITCH, 8)),
        ((0, 0, 1, 0), (PCIE_8, 8), (SWITCH, 8)),
    ],
    ids=[
        "fours are asked for: 7 become 5, which keep theirs",
        "ones are asked for: the fuller machine",
        "eights are asked for: four that never could hold one",
        "fours are asked for: those that no link joins",
    ],
)
def test_the_mix_decides(mix: Mix, better: tuple[Layout, int], worse: tuple[Layout, int]) -> None:
    """For two GPUs."""
    assert scored(better, 2, mix) > scored(worse, 2, mix)


@pytest.mark.parametrize(
    ("fives", "fours"), [((PCIE_8, 5), (PCIE_8, 4)), ((SWITCH, 5), (SWITCH, 4))], ids=["PCIe", "NVSwitch"]
)
def test_room_for_four_is_kept_whether_linked_or_not(fives: tuple[Layout, int], fours: tuple[Layout, int]) -> None:
    assert scored(fives, 1, (0, 0, 1, 0)) > scored(fours, 1, (0, 0, 1, 0))


@pytest.mark.parametrize("layout", [SWITCH, MESH, FOURS, BRIDGED, PCIE_8])
@pytest.mark.parametrize("count", [1, 2])
def test_a_machine_untouched_is_the_last_resort_however_it_is_linked(layout: Layout, count: int) -> None:
    assert scored((layout, 8), count, EVEN) < 30 < scored((layout, 3), count, EVEN)


def test_an_island_untouched_is_not_broken_on_a_machine_in_use() -> None:
    free = 0b11111100  # two left of the first four
    beside, apart = (score_leftover(FOURS, free, mask, EVEN) for mask in (0b100, 0b10000))
    assert beside > 60
    assert apart < 30


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("layout", [SWITCH, MESH, FOURS, BRIDGED, PCIE_8])
def test_scores_stay_within_bounds(layout: Layout, count: int) -> None:
    for number in range(count, 9):
        for mix in (EVEN, SMALL, LARGE):
            assert 0 <= scored((layout, number), count, mix) <= 100


def test_the_mix_of_what_pods_ask_for() -> None:
    assert dict(zip(SIZES, mix_of([1, 1, 2, 3, 4, 5, 8, 16, 0]), strict=True)) == {1: 2, 2: 1, 4: 2, 8: 3}
