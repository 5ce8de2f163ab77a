"""Which GPUs of a machine may change places without changing any link, so that what is alike is computed once.

Found bottom-up: single GPUs that may be exchanged (twins) make blocks, blocks that may be exchanged make larger blocks,
and so on, as switches, NUMA nodes and boards do. Sixteen GPUs make 65,536 sets, but on the machines that are built only
a few hundred differ in more than names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import NamedTuple

Link = Callable[[int, int], object]
"""what joins two GPUs, the same in both directions"""


class Alike(NamedTuple):
    """Blocks of which any two may be exchanged: one set of GPUs, moved up by each of some shifts."""

    shape: int
    """bit 0 is set"""
    shifts: tuple[int, ...]

    @property
    def mask(self) -> int:
        """All GPUs of all blocks."""
        return sum(self.shape << shift for shift in self.shifts)


class Symmetry(NamedTuple):
    twins: tuple[Alike, ...]
    """all single GPUs, by whom they may be exchanged with"""
    blocks: tuple[Alike, ...]
    """all that may be exchanged, twins too, the smallest first"""

    def canonical(self, mask: int) -> int:
        """The one set that stands for all that differ from it only by exchanges."""
        for shape, shifts in self.blocks:
            parts = [mask >> shift & shape for shift in shifts]
            for shift, was, part in zip(shifts, parts, sorted(parts, reverse=True), strict=True):
                mask ^= (was ^ part) << shift
        return mask

    def variety(self, free: int) -> int:
        """How many sets of the free GPUs, of any size, differ in more than twins."""
        return prod((twins.mask & free).bit_count() + 1 for twins in self.twins)

    def subsets(self, free: int, count: int, must: int = 0) -> Iterator[int]:
        """The sets of that size with all of `must`; of those that differ only in twins the one of lowest indices."""
        open_ = free & ~must
        classes = [[1 << gpu for gpu in twins.shifts if open_ & 1 << gpu] for twins in self.twins if twins.mask & open_]
        return _picked(classes, count - must.bit_count(), must)


def symmetry_of(gpus: Sequence[int], link: Link) -> Symmetry:
    """What may be exchanged on a machine with these GPUs, in ascending order."""
    twins = level = _grouped([1 << gpu for gpu in gpus], gpus, link)
    blocks = list(twins)
    while any(len(alike.shifts) > 1 for alike in level):
        level = _grouped([alike.mask for alike in level], gpus, link)
        blocks += level
    return Symmetry(tuple(twins), tuple(alike for alike in blocks if len(alike.shifts) > 1))


def _grouped(blocks: Sequence[int], gpus: Sequence[int], link: Link) -> list[Alike]:
    groups: list[Alike] = []
    for block in blocks:
        shift = (block & -block).bit_length() - 1
        for place, (shape, shifts) in enumerate(groups):
            if block >> shift == shape and _exchangeable(shape, (shifts[0], shift), gpus, link):
                groups[place] = Alike(shape, (*shifts, shift))
                break
        else:
            groups.append(Alike(block >> shift, (shift,)))
    return groups


def _exchangeable(shape: int, shifts: tuple[int, int], gpus: Sequence[int], link: Link) -> bool:
    """Whether every link is as before when the two blocks have changed places."""
    one, other = ([gpu for gpu in gpus if shape << shift & 1 << gpu] for shift in shifts)
    moved = dict(zip(one + other, other + one, strict=True))
    return all(
        link(gpu, peer) == link(moved[gpu], moved.get(peer, peer)) for gpu in moved for peer in gpus if peer != gpu
    )


def _picked(classes: list[list[int]], count: int, taken: int) -> Iterator[int]:
    """`taken` and as many more, the first ones of each class, as make `count`."""
    if not count:
        yield taken
    elif classes:
        first, rest = classes[0], classes[1:]
        room = sum(map(len, rest))
        for bit in (0, *first):
            taken |= bit
            count -= bit > 0
            if count < 0:
                return
            if count <= room:
                yield from _picked(rest, count, taken)
