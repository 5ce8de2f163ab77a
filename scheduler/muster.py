"""Gathers pods into the units that are tried: pods by themselves, and gangs once enough of their members exist. Pure.

A gang that is incomplete is in no queue: its members wait here, hold nothing, and after a while a report says who is
missing. Once the gang has what it needs, members that come later or come back are tried by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any, Final, NamedTuple

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import (
    Gang,
    GangKey,
    Invalid,
    OwnerKey,
    Reservation,
    Single,
    Waiting,
)
from kubenexus.common.objects import PodView
from kubenexus.scheduler.actions import UNSCHEDULABLE, Bind, Report
from kubenexus.scheduler.engine.cycle import Cycle, Place
from kubenexus.scheduler.engine.fabric import Company, company_of
from kubenexus.scheduler.engine.gang import Call
from kubenexus.scheduler.engine.holds import Holds, is_placeholder, placeholders, stand_in_of
from kubenexus.scheduler.engine.queue import FIRST_BACKOFF, Queue, Unit
from kubenexus.scheduler.engine.roster import Group, Member, Roster
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.membership import Membership

Obj = dict[str, Any]

PATIENCE: Final = 10.0
"""seconds until it is reported that members of a gang, or what describes it, are missing; pods may say otherwise"""


class How(Enum):
    """How the waiting members of a gang are tried."""

    FORMING = "not yet"
    TOGETHER = "together"
    ALONE = "each alone"


class _Mode(NamedTuple):
    """`role` is whose turn it is, where some come first; `begun`, that members are placed already."""

    how: How
    role: str | None
    begun: bool


class _Stray(NamedTuple):
    """A pod that is treated as one by itself as long as its owner is not known."""

    pod: PodView
    placed: bool


@dataclass(slots=True)
class _Overdue:
    """What is reported once a time has come, unless it is over by then."""

    at: float
    said: str = ""


class Muster:
    """Knows of every pod which gang it is in, and tells the queue what to try."""

    def __init__(self, queue: Queue, state: State) -> None:
        self.roster = Roster()
        self.holds = Holds(state)
        self._waiting = state.waiting
        self._queue = queue
        self._membership = Membership()
        self._pods: dict[str, PodView] = {}
        """those in gangs, and those whose gang cannot be told"""
        self._held: dict[str, str] = {}
        """pods that cannot be tried, and why"""
        self._open: dict[str, _Stray] = {}
        """pods by themselves whose owner may yet say that they are in a gang"""
        self._modes: dict[GangKey, _Mode] = {}
        self._overdue: dict[str | GangKey, _Overdue] = {}

    # Hearing

    def watch(self, kinds: Iterable[tuple[str, str]], now: float) -> None:
        """Owners of these kinds will be told of; one of another kind is not waited for."""
        self._membership.watch(kinds)
        for uid in list(self._held):
            self.waits(self._pods[uid], now)
        for uid in list(self._open):
            self._again(uid, now)

    def waits(self, pod: PodView, now: float) -> None:
        """A pod of ours came without a node, or changed."""
        self._waiting.add(pod)
        answer = self._membership.of(pod)
        self._held.pop(pod.uid, None)
        self._open.pop(pod.uid, None)
        if isinstance(answer, Gang):
            self._overdue.pop(pod.uid, None)
            self._pods[pod.uid] = pod
            self._arrange(self.roster.set(pod, answer, now, placed=False), now, pod)
            return
        self._leave(pod.uid, now)
        if isinstance(answer, Single):
            self._overdue.pop(pod.uid, None)
            self._queue.add(pod, now)
            self._stray(pod, placed=False)
        else:
            self._pods[pod.uid] = pod
            self._hold(pod, answer, now)

    def placed(self, pod: PodView, now: float) -> bool:
        """A pod has a node, by us or by others. Whether room became free that was held for it elsewhere."""
        self._waiting.remove(pod.uid)
        answer = self._membership.of(pod)
        self._held.pop(pod.uid, None)
        self._open.pop(pod.uid, None)
        self._overdue.pop(pod.uid, None)
        if not isinstance(answer, Gang):
            self._leave(pod.uid, now)
            self._stray(pod, placed=True)
            return False
        self._pods[pod.uid] = pod
        self._arrange(self.roster.set(pod, answer, now, placed=True), now, pod)
        return self.holds.drop(answer.key, [stand_in_of(pod.uid)])

    def gone(self, uid: str, now: float) -> bool:
        """A pod is no more, or has finished. Whether room became free that was held for others of its kind."""
        self._waiting.remove(uid)
        self._membership.forget(uid)
        self._held.pop(uid, None)
        self._open.pop(uid, None)
        self._overdue.pop(uid, None)
        self._leave(uid, now)
        return self.holds.release(uid)

    def owner(self, key: OwnerKey, owner: Obj | None, now: float) -> None:
        """What stands behind pods came, changed or (None) went."""
        for uid in self._membership.owner(key, owner):
            self._again(uid, now)

    def _again(self, uid: str, now: float) -> None:
        """Ask anew where a pod belongs; one that is known to be by itself does not change."""
        group, stray = self.roster.group_of(uid), self._open.get(uid)
        pod = stray.pod if stray else self._pods.get(uid)
        if pod is None:
            return
        is_placed = stray.placed if stray else group is not None and group.members[uid].placed
        (self.placed if is_placed else self.waits)(pod, now)

    def _stray(self, pod: PodView, *, placed: bool) -> None:
        if self._membership.is_open(pod.uid):
            self._open[pod.uid] = _Stray(pod, placed)

    def _leave(self, uid: str, now: float) -> None:
        """The pod is in no gang any more."""
        self._pods.pop(uid, None)
        before = self.roster.group_of(uid)
        if before is None:
            return
        self._queue.remove(uid)
        left = self.roster.remove(uid)
        if left is not None:
            self._arrange(left, now)
        else:
            self._modes.pop(before.key, None)
            self._overdue.pop(before.key, None)

    def _hold(self, pod: PodView, answer: Waiting | Invalid, now: float) -> None:
        self._queue.remove(pod.uid)
        wrong = isinstance(answer, Invalid)
        self._held[pod.uid] = reason = answer.reason if wrong else f"The pod waits: {answer.reason}."
        known = self._overdue.get(pod.uid)
        if known is None or (wrong and known.said != reason):
            self._overdue[pod.uid] = _Overdue(now if wrong else now + PATIENCE)

    # Which unit

    def _arrange(self, group: Group, now: float, *changed: PodView) -> None:
        """Bring the members of a gang where they belong: those that changed, or all if the gang itself has."""
        group.finished = self._membership.finished(group)
        mode = _mode(group)
        same = mode == self._modes.get(group.key)
        members = [group.members[pod.uid] for pod in changed] if same else list(group.members.values())
        for member in members:
            if not member.placed:
                self._put(group, member, mode, now)
        self._modes[group.key] = mode
        self._expect(group, mode, now)
        if not mode.begun and self.holds.of(group.key):  # a gang that waits as a whole keeps no places
            self.holds.drop(group.key, [stand_in_of(uid) for uid in group.members])

    def _put(self, group: Group, member: Member, mode: _Mode, now: float) -> None:
        pod, (how, role, begun) = member.pod, mode
        if how is How.ALONE or not member.counts:
            # One that does not count is told there what is wrong with it, or kept while it has gates.
            self._queue.add(pod, now)
        elif how is How.TOGETHER and role in (None, member.gang.role):
            self._queue.add(pod, now, str(group.key), first=begun, came=member.came)
        else:
            self._queue.remove(pod.uid)

    def _expect(self, group: Group, mode: _Mode, now: float) -> None:
        if mode.how is not How.FORMING:
            self._overdue.pop(group.key, None)
        elif group.key not in self._overdue:
            self._overdue[group.key] = _Overdue(now + _patience(group))

    # Trying

    def call(self, unit: Unit, state: State) -> Call | None:
        """The gang that a unit is; None for a pod by itself."""
        group = self.roster.group_of(unit.pods[0].uid)
        if group is None or unit.name != str(group.key):
            return None
        standing, anchors = group.standing, _anchors(group, state)
        reserved = tuple(one for pod in unit.pods for one in self.reserved(pod))
        return Call(
            group.key,
            group.name,
            pods=(*unit.pods, *reserved),
            need=max(standing.short, 1) + len(reserved),
            size=standing.needed,
            done=standing.done,
            anchors=anchors,
            held=self.holds.of(group.key),
            reserves=len(reserved),
            warnings=group.quorum.warnings,
            wish=group.wish,
        )

    def company(self, pod: PodView, state: State) -> Company:
        """Where a pod is to go because of where its gang is."""
        group = self.roster.group_of(pod.uid)
        anchors = () if group is None else _anchors(group, state)
        return company_of(group.wish, anchors, state) if group is not None and anchors else Company()

    def reserved(self, pod: PodView) -> tuple[PodView, ...]:
        """Placeholders of the pods that this one will need room for: of those that are not there yet."""
        reservation = self._reservation(pod)
        if reservation is None:
            return ()
        there = self.roster.groups.get(reservation.gang)
        own = 1 if there is not None and pod.uid in there.members else 0
        count = reservation.count - (len(there.members) - own if there is not None else 0)
        return placeholders(pod, reservation, max(count, 0))

    def hold(self, pod: PodView, places: Iterable[Place], now: float) -> None:
        """The pod has its place, and the placeholders among these theirs."""
        reservation = self._reservation(pod)
        if reservation is not None:
            uids = tuple(place.pod.uid for place in places if is_placeholder(place.pod))
            self.holds.keep(reservation.gang, pod.uid, uids, now)

    def hold_anew(self, pod: PodView, cycle: Cycle, now: float) -> None:
        """The pod has its place from before: room for those that it will make, as far as there is."""
        places = (cycle.place(one) for one in self.reserved(pod))
        self.hold(pod, [place for place in places if place is not None], now)

    def make_way(self, pod: PodView) -> None:
        """A pod is about to be placed by itself: what was held for it is its own."""
        group = self.roster.group_of(pod.uid)
        if group is not None:
            self.holds.drop(group.key, self.holds.of(group.key)[:1])

    def _reservation(self, pod: PodView) -> Reservation | None:
        answer = self._membership.of(pod)
        return answer.reserve if isinstance(answer, Gang) else None

    def would_keep(self, uid: str) -> bool:
        """Whether a member that has a place keeps it if it cannot be bound, because its gang has begun without it."""
        group = self.roster.group_of(uid)
        return group is not None and group.standing.done > 1 and group.standing.short >= 0

    def again(self, pod: PodView, bind: Bind, now: float) -> str:
        """A member could not be bound: it is tried again, after a while. Says how its gang stands.

        Its place is kept while its gang runs by halves without it. Room for pods that it was to make is not.
        """
        self.holds.release(pod.uid)
        self.waits(pod, now)
        group = self.roster.group_of(pod.uid)
        if group is None:
            return ""
        mode, standing = self._modes[group.key], group.standing
        self._queue.delay(str(group.key) if mode.how is How.TOGETHER else pod.uid, now + FIRST_BACKOFF)
        if mode.begun and standing.short > 0:
            self.holds.keep_place(group.key, bind.pod, bind.node, now)
        return f"{standing.done} of {standing.needed} members of gang {group.name} have a node; it is placed again."

    # What is missing

    def why(self, uid: str) -> str:
        """Why a pod is not tried, if that is for the sake of its gang."""
        group = self.roster.group_of(uid)
        if group is None:
            return self._held.get(uid, "")
        return _after(group) if self.awaits_others(uid) else _missing(group)

    def awaits_others(self, uid: str) -> bool:
        """Whether a pod is not tried because members of another role, which exist, come before it."""
        group = self.roster.group_of(uid)
        if group is None or group.members[uid].placed:
            return False
        how, role, _ = self._modes[group.key]
        return how is How.TOGETHER and role not in (None, group.members[uid].gang.role)

    def has_room(self, uid: str) -> bool:
        """Whether room is held for the gang that a pod is in."""
        group = self.roster.group_of(uid)
        return group is not None and bool(self.holds.of(group.key))

    def due(self) -> float | None:
        """When somebody is to be told what they wait for, or room has been held too long."""
        times = [one.at for one in self._overdue.values() if one.at < inf]
        held = self.holds.due()
        return min([*times, held] if held is not None else times, default=None)

    def tick(self, now: float) -> Iterator[Report]:
        """What is to be told now, each once for as long as it stays the same."""
        for key, overdue in list(self._overdue.items()):
            if overdue.at > now:
                continue
            overdue.at = inf
            if isinstance(key, GangKey):
                yield from self._incomplete(self.roster.groups[key], overdue, now)
            else:
                overdue.said = self._held[key]
                yield Report(self._pods[key], UNSCHEDULABLE, overdue.said)

    def _incomplete(self, group: Group, overdue: _Overdue, now: float) -> Iterator[Report]:
        message = _missing(group)
        if message != overdue.said:
            overdue.said = message
            for one in group.members.values():
                if not one.placed and one.counts:
                    yield Report(one.pod, UNSCHEDULABLE, message)
        overdue.at = now + _patience(group)

    def counts(self) -> Counter[str]:
        """How many pods wait for others, or for what describes their gang."""
        forming = [self.roster.groups[key] for key, mode in self._modes.items() if mode.how is How.FORMING]
        return Counter({"forming": sum(group.standing.waiting for group in forming) + len(self._held)})


def _mode(group: Group) -> _Mode:
    standing, quorum = group.standing, group.quorum
    role = quorum.first.role if quorum.first and standing.needed != quorum.min_available else None
    together = standing.short > 0 and not group.is_one
    how = How.FORMING if standing.missing > 0 else How.TOGETHER if together else How.ALONE
    return _Mode(how, role, begun=standing.done > 0)


def _anchors(group: Group, state: State) -> tuple[int, ...]:
    """The nodes that members are on, as long as both are there to stay."""
    homes = (state.home(uid) for uid, one in group.members.items() if one.placed and one.counts)
    return tuple(home for home in homes if home is not None and state.alive[home])


def _missing(group: Group) -> str:
    standing, quorum = group.standing, group.quorum
    exist = standing.done + standing.waiting
    text = f"Gang {group.name} waits for its members: {exist} of {standing.needed} exist."
    return " ".join([text, *quorum.warnings])


def _after(group: Group) -> str:
    """What somebody is told whose turn comes after that of another role."""
    standing, first = group.standing, group.quorum.first
    assert first is not None
    return (
        f"The pod waits until the {first.role} pods of gang {group.name} have a node: "
        f"{standing.done} of {standing.needed} have."
    )


def _patience(group: Group) -> float:
    """How long an incomplete gang is waited for: as a member says, the longest."""
    said = (one.pod.annotations.get(v.GANG_TIMEOUT) for one in group.members.values())
    return max((_seconds(text) for text in said if text), default=PATIENCE)


def _seconds(text: str) -> float:
    try:
        return v.parse_duration(v.GANG_TIMEOUT, text) / 1000
    except v.VocabularyError:
        return PATIENCE
