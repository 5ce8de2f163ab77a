"""A multi-version store in memory: tables of immutable objects, one version counter, a bounded log per table.

Everything else follows from the log. A watch is a position in it; a consistent page of a list is the present minus
the changes since; compaction forgets its beginning. Objects handed in or out are shared: nobody mutates them.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from typing import Any

import orjson

Obj = dict[str, Any]
Key = tuple[str, str]  # (namespace or "", name)


class MovedError(Exception):
    """The object is no longer the version that the writer saw."""


class CompactedError(Exception):
    """The log no longer reaches back to the version asked for."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"{asked} is before {oldest}")
        self.asked = asked
        self.oldest = oldest


class Item:
    """One version of one object. Its JSON is made at most once."""

    __slots__ = ("_json", "obj", "rv")

    def __init__(self, obj: Obj, rv: int) -> None:
        typed = {"kind": obj.get("kind"), "apiVersion": obj.get("apiVersion")}  # first, also in the JSON
        self.obj: Obj = {**typed, **obj, "metadata": {**obj["metadata"], "resourceVersion": str(rv)}}
        self.rv = rv
        self._json = b""

    @classmethod
    def draft(cls, obj: Obj) -> Item:
        """An object that is shown but not stored: what a dry run would have left."""
        item = cls(obj, 0)
        item.obj = obj
        return item

    @property
    def json(self) -> bytes:
        if not self._json:
            self._json = orjson.dumps(self.obj)
        return self._json

    def copy(self) -> Obj:
        """The object as the caller's own (through JSON: several times faster than `deepcopy`)."""
        copied: Obj = orjson.loads(self.json)
        return copied


class Change:
    """One step of a table: `old` → `new`; None means absent."""

    __slots__ = ("encoded", "key", "new", "old", "rv")

    def __init__(self, key: Key, old: Item | None, new: Item | None, rv: int) -> None:
        self.key = key
        self.old = old
        self.new = new
        self.rv = rv
        self.encoded: dict[tuple[str, str], bytes] = {}  # lines of watch streams, shared by all of them

    @property
    def last(self) -> Item | None:
        """What a DELETED event shows: the old object in the version of its end."""
        return Item(self.old.obj, self.rv) if self.old else None


class Table:
    """The objects of one kind, sorted by key, and how they came to be. Used under the store's lock."""

    def __init__(self, lock: threading.RLock) -> None:
        self.items: dict[Key, Item] = {}
        self.keys: list[Key] = []
        self.log: list[Change] = []
        self.dropped = 0  # version of the last change that the log no longer has
        self.changed = threading.Condition(lock)

    def write(self, change: Change) -> None:
        self._set(self.items, self.keys, change.key, change.new)
        self.log.append(change)
        self.changed.notify_all()

    @staticmethod
    def _set(items: dict[Key, Item], keys: list[Key], key: Key, item: Item | None) -> None:
        if item is None:
            del items[key]
            del keys[bisect_left(keys, key)]
            return
        if key not in items:
            insort(keys, key)
        items[key] = item

    def since(self, rv: int) -> list[Change]:
        if rv < self.dropped:
            raise CompactedError(rv, self.dropped)
        return self.log[bisect_right(self.log, rv, key=lambda change: change.rv) :]

    def forget(self, rv: int) -> None:
        """Drop every change up to `rv`."""
        count = bisect_right(self.log, rv, key=lambda change: change.rv)
        if count:
            self.dropped = self.log[count - 1].rv
            del self.log[:count]

    def at(self, rv: int) -> tuple[dict[Key, Item], list[Key]]:
        """The table as it was: the present with the later changes undone."""
        later = self.since(rv)
        if not later:
            return self.items, self.keys
        items, keys = dict(self.items), list(self.keys)
        for change in reversed(later):
            self._set(items, keys, change.key, change.old)
        return items, keys


class Store:
    """All tables. `commit` is the only way to write."""

    def __init__(self, history: int = 20_000, first: int = 1) -> None:
        self._lock = threading.RLock()
        self._tables: dict[str, Table] = {}
        self._history = history
        self._rv = first
        self._horizon = 0  # nobody may begin to read before this version

    @property
    def rv(self) -> int:
        return self._rv

    def _table(self, name: str) -> Table:
        table = self._tables.get(name)
        if table is None:
            with self._lock:
                table = self._tables.setdefault(name, Table(self._lock))
        return table

    def get(self, table: str, key: Key) -> Item | None:
        return self._table(table).items.get(key)

    def commit(self, table: str, key: Key, seen: Item | None, obj: Obj | None) -> Item | None:
        """Replace the version `seen` by `obj` (None for either: absent), or raise `MovedError` and change nothing."""
        place = self._table(table)
        with self._lock:
            if place.items.get(key) is not seen:
                raise MovedError
            self._rv += 1
            new = Item(obj, self._rv) if obj is not None else None
            place.write(Change(key, seen, new, self._rv))
            if len(place.log) > self._history * 5 // 4:
                place.forget(place.log[-self._history].rv - 1)
            return new

    def items(self, table: str, namespace: str | None = None, rv: int | None = None) -> tuple[list[Item], int]:
        """The sorted objects of a table, of one namespace if given, and the version this is true for.

        With `rv`, as they were then; raises `CompactedError` when that is forgotten.
        """
        with self._lock:
            version = self._rv if rv is None else rv
            self.check(version)
            items, keys = self._table(table).at(version)
            if namespace is not None:
                keys = keys[bisect_left(keys, (namespace, "")) : bisect_left(keys, (namespace + "\0", ""))]
            return [items[key] for key in keys], version

    def check(self, rv: int) -> None:
        """Raise `CompactedError` when nobody may begin to read at this version any more."""
        if rv < self._horizon:
            raise CompactedError(rv, self._horizon)

    def changes(self, table: str, after: int, timeout: float) -> list[Change]:
        """What happened to a table after a version, waiting up to `timeout` seconds for the first change.

        Raises `CompactedError` when the log no longer reaches back.
        """
        place = self._table(table)
        with place.changed:
            if timeout > 0 and not place.since(after):
                place.changed.wait(timeout)
            return place.since(after)

    def wake(self) -> None:
        """Let every waiting `changes` return now."""
        with self._lock:
            for table in self._tables.values():
                table.changed.notify_all()

    def compact(self, skip: int = 0) -> None:
        """Forget all history: the past is gone, the present stays, and so does who is already reading.

        With `skip` the counter jumps as well, so that every version given out so far is past.
        """
        with self._lock:
            self._rv += skip
            self._horizon = self._rv
            for table in self._tables.values():
                table.forget(self._rv)
