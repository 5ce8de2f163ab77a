"""The network between nodes: pods may ask for a least tier of it, and GPU work prefers the faster ones.

Which nodes a *gang* shares is not decided here, node by node, but for the whole gang at once: see `engine/fabric.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kubenexus.common import vocabulary as v
from kubenexus.common.objects import NodeView, PodView
from kubenexus.common.vocabulary import CoLocate, FabricTier, WorkloadType
from kubenexus.scheduler.engine.labels import Column
from kubenexus.scheduler.engine.plugin import At, Code, NodePlugin, Refusal, Scores
from kubenexus.scheduler.engine.state import State

UNKNOWN: Final = 50
QUALITY: Final = {
    FabricTier.NVSWITCH: 100,
    FabricTier.NVLINK: 90,
    FabricTier.INFINIBAND: 75,
    FabricTier.ROCE: 60,
    FabricTier.ETHERNET: 40,
}
_ALIASES: Final = {"ib": FabricTier.INFINIBAND, "rdma": FabricTier.ROCE, "eth": FabricTier.ETHERNET}
_RANK: Final = {tier: rank for rank, tier in enumerate(FabricTier)}
# Those who answer requests one by one gain nothing from a fabric between nodes.
_ALONE: Final = frozenset((WorkloadType.INFERENCE, WorkloadType.SERVICE, WorkloadType.INTERACTIVE))


@dataclass(frozen=True, slots=True)
class _TierOf:
    """The tier that a node's label names; a node of an NVLink clique is on a switch, whatever nobody said."""

    clique: Callable[[NodeView], str | None]

    def __call__(self, node: NodeView) -> FabricTier | None:
        text = node.meta.labels.get(v.FABRIC_TYPE, "").lower()
        if text in _ALIASES:
            return _ALIASES[text]
        if text in set(FabricTier):
            return FabricTier(text)
        return FabricTier.NVSWITCH if not text and self.clique(node) else None


def _tiers(state: State) -> Column[FabricTier | None]:
    return state.facts.column(_TierOf(state.devices.clique))


class Wish(NamedTuple):
    """What a pod wants of the fabric. `bad` says what of it cannot be read."""

    least: FabricTier | None = None
    weight: int = 0
    """0 for no preference, 2 if it is sensitive"""
    bad: str = ""


class NetworkFabric(NodePlugin[Wish]):
    """Refuses nodes below the tier that a pod asks for; scores the tier for GPU work that talks between nodes."""

    name = "NetworkFabric"

    def compile(self, pod: PodView, _state: State) -> Wish | None:
        try:
            wish = _read(pod)
        except v.VocabularyError as error:
            return Wish(bad=str(error).rstrip("."))
        return wish if wish.least or wish.weight else None

    def filter(self, term: Wish, state: State, at: At) -> Iterator[Refusal]:
        if term.bad:
            yield Refusal(np.ones(len(state.alive[at]), dtype=np.bool_), term.bad, Code.UNRESOLVABLE)
        elif term.least is not None:
            column, most = _tiers(state), _RANK[term.least]
            slow = column.where((_RANK[tier] > most for tier in column.values if tier), absent=False)[at]
            yield Refusal(slow, f"node(s) on a fabric below {term.least}", Code.UNRESOLVABLE)
            unknown = ~column.present()[at]
            yield Refusal(unknown, f"node(s) whose fabric is not known ({v.FABRIC_TYPE})", Code.UNRESOLVABLE)

    def score(self, term: Wish, state: State, at: At) -> Scores | None:
        if not term.weight:
            return None
        column = _tiers(state)
        values = [*(QUALITY[tier] for tier in column.values if tier), UNKNOWN]
        spread = [min(max(UNKNOWN + (value - UNKNOWN) * term.weight, 0), 100) for value in values]
        return np.array(spread, dtype=np.int64)[column.codes[at]]


def _read(pod: PodView) -> Wish:
    """What the pod wants; of wishes for its gang only whether they can be read."""
    notes = pod.annotations
    if v.CO_LOCATE in notes:
        v.parse_choice(CoLocate, v.CO_LOCATE, notes[v.CO_LOCATE])
    v.parse_bool(v.REQUIRE_CLIQUE, notes.get(v.REQUIRE_CLIQUE, "false"))
    sensitive = v.parse_bool(v.NETWORK_SENSITIVE, notes.get(v.NETWORK_SENSITIVE, "false"))
    text = notes.get(v.MIN_FABRIC_TIER)
    least = None if text is None else v.parse_choice(FabricTier, v.MIN_FABRIC_TIER, text)
    return Wish(least, _weight(pod) * (2 if sensitive else 1))


def _weight(pod: PodView) -> int:
    if not any(pod.spec.requests.get(name) for name in v.GPU_RESOURCES):
        return 0
    said = pod.labels.get(v.WORKLOAD_TYPE, pod.annotations.get(v.WORKLOAD_TYPE))
    return 0 if said in _ALONE else 1
