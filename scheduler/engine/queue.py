"""The queue: which pod is tried next, and when one that was refused is tried again. The time is passed in.

A pod is ready, backing off, parked until something happens that may help it, held by its gates, or out: taken and not
yet parked, retried or removed. It is always in exactly one of these places, so none is lost and none is tried twice at
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush
from math import inf

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.events import Event, cures
from kubenexus.scheduler.engine.shape import shape_key

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 10.0
# In case a cause was overlooked a pod is tried again after it was parked this long; we look this often.
LONGEST_PARKED, SWEEP_EVERY = 300.0, 30.0

_Order = tuple[int, float, float, str]


class Where(Enum):
    """Where a pod is."""

    READY = "ready"
    BACKOFF = "backoff"
    PARKED = "parked"
    GATED = "gated"
    OUT = "out"


@dataclass(slots=True, eq=False)
class _Entry:
    """One pod. `since` is when it came to where it is now; `until` is when its backoff ends."""

    pod: PodView
    since: float
    where: Where = Where.OUT
    ticket: int = 0
    """tells its newest place in a heap from older ones"""
    refusals: int = 0
    errors: int = 0
    until: float = -inf
    refused_by: frozenset[str] = frozenset()
    taken_at: int = 0
    """how many events there had been when it was taken"""
    changed: bool = False
    """while it was out"""

    @property
    def order(self) -> _Order:
        return (-self.pod.spec.priority, self.since, self.pod.created, self.pod.key)


class Queue:
    """All pending pods, by uid."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._ready: list[tuple[_Order, int, str]] = []
        self._backoff: list[tuple[float, int, str]] = []
        self._parked: dict[frozenset[str], dict[str, _Entry]] = {}
        self._tickets = 0
        self._events = 0
        self._latest: dict[Event, int] = {}
        self._next_sweep = -inf

    def __len__(self) -> int:
        return len(self._entries)

    def where(self, uid: str) -> Where | None:
        entry = self._entries.get(uid)
        return None if entry is None else entry.where

    def counts(self) -> Counter[Where]:
        """How many pods are where."""
        return Counter(entry.where for entry in self._entries.values())

    def add(self, pod: PodView, now: float) -> None:
        """A pod came or changed. One that has a node, has finished or is being deleted leaves."""
        if pod.node or pod.finished or pod.deleted is not None:
            self.remove(pod.uid)
            return
        entry = self._entries.get(pod.uid)
        if entry is None:
            entry = self._entries[pod.uid] = _Entry(pod, now)
            self._enter(entry, now)
        else:
            before, entry.pod = entry.pod, pod
            self._update(entry, now, changed=_differ(before, pod))

    def remove(self, uid: str) -> None:
        """The pod has its place, or is gone."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._leave(entry)

    def pop(self, now: float) -> PodView | None:
        """Take the next pod: the one of the highest priority, and of these the one that waits longest."""
        self._advance(now)
        while self._ready:
            _, ticket, uid = heappop(self._ready)
            entry = self._current(uid, ticket)
            if entry is not None:
                entry.where, entry.taken_at, entry.changed = Where.OUT, self._events, False
                return entry.pod
        return None

    def park(self, uid: str, refused_by: Iterable[str], now: float) -> None:
        """A pod that was taken has no place now. It waits for a cause that may change the mind of who refuses it."""
        entry = self._out(uid)
        if entry is None:
            return
        entry.refusals, entry.errors = entry.refusals + 1, 0
        entry.since, entry.until = now, now + _backoff(entry.refusals)
        entry.refused_by = frozenset(refused_by)
        if entry.changed or self._missed(entry):
            self._enter(entry, now)
        else:
            entry.where = Where.PARKED
            self._parked.setdefault(entry.refused_by, {})[uid] = entry

    def retry(self, uid: str, now: float) -> None:
        """Something went wrong with a pod that was taken; it is tried again after a while, whatever happens."""
        entry = self._out(uid)
        if entry is not None:
            entry.errors += 1
            entry.since, entry.until = now, now + _backoff(entry.errors)
            self._enter(entry, now)

    def wake(self, event: Event, now: float) -> int:
        """Something happened: the parked pods that it may help are tried again. Returns how many these are."""
        self._events += 1
        self._latest[event] = self._events
        curable = [plugins for plugins in self._parked if cures(event, plugins)]
        woken = [entry for plugins in curable for entry in self._parked.pop(plugins).values()]
        for entry in woken:
            self._enter(entry, now)
        return len(woken)

    def due(self) -> float | None:
        """When `pop` may have something to give: a time gone by if that is now; None if nobody waits for a time."""
        if self._ready:
            return -inf
        times = [self._backoff[0][0]] if self._backoff else []
        return min([*times, self._next_sweep] if self._parked else times, default=None)

    def _update(self, entry: _Entry, now: float, *, changed: bool) -> None:
        if entry.where is Where.OUT:
            entry.changed |= changed
        elif entry.where is Where.GATED or entry.pod.gates:
            self._leave(entry)
            entry.since = now
            self._enter(entry, now)
        elif entry.where is Where.PARKED and changed:
            self._leave(entry)
            self._enter(entry, now)

    def _enter(self, entry: _Entry, now: float) -> None:
        """Bring a pod where it belongs that is to be tried again."""
        self._tickets += 1
        entry.ticket = self._tickets
        if entry.pod.gates:
            entry.where = Where.GATED
        elif entry.until > now:
            entry.where = Where.BACKOFF
            heappush(self._backoff, (entry.until, entry.ticket, entry.pod.uid))
        else:
            entry.where = Where.READY
            heappush(self._ready, (entry.order, entry.ticket, entry.pod.uid))

    def _leave(self, entry: _Entry) -> None:
        """Take a pod from where it is. In the heaps it is left behind; its ticket tells that it is no longer there."""
        if entry.where is Where.PARKED:
            group = self._parked[entry.refused_by]
            del group[entry.pod.uid]
            if not group:
                del self._parked[entry.refused_by]

    def _out(self, uid: str) -> _Entry | None:
        entry = self._entries.get(uid)
        return entry if entry is not None and entry.where is Where.OUT else None

    def _current(self, uid: str, ticket: int) -> _Entry | None:
        """The pod of a place in a heap, unless it has left it."""
        entry = self._entries.get(uid)
        return entry if entry is not None and entry.ticket == ticket else None

    def _missed(self, entry: _Entry) -> bool:
        """Whether something happened while the pod was out that may help it."""
        recent = (event for event, number in self._latest.items() if number > entry.taken_at)
        return any(cures(event, entry.refused_by) for event in recent)

    def _advance(self, now: float) -> None:
        """Move on what waited for its time."""
        while self._backoff and self._backoff[0][0] <= now:
            _, ticket, uid = heappop(self._backoff)
            entry = self._current(uid, ticket)
            if entry is not None:
                self._enter(entry, now)
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_EVERY
            parked = [entry for group in self._parked.values() for entry in group.values()]
            for entry in parked:
                if now - entry.since > LONGEST_PARKED:
                    self._leave(entry)
                    self._enter(entry, now)


def _backoff(times: int) -> float:
    """Twice as long each time."""
    return min(FIRST_BACKOFF * 2.0 ** min(times - 1, 16), LONGEST_BACKOFF)


def _differ(before: PodView, after: PodView) -> bool:
    """Whether plugins, or we, may see a pod differently now."""
    return (before.gates, before.problems) != (after.gates, after.problems) or shape_key(before) != shape_key(after)
