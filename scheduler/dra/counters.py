"""Counters that the devices of a pool share: partitions of one GPU, for instance, draw on its memory."""

from __future__ import annotations

from fractions import Fraction

from kubenexus.scheduler.dra.in_use import InUse
from kubenexus.scheduler.dra.inventory import Reachable
from kubenexus.scheduler.dra.pools import CounterId, Device, PoolId, flat

_Left = dict[CounterId, Fraction]


class Counters:
    """What is left of the counters of each pool while devices are chosen."""

    def __init__(self, reachable: Reachable, in_use: InUse) -> None:
        self._reachable = reachable
        self._in_use = in_use
        self._left: dict[PoolId, _Left | None] = {}

    def has(self, device: Device) -> bool:
        """Whether all that a device needs is left. In a pool that is overdrawn nothing is."""
        left = self._of(device.pool)
        return left is not None and all(left[counter] >= amount for counter, amount in device.drawn)

    def take(self, device: Device, times: int = 1) -> None:
        """A device draws what it needs; with -1 it gives that back."""
        left = self._of(device.pool)
        assert left is not None, "nothing is taken from a pool that is overdrawn"
        for counter, amount in device.drawn:
            left[counter] -= times * amount

    def _of(self, pool: PoolId) -> _Left | None:
        if pool not in self._left:
            self._left[pool] = self._count(pool)
        return self._left[pool]

    def _count(self, pool: PoolId) -> _Left | None:
        """What devices in use leave, wherever they are used; None if that is less than nothing."""
        found = self._reachable.pool(pool)
        left = dict(flat(found.counters))
        for device in found.consumers:
            if device.id in self._in_use.taken:
                for counter, amount in device.drawn:
                    left[counter] -= amount
        return left if min(left.values(), default=Fraction(0)) >= 0 else None
