"""Placing a gang: whole, on one state, or not at all.

All members are booked for a trial; if enough of them find room, everything stands, else everything is taken back. So
nothing is ever held by a gang that waits, and of two gangs that fit only one at a time exactly one runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kubenexus.common.gangs import GangKey
from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.cycle import Cycle, Park, Place
from kubenexus.scheduler.engine.evaluate import Board, Verdict, explain, summarize
from kubenexus.scheduler.engine.fabric import (
    ANYWHERE,
    PLUGIN,
    Crowd,
    Domain,
    Slots,
    Wish,
    domains,
    fence_of,
    largest,
    wish_of,
)
from kubenexus.scheduler.engine.plugin import Code
from kubenexus.scheduler.engine.state import State

FIT = "NodeResourcesFit"
MOST_ORDERS = 4
"""in which members are booked in one domain; one will do where all are alike"""


class Call(NamedTuple):
    """A gang that wants to be placed: `need` of these pods together, the others if there is room."""

    key: GangKey
    name: str
    pods: tuple[PodView, ...]
    need: int
    size: int
    """how many the whole gang needs"""
    done: int = 0
    """how many of it have their place"""
    anchors: tuple[int, ...] = ()
    """the nodes that these are on"""
    held: tuple[str, ...] = ()
    """uids of placeholders that stand for these pods, and give way to them"""
    reserves: int = 0
    """how many of the pods are placeholders themselves"""
    warnings: tuple[str, ...] = ()
    """what its members disagree about"""
    wish: Wish | None = None
    """where all of it wants to be; as these pods say if it is None"""


@dataclass(frozen=True, slots=True)
class Placed:
    """Enough members are booked. `left` are beyond the minimum and found no room: they go on alone."""

    places: tuple[Place, ...]
    domain: str
    left: tuple[PodView, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing is booked; `park` says for the member that found no room why the gang waits."""

    park: Park
    room: int


@dataclass(slots=True)
class _Trial:
    places: list[Place] = field(default_factory=list)
    kept: bool = False


class Gangs:
    """Places gangs with the cycles that place their members."""

    def __init__(self, state: State, cycle_of: Callable[[PodView], Cycle]) -> None:
        self._state = state
        self._cycle_of = cycle_of

    def decide(self, call: Call, *, tell: bool = False) -> Placed | Refused:
        """Place the gang in the tightest domain that has room for it, or say why there is none.

        With `tell` what is said of single nodes stays true when the trial is over.
        """
        if not call.held:
            return self._decide(call, tell=tell)
        mark = self._state.checkpoint()
        decision: Placed | Refused | None = None
        try:
            for uid in call.held:
                self._state.remove(uid)
            decision = self._decide(call, tell=tell)
        finally:
            (self._state.keep if isinstance(decision, Placed) else self._state.rollback)(mark)
        return decision

    def _decide(self, call: Call, *, tell: bool) -> Placed | Refused:
        # 1. How many could each node take, at most? If all together are too few, nothing needs to be tried.
        kinds = self._kinds(call.pods)
        bounds = [_Bound(self._cycle_of(kind[0]).board(kind[0]), kind, self._state) for kind in kinds]
        spare = len(call.pods) - call.need
        short = next((one for one in bounds if one.total < len(one.pods) - spare), None)
        if short is not None:
            return self._impossible(call, short)
        # 2. Try one domain after the other, the tightest first.
        wish, pods = call.wish or wish_of([kind[0] for kind in kinds]), in_order(call.pods)
        crowds = [Crowd(len(one.pods), one.slots) for one in bounds]
        for domain in domains(wish, crowds, call.need, call.anchors, self._state):
            found = self._try(call, pods, domain, tell=tell)
            if found is not None:
                return found
        # 3. In no domain of those that it must be in: say which has the most room.
        return self._too_narrow(call, pods[0], wish, crowds)

    def _kinds(self, pods: Iterable[PodView]) -> list[list[PodView]]:
        """The pods by what plugins can tell apart."""
        kinds: dict[Hashable, list[PodView]] = {}
        for pod in pods:
            kinds.setdefault(self._kind(pod), []).append(pod)
        return list(kinds.values())

    def _kind(self, pod: PodView) -> Hashable:
        return self._cycle_of(pod).alike.key(pod)

    def _try(self, call: Call, pods: Sequence[PodView], domain: Domain, *, tell: bool) -> Placed | Refused | None:
        """The whole gang in one domain; None if it has no room there, and if it has none anywhere, why.

        A member may have taken the only place of one of another kind: so those that found none are booked first then.
        """
        order, found, stuck = list(pods), *self._once(call, pods, domain, tell=tell)
        for _ in range(MOST_ORDERS - 1):
            if stuck is None or self._kind(stuck) == self._kind(order[0]):
                break
            first = self._kind(stuck)
            order.sort(key=lambda pod: self._kind(pod) != first)
            found, stuck = self._once(call, order, domain, tell=tell)
        return found

    def _once(
        self, call: Call, pods: Sequence[PodView], domain: Domain, *, tell: bool
    ) -> tuple[Placed | Refused | None, PodView | None]:
        """The same with members booked in this order, and the one that found no room."""
        with self._trial() as trial:
            left = self._book(pods, call.need, domain, trial.places)
            trial.kept = len(trial.places) >= call.need
            if domain is ANYWHERE and not trial.kept:
                # What nodes say to the member that found no room, while those before it are there.
                verdicts = self._cycle_of(left[-1]).verdicts(left[-1])
                verdicts = [one.settled() for one in verdicts] if tell else verdicts
                return self._refused(call, left[-1], len(trial.places), verdicts, ""), left[-1]
        if trial.kept:
            return Placed(tuple(trial.places), domain.name, tuple(left)), None
        return None, left[-1]

    @contextmanager
    def _trial(self) -> Iterator[_Trial]:
        """Bookings that are taken back at the end, whatever happens, unless they are kept."""
        trial, mark = _Trial(), self._state.checkpoint()
        try:
            yield trial
        finally:
            if trial.kept:
                self._state.keep(mark)
            else:
                for place in reversed(trial.places):
                    self._cycle_of(place.pod).forget(place)
                self._state.rollback(mark)

    def _book(self, pods: Sequence[PodView], need: int, domain: Domain, places: list[Place]) -> list[PodView]:
        """Book one after the other for as long as enough of them can find room; returns those that did not.

        Who wants others near is asked again when they are there.
        """
        left: list[PodView] = []
        again: list[PodView] = []
        waiting = list(pods)
        while waiting and len(pods) - len(left) >= need:
            before, again = len(places), []
            for pod in waiting:
                cycle = self._cycle_of(pod)
                place = cycle.place(pod, domain.mask)
                if place is not None:
                    places.append(place)
                else:
                    (again if cycle.board(pod).social else left).append(pod)
                if len(pods) - len(left) < need:
                    break
            waiting = again if len(places) > before else []
        return [*left, *again]

    def _impossible(self, call: Call, short: _Bound) -> Refused:
        """There is not enough in the whole cluster, even if everything went well."""
        return self._refused(call, short.pods[0], short.total, short.verdicts(), "")

    def _too_narrow(self, call: Call, pod: PodView, wish: Wish, crowds: Sequence[Crowd]) -> Refused:
        """No domain has room for all, of those that it may be in."""
        state, fence = self._state, fence_of(wish, call.anchors, self._state)
        if fence is None:
            name, most = largest(wish, crowds, state)
            room, where = max(min(most, call.need - 1), 0), _where(wish, name, most)
            return self._refused(call, pod, room, [_narrow(wish, state.live())], where)
        verdicts = self._cycle_of(pod).verdicts(pod, fence)
        inside = set(np.flatnonzero(state.alive).tolist()).difference(*(one.nodes for one in verdicts))
        verdicts += [_narrow(wish, sorted(inside))] if inside else []
        room = sum(min(crowd.size, int(crowd.slots[fence.mask].sum())) for crowd in crowds)
        return self._refused(call, pod, min(room, call.need - 1), verdicts, f" in {fence.name}, where its others are")

    def _refused(self, call: Call, pod: PodView, room: int, verdicts: list[Verdict], where: str) -> Refused:
        why = summarize(verdicts, int(self._state.alive.sum()))
        message = " ".join([f"{_want(call)}, room for {room + call.done}{where}: {why}", *call.warnings])
        return Refused(Park(pod, message, tuple(verdicts)), room)


def _want(call: Call) -> str:
    if call.reserves:
        return f"{call.name} needs room for itself and {call.reserves} more at once: {call.need} in all"
    placed = f", {call.done} of them placed" if call.done else ""
    return f"Gang {call.name} needs {call.size} members at once: {len(call.pods) + call.done} exist{placed}"


class _Bound:
    """Pods that no plugin can tell apart, and how many of them each node could take at most."""

    def __init__(self, board: Board, pods: Sequence[PodView], state: State) -> None:
        self.pods = pods
        self._board, self._state = board, state
        self._bill = [(row, amount) for row, amount in _bill(board).items() if amount]
        self.slots: Slots = np.where(board.admitted(), self._room(), 0)
        self.total = int(np.minimum(self.slots, len(pods)).sum())

    def _room(self) -> Slots:
        state, most = self._state, len(self.pods)
        room = np.full(state.size, most, dtype=np.int64)
        for row, amount in self._bill:
            np.minimum(room, (state.alloc[row] - state.used[row]) // amount, out=room)
        return np.maximum(room, 0)

    def verdicts(self) -> list[Verdict]:
        """What nodes would say to one more, once they have taken all that they can."""
        state, full = self._state, np.flatnonzero(self.slots)
        left = [(state.alloc[row, full] - state.used[row, full]) // amount for row, amount in self._bill]
        scarce = np.argmin(left, axis=0) if left else np.zeros(len(full), dtype=np.intp)
        found = []
        for number in np.unique(scarce).tolist():
            reason = f"Insufficient {state.resource(self._bill[number][0])}" if left else "node(s) are taken"
            nodes = tuple(full[scarce == number].tolist())
            found.append(Verdict(FIT, reason, Code.UNSCHEDULABLE, nodes, self._share))
        return [*explain(self._board.shape, state), *found]

    def _share(self, node: int) -> str:
        return f"room for {int(self.slots[node])} of the gang's members"


def _bill(board: Board) -> dict[int, int]:
    """What one such pod takes of the state's rows, as far as plugins say."""
    bills = (asked.plugin.bill(asked.term) for asked in board.shape.asked)
    return {row: amount for bill in bills if bill for row, amount in bill.items()}


def in_order(pods: Iterable[PodView]) -> list[PodView]:
    """The hardest to place first; alike ones by their names as people count, so that neighbours in rank are near."""
    return sorted(pods, key=lambda pod: (-pod.spec.priority, [-amount for amount in _size(pod)], _natural(pod.name)))


def _size(pod: PodView) -> Iterator[int]:
    requests = pod.usage.requests
    yield sum(amount for name, amount in requests.items() if "/" in name)
    yield requests.get("cpu", 0)
    yield requests.get("memory", 0)


def _natural(name: str) -> list[tuple[int, str]]:
    """`w-10` after `w-9`."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _narrow(wish: Wish, nodes: Iterable[int]) -> Verdict:
    return Verdict(PLUGIN, f"node(s) in no {wish.what} with room for the whole gang", Code.UNSCHEDULABLE, tuple(nodes))


def _where(wish: Wish, name: str, most: int) -> str:
    if not name:
        return f" in one {wish.what}, of which no node is part"
    return f" in {name}, which has the most" if most else f" in any {wish.what}"
