"""How large values can get, and what functions on texts and lists of such sizes cost at most.

Sizes are pairs of least and most; what is not known is huge. All numbers stop at the largest uint.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from kubenexus.common.cel.costs import LIST, PATTERN, TEXT
from kubenexus.common.cel.values import UINT_MAX


class Size(NamedTuple):
    """From `least` to `most` characters, bytes, items or entries."""

    least: int
    most: int

    def union(self, other: Size) -> Size:
        return Size(min(self.least, other.least), max(self.most, other.most))

    def plus(self, other: Size) -> Size:
        return Size(capped(self.least + other.least), capped(self.most + other.most))

    def times(self, other: Size) -> Size:
        return Size(capped(self.least * other.least), capped(self.most * other.most))


# The cost of a call, and the size of its result if it has one.
Estimate = tuple[int, Size | None]

UNKNOWN: Final = Size(0, UINT_MAX)
ONE: Final = Size(1, 1)


def capped(number: int) -> int:
    """The number, or the largest there is."""
    return min(number, UINT_MAX)


def scaled(number: int, factor: float) -> int:
    """The product, rounded up."""
    product = number * factor
    return UINT_MAX if product >= 2.0**64 else math.ceil(product)


def _read(sizes: list[Size]) -> Estimate:
    return scaled(sizes[0].most, TEXT), None


def _changed(sizes: list[Size]) -> Estimate:
    return scaled(sizes[0].most, TEXT), sizes[0]


def _compared(sizes: list[Size]) -> Estimate:
    return scaled(sizes[1].most, TEXT), None


def _contained(sizes: list[Size]) -> Estimate:
    return capped(scaled(sizes[0].most, TEXT) * scaled(sizes[1].most, TEXT)), None


def _matched(sizes: list[Size]) -> Estimate:
    return capped(scaled(capped(sizes[0].most + 1), TEXT) * scaled(sizes[1].most, PATTERN)), None


def _found(sizes: list[Size]) -> Estimate:
    return _matched(sizes)[0], Size(0, sizes[0].most)


def _split(sizes: list[Size]) -> Estimate:
    return scaled(sizes[0].most, 2 * TEXT), Size(0, sizes[0].most)


def _replaced(sizes: list[Size]) -> Estimate:
    """The longest result replaces the shortest parts by the longest texts, as often as they can occur."""
    text, old, new = sizes[:3]
    if old.least == 0:
        most = capped(capped(text.most + 1) * new.most + text.most)
    elif new.most <= old.least:
        most = text.most
    else:
        most = capped(-(-text.most // old.least) * new.most)
    return scaled(text.most, 2 * TEXT), Size(0, most)


def _joined(sizes: list[Size]) -> Estimate:
    """What the items of a list measure is not known."""
    items, separator = sizes[0], sizes[1] if len(sizes) > 1 else Size(0, 0)
    between = Size(max(items.least - 1, 0), max(items.most - 1, 0))
    result = items.times(UNKNOWN).plus(separator.times(between))
    return scaled(result.most, TEXT), result


def _listed(sizes: list[Size]) -> Estimate:
    return capped(sizes[0].most + LIST + 1), sizes[0]


def _distinct(sizes: list[Size]) -> Estimate:
    return capped(sizes[0].most * sizes[0].most + LIST + 1), sizes[0]


def _crossed(factor: int) -> Callable[[list[Size]], Estimate]:
    return lambda sizes: (capped(sizes[0].most * sizes[1].most * factor + 1), None)


# What the cost of a call is, from the sizes of its arguments.
FUNCTIONS: Final[dict[str, Callable[[list[Size]], Estimate]]] = {
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver", "format"), _read),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _changed),
    **dict.fromkeys(("startsWith", "endsWith"), _compared),
    **dict.fromkeys(("find", "findAll"), _found),
    **dict.fromkeys(("slice", "flatten", "reverse", "sort"), _listed),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _crossed(1)),
    "sets.equivalent": _crossed(2),
    "includes": lambda _: (48, None),  # as many values as an attribute can have
    "distinct": _distinct,
    "contains": _contained,
    "matches": _matched,
    "replace": _replaced,
    "split": _split,
    "join": _joined,
}
