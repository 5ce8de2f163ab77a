"""The choice of GPUs against the same rules written plainly: every set, every division, every ring."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise, permutations
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from kubenexus.scheduler.devices.choose import choose, divided
from kubenexus.scheduler.devices.islands import SIZES, destroyed, islands, score_leftover
from kubenexus.scheduler.devices.links import Layout, layout_of, mask_of
from tests.gpu_layouts import Pair, linked
from tests.property.topologies import topologies

Gpus = frozenset[int]

# --- Random machines -------------------------------------------------------------------------------------------------


@st.composite
def scattered(draw: st.DrawFn) -> Layout:
    """Up to six GPUs, linked at random."""
    count = draw(st.integers(1, 6))
    pairs = list(combinations(range(count), 2))
    nvlinks = {pair: draw(st.sampled_from([0, 0, 1, 2])) for pair in pairs}
    paths = {pair: draw(st.sampled_from("INS?")) for pair in pairs}
    known = draw(st.sampled_from([True, True, False]))
    return linked(count, nvlinks if known else None, paths, draw(st.lists(st.sampled_from([0, 1, None]), min_size=6)))


@st.composite
def regular(draw: st.DrawFn) -> Layout:
    """Up to eight GPUs on switches and NUMA nodes of equal size, with islands of equal size, in some order."""
    count = draw(st.sampled_from([4, 6, 8]))
    order: list[int] = draw(st.sampled_from([list(range(count)), [*range(0, count, 2), *range(1, count, 2)]]))
    island, switch, node = (draw(st.sampled_from([1, 2, count // 2, count])) for _ in range(3))

    def together(pair: Pair, size: int) -> bool:
        return order[pair[0]] // size == order[pair[1]] // size

    pairs = list(combinations(range(count), 2))
    paths = {pair: "I" if together(pair, switch) else "N" if together(pair, node) else "S" for pair in pairs}
    return linked(count, {pair: 4 * together(pair, island) for pair in pairs}, paths, [n // node for n in order])


layouts = scattered() | regular()


class Question(NamedTuple):
    layout: Layout
    free: Gpus
    size: int
    must: Gpus


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """One that has an answer."""
    layout = draw(layouts)
    free = draw(st.frozensets(st.sampled_from(layout.gpus), min_size=1))
    count = draw(st.integers(1, len(free)))
    must = draw(st.frozensets(st.sampled_from(sorted(free)), max_size=count)) if draw(st.booleans()) else frozenset()
    return Question(layout, free, count, must)


# --- The rules, plainly ----------------------------------------------------------------------------------------------


def links(layout: Layout, gpus: Gpus) -> int:
    return sum(layout.weight(one, other) for one, other in combinations(gpus, 2))


def sets(gpus: Gpus, size: int) -> Iterator[Gpus]:
    return map(frozenset, combinations(sorted(gpus), size))


def best_division(layout: Layout, gpus: Gpus, size: int) -> int:
    """The links inside groups of a size, what remains being a group too."""
    over = len(gpus) % size
    if over:
        return max(links(layout, rest) + best_division(layout, gpus - rest, size) for rest in sets(gpus, over))
    if not gpus:
        return 0
    first = min(gpus)
    groups = [others | {first} for others in sets(gpus - {first}, size - 1)]
    return max(links(layout, group) + best_division(layout, gpus - group, size) for group in groups)


def is_joined(layout: Layout, one: int, other: int) -> bool:
    return bool(layout.joins[one] >> other & 1)


def has_ring(layout: Layout, gpus: Gpus) -> bool:
    first, *others = sorted(gpus)
    rings = ((first, *order, first) for order in permutations(others))
    return not others or any(all(is_joined(layout, *step) for step in pairwise(r)) for r in rings)


@cache
def most_islands(layout: Layout, gpus: Gpus, size: int) -> int:
    if len(gpus) < size:
        return 0
    first = min(gpus)
    groups = [group | {first} for group in sets(gpus - {first}, size - 1)]
    used = [1 + most_islands(layout, gpus - group, size) for group in groups if has_ring(layout, group)]
    return max(*used, most_islands(layout, gpus - {first}, size), 0)


def reachable(layout: Layout, gpus: Gpus, start: int) -> Gpus:
    found: Gpus = frozenset()
    edge = frozenset((start,))
    while edge:
        found |= edge
        edge = frozenset(other for one in edge for other in gpus - found if is_joined(layout, one, other))
    return found


def allowed(question: Question) -> list[Gpus]:
    """The sets that hold what they must, none of them across islands if one can hold them."""
    layout, free, count, must = question
    every = [gpus for gpus in sets(free, count) if must <= gpus]
    whole = [gpus for gpus in every if gpus <= reachable(layout, free, min(gpus))]
    return whole or every


def merit(question: Question, gpus: Gpus) -> tuple[int, ...]:
    layout, free, count, _ = question
    rest = free - gpus
    inside = links(layout, gpus)
    left = islands_left(layout, rest), links(layout, rest)
    return (inside + best_division(layout, rest, count), inside, *left, *(-gpu for gpu in sorted(gpus)))


def islands_left(layout: Layout, gpus: Gpus) -> int:
    everything = frozenset(layout.gpus)
    untouched = sum(1 for gpu in gpus if reachable(layout, everything, gpu) <= gpus)
    return untouched + sum(size * most_islands(layout, gpus, size) for size in SIZES)


# --- Properties ------------------------------------------------------------------------------------------------------


@given(question=questions())
@settings(max_examples=100, deadline=None)
def test_no_set_would_have_been_better(question: Question) -> None:
    layout, free, count, must = question
    found = choose(layout, mask_of(free), count, mask_of(must))
    assert found is not None
    expected = max(allowed(question), key=lambda gpus: merit(question, gpus))
    assert found.mask == mask_of(expected)
    most_inside = max(links(layout, gpus) for gpus in sets(frozenset(layout.gpus), count))
    most_left = max(links(layout, free - gpus) for gpus in sets(free, count))
    assert found.quality == (100 * links(layout, expected) // most_inside if most_inside else 100)
    assert found.preserved == (100 * links(layout, free - expected) // most_left if most_left else 100)


@given(question=questions())
@settings(max_examples=60, deadline=None)
def test_no_division_would_have_been_better(question: Question) -> None:
    layout, free, size, _ = question
    assert divided(layout, mask_of(free), size) == best_division(layout, free, size)


@given(question=questions())
@settings(max_examples=60, deadline=None)
def test_islands_are_the_most_that_there_are(question: Question) -> None:
    layout, free, *_ = question
    assert islands(layout, mask_of(free)) == tuple(most_islands(layout, free, size) for size in SIZES)


@given(layout=layouts | topologies().map(layout_of), data=st.data())
@settings(max_examples=60, deadline=None)
def test_nothing_is_given_out_twice(layout: Layout, data: st.DataObject) -> None:
    """Pods come and go on any machine; each gets as many GPUs as it asked for, or there were too few."""
    free = layout.everything
    running: list[int] = []
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()) and running:
            free |= running.pop(data.draw(st.integers(0, len(running) - 1)))
            continue
        count = data.draw(st.integers(1, 9))
        found = choose(layout, free, count)
        assert (found is None) == (free.bit_count() < count)
        if found is not None:
            assert (found.mask & ~free, found.mask.bit_count()) == (0, count)
            assert 0 <= min(found[1:]) <= max(found[1:]) <= 100
            free &= ~found.mask
            running.append(found.mask)


@given(question=questions(), mix=st.tuples(*[st.integers(0, 9)] * 4))
@settings(max_examples=60, deadline=None)
def test_scores_of_what_is_left(question: Question, mix: tuple[int, int, int, int]) -> None:
    """Always within bounds, and only a machine that becomes full gets all points; islands never grow."""
    layout, free, count, must = question
    found = choose(layout, mask_of(free), count, mask_of(must))
    assert found is not None
    before, after = destroyed(layout, mask_of(free), found.mask)
    assert all(had >= has for had, has in zip(before, after, strict=True))
    score = score_leftover(layout, mask_of(free), found.mask, mix)
    assert 0 <= score <= 100
    assert (score == 100) == (count == len(free))
