"""What changed since somebody last looked."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class ChangeLog(Generic[T]):
    """What changed, in order. A cache remembers how far it has read; one that waited too long starts over."""

    LONGEST = 1 << 16

    def __init__(self) -> None:
        self._changes: list[T] = []
        self._dropped = 0

    @property
    def position(self) -> int:
        return self._dropped + len(self._changes)

    def add(self, changed: T) -> None:
        self._changes.append(changed)
        if len(self._changes) > self.LONGEST:
            self._dropped += len(self._changes) // 2
            del self._changes[: len(self._changes) // 2]

    def since(self, position: int) -> set[T] | None:
        """What changed since then; None if that is forgotten."""
        return set(self._changes[position - self._dropped :]) if position >= self._dropped else None
