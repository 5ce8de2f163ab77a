"""Quantities and semantic versions, as Kubernetes adds them to CEL."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from kubenexus.common.cel.errors import CelRuntimeError
from kubenexus.common.cel.overloads import overload
from kubenexus.common.cel.values import (
    INT_MAX,
    INT_MIN,
    NANO,
    Quantity,
    Semver,
    int64,
    read_loose_semver,
    read_semver,
)

_Q: Final = "kubernetes.Quantity"
_S: Final = "kubernetes.Semver"


def _can(read: Callable[..., Any]) -> Callable[..., bool]:
    """Whether reading succeeds."""

    def can(*args: Any) -> bool:
        try:
            read(*args)
        except CelRuntimeError:
            return False
        return True

    return can


def _is_integer(quantity: Quantity) -> bool:
    return quantity.nanos % NANO == 0 and INT_MIN <= quantity.nanos // NANO <= INT_MAX


def _as_integer(quantity: Quantity) -> int:
    if not _is_integer(quantity):
        raise CelRuntimeError("cannot convert value to integer")
    return quantity.nanos // NANO


def _as_float(quantity: Quantity) -> float:
    try:
        return quantity.nanos / NANO
    except OverflowError:
        return math.inf if quantity.nanos > 0 else -math.inf


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _semver(text: str, loose: bool) -> Semver:
    return read_loose_semver(text) if loose else read_semver(text)


def _number(place: int) -> Callable[[Semver], int]:
    return lambda version: int64(version.numbers[place])


OVERLOADS: Final = (
    overload(f"quantity(string) {_Q}", Quantity.read),
    overload("isQuantity(string) bool", _can(Quantity.read)),
    overload(f"sign({_Q}) int", lambda a: _order(a.nanos, 0)),
    overload(f".isGreaterThan({_Q}, {_Q}) bool", lambda a, b: a.nanos > b.nanos),
    overload(f".isLessThan({_Q}, {_Q}) bool", lambda a, b: a.nanos < b.nanos),
    overload(f".compareTo({_Q}, {_Q}) int", lambda a, b: _order(a.nanos, b.nanos)),
    overload(f".asApproximateFloat({_Q}) double", _as_float),
    overload(f".asInteger({_Q}) int", _as_integer),
    overload(f".isInteger({_Q}) bool", _is_integer),
    overload(f".add({_Q}, {_Q}) {_Q}", lambda a, b: Quantity(a.nanos + b.nanos)),
    overload(f".add({_Q}, int) {_Q}", lambda a, b: Quantity(a.nanos + b * NANO)),
    overload(f".sub({_Q}, {_Q}) {_Q}", lambda a, b: Quantity(a.nanos - b.nanos)),
    overload(f".sub({_Q}, int) {_Q}", lambda a, b: Quantity(a.nanos - b * NANO)),
    overload(f"semver(string) {_S}", read_semver),
    overload(f"semver(string, bool) {_S}", _semver),
    overload("isSemver(string) bool", _can(read_semver)),
    overload("isSemver(string, bool) bool", _can(_semver)),
    overload(f".isGreaterThan({_S}, {_S}) bool", lambda a, b: a.rank > b.rank),
    overload(f".isLessThan({_S}, {_S}) bool", lambda a, b: a.rank < b.rank),
    overload(f".compareTo({_S}, {_S}) int", lambda a, b: _order(a.rank, b.rank)),
    overload(f".major({_S}) int", _number(0)),
    overload(f".minor({_S}) int", _number(1)),
    overload(f".patch({_S}) int", _number(2)),
)
