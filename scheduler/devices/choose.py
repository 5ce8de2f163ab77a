"""Which GPUs of a machine a pod gets: those with the best links that leave the best sets to those that come after.

The machine is seen as a whole: its free GPUs are divided into groups of the size asked for, and one of what remains, so
that the links inside all groups together are worth most; the pod gets the best of the groups. (The best set alone might
leave GPUs without links to the next.) Of equal groups it gets the one that leaves most islands whole, then most links,
then the one nearest to network cards, then the one of lowest indices. It is never split across islands while one island
can hold it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from kubenexus.scheduler.devices.islands import kept
from kubenexus.scheduler.devices.links import Layout, bits, mask_of


class Choice(NamedTuple):
    """GPUs for a pod, and how good they are, from 0 to 100."""

    mask: int
    quality: int
    """the links inside, against the best set of that size when the machine is empty"""
    preserved: int
    """the links between those left free, against the most that any choice would have left"""


@lru_cache(maxsize=1 << 17)
def choose(layout: Layout, free: int, count: int, must: int = 0) -> Choice | None:
    """The best `count` of the `free` GPUs, all of `must` among them; None if there are not as many."""
    free &= layout.everything
    if must & ~free or not must.bit_count() <= count <= free.bit_count():
        return None
    if count == 0:
        return Choice(0, 100, 100)
    best = _best(layout, free, count, must)
    quality = _percent(worth(layout, best), _ideal(layout, count))
    return Choice(best, quality, _percent(worth(layout, free & ~best), _most_left(layout, free, count)))


def _best(layout: Layout, free: int, count: int, must: int) -> int:
    linked = _best_linked(layout, free, count, _options(layout, free, count, must))
    left = {mask: (kept(layout, free & ~mask), worth(layout, free & ~mask)) for mask in linked}
    most = max(left.values())
    found = (_near_nics(layout, mask, free, must) for mask in linked if left[mask] == most)
    return min(found, key=lambda mask: _last(layout, mask))


def _near_nics(layout: Layout, mask: int, free: int, must: int) -> int:
    """The same, with twins in place of some if these are nearer to network cards."""
    if not any(layout.nics):
        return mask
    found = mask & must
    for twins in layout.symmetry.twins:
        able = sorted(bits(twins.mask & free & ~must), key=lambda index: (-layout.nics[index], index))
        found |= mask_of(able[: (mask & twins.mask & ~must).bit_count()])
    return found


def _last(layout: Layout, mask: int) -> tuple[int, tuple[int, ...]]:
    """What tells sets apart that are as good as each other: network cards, then indices."""
    indices = tuple(bits(mask))
    return -sum([layout.nics[index] for index in indices]), indices


def _best_linked(layout: Layout, free: int, count: int, options: list[int]) -> list[int]:
    """The sets with the best links inside of those with which the whole machine has the best links."""
    most = (-1, -1)
    best: list[int] = []
    for mask in sorted(options, key=lambda mask: worth(layout, mask), reverse=True):
        inside, rest = worth(layout, mask), free & ~mask
        if inside + _bound(layout, rest, count) < most[0]:
            continue
        value = (inside + divided(layout, rest, count), inside)
        if value > most:
            most, best = value, []
        if value == most:
            best.append(mask)
    return best


def _options(layout: Layout, free: int, count: int, must: int) -> list[int]:
    """The sets to choose from: inside an island if one can hold them all."""
    rooms = [room for room in layout.components(free) if room.bit_count() >= count and not must & ~room]
    return [mask for room in rooms or [free] for mask in layout.sets(room, count, must)]


@lru_cache(maxsize=1 << 17)
def worth(layout: Layout, mask: int) -> int:
    """The worth of all links inside a set."""
    if not mask:
        return 0
    first, *others = bits(mask)
    row = layout.worths[first]
    return worth(layout, mask & (mask - 1)) + sum(row[other] for other in others)


@lru_cache(maxsize=1 << 17)
def divided(layout: Layout, free: int, size: int) -> int:
    """The most that the links inside groups of that size, and one of what remains, can be worth together.

    An estimate where there are too many divisions to look at each.
    """
    if size == 1 or free.bit_count() <= size:
        return worth(layout, free) if size > 1 else 0
    if layout.is_various(free):
        return _bound(layout, free, size)
    alike = layout.symmetry.canonical(free)
    if alike != free:
        return divided(layout, alike, size)
    over = free.bit_count() % size
    sizes = {size, over} if over else {size}
    groups = [group for members in sizes for group in layout.sets(free, members, free & -free)]
    best = -1
    for group in sorted(groups, key=lambda group: worth(layout, group), reverse=True):
        inside, rest = worth(layout, group), free & ~group
        if inside + _bound(layout, rest, size) > best:
            best = max(best, inside + divided(layout, rest, size))
    return best


@lru_cache(maxsize=1 << 16)
def _bound(layout: Layout, free: int, size: int) -> int:
    """What `divided` cannot exceed: every GPU in a group with those it is linked to best."""
    reach = _reach(layout, size)
    return sum(reach[gpu] for gpu in bits(free)) // 2


@lru_cache(maxsize=1 << 12)
def _reach(layout: Layout, size: int) -> tuple[int, ...]:
    return tuple(sum(sorted(row, reverse=True)[: size - 1]) for row in layout.worths)


@lru_cache(maxsize=1 << 12)
def _ideal(layout: Layout, count: int) -> int:
    return max(worth(layout, mask) for mask in layout.sets(layout.everything, count))


def _most_left(layout: Layout, free: int, count: int) -> int:
    return max(worth(layout, free & ~mask) for mask in layout.sets(free, count))


def _percent(part: int, whole: int) -> int:
    return 100 * part // whole if whole else 100
