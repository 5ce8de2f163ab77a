"""How much of each NUMA node is taken, and which GPUs are free: a function of a machine and the pods on it.

The order of events makes no difference, because residents are always counted in the same order. Those whose place is
known come first. Exclusive CPUs and GPUs of the others are put where the kubelet would most likely take them: the first
NUMA node with room, the lowest free GPUs. What pods share is spread over the NUMA nodes in proportion to their size, as
far as there is room.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import NamedTuple

from kubenexus.scheduler.devices.links import bits, mask_of
from kubenexus.scheduler.devices.machine import NOTHING, Amounts, Machine
from kubenexus.scheduler.devices.pins import PinBooks, Pins
from kubenexus.scheduler.devices.residents import Resident


class Occupancy(NamedTuple):
    """What is taken of a machine. Zones by their position, GPUs by their index."""

    free: tuple[Amounts, ...]
    """what is left of each zone"""
    unheld: tuple[Amounts, ...]
    """what would be left if nothing were shared"""
    shared: Amounts
    """what pods use in no zone in particular"""
    held: int
    """zones where pods have something to themselves"""
    closed: int
    """zones that belong to an isolated pod"""
    gpus: int | None
    """the GPUs that can be given out; None if nobody can tell, or if they are not given out whole"""
    pins: Pins | None = None
    """the kubelet's own account, if it may refuse pods"""


def occupy(machine: Machine, residents: Iterable[Resident], shared: Amounts, *, whole_gpus: bool) -> Occupancy:
    """Count the residents of a machine, and what all other pods share."""
    books = _Books(machine, shared)
    for one in sorted(residents):
        books.add(one)
    return books.close(whole_gpus=whole_gpus)


class _Books:
    def __init__(self, machine: Machine, shared: Amounts) -> None:
        self._machine = machine
        self._left = [list(zone.room) for zone in machine.zones]
        self._shared = list(shared)
        self._gpus = machine.layout.everything
        self._held = self._closed = 0
        self._pins = PinBooks(machine) if machine.kubelet else None

    def add(self, one: Resident) -> None:
        """Count one resident, after all that come before it in their order."""
        gpus = self._take_gpus(one) if one.gpus else 0
        if self._pins:
            self._pins.add(one, gpus)
        places = self._machine.positions(one.numa)
        if places:
            self._hold(one, places)
        elif one.exclusive and self._left:
            self._estimate(one)
        else:
            self._share(one.amounts)

    def _take_gpus(self, one: Resident) -> int:
        """Those that it is known to have and nobody before it; for any that are missing the lowest that are free.

        First those of its NUMA nodes. None in place of what was lost or cut up since: it keeps what is left to it.
        """
        mine = one.mask & self._gpus
        missing = one.gpus - (mine | one.mask & self._machine.withheld).bit_count()
        left, near = self._gpus & ~mine, self._machine.seats(one.numa)
        mine |= mask_of(islice(chain(bits(left & near), bits(left & ~near)), missing))
        self._gpus &= ~mine
        self._held |= self._machine.homes(mine)
        return mine

    def _hold(self, one: Resident, places: tuple[int, ...]) -> None:
        """In the zones where it is known to be, filled in their order; its CPUs where these are."""
        wanted = list(one.amounts)
        for cpu_zone, zone in enumerate(self._machine.zones) if one.cpus else ():
            here = 1000 * len(set(one.cpus).intersection(zone.cpus))
            self._left[cpu_zone][0] -= here
            wanted[0] = max(0, wanted[0] - here)
            self._held |= bool(here) << cpu_zone
        for resource, amount in enumerate(wanted):
            if amount:
                self._fill(resource, amount, places)
        for place in places:
            self._held |= 1 << place
            if one.isolated:
                self._close(place)

    def _fill(self, resource: int, amount: int, places: tuple[int, ...]) -> None:
        for place in places[:-1]:
            here = min(amount, max(0, self._left[place][resource]))
            self._left[place][resource] -= here
            amount -= here
        self._left[places[-1]][resource] -= amount  # beyond what there is, if it must be

    def _close(self, place: int) -> None:
        """Nobody else may have anything there."""
        self._closed |= 1 << place
        self._left[place] = list(NOTHING)
        self._gpus &= ~self._machine.zones[place].gpus

    def _estimate(self, one: Resident) -> None:
        """Exclusive CPUs in the first zone with room, else from the first on; all else is as good as shared.

        What an isolated pod most likely has is closed to others, like what it surely has.
        """
        cpus, zones = 1000 * one.exclusive, tuple(range(len(self._left)))
        room = next((place for place in zones if self._left[place][0] >= cpus), None)
        places = zones if room is None else (room,)
        before = [left[0] for left in self._left]
        self._fill(0, cpus, places)
        for place in [place for place, left in enumerate(self._left) if left[0] < before[place]]:
            self._held |= 1 << place
            if one.isolated:
                self._close(place)
        self._share((max(0, one.amounts[0] - cpus), *one.amounts[1:]))

    def _share(self, amounts: Amounts) -> None:
        self._shared = [one + more for one, more in zip(self._shared, amounts, strict=True)]

    def close(self, *, whole_gpus: bool) -> Occupancy:
        unheld = tuple(tuple([max(0, amount) for amount in left]) for left in self._left)
        sizes = [zone.room for zone in self._machine.zones]
        columns = [
            _spread(amount, [size[resource] for size in sizes], [left[resource] for left in unheld])
            for resource, amount in enumerate(self._shared)
        ]
        free = tuple(zip(*columns, strict=True)) if unheld else ()
        gpus = self._gpus if whole_gpus else None
        pins = self._pins.close(whole_gpus=whole_gpus) if self._pins else None
        return Occupancy(free, unheld, tuple(self._shared), self._held, self._closed, gpus, pins)


def _spread(amount: int, sizes: list[int], left: list[int]) -> list[int]:
    """What is left of each zone when an amount is taken from all, in proportion to their sizes while they have it."""
    left = list(left)
    while amount > 0 and (able := [place for place, room in enumerate(left) if room > 0]):
        total = sum(sizes[place] for place in able) or 1
        before = amount
        for place in able:
            here = min(before * sizes[place] // total, left[place], amount)
            left[place] -= here
            amount -= here
        if amount == before or amount < len(able):  # less than a unit for each
            for place in able:
                here = min(amount, left[place])
                left[place] -= here
                amount -= here
    return left
