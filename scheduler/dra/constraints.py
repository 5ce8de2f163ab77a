"""Constraints of a claim while devices for it are being chosen, one after the other."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kubenexus.common.objects import Constraint
from kubenexus.scheduler.dra.ask import Option
from kubenexus.scheduler.dra.pools import Device


class Tracker:
    """The values of one attribute that were chosen so far. Devices leave in the reverse order of coming."""

    __slots__ = ("_constraint", "_name", "_values")

    def __init__(self, constraint: Constraint) -> None:
        self._constraint = constraint
        self._name = constraint.same or constraint.distinct
        self._values: list[Any] = []

    def allows(self, option: Option, device: Device) -> bool:
        """Whether one more device is right. One without the attribute never is."""
        if not option.is_meant(self._constraint.requests):
            return True
        value = device.view.attributes.get(self._name)
        if value is None:
            return False
        if self._constraint.same:
            return not self._values or self._values[-1] == (type(value), value)
        return (type(value), value) not in self._values

    def add(self, option: Option, device: Device) -> None:
        """Take a device in that is right."""
        if option.is_meant(self._constraint.requests):
            value = device.view.attributes[self._name]
            self._values.append((type(value), value))

    def remove(self, option: Option) -> None:
        """The device that was taken in last for this request goes."""
        if option.is_meant(self._constraint.requests):
            self._values.pop()

    @property
    def state(self) -> Hashable:
        """Equal when it allows the same devices."""
        return frozenset(self._values)
