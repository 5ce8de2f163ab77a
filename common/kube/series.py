"""What to write for an event that may have been seen before: rate limits and series, pure.

The first of its kind is created. A repetition turns it into a series, whose count is brought up to date now and then,
and a last time when nothing more has come for six minutes; then the series is closed, and the next one is new.

When there is too much to tell, warnings go first: half of what may be written at once is kept for them, and one that
comes too fast waits for its turn instead of being dropped, unless something newer happens to its object.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]

CLOSE_AFTER = 360.0
UPDATE_EVERY = 60.0
NOTE_BYTES = 1024
WARNING = "Warning"
KNOWN = 4096  # Objects whose rate is remembered, and series kept open, at most.
WAITING = 10_000  # Warnings that wait for their turn, at most.


@dataclass(frozen=True, slots=True)
class Create:
    obj: Obj


@dataclass(frozen=True, slots=True)
class Extend:
    """Say that the event of this name has now been seen so often, lastly at this time."""

    namespace: str
    name: str
    count: int
    last: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Too many events: this one is not written."""


Write = Create | Extend | Drop


@dataclass(slots=True)
class Bucket:
    """A token bucket: `burst` at once, then `rate` a second."""

    rate: float
    burst: float
    tokens: float = field(init=False)
    at: float = 0.0

    def __post_init__(self) -> None:
        self.tokens = self.burst

    def take(self, now: float, keep: float = 0.0) -> bool:
        """Whether there is one to be had, and `keep` more for others."""
        self.tokens = min(self.burst, self.tokens + (now - self.at) * self.rate)
        self.at = now
        if self.tokens < 1 + keep:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True)
class _Series:
    namespace: str
    name: str
    seen_at: float
    last: str
    written_at: float
    count: int = 1
    written: int = 1


class Series:
    """The events written lately; `record`, `due` and `close` say what to write now.

    Rates are (events a second, burst): per object an event is about, and overall.
    """

    def __init__(
        self, *, per_object: tuple[float, float] = (1 / 300, 25), overall: tuple[float, float] = (50, 200)
    ) -> None:
        self._per_object = per_object
        self._overall = Bucket(*overall)
        self._buckets: OrderedDict[Hashable, Bucket] = OrderedDict()
        self._open: OrderedDict[Hashable, _Series] = OrderedDict()
        self._waiting: OrderedDict[Hashable, Obj] = OrderedDict()

    def record(self, obj: Obj, now: float) -> list[Write]:
        """An event (events.k8s.io/v1) has happened now."""
        source = _source(obj)
        if source not in self._waiting:
            return self._record(obj, now)
        if obj["type"] == WARNING:
            self._waiting[source] = obj  # in the place of the one before it
            return [Drop()]
        del self._waiting[source]
        return [Drop(), *self._record(obj, now)]

    def _record(self, obj: Obj, now: float) -> list[Write]:
        kind = identity(obj)
        series = self._open.get(kind)
        if series is not None and now - series.seen_at < CLOSE_AFTER:
            series.count, series.seen_at, series.last = series.count + 1, now, obj["eventTime"]
            # The first repetition is worth telling at once, the following ones together.
            return self._extend(series, now) if series.count == 2 else []
        if not self._allowed_for(_source(obj), now):
            return [Drop()]
        if obj["type"] == WARNING:
            return self._create(obj, now) if not self._waiting and self._overall.take(now) else self._wait(obj)
        return self._create(obj, now) if self._overall.take(now, keep=self._overall.burst / 2) else [Drop()]

    def _wait(self, obj: Obj) -> list[Write]:
        self._waiting[_source(obj)] = obj
        if len(self._waiting) <= WAITING:
            return []
        self._waiting.popitem(last=False)
        return [Drop()]

    def _create(self, obj: Obj, now: float) -> list[Write]:
        kind, meta = identity(obj), obj["metadata"]
        series = self._open.get(kind)
        self._open[kind] = _Series(meta["namespace"], meta["name"], now, obj["eventTime"], now)
        self._open.move_to_end(kind)
        writes: list[Write] = self._closing(series) if series else []
        while len(self._open) > KNOWN:
            writes += self._closing(self._open.popitem(last=False)[1])
        return [*writes, Create(obj)]

    def due(self, now: float) -> list[Write]:
        """Warnings whose turn it is, series to bring up to date, and to close. Call every second or so."""
        writes: list[Write] = []
        while self._waiting and self._overall.take(now):
            writes += self._create(self._waiting.popitem(last=False)[1], now)
        for kind, series in list(self._open.items()):
            if now - series.seen_at >= CLOSE_AFTER:
                del self._open[kind]
                writes += self._closing(series)
            elif now - series.written_at >= UPDATE_EVERY:
                writes += self._extend(series, now)
        return writes

    def close(self) -> list[Write]:
        """Close all series: what remains to be written before the end."""
        writes: list[Write] = [write for series in self._open.values() for write in self._closing(series)]
        writes += [Drop()] * len(self._waiting)
        self._open.clear()
        self._waiting.clear()
        return writes

    def forget(self, name: str) -> None:
        """The event of this name is not on the server (any more): the next of its kind is created."""
        for kind in [kind for kind, series in self._open.items() if series.name == name]:
            del self._open[kind]

    def _extend(self, series: _Series, now: float) -> list[Write]:
        series.written_at = now
        if series.count == series.written or not self._overall.take(now):
            return []
        return self._closing(series)

    def _closing(self, series: _Series) -> list[Write]:
        if series.count == series.written:
            return []
        series.written = series.count
        return [Extend(series.namespace, series.name, series.count, series.last)]

    def _allowed_for(self, source: Hashable, now: float) -> bool:
        """Whether the object has not been talked of too much."""
        bucket = self._buckets.setdefault(source, Bucket(*self._per_object))
        self._buckets.move_to_end(source)
        while len(self._buckets) > KNOWN:
            self._buckets.popitem(last=False)
        return bucket.take(now)


def _source(obj: Obj) -> Hashable:
    """The object that an event is about."""
    regarding = obj["regarding"]
    return regarding.get("uid"), regarding.get("namespace"), regarding.get("name")


def identity(obj: Obj) -> Hashable:
    """What makes two events the same. The note belongs to it: the server lets nobody change the note of an event."""
    regarding, related = obj["regarding"], obj.get("related") or {}
    return (
        obj["type"],
        obj["reason"],
        obj["action"],
        obj["note"],
        regarding.get("kind"),
        regarding.get("namespace"),
        regarding.get("name"),
        regarding.get("uid"),
        related.get("uid"),
        related.get("name"),
    )


def cut(note: str, size: int = NOTE_BYTES) -> str:
    """The note in at most `size` bytes of UTF-8, cut between characters, with a sign that it was cut."""
    data = note.encode("utf-8", "replace")
    if len(data) <= size:
        return data.decode()
    return data[: size - 3].decode("utf-8", "ignore") + "…"
