"""Operators: arithmetic within 64 bits, comparison, membership.

Those that may leave out operands are evaluated elsewhere; here they only have types.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from kubenexus.common.cel.errors import CelRuntimeError
from kubenexus.common.cel.facts import Facts
from kubenexus.common.cel.overloads import Overload, decided_elsewhere, no_overload, overload
from kubenexus.common.cel.syntax import INDEX, INSERT, MAYBE_INDEX, MAYBE_SELECT, NOT_FALSE, TERNARY
from kubenexus.common.cel.values import (
    MAX_LIST,
    MAX_TEXT,
    NOTHING,
    Maybe,
    Quantity,
    Semver,
    equal,
    int64,
    key,
    type_name,
    uint64,
)


def _joined(limit: int) -> Callable[[Any, Any], Any]:
    def join(left: Any, right: Any) -> Any:
        if len(left) + len(right) > limit:
            raise CelRuntimeError(f"the result would be longer than {limit}")
        return left + right

    return join


def _divided(left: int, right: int) -> int:
    """Rounded towards zero, unlike Python's."""
    if right == 0:
        raise CelRuntimeError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    """With the sign of the dividend, unlike Python's."""
    if right == 0:
        raise CelRuntimeError("modulus by zero")
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def _divided_float(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def add(left: Any, right: Any) -> Any:
    """The sum of two values of one type, whatever that is."""
    for one in _ADDITIONS:
        if one.takes((left, right)):
            return one.run(left, right)
    raise no_overload("_+_", (left, right))


_ADDITIONS: Final = (
    overload("_+_(int, int) int", lambda a, b: int64(a + b)),
    overload("_+_(uint, uint) uint", lambda a, b: uint64(int(a) + int(b))),
    overload("_+_(double, double) double", operator.add),
    overload("_+_(string, string) string", _joined(MAX_TEXT)),
    overload("_+_(bytes, bytes) bytes", _joined(MAX_TEXT)),
    overload("_+_(list(A), list(A)) list(A)", _joined(MAX_LIST)),
)

_ARITHMETIC: Final = (
    *_ADDITIONS,
    overload("_-_(int, int) int", lambda a, b: int64(a - b)),
    overload("_-_(uint, uint) uint", lambda a, b: uint64(int(a) - int(b))),
    overload("_-_(double, double) double", operator.sub),
    overload("_*_(int, int) int", lambda a, b: int64(a * b)),
    overload("_*_(uint, uint) uint", lambda a, b: uint64(int(a) * int(b))),
    overload("_*_(double, double) double", operator.mul),
    overload("_/_(int, int) int", lambda a, b: int64(_divided(a, b))),
    overload("_/_(uint, uint) uint", lambda a, b: uint64(_divided(int(a), int(b)))),
    overload("_/_(double, double) double", _divided_float),
    overload("_%_(int, int) int", _remainder),
    overload("_%_(uint, uint) uint", lambda a, b: uint64(_remainder(int(a), int(b)))),
    overload("-_(int) int", lambda a: int64(-a)),
    overload("-_(double) double", operator.neg),
    overload("!_(bool) bool", operator.not_),
)

_ORDERS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_NUMBERS: Final = ("int", "uint", "double")


def _comparisons() -> tuple[Overload, ...]:
    """Order within each type, and between numbers of any type."""
    pairs = [(kind, kind) for kind in ("bool", "string", "bytes")]
    pairs += [(left, right) for left in _NUMBERS for right in _NUMBERS]
    return tuple(
        overload(f"_{sign}_({left}, {right}) bool", _ordered(run) if "double" in (left, right) else run)
        for sign, run in _ORDERS.items()
        for left, right in pairs
    )


def _ordered(run: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Order among numbers; what is no number has none."""

    def order(left: float, right: float) -> bool:
        if left != left or right != right:
            raise CelRuntimeError("NaN values cannot be ordered")
        return run(left, right)

    return order


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1 for two values that have an order."""
    numbers = type_name(left) in _NUMBERS and type_name(right) in _NUMBERS
    if not numbers and (type(left) is not type(right) or type(left) not in (bool, str, bytes)):
        raise no_overload("compare", (left, right))
    return int(left > right) - int(left < right)


def item(values: tuple[object, ...], index: int) -> Any:
    """The item of a list."""
    if 0 <= index < len(values):
        return values[index]
    raise CelRuntimeError(f"index out of bounds: {index}")


def entry(values: dict[object, object], name: Any) -> Any:
    """The entry of a map."""
    try:
        return values[key(name)]
    except KeyError:
        raise CelRuntimeError(f"no such key: {name}") from None


def _maybe_item(values: Any, index: int) -> Maybe:
    return Maybe((values[index],)) if 0 <= index < len(values) else NOTHING


def maybe_entry(values: Any, name: Any) -> Maybe:
    """The entry of a map, or the field of a device, if it is one and has it."""
    if isinstance(values, Facts):
        values = values.fields
    if not isinstance(values, dict):
        return NOTHING
    try:
        return Maybe((values[key(name)],))
    except KeyError:
        return NOTHING


def _inside(held: Maybe, find: Callable[[Any, Any], Maybe]) -> Callable[[Any], Maybe]:
    return lambda name: find(held.held[0], name) if held.held else NOTHING


def _maybe_select(value: Any, field: str) -> Maybe:
    return _inside(value, maybe_entry)(field) if isinstance(value, Maybe) else maybe_entry(value, field)


def _insert(values: dict[object, object], name: object, value: object) -> dict[object, object]:
    return {**values, key(name): value}


def is_equal(left: object, right: object) -> bool:
    """The operator `==`: a quantity or version can be compared with its like only, though not with `!=` or `in`."""
    if type(left) in (Quantity, Semver) and type(right) is not type(left):
        raise no_overload("_==_", (left, right))
    return equal(left, right)


def _contains(one: object, values: tuple[object, ...]) -> bool:
    return any(equal(one, other) for other in values)


OVERLOADS: Final = (
    *_ARITHMETIC,
    *_comparisons(),
    overload("_==_(A, A) bool", is_equal),
    overload("_!=_(A, A) bool", lambda a, b: not equal(a, b)),
    overload("@in(A, list(A)) bool", _contains),
    overload("@in(A, map(A, B)) bool", lambda one, values: key(one) in values),
    overload(f"{INDEX}(list(A), int) A", item),
    overload(f"{INDEX}(map(A, B), A) B", entry),
    overload(f"{INDEX}(optional_type(list(A)), int) optional_type(A)", lambda a, b: _inside(a, _maybe_item)(b)),
    overload(f"{INDEX}(optional_type(map(A, B)), A) optional_type(B)", lambda a, b: _inside(a, maybe_entry)(b)),
    overload(f"{MAYBE_INDEX}(list(A), int) optional_type(A)", _maybe_item),
    overload(f"{MAYBE_INDEX}(map(A, B), A) optional_type(B)", maybe_entry),
    overload(f"{MAYBE_INDEX}(optional_type(list(A)), int) optional_type(A)", lambda a, b: _inside(a, _maybe_item)(b)),
    overload(f"{MAYBE_INDEX}(optional_type(map(A, B)), A) optional_type(B)", lambda a, b: _inside(a, maybe_entry)(b)),
    overload(f"{MAYBE_SELECT}(dyn, string) optional_type(dyn)", _maybe_select),
    overload(f"{INSERT}(map(A, B), A, B) map(A, B)", _insert),
    overload(f"{TERNARY}(bool, A, A) A", decided_elsewhere),
    overload(f"{NOT_FALSE}(bool) bool", decided_elsewhere),
)
