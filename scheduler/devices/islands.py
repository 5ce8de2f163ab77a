"""How many sets of GPUs that work as one are free on a machine, and what a choice destroys of them.

A set works as one when a ring of direct joins goes through all of it, as collectives need: a star around one GPU does
not, nor do two pairs. One GPU always does, two when they are joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from kubenexus.scheduler.devices.links import Layout, bits

SIZES: Final = (1, 2, 4, 8)
"""the sizes of sets that jobs ask for, and that are worth keeping whole"""

Islands = tuple[int, ...]
"""how many sets of each of `SIZES`, at most and without overlap, work as one"""
Mix = tuple[int, ...]
"""how much is asked for each of `SIZES`"""

EXACT: Final = 100
TOUCHED: Final = 90
"""at best where others are already; above it only a machine that becomes full"""
UNTOUCHED: Final = 29
"""at best where nobody is yet"""
MOST_LEFT: Final = 15
"""so many points at most for GPUs that stay free: of two places that lose as little the fuller one is better"""
MOST_LOST: Final = 45


class Destroyed(NamedTuple):
    """The islands before and after a choice."""

    before: Islands
    after: Islands


def destroyed(layout: Layout, free: int, mask: int) -> Destroyed:
    """What taking `mask` of the `free` GPUs does to the islands."""
    return Destroyed(islands(layout, free), islands(layout, free & ~mask))


@lru_cache(maxsize=1 << 16)
def islands(layout: Layout, free: int) -> Islands:
    """The islands among the free GPUs."""
    alike = layout.symmetry.canonical(free & layout.everything)
    if alike != free:
        return islands(layout, alike)
    return tuple(sum(_most(layout, room, size) for room in layout.components(free)) for size in SIZES)


def kept(layout: Layout, free: int) -> int:
    """What the islands among the free GPUs are worth, in GPUs; one that nobody has touched counts once more."""
    untouched = sum(island.bit_count() for island in layout.islands if not island & ~free)
    return untouched + sum(size * count for size, count in zip(SIZES, islands(layout, free), strict=True))


def joined(layout: Layout, mask: int) -> bool:
    """Whether these GPUs work as one."""
    return _complete(layout, mask) or _closes(layout, mask & -mask, mask & -mask, mask)


def mix_of(sizes: Iterable[int]) -> Mix:
    """The mix of pods that ask for so many GPUs; what is none of `SIZES` counts for the next, what is larger for 8."""
    asked = [next((size for size in SIZES if size >= count), SIZES[-1]) for count in sizes if count > 0]
    return tuple(asked.count(size) for size in SIZES)


@lru_cache(maxsize=1 << 16)
def score_leftover(layout: Layout, free: int, mask: int, mix: Mix) -> int:
    """How little taking `mask` of the `free` GPUs harms what the mix asks for next, from 0 to 100.

    A machine that becomes full is best. Then come places where others are already, those that destroy less before
    others, of equal ones the fuller; last a machine or an island that nobody has touched and that would be broken.
    """
    free &= layout.everything
    rest = free & ~mask
    if not rest:
        return EXACT
    lost = _lost(layout, free, mask, mix)
    if any(not whole & ~free and whole & mask and whole & rest for whole in (layout.everything, *layout.islands)):
        return max(0, UNTOUCHED - round(UNTOUCHED * lost))
    return TOUCHED - round(MOST_LOST * lost) - min(MOST_LEFT, rest.bit_count())


def _lost(layout: Layout, free: int, mask: int, mix: Mix) -> float:
    """What is lost beyond what so many GPUs must cost, from 0 to 1: each of them might break another set of each size.

    Room for a size counts half where it is not joined.
    """
    count = mask.bit_count()
    before, after = destroyed(layout, free, mask)
    excess = most = 0
    for size, weight, had, has in zip(SIZES, mix, before, after, strict=True):
        rooms = free.bit_count() // size - (free & ~mask).bit_count() // size
        due = count // size
        excess += weight * size * max(0, had - has + rooms - 2 * due)
        most += weight * size * 2 * (count - due)
    return excess / most if most else 0.0


def _complete(layout: Layout, mask: int) -> bool:
    return all(not mask & ~(layout.joins[gpu] | 1 << gpu) for gpu in bits(mask))


@lru_cache(maxsize=1 << 16)
def _closes(layout: Layout, start: int, at: int, left: int) -> bool:
    """Whether a path from `at` through all that is left ends beside the start."""
    left &= ~at
    near = layout.joins[at.bit_length() - 1]
    if not left:
        return bool(near & start)
    return any(_closes(layout, start, 1 << peer, left) for peer in bits(near & left))


@lru_cache(maxsize=1 << 16)
def _most(layout: Layout, free: int, size: int) -> int:
    """The most sets of that size without overlap that work as one."""
    bound = free.bit_count() // size
    if not bound or size == 1 or _complete(layout, free):
        return bound
    low, best = free & -free, 0
    for group in layout.sets(free, size, low):
        if joined(layout, group):
            best = max(best, 1 + _most(layout, free & ~group, size))
            if best == bound:
                return best
    if best and layout.is_various(free):  # too many to look at each
        return best
    return max(best, _most(layout, free ^ low, size))
