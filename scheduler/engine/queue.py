"""The queue: what is tried next, and when what was refused is tried again. The time is passed in.

What is tried at once is a *unit*: a pod, or all pods of a gang that wait. A unit is ready, backing off, parked until
something happens that may help it, held by its pod's gates, or out: taken and not yet parked, retried or removed. It is
always in exactly one of these places, so none is lost and none is tried twice at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.events import Event, cures
from kubenexus.scheduler.engine.shape import shape_key

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 10.0
# In case a cause was overlooked a pod is tried again after it was parked this long; we look this often.
LONGEST_PARKED, SWEEP_EVERY = 300.0, 30.0

_Order = tuple[int, bool, float, float, str]


class Unit(NamedTuple):
    """Pods that are tried at once; a pod by itself has its uid for a name."""

    name: str
    pods: tuple[PodView, ...]


class Where(Enum):
    """Where a unit is."""

    READY = "ready"
    BACKOFF = "backoff"
    PARKED = "parked"
    GATED = "gated"
    OUT = "out"


@dataclass(slots=True, eq=False)
class _Entry:
    """One unit. `since` is when it came to where it is now; `until` is when its backoff ends."""

    name: str
    since: float
    pods: dict[str, PodView] = field(default_factory=dict)
    """by uid"""
    where: Where = Where.OUT
    ticket: int = 0
    """tells its newest place in a heap from older ones"""
    rank: int = 0
    """the first of its order when it became ready"""
    refusals: int = 0
    errors: int = 0
    until: float = -inf
    first: bool = False
    """before others of its priority"""
    came: float = inf
    """when the oldest pod of a gang came, however often the gang was tried since"""
    refused_by: frozenset[str] = frozenset()
    taken_at: int = 0
    """how many events there had been when it was taken"""
    changed: bool = False
    """while it was out"""

    @property
    def order(self) -> _Order:
        """A gang counts by its highest priority and its oldest pod."""
        pods = self.pods.values()
        created, key = min((pod.created, pod.key) for pod in pods)
        waiting = min(self.since, self.came)
        return (-max(pod.spec.priority for pod in pods), not self.first, waiting, created, key)

    @property
    def gated(self) -> bool:
        return any(pod.gates for pod in self.pods.values())


class Queue:
    """All units that wait, by name."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._units: dict[str, str] = {}
        """the unit of each pod, by uid"""
        self._ready: list[tuple[_Order, int, str]] = []
        self._backoff: list[tuple[float, int, str]] = []
        self._parked: dict[frozenset[str], dict[str, _Entry]] = {}
        self._tickets = 0
        self._events = 0
        self._latest: dict[Event, int] = {}
        self._next_sweep = -inf

    def __len__(self) -> int:
        return len(self._entries)

    def where(self, name: str) -> Where | None:
        entry = self._entries.get(name)
        return None if entry is None else entry.where

    def unit(self, uid: str) -> Unit | None:
        """The unit that a pod is in."""
        name = self._units.get(uid)
        return None if name is None else Unit(name, tuple(self._entries[name].pods.values()))

    def counts(self) -> Counter[Where]:
        """How many pods are where."""
        counts = Counter[Where]()
        for entry in self._entries.values():
            counts[entry.where] += len(entry.pods)
        return counts

    def add(self, pod: PodView, now: float, unit: str = "", *, first: bool = False, came: float = inf) -> None:
        """A pod came or changed, in a unit of its own unless one is named; `first`: before others of its priority.

        One that has a node, has finished or is being deleted leaves. In a unit of several no pod has gates; `came` is
        when the pod came to such a unit, for it waits from then on.
        """
        name = unit or pod.uid
        if pod.node or pod.finished or pod.deleted is not None:
            self.remove(pod.uid)
            return
        if self._units.get(pod.uid, name) != name:
            self.remove(pod.uid)
        entry = self._entries.get(name)
        if entry is None:
            self._units[pod.uid] = name
            entry = self._entries[name] = _Entry(name, now, {pod.uid: pod}, first=first)
            entry.came = came
            self._enter(entry, now)
        else:
            entry.came = min(entry.came, came)
            self._join(entry, pod, now, first)

    def remove(self, uid: str) -> None:
        """The pod has its place, or is gone. A unit without pods is no more."""
        name = self._units.pop(uid, None)
        if name is None:
            return
        entry = self._entries[name]
        del entry.pods[uid]
        if not entry.pods:
            del self._entries[name]
            self._leave(entry)

    def pop(self, now: float) -> Unit | None:
        """Take the next unit: of the highest priority, of these one that is `first`, of these the longest waiting."""
        self._advance(now)
        while self._ready:
            _, ticket, name = heappop(self._ready)
            entry = self._current(name, ticket)
            if entry is not None:
                entry.where, entry.taken_at, entry.changed = Where.OUT, self._events, False
                return Unit(name, tuple(entry.pods.values()))
        return None

    def park(self, name: str, refused_by: Iterable[str], now: float) -> None:
        """What was taken has no place now. It waits for a cause that may change the mind of who refuses it."""
        entry = self._out(name)
        if entry is None:
            return
        entry.refusals, entry.errors = entry.refusals + 1, 0
        entry.since, entry.until = now, now + _backoff(entry.refusals)
        entry.refused_by = frozenset(refused_by)
        if entry.changed or self._missed(entry):
            self._enter(entry, now)
        else:
            entry.where = Where.PARKED
            self._parked.setdefault(entry.refused_by, {})[name] = entry

    def retry(self, name: str, now: float) -> None:
        """Something went wrong with what was taken; it is tried again after a while, whatever happens."""
        entry = self._out(name)
        if entry is not None:
            entry.errors += 1
            entry.since, entry.until = now, now + _backoff(entry.errors)
            self._enter(entry, now)

    def release(self, name: str, now: float) -> None:
        """What was taken is settled; if pods are left in it or have joined it, they are tried next."""
        entry = self._out(name)
        if entry is not None:
            entry.since = now
            self._enter(entry, now)

    def delay(self, name: str, until: float) -> None:
        """What is ready is not to be tried before that time."""
        entry = self._entries.get(name)
        if entry is not None and entry.where is Where.READY:
            entry.until = until
            self._enter(entry, -inf)

    def wake(self, event: Event, now: float) -> int:
        """Something happened: the parked units that it may help are tried again. Returns how many these are."""
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

    def _join(self, entry: _Entry, pod: PodView, now: float, first: bool) -> None:
        before, sooner = entry.pods.get(pod.uid), first and not entry.first
        entry.first = first
        entry.pods[pod.uid], self._units[pod.uid] = pod, entry.name
        self._update(entry, now, changed=before is None or _differ(before, pod))
        if entry.where is Where.READY and (sooner or -pod.spec.priority < entry.rank):
            self._enter(entry, now)

    def _update(self, entry: _Entry, now: float, *, changed: bool) -> None:
        if entry.where is Where.OUT:
            entry.changed |= changed
        elif entry.where is Where.GATED or entry.gated:
            self._leave(entry)
            entry.since = now
            self._enter(entry, now)
        elif entry.where is Where.PARKED and changed:
            self._leave(entry)
            self._enter(entry, now)

    def _enter(self, entry: _Entry, now: float) -> None:
        """Bring a unit where it belongs that is to be tried again."""
        self._tickets += 1
        entry.ticket = self._tickets
        if entry.gated:
            entry.where = Where.GATED
        elif entry.until > now:
            entry.where = Where.BACKOFF
            heappush(self._backoff, (entry.until, entry.ticket, entry.name))
        else:
            entry.where, order = Where.READY, entry.order
            entry.rank = order[0]
            heappush(self._ready, (order, entry.ticket, entry.name))

    def _leave(self, entry: _Entry) -> None:
        """Take a unit from where it is. In the heaps it is left behind; its ticket tells that it is no longer there."""
        if entry.where is Where.PARKED:
            group = self._parked[entry.refused_by]
            del group[entry.name]
            if not group:
                del self._parked[entry.refused_by]

    def _out(self, name: str) -> _Entry | None:
        entry = self._entries.get(name)
        return entry if entry is not None and entry.where is Where.OUT else None

    def _current(self, name: str, ticket: int) -> _Entry | None:
        """The unit of a place in a heap, unless it has left it."""
        entry = self._entries.get(name)
        return entry if entry is not None and entry.ticket == ticket else None

    def _missed(self, entry: _Entry) -> bool:
        """Whether something happened while the unit was out that may help it."""
        recent = (event for event, number in self._latest.items() if number > entry.taken_at)
        return any(cures(event, entry.refused_by) for event in recent)

    def _advance(self, now: float) -> None:
        """Move on what waited for its time."""
        while self._backoff and self._backoff[0][0] <= now:
            _, ticket, name = heappop(self._backoff)
            entry = self._current(name, ticket)
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
