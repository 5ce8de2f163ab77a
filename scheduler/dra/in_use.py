"""Which devices are taken, by the claims that have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from kubenexus.common.objects import AllocatedDevice
from kubenexus.common.objects.reading import Amounts
from kubenexus.scheduler.dra.pools import DeviceId

Held = tuple[AllocatedDevice, ...]

_NOTHING: Final[Mapping[str, Fraction]] = MappingProxyType({})


class InUse:
    """The devices of every claim that has some, whether that is written already or only decided.

    To undo what `hold` did, hold what it returned. Access for administrators takes nothing away from others.
    """

    def __init__(self) -> None:
        self.taken: dict[DeviceId, int] = {}
        """the devices that claims have, or have shares of, and how many claims; only to be read"""
        self._shares: dict[DeviceId, int] = {}
        self._consumed: dict[DeviceId, Amounts] = {}
        self._held: dict[str, Held] = {}

    def hold(self, claim: str, devices: Iterable[AllocatedDevice]) -> Held:
        """From now on a claim (by any key that stays the same) has just these devices; returns what it had."""
        before, now = self._held.get(claim, ()), tuple(devices)
        if before == now:
            return before
        for one in before:
            self._count(one, -1)
        for one in now:
            self._count(one, 1)
        self._held.pop(claim, None)
        if now:
            self._held[claim] = now
        return before

    def held(self, claim: str) -> Held:
        """The devices that a claim has."""
        return self._held.get(claim, ())

    def whole(self, device: DeviceId) -> bool:
        """Whether a claim has the device for itself."""
        return self.taken.get(device, 0) > self._shares.get(device, 0)

    def shared(self, device: DeviceId) -> bool:
        """Whether claims have shares of the device."""
        return device in self._shares

    def consumed(self, device: DeviceId) -> Mapping[str, Fraction]:
        """How much of the device's capacities its shares have, by the names of its slice."""
        return self._consumed.get(device, _NOTHING)

    def _count(self, one: AllocatedDevice, sign: int) -> None:
        if one.admin:
            return
        device = DeviceId(one.driver, one.pool, one.device)
        _add(self.taken, device, sign)
        if one.share:
            _add(self._shares, device, sign)
            self._consume(device, one.consumed, sign)

    def _consume(self, device: DeviceId, amounts: Amounts, sign: int) -> None:
        total = self._consumed.setdefault(device, {})
        for name, amount in amounts.items():
            total[name] = total.get(name, Fraction(0)) + sign * amount
        if device not in self._shares:
            del self._consumed[device]


def _add(counts: dict[DeviceId, int], device: DeviceId, sign: int) -> None:
    """The same device may be given twice, when two schedulers do so: it is free once both claims are gone."""
    left = counts.get(device, 0) + sign
    if left:
        counts[device] = left
    else:
        del counts[device]
