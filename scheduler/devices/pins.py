"""What a kubelet has left to give: its own account, which knows nothing of what pods share.

It counts exclusive CPUs and devices, and memory of Guaranteed pods if it manages memory. Kept only for machines whose
kubelet may refuse pods.
"""

from __future__ import annotations

from typing import NamedTuple

from kubenexus.scheduler.devices.links import mask_of
from kubenexus.scheduler.devices.machine import Amounts, Machine
from kubenexus.scheduler.devices.residents import Resident


class Pins(NamedTuple):
    """Zones by their position, GPUs by their index."""

    left: tuple[Amounts, ...]
    """of each zone, by `RESOURCES`, but CPUs as a number"""
    gpus: int | None
    """None if nobody can tell"""
    groups: frozenset[int]
    """the sets of zones that memory was given from; a set that shares zones with another one gets none"""


class PinBooks:
    """Counts residents in the order in which they come."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._left = [[zone.room[0] // 1000, *zone.room[1:]] for zone in machine.zones]
        self._gpus = machine.layout.everything
        self._groups: set[int] = set()

    def add(self, one: Resident, gpus: int) -> None:
        """One resident, who has these GPUs."""
        kubelet = self._machine.kubelet
        places = self._machine.positions(one.numa)
        self._gpus &= ~gpus
        if kubelet is None or not self._left:
            return
        if kubelet.cpus and one.exclusive:
            places = self._take_cpus(one, places)
        if kubelet.memory and one.guaranteed and one.amounts[1]:
            self._take_memory(one, places)

    def _take_cpus(self, one: Resident, places: Amounts) -> Amounts:
        """Those that it is known to have, or else some of its zones; these are the answer."""
        if one.cpus:
            found = [len(set(one.cpus).intersection(zone.cpus)) for zone in self._machine.zones]
            for place, number in enumerate(found):
                self._left[place][0] -= number
            return places or tuple(place for place, number in enumerate(found) if number)
        places = places or self._guess(0, one.exclusive)
        self._fill(0, one.exclusive, places)
        return places

    def _take_memory(self, one: Resident, places: Amounts) -> None:
        places = places or self._guess(1, one.amounts[1])
        for resource, amount in enumerate(one.amounts[1:], start=1):
            self._fill(resource, amount, places)
        self._groups.add(mask_of(places))

    def _guess(self, resource: int, amount: int) -> Amounts:
        """The first zone with room, or else all."""
        able = (place for place, left in enumerate(self._left) if left[resource] >= amount)
        first = next(able, None)
        return tuple(range(len(self._left))) if first is None else (first,)

    def _fill(self, resource: int, amount: int, places: Amounts) -> None:
        for place in places:
            here = min(amount, max(0, self._left[place][resource]))
            self._left[place][resource] -= here
            amount -= here

    def close(self, *, whole_gpus: bool) -> Pins:
        left = tuple(tuple([max(0, amount) for amount in row]) for row in self._left)
        return Pins(left, self._gpus if whole_gpus else None, frozenset(self._groups))
