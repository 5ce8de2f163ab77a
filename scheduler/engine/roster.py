"""Who is in which gang, how many of it have a node, and how many more must get one together.

Members that wait or have a node count; those that are gated, leaving or finished badly do not. Members that have
finished well did their part: whoever sees their owners says how many these are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from kubenexus.common.gangs import Gang, GangKey, Quorum, combine
from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.fabric import Wish, strictest, wish_of


class Standing(NamedTuple):
    """How a gang stands. `needed` members must have a node together; `done` of them have, or had to their end."""

    needed: int
    done: int
    waiting: int
    """members that could be placed now"""

    @property
    def short(self) -> int:
        """How many must be placed together now; none or less if the gang has what it needs."""
        return self.needed - self.done

    @property
    def missing(self) -> int:
        """How many of these do not even exist."""
        return self.short - self.waiting


class Member(NamedTuple):
    pod: PodView
    gang: Gang
    placed: bool
    came: float
    """when it became a member"""

    @property
    def counts(self) -> bool:
        return not self.pod.gates and self.pod.deleted is None and not self.pod.problems


@dataclass(slots=True, eq=False)
class Group:
    """One gang."""

    key: GangKey
    members: dict[str, Member] = field(default_factory=dict)
    finished: int = 0
    """members that have done their part and are gone"""
    _declared: Counter[Gang] = field(default_factory=Counter)
    _placed: Counter[str] = field(default_factory=Counter)
    """members with a node, by role"""
    _waiting: Counter[str] = field(default_factory=Counter)
    _wishes: Counter[Wish] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """For people."""
        return next(iter(self._declared)).name

    @property
    def quorum(self) -> Quorum:
        return combine(self._declared)

    @property
    def wish(self) -> Wish:
        """Where all of it wants to be, or must."""
        return strictest(self._wishes)

    @property
    def is_one(self) -> bool:
        """Whether it is a pod like any other: it needs nobody else, holds room for nobody, and may be anywhere."""
        if len(self.members) != 1 or self.quorum.min_available != 1 or self.wish.strict:
            return False
        return all(member.gang.reserve is None for member in self.members.values())

    @property
    def standing(self) -> Standing:
        quorum, placed = self.quorum, self._placed.total() + self.finished
        first = quorum.first
        if first and self._placed[first.role] < first.members:
            return Standing(first.members, self._placed[first.role], self._waiting[first.role])
        return Standing(quorum.min_available, placed, self._waiting.total())

    def set(self, member: Member) -> None:
        self.drop(member.pod.uid)
        self.members[member.pod.uid] = member
        self._count(member, 1)

    def drop(self, uid: str) -> None:
        member = self.members.pop(uid, None)
        if member is not None:
            self._count(member, -1)

    def _count(self, member: Member, sign: int) -> None:
        self._declared[member.gang] += sign
        if not self._declared[member.gang]:
            del self._declared[member.gang]
        wish = wish_of([member.pod])
        self._wishes[wish] += sign
        if not self._wishes[wish]:
            del self._wishes[wish]
        if member.counts:
            (self._placed if member.placed else self._waiting)[member.gang.role or ""] += sign


class Roster:
    """All gangs that have members."""

    def __init__(self) -> None:
        self.groups: dict[GangKey, Group] = {}
        self._of: dict[str, GangKey] = {}

    def group_of(self, uid: str) -> Group | None:
        key = self._of.get(uid)
        return None if key is None else self.groups[key]

    def set(self, pod: PodView, gang: Gang, now: float, *, placed: bool) -> Group:
        """A pod is a member of a gang from now on, of this one alone."""
        if self._of.get(pod.uid, gang.key) != gang.key:
            self.remove(pod.uid)
        group = self.groups.get(gang.key)
        if group is None:
            group = self.groups[gang.key] = Group(gang.key)
        self._of[pod.uid] = gang.key
        before = group.members.get(pod.uid)
        group.set(Member(pod, gang, placed, now if before is None else before.came))
        return group

    def remove(self, uid: str) -> Group | None:
        """A pod is in no gang any more. Returns the gang that it was in, if others are left there."""
        key = self._of.pop(uid, None)
        if key is None:
            return None
        group = self.groups[key]
        group.drop(uid)
        if group.members:
            return group
        del self.groups[key]
        return None
