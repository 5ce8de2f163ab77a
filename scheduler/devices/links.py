"""How good the links between the GPUs of one machine are: its `Layout`, the same object for machines that are alike.

Sets of GPUs are bit masks: bit i is the GPU with index i, the driver's. What cannot be given out whole is not in a
layout: GPUs that are lost, and those cut into MIG slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import combinations
from operator import or_
from typing import Final, NamedTuple

from kubenexus.common.topology import Gpu, NodeTopology, NvlinkKind, PairClass, links_between
from kubenexus.scheduler.devices.symmetry import Symmetry, symmetry_of

NVLINK: Final = 1000
"""the worth of one NVLink: more than any path through PCIe, where one class is worth more than all NUMA closeness"""
PCIE: Final = {PairClass.PIX: 500, PairClass.PXB: 400, PairClass.PHB: 300, PairClass.NODE: 200, PairClass.SYS: 100}
SAME_NUMA: Final = 9
FARTHEST: Final = 37
"""from this distance on no NUMA node is closer than any other (10 is local)"""
MOST_SETS: Final = 8192
"""with more sets of free GPUs that differ there are too many to look at each: 13 GPUs of which no two are alike"""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The GPUs that a kind of machine can give out, and the links between them. Equal ones are one object."""

    gpus: tuple[int, ...]
    """indices, ascending"""
    everything: int
    """the set of them all"""
    worths: tuple[tuple[int, ...], ...]
    """see `weight`"""
    joins: tuple[int, ...]
    """for each index the GPUs directly joined with it: by NVLink or, where nobody knows of NVLinks, in one NUMA node"""
    islands: tuple[int, ...]
    """GPUs that are joined, directly or through each other, by lowest index; one that nothing joins is alone"""
    symmetry: Symmetry
    """what may change places without changing a link"""
    nics: tuple[int, ...]
    """for each index how many classes of paths a network card is closer to it than to the GPU farthest from any"""

    def weight(self, one: int, other: int) -> int:
        """How good the link between two GPUs is: NVLinks count most, then the PCIe class, then NUMA."""
        return self.worths[one][other]

    def components(self, free: int) -> tuple[int, ...]:
        """What remains of the islands when only these GPUs are left: some may fall apart."""
        return _components(free, self.joins)

    def is_various(self, free: int) -> bool:
        """Whether there are too many sets of these GPUs to look at each."""
        return self.symmetry.variety(free) > MOST_SETS

    def sets(self, free: int, count: int, must: int = 0) -> Iterable[int]:
        """The sets of that size, with all of `must`, to choose from: all that differ in more than twins.

        On a machine that has no likeness to those that are built these would be too many: then one grown from each GPU.
        """
        if not self.is_various(free):
            return self.symmetry.subsets(free, count, must)
        starts = [must] if must else [1 << gpu for gpu in bits(free)]
        return {_grown(self, free, count, start) for start in starts}


class _Link(NamedTuple):
    worth: int
    joined: bool


class _Seat(NamedTuple):
    """What a layout depends on, of one GPU."""

    gpu: int
    numa: int | None
    peer_links: str | None
    peer_classes: str | None
    nic: int


_Distances = tuple[tuple[tuple[int, int], int | None], ...]
_NOTHING: Final = _Link(0, joined=False)
_CLASSES: Final = tuple(PairClass)
# NVLinks between any two GPUs, where only their kind is known: through switches to all, however many.
_EVERYWHERE: Final = {NvlinkKind.NVSWITCH: 1, NvlinkKind.NONE: 0}


def mask_of(indices: Iterable[int]) -> int:
    """The set of these GPUs."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


def bits(mask: int) -> Iterator[int]:
    """The GPUs of a set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def layout_of(topology: NodeTopology) -> Layout:
    """The layout of this machine; machines whose GPUs are linked alike share it."""
    whole = [gpu for gpu in topology.usable_gpus if not gpu.mig]
    far = {gpu.index: _nic_distance(topology, gpu) for gpu in whole}
    nics = {index: max(far.values()) - distance for index, distance in far.items()}
    seats = tuple(_Seat(gpu.index, gpu.numa, gpu.peer_links, gpu.peer_classes, nics[gpu.index]) for gpu in whole)
    homes = sorted({gpu.numa for gpu in whole if gpu.numa is not None})
    distances = tuple(((a, b), topology.distance(a, b)) for a in homes for b in homes if a < b)
    return _layout(seats, distances, _EVERYWHERE.get(topology.nvlink) if topology.nvlink else None)


def _nic_distance(topology: NodeTopology, gpu: Gpu) -> int:
    """The class of the path to the nearest network card, as a number."""
    nearest = next(iter(topology.nics_near(gpu.index)), None)
    if nearest is not None and nearest.gpu_classes is not None:
        return _CLASSES.index(PairClass(nearest.gpu_classes[gpu.index]))
    same = gpu.numa is not None and any(nic.numa == gpu.numa for nic in topology.nics or ())
    return _CLASSES.index(PairClass.NODE if same else PairClass.SYS)


@lru_cache(maxsize=1024)
def _layout(seats: tuple[_Seat, ...], distances: _Distances, links_else: int | None) -> Layout:
    gpus = [Gpu(index=s.gpu, numa=s.numa, peer_links=s.peer_links, peer_classes=s.peer_classes) for s in seats]
    topology, far = NodeTopology(gpus=tuple(gpus)), dict(distances)
    links = {frozenset((a.index, b.index)): _link(topology, far, a, b, links_else) for a, b in combinations(gpus, 2)}
    order = tuple(gpu.index for gpu in gpus)
    width = range(max(order, default=-1) + 1)
    table = [[links.get(frozenset((one, other)), _NOTHING) for other in width] for one in width]
    joins = tuple(mask_of(other for other in width if row[other].joined) for row in table)
    near = {seat.gpu: seat.nic for seat in seats}
    return Layout(
        gpus=order,
        everything=mask_of(order),
        worths=tuple(tuple(link.worth for link in row) for row in table),
        joins=joins,
        islands=_components(mask_of(order), joins),
        symmetry=symmetry_of(order, lambda one, other: table[one][other]),
        nics=tuple(near.get(index, 0) for index in width),
    )


def _link(
    topology: NodeTopology, far: dict[tuple[int, int], int | None], one: Gpu, other: Gpu, links_else: int | None
) -> _Link:
    """What joins two GPUs; `links_else` is how many NVLinks all pairs have of which nothing else is known."""
    nvlinks, path = links_between(one, other), topology.pair_class(one.index, other.index)
    nvlinks = links_else if nvlinks is None else nvlinks
    closeness = _closeness(one.numa, other.numa, far)
    path = path or (PairClass.NODE if closeness == SAME_NUMA else PairClass.SYS)
    joined = path is not PairClass.SYS if nvlinks is None else nvlinks > 0
    return _Link(NVLINK * (nvlinks or 0) + PCIE[path] + closeness, joined)


def _closeness(one: int | None, other: int | None, far: dict[tuple[int, int], int | None]) -> int:
    """From 0, far or unknown, to `SAME_NUMA`."""
    if one is None or other is None:
        return 0
    if one == other:
        return SAME_NUMA
    distance = far[min(one, other), max(one, other)]
    return 0 if distance is None else max(0, min(SAME_NUMA - 1, (FARTHEST - distance) // 3))


def _grown(layout: Layout, free: int, count: int, start: int) -> int:
    """From the start on always the GPU with the best links to those already in."""
    mask = start
    while mask.bit_count() < count:
        pull = {gpu: sum(layout.worths[gpu][member] for member in bits(mask)) for gpu in bits(free & ~mask)}
        mask |= 1 << max(pull, key=lambda gpu: (pull[gpu], -gpu))
    return mask


def _components(free: int, joins: tuple[int, ...]) -> tuple[int, ...]:
    left, found = free, []
    while left:
        island, edge = 0, left & -left
        while edge:
            island, left = island | edge, left & ~edge
            edge = reduce(or_, (joins[gpu] for gpu in bits(edge))) & left
        found.append(island)
    return tuple(found)
