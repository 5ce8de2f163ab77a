"""What a call costs when it is made, in the units of the API server: one simple step each, about a microsecond here.

As there, except where our own work is larger: whatever has to go through a list or a map to the bottom, and regular
expressions. Charged before the call, so finding a cost must not take longer than what is left allows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import ceil
from typing import Any, Final

from kubenexus.common.cel.errors import BudgetError
from kubenexus.common.cel.library_text import pattern
from kubenexus.common.cel.values import Maybe, size

# Per character of a text that is read once, and of a pattern.
TEXT: Final = 0.1
PATTERN: Final = 0.25
LIST: Final = 10
MAP: Final = 30
# So many parts of what is written out, such as the literals of a list, are one step more.
PARTS: Final = 8
# An error that a term which decides makes up for.
FAILURE: Final = 5
# A pattern that is not written out.
COMPILING: Final = 2000
# So much can be weighed in one step.
_WEIGHING: Final = 4

# The cost by the arguments, and how much they weigh.
_Cost = Callable[[tuple[Any, ...], list[int]], int]


def cost_of(function: str, args: tuple[Any, ...], left: int) -> int:
    """The cost of one call; raises `BudgetError` if it takes more than what is left just to find that out."""
    if function in _WEIGHED:
        weights = [_weight(arg, left * _WEIGHING) for arg in args]
        return max(_WEIGHED[function](args, weights), sum(weights) // _WEIGHING)
    found = _COSTS.get(function)
    return 1 if found is None else max(1, found(args))


def cost_of_known(function: str, args: tuple[Any, ...]) -> int:
    """The cost of looking for a pattern where each step was made before."""
    text = ceil(size(args[0]) * TEXT)
    return text if function == "matches" else text * (1 + size(args[0]))


def _weight(value: Any, most: int) -> int:
    """How many parts a value has. One that is there many times counts each time, as who goes through it does."""
    weight, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        parts = _parts(one)
        weight += 1 + (len(parts) or int(size(one) * TEXT))
        if weight > most:
            raise BudgetError
        waiting += parts
    return weight


def _parts(value: Any) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    if type(value) is Maybe:
        return value.held
    return value if type(value) is tuple else ()


def _read(times: int) -> Callable[[tuple[Any, ...]], int]:
    return lambda args: ceil(size(args[0]) * times * TEXT)


def _contains(args: tuple[Any, ...]) -> int:
    return ceil(size(args[0]) * TEXT) * ceil(size(args[1]) * TEXT)


def _added(args: tuple[Any, ...]) -> int:
    return ceil((size(args[0]) + size(args[1])) * TEXT)


def _compared(args: tuple[Any, ...]) -> int:
    return ceil(min(map(size, args)) * TEXT)


def _joined(args: tuple[Any, ...]) -> int:
    separator = size(args[1]) if len(args) > 1 else 0
    return ceil((sum(map(size, args[0])) + size(args[0]) * (1 + separator)) * 2 * TEXT)


def _replaced(args: tuple[Any, ...]) -> int:
    text, old, new = map(size, args[:3])
    return ceil((text * 2 + text // max(old, 1) * new) * TEXT)


def _matched(args: tuple[Any, ...]) -> int:
    return pattern(args[1]).cost * (1 + size(args[0]))


def _found(args: tuple[Any, ...]) -> int:
    """A match is looked for from each character on."""
    return (1 + size(args[0])) * max(pattern(args[1]).cost, ceil(size(args[0]) * TEXT))


def _sorted(args: tuple[Any, ...]) -> int:
    return size(args[0]) * size(args[0]).bit_length()


def _listed(args: tuple[Any, ...]) -> int:
    return 1 + max(0, int(args[0]))


_COSTS: Final[dict[str, Callable[[tuple[Any, ...]], int]]] = {
    **dict.fromkeys(("startsWith", "endsWith", "quantity", "isQuantity", "semver", "isSemver"), _read(1)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim", "bytes", "string"), _read(1)),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _compared),
    **dict.fromkeys(("find", "findAll"), _found),
    "contains": _contains,
    "matches": _matched,
    "replace": _replaced,
    "split": _read(2),
    "sort": _sorted,
    "_+_": _added,
    "join": _joined,
    "lists.range": _listed,
}


def _gone_through(_args: tuple[Any, ...], weights: list[int]) -> int:
    return weights[0]


def _equal(_args: tuple[Any, ...], weights: list[int]) -> int:
    return min(weights)


def _searched(wanted: int, within: int) -> _Cost:
    """Each item is compared; a map just has its keys."""

    def cost(args: tuple[Any, ...], weights: list[int]) -> int:
        return 1 if isinstance(args[within], dict) else size(args[within]) * weights[wanted]

    return cost


def _crossed(args: tuple[Any, ...], weights: list[int]) -> int:
    return max(size(args[0]) * weights[-1], size(args[-1]) * weights[0]) // 2


_WEIGHED: Final[dict[str, _Cost]] = {
    **dict.fromkeys(("_==_", "_!=_"), _equal),
    **dict.fromkeys(("isSorted", "sum", "min", "max", "slice", "flatten", "reverse"), _gone_through),
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects", "distinct"), _crossed),
    **dict.fromkeys(("indexOf", "lastIndexOf"), _searched(1, 0)),
    "includes": _searched(1, 0),
    "@in": _searched(0, 1),
    "format": lambda _, weights: sum(weights),
}
