"""What an expression sees of a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubenexus.common.cel.errors import CelRuntimeError
from kubenexus.common.cel.values import Quantity, Semver, read_semver
from kubenexus.common.objects.devices import Attribute, DeviceView, Version

_EMPTY: Final[dict[Any, Any]] = {}


class _Domains(dict[Any, Any]):
    """Attributes or capacities by domain. A domain that nobody uses is an empty map, though it is not `in` here."""

    __slots__ = ()

    def __missing__(self, domain: object) -> dict[Any, Any]:
        return _EMPTY


@dataclass(frozen=True, slots=True)
class Facts:
    """The `device` of an expression. With `problem` a device that cannot be looked at, so that no selector decides."""

    driver: str
    attributes: dict[Any, Any]
    capacity: dict[Any, Any]
    shareable: bool
    problem: str | None = None

    @classmethod
    def of(cls, driver: str, view: DeviceView) -> Facts:
        """The facts of one device; worth keeping as long as the view, since the maps are built here."""
        capacity = {name: Quantity.of(one.value) for name, one in view.capacity.items()}
        try:
            attributes = {name: _value(name, one) for name, one in view.attributes.items()}
        except CelRuntimeError as error:
            return cls(driver, _Domains(), _nested(driver, capacity), view.shareable, str(error))
        return cls(driver, _nested(driver, attributes), _nested(driver, capacity), view.shareable)

    @property
    def fields(self) -> dict[str, Any]:
        """As a map, for expressions that do not know what they have: `dyn(device)`, `device.?driver`."""
        return {
            "driver": self.driver,
            "attributes": self.attributes,
            "capacity": self.capacity,
            "allowMultipleAllocations": self.shareable,
        }


def _value(name: str, attribute: Attribute) -> str | int | bool | Semver:
    if not isinstance(attribute, Version):
        return attribute
    try:
        return read_semver(str(attribute))
    except CelRuntimeError as error:
        raise CelRuntimeError(f"attribute {name}: {error}") from None


def _nested(driver: str, values: Mapping[str, object]) -> _Domains:
    nested = _Domains()
    for name, value in values.items():
        domain, slash, short = name.partition("/")
        if not slash:
            domain, short = driver, name
        nested.setdefault(domain, {})[short] = value
    return nested
