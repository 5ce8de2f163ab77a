"""A watch: a position in the log of one table, seen through a namespace and selectors.

An object that begins to match is ADDED and one that ceases to match is DELETED, whatever really happened to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from kubenexus.common.sandbox.errors import too_old
from kubenexus.common.sandbox.kinds import Kind
from kubenexus.common.sandbox.selectors import FieldSelector, LabelSelector
from kubenexus.common.sandbox.store import Change, CompactedError, Item, Store

Obj = dict[str, Any]


class Filter:
    """Which objects of a kind a list or watch is about."""

    def __init__(
        self, namespace: str | None = None, labels: str = "", fields: str = "", kind: Kind | None = None
    ) -> None:
        self.namespace = namespace
        self.labels = LabelSelector.parse(labels)
        self.fields = FieldSelector.parse(fields, kind.fields if kind else {})
        self.narrow = bool(self.labels.requirements or self.fields.terms)

    def selects(self, item: Item | None) -> bool:
        """Whether the selectors match; the namespace is looked at elsewhere."""
        if item is None:
            return False
        if not self.narrow:
            return True
        obj = item.obj
        return self.labels.matches(obj["metadata"].get("labels")) and self.fields.matches(obj)


class Event:
    """One line of a watch."""

    __slots__ = ("_cache", "item", "type")

    def __init__(self, type_: str, item: Item, cache: dict[tuple[str, str], bytes] | None = None) -> None:
        self.type = type_
        self.item = item
        self._cache = cache

    def line(self, kind: Kind) -> bytes:
        """The event as JSON and newline; every stream of the same face shares one encoding."""
        if self._cache is None:
            return self._encode(kind)
        place = (self.type, kind.resource.api_version)
        line = self._cache.get(place)
        if line is None:
            line = self._cache[place] = self._encode(kind)
        return line

    def _encode(self, kind: Kind) -> bytes:
        return b'{"type":"%s","object":%s}\n' % (self.type.encode(), face(kind, self.item))


def face(kind: Kind, item: Item) -> bytes:
    """An object's JSON as this kind shows it."""
    if item.obj.get("apiVersion") == kind.resource.api_version:
        return item.json
    return orjson.dumps(kind.served(item.obj))


def untyped_face(kind: Kind, item: Item) -> bytes:
    """An object's JSON without kind and version, which the real server leaves out in lists."""
    res = kind.resource
    prefix = b'{"kind":"%s","apiVersion":"%s",' % (res.kind.encode(), res.api_version.encode())
    return b"{" + face(kind, item).removeprefix(prefix)


class Watch:
    """Events of one kind from a version on. Not thread-safe but for `stop`, which any thread may call."""

    def __init__(self, store: Store, kind: Kind, wanted: Filter, since: int, initial: list[Item] | None = None) -> None:
        self._store = store
        self._wanted = wanted
        self._initial = None if initial is None else [Event("ADDED", item) for item in initial]
        self.kind = kind
        self.rv = since
        self.stopped = False

    def poll(self, timeout: float) -> list[Event]:
        """The next events, waiting up to `timeout` seconds for one; raises 410 when the history is gone.

        The first call of a watch that begins with the present state returns that, even if it is empty.
        """
        if self._initial is not None:
            initial, self._initial = self._initial, None
            return initial
        known = self._store.rv  # whatever has happened up to here is among the changes
        try:
            changes = self._store.changes(self.kind.table, self.rv, 0 if self.stopped else timeout)
        except CompactedError as error:
            raise too_old(error.asked, error.oldest) from None
        self.rv = max(self.rv, known, changes[-1].rv if changes else 0)
        return [event for change in changes if (event := self._event(change))]

    def _event(self, change: Change) -> Event | None:
        if self._wanted.namespace is not None and change.key[0] != self._wanted.namespace:
            return None
        before, after = self._wanted.selects(change.old), self._wanted.selects(change.new)
        if after and change.new:
            return Event("MODIFIED" if before else "ADDED", change.new, change.encoded)
        if before and change.last:
            return Event("DELETED", change.last, change.encoded)
        return None

    def stop(self) -> None:
        """End the watch; a `poll` under way returns."""
        self.stopped = True
        self._store.wake()

    def __iter__(self) -> Iterator[tuple[str, Obj]]:
        """(type, object) until the watch is stopped; the objects are the caller's own."""
        while not self.stopped:
            for event in self.poll(1.0):
                yield event.type, self.kind.served(event.item.copy())
