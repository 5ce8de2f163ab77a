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

    def add(self, option: Option, device: Device) -> bool:
        """Take a device in if the constraint allows it. A device without the attribute is never allowed."""
        if not option.is_meant(self._constraint.requests):
            return True
        value = device.view.attributes.get(self._name)
        if value is None or not self._allows(typed := (type(value), value)):
            return False
        self._values.append(typed)
        return True

    def remove(self, option: Option) -> None:
        """The device that was taken in last for this request goes."""
        if option.is_meant(self._constraint.requests):
            self._values.pop()

    @property
    def state(self) -> Hashable:
        """Equal when it allows the same devices."""
        return frozenset(self._values)

    def _allows(self, value: tuple[type, Any]) -> bool:
        if self._constraint.same:
            return not self._values or self._values[-1] == value
        return value not in self._values
