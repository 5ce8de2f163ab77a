"""Which nodes are near each other: NVLink cliques, fabrics, racks and zones, from the tightest to the widest.

A gang is tried in one domain after the other, so that it lands in the tightest that has room for all of it. Numbers of
islands inside a node are never compared between nodes: only names that are the same across nodes make a domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kubenexus.common import vocabulary as v
from kubenexus.common.objects import NodeView, PodView
from kubenexus.scheduler.engine.labels import ABSENT, Mask
from kubenexus.scheduler.engine.state import State

Slots = npt.NDArray[np.int64]
"""how many of a gang's pods each node could take"""

MOST_TRIED = 4
"""domains of one level: those that look large enough are, nearly always"""


def _first_label(*keys: str) -> Callable[[NodeView], str | None]:
    def fact(node: NodeView) -> str | None:
        return next((node.meta.labels[key] for key in keys if node.meta.labels.get(key)), None)

    return fact


class Level(NamedTuple):
    """What makes nodes neighbours."""

    name: str
    fact: Callable[[NodeView], str | None]


CLIQUE: Final = Level("NVLink clique", _first_label(v.GPU_CLIQUE, v.NVIDIA_CLIQUE))
FABRIC: Final = Level("fabric", _first_label(v.FABRIC_ID))
RACK: Final = Level("rack", _first_label(v.RACK_ID))
ZONE: Final = Level("zone", _first_label(v.AVAILABILITY_ZONE, v.ZONE))


class Domain(NamedTuple):
    """Nodes to try a gang on; without a `mask`, all."""

    name: str
    mask: Mask | None = None


ANYWHERE: Final = Domain("the cluster")


@dataclass(frozen=True, slots=True)
class Wish:
    """Where a gang wants to be, from what its members say: the levels it is tried on, and whether it must be on one."""

    levels: tuple[Level, ...]
    strict: bool = False

    @property
    def what(self) -> str:
        return " or ".join(level.name for level in self.levels)


def wish_of(pods: Sequence[PodView]) -> Wish:
    """The strictest wish of any member. What cannot be read counts as not said; the webhook refuses it."""
    said = {_co_locate(pod) for pod in pods}
    if any(_flag(pod, v.REQUIRE_CLIQUE) for pod in pods):
        return Wish((CLIQUE,), strict=True)
    if v.CoLocate.STRICT in said:
        return Wish((CLIQUE, FABRIC), strict=True)
    if said == {v.CoLocate.NONE}:
        return Wish(())
    gpus = any(pod.spec.requests.get(name) for pod in pods for name in v.GPU_RESOURCES)
    return Wish((*((CLIQUE,) if gpus else ()), FABRIC, RACK, ZONE))


def domains(wish: Wish, slots: Slots, need: int, anchors: Sequence[int], state: State) -> Iterator[Domain]:
    """Where to try a gang, the best first. `slots` are upper bounds; `anchors` are nodes of members that have one."""
    for level in wish.levels:
        column = state.facts.column(level.fact)
        totals = _totals(column.codes, slots, len(column.values))
        near = {int(column.codes[node]) for node in anchors}
        chosen: list[int] = np.flatnonzero(totals >= need).tolist()
        if wish.strict and anchors:  # the others must go where these are
            chosen = [code for code in chosen if {code} == near]
        chosen.sort(key=lambda code: (code not in near, totals[code], column.values[code]))
        for code in chosen[:MOST_TRIED]:
            yield Domain(f"{level.name} {column.values[code]}", column.codes == code)
    if not wish.strict:
        yield ANYWHERE


def largest(wish: Wish, slots: Slots, state: State) -> tuple[str, int]:
    """The domain of a strict wish with the most room, and how many members it takes; no name where there is none."""
    best = ("", 0)
    for level in wish.levels:
        column = state.facts.column(level.fact)
        totals = _totals(column.codes, slots, len(column.values))
        if len(totals) and totals.max() > best[1]:
            code = int(totals.argmax())
            best = (f"{level.name} {column.values[code]}", int(totals[code]))
    return best


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
