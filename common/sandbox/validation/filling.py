"""Putting defaults into JSON objects, in place."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kubenexus.common import quantity

Obj = dict[str, Any]
Template = Mapping[str, Any]


def fill(obj: Any, template: Any) -> None:
    """Put the template's values where the object has none."""
    if not isinstance(obj, dict) or not isinstance(template, Mapping):
        return
    for name, default in template.items():
        if isinstance(default, Mapping):
            fill(obj.get(name), default)
        elif isinstance(default, list):
            for item in items(obj, name):
                fill(item, default[0])
        elif obj.get(name) in (None, ""):
            obj[name] = default


def ensure(obj: Obj, *path: str) -> Obj:
    """The map at this path, made if there is none."""
    for name in path:
        if not isinstance(obj.get(name), dict):
            obj[name] = {}
        obj = obj[name]
    return obj


def decimal(amount: Fraction) -> str:
    """An amount as a canonical quantity, rounded up to milli."""
    return quantity.canonical(f"{-(-amount.numerator * 1000 // amount.denominator)}m")


def drop(obj: Any, *names: str) -> None:
    """Take these keys out of a map, if it is one."""
    for name in names if isinstance(obj, dict) else ():
        obj.pop(name, None)


def at(obj: Any, *path: str) -> Any:
    """What stands at this path; None where the way ends."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def items(obj: Any, *path: str) -> list[Obj]:
    """The maps in the list at this path; none where there is no such list."""
    found = at(obj, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
