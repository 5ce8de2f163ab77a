"""Counters that the devices of a pool share: partitions of one GPU, for instance, draw on its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from kubenexus.common.objects.reading import Amounts
from kubenexus.scheduler.dra.in_use import InUse
from kubenexus.scheduler.dra.inventory import Reachable
from kubenexus.scheduler.dra.pools import Device, PoolId

_Left = dict[tuple[str, str], Fraction]


class Counters:
    """What is left of the counters of each pool while devices are chosen."""

    def __init__(self, reachable: Reachable, in_use: InUse) -> None:
        self._reachable = reachable
        self._in_use = in_use
        self._left: dict[PoolId, _Left] = {}

    def has(self, device: Device) -> bool:
        """Whether all that a device needs is left. In a pool that is overdrawn nothing is."""
        left = self._of(device.pool)
        return min(left.values()) >= 0 and all(left[key] >= amount for key, amount in _flat(device.view.counters))

    def take(self, device: Device) -> None:
        left = self._of(device.pool)
        for key, amount in _flat(device.view.counters):
            left[key] -= amount

    def give_back(self, device: Device) -> None:
        left = self._of(device.pool)
        for key, amount in _flat(device.view.counters):
            left[key] += amount

    def _of(self, pool: PoolId) -> _Left:
        known = self._left.get(pool)
        if known is None:
            known = self._left[pool] = self._count(pool)
        return known

    def _count(self, pool: PoolId) -> _Left:
        """What devices in use leave, wherever they are used. It may be negative: then nothing is."""
        found = self._reachable.pool(pool)
        left = dict(_flat(found.counters))
        for device in found.consumers:
            if device.id in self._in_use.taken:
                for key, amount in _flat(device.view.counters):
                    left[key] -= amount
        return left


def _flat(sets: Mapping[str, Amounts]) -> Iterator[tuple[tuple[str, str], Fraction]]:
    return (((name, counter), amount) for name, counters in sets.items() for counter, amount in counters.items())
