"""Which nodes are near each other: NVLink cliques, fabrics, racks and zones, from the tightest to the widest.

A gang is tried in one domain after the other, so that it lands in the tightest that has room for all of it. Numbers of
islands inside a node are never compared between nodes: only names that are the same across nodes make a domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kubenexus.common import vocabulary as v
from kubenexus.common.objects import NodeView, PodView
from kubenexus.scheduler.engine.evaluate import Verdict
from kubenexus.scheduler.engine.labels import ABSENT, Column, Mask
from kubenexus.scheduler.engine.plugin import Code
from kubenexus.scheduler.engine.state import State

Slots = npt.NDArray[np.int64]
"""how many of a gang's pods each node could take"""

PLUGIN: Final = "NetworkFabric"
"""who refuses nodes for what is decided here"""
MOST_TRIED: Final = 4
MOST_BOOKED: Final = 2048
"""of one level so many domains are tried, or as many as take so many bookings: one may look larger than it is"""


def _first_label(*keys: str) -> Callable[[NodeView], str | None]:
    def fact(node: NodeView) -> str | None:
        return next((node.meta.labels[key] for key in keys if node.meta.labels.get(key)), None)

    return fact


class Level(NamedTuple):
    """What makes nodes neighbours: a label, or what is known of their GPUs."""

    name: str
    label: Callable[[NodeView], str | None] | None = None

    def column(self, state: State) -> Column[str | None]:
        """The nodes by domain."""
        return state.facts.column(self.label or state.devices.clique)


CLIQUE: Final = Level("NVLink clique")
FABRIC: Final = Level("fabric", _first_label(v.FABRIC_ID))
RACK: Final = Level("rack", _first_label(v.RACK_ID))
ZONE: Final = Level("zone", _first_label(v.AVAILABILITY_ZONE, v.ZONE))


class Domain(NamedTuple):
    """Nodes to try a gang on; without a `mask`, all."""

    name: str
    mask: Mask | None = None


ANYWHERE: Final = Domain("the cluster")


class Crowd(NamedTuple):
    """Members that are alike: how many there are, and how many of them each node could take at most."""

    size: int
    slots: Slots


class Fence(NamedTuple):
    """The nodes that are left to a gang because of where members of it are, and what is said of all others."""

    name: str
    mask: Mask
    reason: str

    def judge(self, verdicts: Iterable[Verdict], state: State) -> list[Verdict]:
        """What these verdicts say of nodes inside, and what is said of all outside."""
        inside = [(one, tuple(node for node in one.nodes if self.mask[node])) for one in verdicts]
        outside = tuple(np.flatnonzero(state.alive & ~self.mask).tolist())
        kept = [replace(one, nodes=nodes) for one, nodes in inside if nodes]
        return [*kept, Verdict(PLUGIN, self.reason, Code.UNRESOLVABLE, outside)] if outside else kept


class Company(NamedTuple):
    """Where other members of a pod's gang are: nodes near them, the tightest domain first, and what is forbidden."""

    near: tuple[Mask, ...] = ()
    fence: Fence | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """Where a gang wants to be, from what its members say: the levels it is tried on, and whether it must be on one."""

    levels: tuple[Level, ...]
    strict: bool = False

    @property
    def what(self) -> str:
        return " or ".join(level.name for level in self.levels)


def wish_of(pods: Sequence[PodView]) -> Wish:
    """The strictest wish of any member. A pod that says what cannot be read is refused everywhere."""
    said = {_co_locate(pod) for pod in pods}
    if any(_flag(pod, v.REQUIRE_CLIQUE) for pod in pods):
        return Wish((CLIQUE,), strict=True)
    if v.CoLocate.STRICT in said:
        return Wish((CLIQUE, FABRIC), strict=True)
    if said == {v.CoLocate.NONE}:
        return Wish(())
    gpus = any(pod.spec.requests.get(name) for pod in pods for name in v.GPU_RESOURCES)
    return Wish((*((CLIQUE,) if gpus else ()), FABRIC, RACK, ZONE))


def strictest(wishes: Iterable[Wish]) -> Wish:
    """The wish of a gang whose members have these: a strict one of few levels, else one of many; at least one."""
    return min(wishes, key=lambda one: (not one.strict, len(one.levels) if one.strict else -len(one.levels)))


def company_of(wish: Wish, anchors: Sequence[int], state: State) -> Company:
    """Where a member of a gang is to go of which others are on these nodes."""
    columns = [level.column(state) for level in wish.levels]
    near = [(column, {int(column.codes[node]) for node in anchors} - {ABSENT}) for column in columns]
    masks = tuple(np.isin(column.codes, list(codes)) for column, codes in near if codes)
    return Company(masks, fence_of(wish, anchors, state))


def fence_of(wish: Wish, anchors: Sequence[int], state: State) -> Fence | None:
    """Where a gang with a strict wish may go of which some members are on these nodes; None for anywhere."""
    if not wish.strict or not anchors:
        return None
    names, mask = [], np.zeros(state.size, dtype=np.bool_)
    for level in wish.levels:
        column = level.column(state)
        near = {int(column.codes[node]) for node in anchors}
        if len(near) == 1 and (code := near.pop()) != ABSENT:
            names.append(f"{level.name} {column.values[code]}")
            mask |= column.codes == code
    if not names:
        reason = f"node(s) refused because the gang's members are in no common {wish.what}"
        return Fence(f"one {wish.what}", mask, reason)
    name = " and ".join(names)
    return Fence(name, mask, f"node(s) outside {name}, where other members of the gang are")


def domains(wish: Wish, crowds: Sequence[Crowd], need: int, anchors: Sequence[int], state: State) -> Iterator[Domain]:
    """Where to try a gang, the best first. `anchors` are nodes of members that have one: domains with these come first.

    A domain that has room for all that exist comes before one that has it for those alone that must be together.
    """
    for near in (True, False) if anchors else (False,):
        for level in wish.levels:
            column = level.column(state)
            anchored = {int(column.codes[node]) for node in anchors}
            codes = [code for code in _ranked(column, crowds, need) if _may_be(wish, code, anchored, near=near)]
            for code in codes[: max(MOST_TRIED, MOST_BOOKED // need)]:
                yield Domain(f"{level.name} {column.values[code]}", column.codes == code)
    if not wish.strict:
        yield ANYWHERE


def _may_be(wish: Wish, code: int, anchored: set[int], *, near: bool) -> bool:
    """Whether a domain is one of those with anchors, or without. All members of a strict gang must be in one."""
    if wish.strict and anchored:
        return near and {code} == anchored
    return (code in anchored) is near


def _ranked(column: Column[str | None], crowds: Sequence[Crowd], need: int) -> list[int]:
    """The domains with room for as many as needed, the best first."""
    everybody = sum(crowd.size for crowd in crowds)
    sizes, rooms = _rooms(column, crowds)
    chosen: list[int] = np.flatnonzero(rooms >= need).tolist()
    chosen.sort(key=lambda code: (rooms[code] < everybody, sizes[code], column.values[code]))
    return chosen


def largest(wish: Wish, crowds: Sequence[Crowd], state: State) -> tuple[str, int]:
    """The domain of a strict wish with the most room, and how many members it takes; no name if no node is in one."""
    best = ("", -1)
    for level in wish.levels:
        column = level.column(state)
        _, rooms = _rooms(column, crowds)
        there = set(column.codes[state.alive].tolist()) - {ABSENT}
        if there and rooms[code := max(sorted(there), key=rooms.item)] > best[1]:
            best = (f"{level.name} {column.values[code]}", int(rooms[code]))
    return best


def _rooms(column: Column[str | None], crowds: Sequence[Crowd]) -> tuple[Slots, Slots]:
    """By domain: how many of all members its nodes could take at most, and how many of those that there are."""
    totals = [_totals(column.codes, crowd.slots, len(column.values)) for crowd in crowds]
    rooms = [np.minimum(total, crowd.size) for total, crowd in zip(totals, crowds, strict=True)]
    return np.sum(totals, axis=0), np.sum(rooms, axis=0)


def _totals(codes: npt.NDArray[np.int32], slots: Slots, size: int) -> Slots:
    there = codes != ABSENT
    return np.bincount(codes[there], weights=slots[there], minlength=size).astype(np.int64)


def _co_locate(pod: PodView) -> v.CoLocate | None:
    text = pod.annotations.get(v.CO_LOCATE)
    return v.CoLocate(text) if text in set(v.CoLocate) else None


def _flag(pod: PodView, key: str) -> bool:
    try:
        return v.parse_bool(key, pod.annotations.get(key, "false"))
    except v.VocabularyError:
        return False
