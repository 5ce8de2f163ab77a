"""Objects of one kind, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, ValuesView
from typing import TypeVar

T = TypeVar("T")


class Table(Mapping[str, T]):
    """Objects of one kind by `namespace/name`, or by name where there is no namespace. Plugins only read."""

    def __init__(self) -> None:
        self._items: dict[str, T] = {}
        self.version = 0
        """grows with every change"""

    def __getitem__(self, key: str) -> T:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def values(self) -> ValuesView[T]:
        return self._items.values()  # the inherited one looks each up, which is slow for thousands

    def set(self, key: str, value: T) -> None:
        """The object came or changed."""
        if self._items.get(key) != value:
            self._items[key] = value
            self.version += 1

    def remove(self, key: str) -> None:
        """The object went, if it was there."""
        if self._items.pop(key, None) is not None:
            self.version += 1
