"""What a call costs when it is made, in the units of the API server (about one simple step each).

As there, except where our own work is larger: regular expressions, and lists that are copied. Charged before the call.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, Final

from kubenexus.common.cel.errors import CelRuntimeError
from kubenexus.common.cel.library_text import pattern
from kubenexus.common.cel.values import size

# Per character of a text that is read once, and of a pattern.
TEXT: Final = 0.1
PATTERN: Final = 0.25
LIST: Final = 10
MAP: Final = 30

_Cost = Callable[[tuple[Any, ...]], int]


def cost_of(function: str, args: tuple[Any, ...]) -> int:
    """The cost of one call."""
    found = _COSTS.get(function)
    return 1 if found is None else found(args)


def _read(times: int) -> _Cost:
    return lambda args: ceil(size(args[0]) * times * TEXT)


def _weight(value: Any) -> int:
    """How much there is to compare in a value."""
    if type(value) is tuple:
        return 1 + sum(map(_weight, value))
    if isinstance(value, dict):
        return 1 + sum(1 + _weight(one) for one in value.values())
    return size(value)


def _compared(args: tuple[Any, ...]) -> int:
    return ceil(min(map(_weight, args)) * TEXT)


def _searched(wanted: int, within: int) -> _Cost:
    return lambda args: size(args[within]) * max(1, ceil(_weight(args[wanted]) * TEXT))


def _contains(args: tuple[Any, ...]) -> int:
    return ceil(size(args[0]) * TEXT) * ceil(size(args[1]) * TEXT)


def _added(args: tuple[Any, ...]) -> int:
    return max(1, ceil((size(args[0]) + size(args[1])) * TEXT))


def _joined(args: tuple[Any, ...]) -> int:
    separator = size(args[1]) if len(args) > 1 else 0
    return ceil((sum(map(size, args[0])) + size(args[0]) * separator) * 2 * TEXT)


def _matched(args: tuple[Any, ...]) -> int:
    return max(_pattern_cost(args), _program(args[1]) * size(args[0]))


def _found(args: tuple[Any, ...]) -> int:
    """A match is looked for from each character on."""
    return max(_pattern_cost(args), size(args[0]) * max(_program(args[1]), size(args[0]) // 4))


def _pattern_cost(args: tuple[Any, ...]) -> int:
    return ceil((1 + size(args[0])) * TEXT) * ceil(size(args[1]) * PATTERN)


def _program(text: str) -> int:
    try:
        return pattern(text).cost
    except CelRuntimeError:
        return 1  # the call will say what is wrong


def _crossed(args: tuple[Any, ...]) -> int:
    return 1 + _weight(args[0]) * _weight(args[-1])


def _walked(args: tuple[Any, ...]) -> int:
    return max(1, _weight(args[0]))


def _listed(args: tuple[Any, ...]) -> int:
    return 1 + max(0, int(args[0]))


_COSTS: Final[dict[str, _Cost]] = {
    **dict.fromkeys(("startsWith", "endsWith", "format", "quantity", "isQuantity", "semver", "isSemver"), _read(1)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim", "bytes", "string"), _read(1)),
    **dict.fromkeys(("replace", "split"), _read(2)),
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _compared),
    **dict.fromkeys(("isSorted", "sum", "min", "max", "sort", "slice", "flatten", "reverse"), _walked),
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects", "distinct"), _crossed),
    **dict.fromkeys(("indexOf", "lastIndexOf"), _searched(1, 0)),
    **dict.fromkeys(("find", "findAll"), _found),
    "@in": _searched(0, 1),
    "contains": _contains,
    "matches": _matched,
    "_+_": _added,
    "join": _joined,
    "lists.range": _listed,
}
