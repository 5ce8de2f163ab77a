"""Reading raw JSON without trusting it.

An API server's objects are well-formed; a manifest or the objects of a future version may not be. One rule for all
projections: an object that cannot be identified (not a mapping, no name) raises `ProjectionError`; whatever else is
malformed is written down as a problem, `field why`, and read as if it were absent. Views carry their problems, so that
a pod with a bad quantity waits with that sentence as the reason and hides nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from kubenexus.common import quantity
from kubenexus.common.objects.interning import NO_LABELS, Labels, intern_labels, known_labels, share

Obj = dict[str, Any]
Amounts = dict[str, Fraction]

DEFAULT_NAMESPACE: Final = "default"


class ProjectionError(ValueError):
    """An object that cannot be projected; the text names the object, the field and what is wrong with it."""


class Fields:
    """One JSON mapping being read: typed access by key; what has another type is a problem and reads as absent."""

    __slots__ = ("_key", "_parent", "problems", "raw")

    def __init__(self, raw: Obj, problems: list[str], parent: Fields | None = None, key: str = "") -> None:
        self.raw = raw
        self.problems = problems
        self._parent = parent
        self._key = key

    def path(self, key: str = "") -> str:
        """The dotted path of a key, from the object that was read first."""
        above = self._parent.path(self._key) if self._parent else self._key
        return f"{above}.{key}" if above and key else above or key

    def problem(self, key: str, why: str) -> None:
        self.problems.append(f"{self.path(key)} {why}")

    def text(self, key: str, default: str = "") -> str:
        value = self.raw.get(key)
        if type(value) is str:
            return value
        if value is not None:
            self.problem(key, "is not text")
        return default

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.raw.get(key)
        if type(value) is bool:
            return value
        if value is not None:
            self.problem(key, "is neither true nor false")
        return default

    def whole(self, key: str, default: int = 0) -> int:
        value = self.raw.get(key)
        if type(value) is int:
            return value
        if value is not None:
            self.problem(key, "is not a whole number")
        return default

    def time(self, key: str) -> float | None:
        """A timestamp in seconds since 1970."""
        value = self.raw.get(key)
        if value is None:
            return None
        seconds = _seconds(value) if type(value) is str else None
        if seconds is None:
            self.problem(key, "is not a time such as 2026-01-31T12:00:00Z")
        return seconds

    def child(self, key: str) -> Fields:
        """The mapping under a key; an empty one when it is absent."""
        value = self.raw.get(key)
        if type(value) is dict:
            return Fields(value, self.problems, self, key)
        if value is not None:
            self.problem(key, "is not a mapping")
        return Fields({}, self.problems, self, key)

    def maybe(self, key: str) -> Fields | None:
        """The mapping under a key, where absent and empty differ."""
        return None if self.raw.get(key) is None else self.child(key)

    def items(self, key: str) -> list[Any]:
        value = self.raw.get(key)
        if type(value) is list:
            return value
        if value is not None:
            self.problem(key, "is not a list")
        return []

    def children(self, key: str) -> Iterator[Fields]:
        """The mappings of a list."""
        for index, value in enumerate(self.items(key)):
            if type(value) is dict:
                yield Fields(value, self.problems, self, f"{key}[{index}]")
            else:
                self.problem(f"{key}[{index}]", "is not a mapping")

    def named(self, key: str) -> Iterator[tuple[str, Fields]]:
        """The mappings under a mapping, by name."""
        inner = self.child(key)
        for name in inner.raw:
            if type(name) is str:
                yield name, inner.child(name)

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.items(key)
        for index, value in enumerate(values):
            if type(value) is not str:
                self.problem(f"{key}[{index}]", "is not text")
        return tuple(share(value) for value in values if type(value) is str)

    def labels(self, key: str, keep: Callable[[str], bool] | None = None) -> Labels:
        """A mapping of text to text, the same object for the same content; with `keep`, only the keys it accepts."""
        raw = self.raw.get(key)
        if raw is None:
            return NO_LABELS
        if type(raw) is not dict:
            return intern_labels(self.pairs(key))
        if keep is not None:
            raw = {name: value for name, value in raw.items() if keep(name)}
        if not raw:
            return NO_LABELS
        return known_labels(raw) or intern_labels(Fields({key: raw}, self.problems, self._parent, self._key).pairs(key))

    def pairs(self, key: str) -> dict[str, str]:
        """A mapping of text to text."""
        inner = self.child(key)
        good = {k: v for k, v in inner.raw.items() if type(k) is str and type(v) is str}
        for name in inner.raw.keys() - good.keys():
            inner.problem(str(name), "is not text")
        return good

    def amount(self, key: str) -> Fraction | None:
        """A quantity of something, which cannot be negative."""
        value = self.raw.get(key)
        if value is None:
            return None
        try:
            amount = quantity.parse(value)
        except (ValueError, TypeError) as error:
            self.problem(key, f"cannot be read: {error}")
            return None
        if amount >= 0:
            return amount
        self.problem(key, f"is negative: {value}")
        return None

    def amounts(self, key: str) -> Amounts:
        """Quantities by name, such as a container's requests."""
        inner = self.child(key)
        read = ((share(str(name)), inner.amount(name)) for name in inner.raw)
        return {name: amount for name, amount in read if amount is not None}


@lru_cache(maxsize=1024)
def _seconds(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else moment.timestamp()
    except (ValueError, OverflowError):
        return None


def identified(obj: object, kind: str) -> tuple[Fields, Fields]:
    """The object and its metadata, once it is sure that it has a name; else `ProjectionError`."""
    if type(obj) is not dict:
        raise ProjectionError(f"{kind}: the object is not a mapping")
    meta = obj.get("metadata")
    if type(meta) is not dict:
        raise ProjectionError(f"{kind}: metadata is not a mapping")
    if type(name := meta.get("name")) is not str or not name:
        raise ProjectionError(f"{kind}: metadata.name is not a name")
    root = Fields(obj, [])
    return root, Fields(meta, root.problems, root, "metadata")
