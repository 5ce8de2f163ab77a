"""Nodes grouped by what their views say: taints, features, whether they are cordoned, the images they have.

Few nodes differ in such a fact, so a plugin judges each distinct value once and looks the rest up by number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from kubenexus.common.objects import ImageView, NodeView
from kubenexus.scheduler.engine.labels import Column

V = TypeVar("V", bound=Hashable)


class NodeFacts:
    """A column per fact that somebody asked about, kept true as nodes come, change and go."""

    def __init__(self) -> None:
        self._columns: dict[Callable[[NodeView], Hashable], Column[Any]] = {}
        self._views: list[NodeView | None] = []

    def grow(self, size: int) -> None:
        self._views += [None] * (size - len(self._views))
        for column in self._columns.values():
            column.grow(size)

    def set(self, node: int, view: NodeView | None) -> None:
        """The node's view; None when it is gone."""
        self._views[node] = view
        for fact, column in self._columns.items():
            column.set(node, None if view is None else fact(view))

    def column(self, fact: Callable[[NodeView], V]) -> Column[V]:
        """The values of a fact, which must have few; the same function gives the same column."""
        known = self._columns.get(fact)
        if known is None:
            known = self._columns[fact] = Column(len(self._views))
            for node, view in enumerate(self._views):
                known.set(node, None if view is None else fact(view))
        return known


class ImageIndex:
    """Which nodes have an image, by any of its names."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[int, int]] = {}
        self._images: dict[int, tuple[ImageView, ...]] = {}

    def set(self, node: int, images: tuple[ImageView, ...]) -> None:
        before = self._images.get(node, ())
        if images == before:
            return
        for name in {name for image in before for name in image.names}:
            del self._nodes[name][node]
            if not self._nodes[name]:
                del self._nodes[name]
        for image in images:
            for name in image.names:
                self._nodes.setdefault(name, {})[node] = image.size
        self._images[node] = images

    def nodes(self, name: str) -> Mapping[int, int]:
        """The nodes that have the image of this name, and its size there in bytes."""
        return self._nodes.get(name, {})
