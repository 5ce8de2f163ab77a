"""The network between nodes: pods may ask for a least tier of it, and GPU work prefers the faster ones.

Which nodes a *gang* shares is not decided here, node by node, but for the whole gang at once: see `engine/fabric.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kubenexus.common import vocabulary as v
from kubenexus.common.objects import NodeView, PodView
from kubenexus.common.vocabulary import FabricTier, WorkloadType
from kubenexus.scheduler.engine.fabric import CLIQUE
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


def tier_of(node: NodeView) -> FabricTier | None:
    """The tier that a node's label names; a node of an NVLink clique is on a switch, whatever nobody said."""
    text = node.meta.labels.get(v.FABRIC_TYPE, "").lower()
    if text in _ALIASES:
        return _ALIASES[text]
    if text in set(FabricTier):
        return FabricTier(text)
    return FabricTier.NVSWITCH if not text and CLIQUE.fact(node) else None


class Wish(NamedTuple):
    """What a pod wants of the fabric. `bad` is a least tier that does not exist."""

    least: FabricTier | None
    bad: str
    weight: int
    """0 for no preference, 2 if it is sensitive"""


class NetworkFabric(NodePlugin[Wish]):
    """Refuses nodes below the tier that a pod asks for; scores the tier for GPU work that talks between nodes."""

    name = "NetworkFabric"

    def compile(self, pod: PodView, _state: State) -> Wish | None:
        text = pod.annotations.get(v.MIN_FABRIC_TIER)
        least = FabricTier(text) if text in set(FabricTier) else None
        wish = Wish(least, "" if text is None or least else text, _weight(pod))
        return wish if text is not None or wish.weight else None

    def filter(self, term: Wish, state: State, at: At) -> Iterator[Refusal]:
        if term.bad:
            nodes = np.ones(len(state.alive[at]), dtype=np.bool_)
            yield Refusal(nodes, f"the pod's {v.MIN_FABRIC_TIER} {term.bad!r} is no fabric tier", Code.UNRESOLVABLE)
        elif term.least is not None:
            column, most = state.facts.column(tier_of), _RANK[term.least]
            slow = column.where((_RANK[tier] > most for tier in column.values if tier), absent=False)[at]
            yield Refusal(slow, f"node(s) on a fabric below {term.least}", Code.UNRESOLVABLE)
            unknown = ~column.present()[at]
            yield Refusal(unknown, f"node(s) whose fabric is not known ({v.FABRIC_TYPE})", Code.UNRESOLVABLE)

    def score(self, term: Wish, state: State, at: At) -> Scores | None:
        if not term.weight:
            return None
        column = state.facts.column(tier_of)
        values = [*(QUALITY[tier] for tier in column.values if tier), UNKNOWN]
        spread = [min(max(UNKNOWN + (value - UNKNOWN) * term.weight, 0), 100) for value in values]
        return np.array(spread, dtype=np.int64)[column.codes[at]]


def _weight(pod: PodView) -> int:
    if not any(pod.spec.requests.get(name) for name in v.GPU_RESOURCES):
        return 0
    said = pod.labels.get(v.WORKLOAD_TYPE, pod.annotations.get(v.WORKLOAD_TYPE))
    if said in _ALONE:
        return 0
    return 2 if pod.annotations.get(v.NETWORK_SENSITIVE) == "true" else 1
