"""What scheduling needs to know of a machine: its NUMA nodes, what pods may use of each, its GPUs and their links.

Machines that are alike are one object, so that what was found out for one holds for all. A NUMA node without CPUs is no
place for pods and is left out. Sets of NUMA nodes are bit masks over their positions in `Machine.zones`, sets of GPUs
are bit masks over their indices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from kubenexus.common.topology import NodeTopology, NumaNode
from kubenexus.common.wire import UNTOLD, KubeletSettings
from kubenexus.common.wire.kubelet import CLOSEST, FULL_CORES, CpuPolicy, MemoryPolicy, TopologyPolicy, TopologyScope
from kubenexus.scheduler.devices.links import Layout, layout_of, mask_of
from kubenexus.scheduler.devices.models import model_memory

CPU, MEMORY, HUGEPAGES_2MI, HUGEPAGES_1GI = "cpu", "memory", "hugepages-2Mi", "hugepages-1Gi"
RESOURCES: Final = (CPU, MEMORY, HUGEPAGES_2MI, HUGEPAGES_1GI)
"""what belongs to a NUMA node and comes in amounts; amounts are tuples in this order, CPU in milli"""
_MI: Final = 1 << 20
_GRAIN: Final = 64 * _MI

# Sizes that cards are sold as, in GiB. What the driver reports is less: it keeps some, and so does ECC memory.
_SMALL: Final = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48)
_LARGE: Final = (64, 72, 80, 94, 96, 128, 141, 144, 180, 186, 192, 256, 288)
_CLASSES: Final = tuple(size << 30 for size in (*_SMALL, *_LARGE))
_LEAST_OF_CLASS: Final = 0.92

Amounts = tuple[int, ...]
NOTHING: Final[Amounts] = (0,) * len(RESOURCES)


class Whole(NamedTuple):
    """How many a NUMA node has, those included that pods cannot get: reserved CPUs, lost GPUs."""

    cpus: int = 0
    gpus: int = 0


class Kubelet(NamedTuple):
    """A kubelet that refuses pods which it cannot give what they ask for as it is told to."""

    policy: TopologyPolicy
    strict: bool
    """it refuses what it cannot align"""
    by_container: bool
    """it looks at each container by itself"""
    cpus: bool
    """Guaranteed pods get whole CPUs for themselves"""
    memory: bool
    """memory and huge pages of Guaranteed pods come from certain NUMA nodes"""
    closest: bool
    """of several sets of NUMA nodes it takes those that are close to each other"""
    threads: int
    """CPUs are given out in multiples of this"""


def kubelet_of(settings: KubeletSettings, threads_per_core: int | None) -> Kubelet | None:
    """The kubelet with these settings; None if it refuses nobody, or nobody knows.

    Of a strict one that does not say more, what is true of nearly all is taken to be true: the kubelet's default scope,
    CPUs of their own for Guaranteed pods, and memory that is not managed.
    """
    found = Kubelet(
        policy=settings.policy or TopologyPolicy.NONE,
        strict=settings.strict,
        by_container=settings.scope is not TopologyScope.POD,
        cpus=settings.cpu is not CpuPolicy.NONE,
        memory=settings.memory is MemoryPolicy.STATIC,
        closest=CLOSEST in settings.options,
        threads=threads_per_core or 1 if settings.cpu is CpuPolicy.STATIC and FULL_CORES in settings.options else 1,
    )
    return found if found.strict or found.threads > 1 else None


class Zone(NamedTuple):
    """A NUMA node with CPUs."""

    id: int
    room: Amounts
    """what pods may use of it"""
    gpus: int
    """those that can be given out whole"""
    cpus: tuple[int, ...]
    """empty where unknown"""
    bandwidth: int | None
    nics: int
    whole: Whole = Whole()


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """A kind of machine, as one that reserves as much for itself as this one does."""

    zones: tuple[Zone, ...]
    """by id; empty where nobody knows them"""
    unknown: frozenset[str]
    """the resources of which some NUMA node does not say how much it has"""
    distances: tuple[tuple[int | None, ...], ...]
    """between zones, by position"""
    layout: Layout
    gpus: int | None
    """how many there are, those included that cannot be given out whole; None where nobody knows"""
    vram: tuple[int | None, ...]
    """by index, as sold"""
    kubelet: Kubelet | None = None
    """None if it refuses nobody, or nobody knows"""

    @property
    def withheld(self) -> int:
        """The GPUs that cannot be given out whole."""
        return mask_of(range(len(self.vram))) & ~self.layout.everything

    def positions(self, ids: Collection[int]) -> tuple[int, ...]:
        """Where the NUMA nodes with these ids are among the zones; ids that it lacks are left out."""
        return tuple([place for place, zone in enumerate(self.zones) if zone.id in ids])

    def homes(self, gpus: int) -> int:
        """The zones (as a mask) that these GPUs belong to."""
        return sum([1 << place for place, zone in enumerate(self.zones) if zone.gpus & gpus])

    def seats(self, ids: Collection[int]) -> int:
        """The GPUs of the NUMA nodes with these ids."""
        return sum([zone.gpus for zone in self.zones if zone.id in ids])

    def ids(self, zones: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.zones[place].id for place in zones)


def machine_of(topology: NodeTopology, allocatable: Mapping[str, int], kubelet: KubeletSettings = UNTOLD) -> Machine:
    """The machine of a node with this topology that lets pods use so much, under a kubelet with these settings."""
    nodes, layout = topology.cpu_nodes, layout_of(topology)
    rooms, unknown = _rooms(nodes, allocatable, frozenset(kubelet.reserved))
    seats = {gpu.index: gpu.numa for gpu in topology.usable_gpus if gpu.index in layout.gpus}
    nics = [nic.numa for nic in topology.nics or ()]
    slots = [gpu.numa for gpu in topology.gpus or () if not gpu.mig]
    zones = tuple(
        Zone(
            id=node.id,
            room=room,
            gpus=mask_of(index for index, numa in seats.items() if numa == node.id or len(nodes) == 1),
            cpus=node.cpus or (),
            bandwidth=node.read_bandwidth,
            nics=nics.count(node.id),
            whole=Whole(node.cpu_count or 0, len(slots) if len(nodes) == 1 else slots.count(node.id)),
        )
        for node, room in zip(nodes, rooms, strict=True)
    )
    sizes = {gpu.index: nominal(gpu.memory or model_memory(gpu.product or "")) for gpu in topology.gpus or ()}
    vram = tuple(sizes.get(index) for index in range(max(sizes, default=-1) + 1))
    count, refusing = None if topology.gpus is None else len(sizes), kubelet_of(kubelet, topology.threads_per_core)
    return _machine(zones, unknown, _distances(topology), layout, count, vram, refusing)


_machine = lru_cache(maxsize=4096)(Machine)  # one object for machines that are alike
UNKNOWN: Final = _machine((), frozenset(), (), layout_of(NodeTopology()), None, ())
"""a machine that nobody knows anything about"""


def nominal(memory: int | None) -> int | None:
    """The size that a card is sold as: one of 80 GB reports 81559 MiB."""
    if memory is None:
        return None
    return next((size for size in _CLASSES if size * _LEAST_OF_CLASS <= memory <= size), memory)


@lru_cache(maxsize=4096)
def cards(machine: Machine, vram: int, largest: int | None = None) -> int:
    """The GPUs that can be given out whole and have so much memory each, and no more than the largest."""
    sizes = ((index, machine.vram[index] or 0) for index in machine.layout.gpus)
    return mask_of(index for index, size in sizes if size >= vram and (largest is None or size <= largest))


def _rooms(
    nodes: tuple[NumaNode, ...], allocatable: Mapping[str, int], reserved: frozenset[int]
) -> tuple[list[Amounts], frozenset[str]]:
    """What pods may use of each NUMA node, and the resources that are unknown of some."""
    pages = [(_times(node.hugepages_2mi, 2 * _MI), _times(node.hugepages_1gi, 1024 * _MI)) for node in nodes]
    columns: dict[str, list[int | None]] = {
        CPU: [_times(_unreserved(node, reserved), 1000) for node in nodes],
        MEMORY: [_without(node.memory, page) for node, page in zip(nodes, pages, strict=True)],
        HUGEPAGES_2MI: [small for small, _ in pages],
        HUGEPAGES_1GI: [large for _, large in pages],
    }
    for name in (HUGEPAGES_2MI, HUGEPAGES_1GI):
        columns[name] = _none_beside(columns[name], allocatable.get(name, 0))
    unknown = frozenset(name for name, column in columns.items() if None in column)
    known = {name: [amount or 0 for amount in column] for name, column in columns.items()}
    known[CPU] = _cut_lowest(known[CPU], allocatable.get(CPU))
    known[MEMORY] = _cut_evenly(known[MEMORY], allocatable.get(MEMORY))
    return list(zip(*known.values(), strict=True)), unknown


def _unreserved(node: NumaNode, reserved: frozenset[int]) -> int | None:
    """How many of its CPUs pods may get to themselves, as far as that is known by name."""
    return len(set(node.cpus) - reserved) if reserved and node.cpus else node.cpu_count


def _times(number: int | None, size: int) -> int | None:
    return None if number is None else number * size


def _none_beside(amounts: list[int | None], allocatable: int) -> list[int | None]:
    """NUMA nodes that do not say how much they have, have nothing if the others have all that there is."""
    said = sum(amount or 0 for amount in amounts)
    return [0 if amount is None and said >= allocatable else amount for amount in amounts]


def _without(memory: int | None, pages: tuple[int | None, int | None]) -> int | None:
    """Memory that was set aside for huge pages is no ordinary memory any more."""
    return None if memory is None else max(0, memory - sum(page or 0 for page in pages))


def _cut_lowest(amounts: list[int], allocatable: int | None) -> list[int]:
    """The kubelet keeps the lowest CPUs for the system, unless it names others."""
    kept = 0 if allocatable is None else max(0, sum(amounts) - allocatable)
    left = []
    for amount in amounts:
        left.append(max(0, amount - kept))
        kept = max(0, kept - amount)
    return left


def _cut_evenly(amounts: list[int], allocatable: int | None) -> list[int]:
    """What is kept of memory comes from everywhere. Rounded, because machines that are alike differ by some KiB."""
    total = sum(amounts)
    share = total if allocatable is None else min(total, allocatable)
    return [amount * share // total // _GRAIN * _GRAIN if total else 0 for amount in amounts]


def _distances(topology: NodeTopology) -> tuple[tuple[int | None, ...], ...]:
    """Of the NUMA nodes with CPUs to each other."""
    columns = [place for place, node in enumerate(topology.numa or ()) if not node.memory_only]
    return tuple(
        tuple(node.distances[column] if node.distances else None for column in columns) for node in topology.cpu_nodes
    )
