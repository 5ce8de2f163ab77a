"""Which NUMA nodes a kubelet would give to a pod, and whether it would refuse it. Pure.

Its managers of CPUs, devices and memory each name the sets of NUMA nodes that have what they must give. They prefer
the smallest size that would do on an empty machine, all CPUs and devices counted that the machine has. The policies
`restricted` and `single-numa-node` take a pod only if all of them prefer the same set; of several such sets the lowest
is taken, or the closest. It looks at the pod as a whole or at one container after another, by its scope.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from kubenexus.common.wire.kubelet import TopologyPolicy
from kubenexus.scheduler.devices.ask import Ask, Part
from kubenexus.scheduler.devices.links import mask_of
from kubenexus.scheduler.devices.machine import NOTHING, RESOURCES, Kubelet, Machine
from kubenexus.scheduler.devices.occupancy import occupy
from kubenexus.scheduler.devices.pins import Pins
from kubenexus.scheduler.devices.score import Zones, distance
from kubenexus.scheduler.devices.sets import sets

CPUS, GPUS, MEMORY = range(3)
"""what is given out; after memory come huge pages, as in `RESOURCES`"""
_KINDS: Final = len(RESOURCES) + 1


class Need(NamedTuple):
    """So much of one kind, what each zone of the empty machine has of it, and which manager gives it."""

    kind: int
    amount: int
    whole: tuple[int, ...]
    manager: int


def foresee(machine: Machine, pins: Pins, ask: Ask) -> Zones | None:
    """The zones that the kubelet will choose for a pod; none if it will refuse it.

    None if it does not care, because it gives the pod nothing that comes from a zone.
    """
    kubelet = machine.kubelet
    if kubelet is None or not machine.zones:
        return None
    if splits_cores(kubelet, ask):
        return ()
    if not kubelet.strict:
        return None
    desk = _Desk(machine, kubelet, pins)
    parts = ask.parts if kubelet.by_container and ask.parts else (ask.whole,)
    return desk.one_by_one(parts)


@lru_cache(maxsize=1 << 12)
def refused_when_empty(machine: Machine, ask: Ask, *, whole_gpus: bool) -> bool:
    """Whether the kubelet would refuse the pod on the empty machine, too."""
    empty = occupy(machine, (), NOTHING, whole_gpus=whole_gpus).pins
    return empty is not None and foresee(machine, empty, ask) == ()


def splits_cores(kubelet: Kubelet, ask: Ask) -> bool:
    """Whether a container asks for a part of a core from a kubelet that gives whole ones only."""
    return any(part.cpus % kubelet.threads for part in ask.parts or (ask.whole,))


def needs_of(machine: Machine, pins: Pins, part: Part) -> list[Need]:
    """What a kubelet would give from certain zones. What nobody knows of the machine is left aside."""
    kubelet, found = machine.kubelet, list[Need]()
    if kubelet is None:
        return found
    if part.cpus and kubelet.cpus and RESOURCES[0] not in machine.unknown:
        found.append(Need(CPUS, part.cpus, tuple(zone.whole.cpus for zone in machine.zones), CPUS))
    seats = tuple(zone.whole.gpus for zone in machine.zones)
    if part.gpus and pins.gpus is not None and any(seats):
        found.append(Need(GPUS, part.gpus, seats, GPUS))
    for place, amount in enumerate(part.memory if kubelet.memory else (), start=1):
        if amount and RESOURCES[place] not in machine.unknown:
            rooms = tuple(zone.room[place] for zone in machine.zones)
            found.append(Need(MEMORY + place - 1, amount, rooms, MEMORY))
    return found


def sizes_of(machine: Machine, needs: Iterable[Need]) -> dict[int, int | None]:
    """By manager: how many zones of the empty machine it takes; None if all are too few."""
    by_manager: dict[int, list[Need]] = {}
    for need in needs:
        by_manager.setdefault(need.manager, []).append(need)
    return {manager: _least(machine, some) for manager, some in by_manager.items()}


def _least(machine: Machine, needs: list[Need]) -> int | None:
    everywhere = tuple(range(len(machine.zones)))
    for size in range(1, len(everywhere) + 1):
        for zones in sets(machine, everywhere, size):
            if all(sum([need.whole[place] for place in zones]) >= need.amount for need in needs):
                return size
    return None


class _Desk:
    """A kubelet at work on one pod: what it has left, and what init containers leave to those that come after them."""

    def __init__(self, machine: Machine, kubelet: Kubelet, pins: Pins) -> None:
        self._machine = machine
        self._kubelet = kubelet
        self._pins = pins
        gpus = [(zone.gpus & (pins.gpus or 0)).bit_count() for zone in machine.zones]
        cpus, *memory = ([row[kind] for row in pins.left] for kind in range(len(RESOURCES)))
        self._left = [cpus, gpus, *memory]
        self._spare = [[0] * len(gpus) for _ in range(_KINDS)]
        self._groups = set(pins.groups)

    def one_by_one(self, parts: Iterable[Part]) -> Zones | None:
        """All that the containers get, one after another; empty if one of them gets nothing."""
        together: set[int] | None = None
        for part in parts:
            zones = self._choose(part)
            if zones is None:
                continue
            if not zones:
                return ()
            self._take(part, zones)
            together = (together or set()).union(zones)
        return None if together is None else tuple(sorted(together))

    def _choose(self, part: Part) -> Zones | None:
        """The best set that all managers prefer; empty if there is none, None if no manager has anything to give."""
        needs = needs_of(self._machine, self._pins, part)
        if not needs:
            return None
        sizes = set(sizes_of(self._machine, needs).values())
        size = sizes.pop()
        if sizes or size is None or (self._kubelet.policy is TopologyPolicy.SINGLE_NUMA_NODE and size > 1):
            return ()
        everywhere = tuple(range(len(self._machine.zones)))
        able = (zones for zones in sets(self._machine, everywhere, size) if self._has(zones, needs))
        return min(able, key=self._rank, default=())

    def _has(self, zones: Zones, needs: list[Need]) -> bool:
        for kind, amount, _, manager in needs:
            left, spare = self._left[kind], self._spare[kind]
            if manager != MEMORY and sum(spare) > sum([spare[place] for place in zones]):
                return False  # CPUs and devices that an init container had are to be used again
            if sum([left[place] + spare[place] for place in zones]) < amount:
                return False
            if manager == MEMORY and any(group & mask_of(zones) for group in self._groups - {mask_of(zones)}):
                return False
        return True

    def _rank(self, zones: Zones) -> tuple[float, int]:
        far = (distance(self._machine, zones) or 0) if self._kubelet.closest else 0
        return far, mask_of(zones)

    def _take(self, part: Part, zones: Zones) -> None:
        for kind, amount, _, manager in needs_of(self._machine, self._pins, part):
            left, spare = self._left[kind], self._spare[kind]
            if manager == MEMORY:
                self._groups.add(mask_of(zones))
            again = _fill(amount, spare, zones)
            fresh = _fill(amount - sum(again), left, zones)
            for place, number in enumerate(zones):
                left[number] -= fresh[place]
                spare[number] += fresh[place] if part.passing else -again[place]


def _fill(amount: int, room: list[int], zones: Zones) -> list[int]:
    """How much of an amount each zone has, the first of them first."""
    found = []
    for place in zones:
        found.append(min(amount, room[place]))
        amount -= found[-1]
    return found
