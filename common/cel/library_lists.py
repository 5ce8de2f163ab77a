"""Functions on lists: those of Kubernetes, of the lists and sets extensions, and of optional values."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key, reduce
from itertools import pairwise
from typing import Any, Final

from kubenexus.common.cel.errors import CelRuntimeError
from kubenexus.common.cel.library_operators import add, compare
from kubenexus.common.cel.overloads import Overload, no_overload, overload
from kubenexus.common.cel.values import MAX_LIST, NOTHING, Maybe, Uint, equal, type_name

_Items = tuple[Any, ...]
_COMPARABLE: Final = ("int", "uint", "double", "bool", "string", "bytes")
# The most values that an attribute can have.
_MAX_VALUES: Final = 48
_ZEROS: Final = {"int": 0, "uint": Uint(0), "double": 0.0}


def _is_sorted(items: _Items) -> bool:
    return all(compare(one, other) <= 0 for one, other in pairwise(items))


def _sum(zero: Any) -> Callable[[_Items], Any]:
    """The sum of numbers of one kind, however little the expression tells about them."""

    def total(items: _Items) -> Any:
        if not all(type_name(one) in _ZEROS for one in items):
            raise no_overload("sum", items[:1])
        return reduce(add, items) if items else zero

    return total


def _most(sign: int) -> Callable[[_Items], Any]:
    """The largest item, or with -1 the smallest; of equal ones the first."""

    def most(items: _Items) -> Any:
        if not items:
            raise CelRuntimeError(f"{'max' if sign > 0 else 'min'} called on empty list")
        return reduce(lambda best, one: one if compare(one, best) == sign else best, items)

    return most


def _index_of(items: _Items, wanted: object) -> int:
    return next((index for index, one in enumerate(items) if equal(one, wanted)), -1)


def _last_index_of(items: _Items, wanted: object) -> int:
    return next((index for index in reversed(range(len(items))) if equal(items[index], wanted)), -1)


def _slice(items: _Items, start: int, end: int) -> _Items:
    if not 0 <= start <= end <= len(items):
        raise CelRuntimeError(f"cannot slice({start}, {end}) a list of {len(items)}")
    return items[start:end]


def _flatten(items: _Items, depth: int = 1) -> _Items:
    if depth < 0:
        raise CelRuntimeError("level must be non-negative")
    for _ in range(min(depth, 100)):
        if not any(isinstance(one, tuple) for one in items):
            break
        items = _flatter(items)
    return items


def _flatter(items: _Items) -> _Items:
    flat: list[Any] = []
    for one in items:
        flat.extend(one if isinstance(one, tuple) else (one,))
        if len(flat) > MAX_LIST:
            raise CelRuntimeError(f"the result would be longer than {MAX_LIST}")
    return tuple(flat)


def _range(end: int) -> _Items:
    if end > MAX_LIST:
        raise CelRuntimeError(f"the result would be longer than {MAX_LIST}")
    return tuple(range(max(end, 0)))


def _distinct(items: _Items) -> _Items:
    found: list[Any] = []
    for one in items:
        if not any(equal(one, other) for other in found):
            found.append(one)
    return tuple(found)


def _includes(target: object, wanted: object) -> bool:
    """Whether a value is another one, or a list that has it; for attributes that may be either."""
    if not isinstance(target, tuple):
        return equal(target, wanted)
    if len(target) > _MAX_VALUES:
        raise CelRuntimeError(f"'includes' function cannot be applied to lists longer than {_MAX_VALUES} values")
    return any(equal(one, wanted) for one in target)


def _holds(items: _Items, wanted: _Items) -> bool:
    return all(any(equal(one, other) for other in items) for one in wanted)


def _by_type() -> tuple[Overload, ...]:
    overloads: list[Overload] = []
    for kind in _COMPARABLE:
        overloads += (
            overload(f".isSorted(list({kind})) bool", _is_sorted),
            overload(f".min(list({kind})) {kind}", _most(-1)),
            overload(f".max(list({kind})) {kind}", _most(1)),
            overload(f".sort(list({kind})) list({kind})", lambda items: tuple(sorted(items, key=cmp_to_key(compare)))),
        )
    overloads += (overload(f".sum(list({kind})) {kind}", _sum(zero)) for kind, zero in _ZEROS.items())
    return tuple(overloads)


OVERLOADS: Final = (
    *_by_type(),
    overload(".indexOf(list(A), A) int", _index_of),
    overload(".lastIndexOf(list(A), A) int", _last_index_of),
    overload(".slice(list(A), int, int) list(A)", _slice),
    overload(".flatten(list(list(A))) list(A)", _flatten),
    overload(".flatten(list(dyn), int) list(dyn)", _flatten),
    overload(".distinct(list(A)) list(A)", _distinct),
    overload(".reverse(list(A)) list(A)", lambda items: items[::-1]),
    overload("lists.range(int) list(int)", _range),
    overload(".first(list(A)) optional_type(A)", lambda items: Maybe(items[:1]) if items else NOTHING),
    overload(".last(list(A)) optional_type(A)", lambda items: Maybe(items[-1:]) if items else NOTHING),
    overload(".includes(dyn, dyn) bool", _includes),
    overload("sets.contains(list(A), list(A)) bool", _holds),
    overload("sets.equivalent(list(A), list(A)) bool", lambda a, b: _holds(a, b) and _holds(b, a)),
    overload("sets.intersects(list(A), list(A)) bool", lambda a, b: any(_holds(a, (one,)) for one in b)),
)
