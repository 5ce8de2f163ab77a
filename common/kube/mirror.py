"""A copy of one collection, and what to do next to keep it true. Pure: no I/O, no clock, no chance of its own.

           next() ──► List ──ok──► Watch ──lines──► changes
                       ▲  ▲          │ ▲
                       │  └─ failed  │ └─ cut, 5xx, garbage: resume from the last version seen
                       └─────────────┘ 410, or the list is old

The reflector carries out what `next` says and reports back: `listed`, `line`, `ended` or `failed`. A list, however
late, is compared with the copy, so that every delete is heard of; a line that was seen before changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from kubenexus.common.kube.errors import ApiError, Gone, StatusError, status_error

Obj = dict[str, Any]
V = TypeVar("V")

STUBBORN = 5  # So many failures in a row, and a watch that the server keeps refusing is given up for a new list.


@dataclass(frozen=True, slots=True)
class Added(Generic[V]):
    key: str
    value: V


@dataclass(frozen=True, slots=True)
class Updated(Generic[V]):
    """The projection has changed: what we do not project is not news."""

    key: str
    old: V
    value: V


@dataclass(frozen=True, slots=True)
class Deleted(Generic[V]):
    """It is gone, or out of the selection; `value` is the last one known."""

    key: str
    value: V


@dataclass(frozen=True, slots=True)
class Synced:
    """The first list is complete; comes once, after its Added."""


Change = Added[V] | Updated[V] | Deleted[V] | Synced


@dataclass(frozen=True, slots=True)
class List:
    """Fetch everything, in pages unless the server could not hold a snapshot for that long."""

    paged: bool


@dataclass(frozen=True, slots=True)
class Watch:
    """Ask for all changes after this version."""

    version: str


@dataclass(frozen=True, slots=True)
class Step:
    """Wait, then do it."""

    delay: float
    action: List | Watch


class Garbage(ApiError):  # noqa: N818
    """A line of a watch that is no event."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds to wait after the n-th failure in a row: doubling from `first` to `most`, half of it by chance."""

    first: float = 0.5
    most: float = 30.0

    def delay(self, failures: int, chance: float) -> float:
        if not failures:
            return 0.0
        full = min(self.most, self.first * (1 << min(failures - 1, 32)))
        return full * (0.5 + 0.5 * chance)


def by_uid(obj: Obj) -> str:
    """The key to prefer: an object deleted and made anew under its old name is another one."""
    uid: str = obj["metadata"]["uid"]
    return uid


def by_name(obj: Obj) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


class Mirror(Generic[V]):
    """The copy of one collection as projected values, by key.

    `project` returns None for objects that are not wanted. One that it cannot project goes to `unreadable` and leaves
    what is known of it as it was. `relist_after` seconds after a list, the next break is used to list again: that mends
    even an event that the server never sent.
    """

    def __init__(
        self,
        project: Callable[[Obj], V | None],
        *,
        key: Callable[[Obj], str] = by_uid,
        unreadable: Callable[[Obj, Exception], None] = lambda obj, error: None,  # noqa: ARG005
        backoff: Backoff | None = None,
        relist_after: float = 3600.0,
    ) -> None:
        self.cache: dict[str, V] = {}
        self.synced = False
        self._project = project
        self._key = key
        self._unreadable = unreadable
        self._backoff = backoff or Backoff()
        self._relist_after = relist_after
        self._version = ""  # Everything up to here is in the cache; empty: list first.
        self._listed_at = 0.0
        self._paged = True
        self._failures = 0
        self._pause = 0.0  # What the server asked for, besides our own backoff.

    def next(self, now: float, chance: float) -> Step:
        """What to do now. `chance` is a random number in 0..1, `now` any steady clock."""
        delay = max(self._backoff.delay(self._failures, chance), self._pause)
        if not self._version or now - self._listed_at >= self._relist_after:
            return Step(delay, List(self._paged))
        return Step(delay, Watch(self._version))

    def listed(self, pages: Iterable[tuple[list[Obj], str]], now: float) -> list[Change[V]]:
        """The pages of a complete list, each with its version. If the iteration raises, nothing has changed."""
        fresh: dict[str, V] = {}
        version = ""
        for items, at in pages:
            version = at
            for obj in items:
                self._collect(fresh, obj)
        if not version:
            raise Garbage("the list has no resourceVersion to watch from")
        self._version, self._listed_at, self._paged = version, now, True
        changes: list[Change[V]] = []
        for key in [key for key in self.cache if key not in fresh]:
            changes += self._drop(key)
        for key, value in fresh.items():
            changes += self._put(key, value)
        if not self.synced:
            self.synced = True
            changes.append(Synced())
        return changes

    def line(self, data: bytes) -> list[Change[V]]:
        """One line of a watch. Raises Garbage, or the error that the server reports in it; then call `failed`."""
        kind, obj, version, key = self._event(data)
        self._failures, self._pause = 0, 0.0
        if not _newer(version, self._version):
            return []
        self._version = version
        if kind == "BOOKMARK":
            return []
        if kind == "DELETED":
            return self._drop(key)
        fresh: dict[str, V] = {}
        self._collect(fresh, obj)
        return self._put(key, fresh[key]) if key in fresh else self._drop(key)

    def ended(self, lasted: float) -> None:
        """The watch came to a regular end. One that ends as soon as it begins counts as a failure, or we would spin."""
        self._failures = self._failures + 1 if lasted < 1.0 else 0

    def failed(self, error: ApiError) -> None:
        """A list or watch failed."""
        self._failures += 1
        self._pause = getattr(error, "retry_after", None) or 0.0
        if isinstance(error, Gone):
            self._paged = bool(self._version)  # Gone in the middle of a list: not in pages then.
            self._version = ""
        elif isinstance(error, StatusError) and self._failures >= STUBBORN:
            self._version = ""

    def _event(self, data: bytes) -> tuple[str, Obj, str, str]:
        """Type, object, version and key of a line; a bookmark has no key."""
        try:
            event = orjson.loads(data)
            kind, obj = event["type"], event["object"]
            if kind == "ERROR":
                raise status_error("the watch", obj)
            if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
                raise Garbage(f"the watch sent an event of type {kind!r}")
            version: str = obj["metadata"]["resourceVersion"]
            return kind, obj, version, "" if kind == "BOOKMARK" else self._key(obj)
        except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError) as error:
            raise Garbage(f"the watch sent a line that is no event: {data[:80]!r}") from error

    def _collect(self, into: dict[str, V], obj: Obj) -> None:
        """Project an object into `into`, unless it is not wanted."""
        key = ""
        try:
            key = self._key(obj)
            value = self._project(obj)
        except Exception as error:  # noqa: BLE001 (one odd object must not blind us to all others)
            self._unreadable(obj, error)
            value = self.cache.get(key)
        if value is not None:
            into[key] = value

    def _put(self, key: str, value: V) -> list[Change[V]]:
        if key not in self.cache:
            self.cache[key] = value
            return [Added(key, value)]
        old = self.cache[key]
        if old == value:
            return []
        self.cache[key] = value
        return [Updated(key, old, value)]

    def _drop(self, key: str) -> list[Change[V]]:
        return [Deleted(key, self.cache.pop(key))] if key in self.cache else []


def _newer(version: str, known: str) -> bool:
    """Versions are numbers on every server of today; should one not be, only an exact repetition is old."""
    if version.isdigit() and known.isdigit():
        return int(version) > int(known)
    return version != known
