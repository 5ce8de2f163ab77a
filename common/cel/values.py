"""The values of expressions, as Python objects.

bool, int, float, str, bytes and None are themselves; lists are tuples; maps are dicts whose keys went through `key`.
The rest has a class here. Integers never leave their 64 bits: who computes one asks `int64` or `uint64`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, Final

from kubenexus.common.cel.errors import CelRuntimeError
from kubenexus.common.quantity import QuantityError, parse

INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)
UINT_MAX: Final = 2**64 - 1
# Longer texts and lists are not built: one step may not cost more than an evaluation should.
MAX_TEXT: Final = 1_000_000
MAX_LIST: Final = 100_000

NANO: Final = 10**9


class Uint(int):
    """An unsigned 64 bit number."""

    __slots__ = ()


class _Flag(Enum):
    """Booleans as keys of maps; in Python True and 1 would be one key."""

    FALSE = 0
    TRUE = 1


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount, in billionths."""

    nanos: int

    @classmethod
    def of(cls, amount: Fraction) -> Quantity:
        """What is finer than a billionth cannot come from Kubernetes, and is cut off."""
        return cls(int(amount * NANO))

    @classmethod
    def read(cls, text: str) -> Quantity:
        try:
            return cls.of(parse(text))
        except QuantityError as error:
            raise CelRuntimeError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version; what is built from the same source (`+…`) is equal."""

    numbers: tuple[int, int, int]
    # Each part is (0, number, "") or (1, 0, text): numbers come before texts.
    stage: tuple[tuple[int, int, str], ...]

    @property
    def rank(self) -> tuple[Any, ...]:
        """What versions are ordered by; one without a pre-release stage comes after those that have one."""
        return (self.numbers, not self.stage, self.stage)


_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_STAGE: Final = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_STAGE}(?:\.{_STAGE})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def read_semver(text: str) -> Semver:
    """The version that is written, strictly by semver.org."""
    match = _SEMVER.fullmatch(text) if len(text) <= 1000 else None
    if match is None or any(int(number) > UINT_MAX for number in match.group(1, 2, 3)):
        raise CelRuntimeError(f"{_shown(text)} is not a semantic version such as 1.2.3")
    major, minor, patch = (int(number) for number in match.group(1, 2, 3))
    stage = (match[4] or "").split(".") if match[4] else []
    return Semver(
        (major, minor, patch), tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in stage)
    )


def read_loose_semver(text: str) -> Semver:
    """The version that is meant: with a `v`, short (`1.2`) or with leading zeros."""
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and set(parts[-1]) & set("+-"):
        raise CelRuntimeError(f"{_shown(text)} is short, so it cannot have a pre-release or build part")
    return read_semver(".".join([*parts, "0", "0"][:3] if len(parts) < 3 else parts))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1] and stripped[0] in "0123456789" else "0" + stripped


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


@dataclass(frozen=True, slots=True)
class Maybe:
    """An optional: a value in a tuple, or nothing."""

    held: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeOf:
    """The type of a value, as `type(x)` gives it."""

    name: str


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that is kept as the value of a variable, until somebody reads it."""

    error: CelRuntimeError


NOTHING: Final = Maybe()
_HOLDING: Final = (tuple, dict, Maybe)

_TYPES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    tuple: "list",
    TypeOf: "type",
    Maybe: "optional_type",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
}


def type_name(value: object) -> str:
    """The name of the value's type."""
    found = _TYPES.get(type(value))
    if found:
        return found
    return "map" if isinstance(value, dict) else "kubernetes.DRADevice"


def int64(number: int) -> int:
    """The number, if it is an int."""
    if INT_MIN <= number <= INT_MAX:
        return number
    raise CelRuntimeError("integer overflow")


def uint64(number: int) -> Uint:
    """The number, if it is a uint."""
    if 0 <= number <= UINT_MAX:
        return Uint(number)
    raise CelRuntimeError("unsigned integer overflow")


def key(value: object) -> object:
    """What stands for a value as the key of a map. Numbers of one amount are one key, whatever their type."""
    kind = type(value)
    if kind is str or kind is int:
        return value
    if kind is bool:
        return _Flag(value)
    if kind is Uint:
        return int(value)  # type: ignore[call-overload]
    if kind is float:
        assert isinstance(value, float)
        return int(value) if value.is_integer() else value
    raise CelRuntimeError(f"unsupported key type: {type_name(value)}")


def keys(values: Mapping[Any, object]) -> tuple[object, ...]:
    """The keys of a map, as values."""
    return tuple(bool(one.value) if isinstance(one, _Flag) else one for one in values)


def equal(left: object, right: object) -> bool:
    """Equality across types: numbers by amount, lists and maps by content, else only within one type."""
    kind, other = type(left), type(right)
    if kind is other and kind not in _HOLDING:
        return left == right
    if isinstance(left, tuple) and isinstance(right, tuple):
        return _same_items(left, right)
    if isinstance(left, Maybe) and isinstance(right, Maybe):
        return _same_items(left.held, right.held)
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(one in right and equal(left[one], right[one]) for one in left)
    if kind is bool or other is bool:
        return False
    return isinstance(left, int | float) and isinstance(right, int | float) and left == right


def _same_items(left: tuple[object, ...], right: tuple[object, ...]) -> bool:
    return len(left) == len(right) and all(map(equal, left, right))


def size(value: Any) -> int:
    """Length of what has one, else 1: what costs are counted by."""
    kind = type(value)
    if kind is str or kind is bytes or kind is tuple or isinstance(value, dict):
        return len(value)
    return size(value.held[0]) if kind is Maybe and value.held else 1
