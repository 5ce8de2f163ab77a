"""What changed since somebody last looked."""

from __future__ import annotations


class ChangeLog:
    """Which nodes changed, in order. A cache remembers how far it has read; one that waited too long starts over."""

    LONGEST = 1 << 16

    def __init__(self) -> None:
        self._nodes: list[int] = []
        self._dropped = 0

    @property
    def position(self) -> int:
        return self._dropped + len(self._nodes)

    def add(self, node: int) -> None:
        self._nodes.append(node)
        if len(self._nodes) > self.LONGEST:
            self._dropped += len(self._nodes) // 2
            del self._nodes[: len(self._nodes) // 2]

    def since(self, position: int) -> set[int] | None:
        """The nodes changed since then; None if that is forgotten."""
        return set(self._nodes[position - self._dropped :]) if position >= self._dropped else None
