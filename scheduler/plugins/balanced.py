"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod would leave evenly used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.plugin import MAX_SCORE, At, NodePlugin, Scores
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.arguments import read_args
from kubenexus.scheduler.plugins.resources import Scored, scored_resources
from kubenexus.scheduler.plugins.strategies import CPU_AND_MEMORY, Number, ResourceWeight


@dataclass(frozen=True, slots=True)
class NodeResourcesBalancedAllocationArgs:
    """The resources to balance; weights are read and, as in kube-scheduler, make no difference."""

    resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY


class NodeResourcesBalancedAllocation(NodePlugin[tuple[Scored, ...]]):
    """Scores how much more even, or less, the pod makes the use of a node's resources: 75 for no difference."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._resources = read_args(NodeResourcesBalancedAllocationArgs, args).resources or CPU_AND_MEMORY

    def compile(self, pod: PodView, state: State) -> tuple[Scored, ...] | None:
        asked = pod.spec.requests
        wanted = any(asked.get(one.name) for one in self._resources)
        return scored_resources(self._resources, asked, state) if wanted else None

    def score(self, term: tuple[Scored, ...], state: State, at: At) -> Scores:
        alloc = [state.alloc[one.alloc, at] for one in term]
        used = [state.used[one.used, at] for one in term]
        more = [before + one.amount for before, one in zip(used, term, strict=True)]
        scores: Scores = _gain(evenness(used, alloc).astype(np.int64), evenness(more, alloc).astype(np.int64))
        return scores

    def score_of(self, term: tuple[Scored, ...], state: State, node: int) -> int:
        alloc, used = state.alloc.item, state.used.item
        counts, before, after = [], [], []
        for top, row, amount, _ in term:
            whole, taken = alloc(top, node), used(row, node)
            counts.append(whole > 0)
            before.append(min(taken / whole, 1) if whole else 0)
            after.append(min((taken + amount) / whole, 1) if whole else 0)
        return int(_gain(int(_evenness(before, counts)), int(_evenness(after, counts))))


def _gain(before: Number, after: Number) -> Number:
    return MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2


def evenness(used: Sequence[Number], alloc: Sequence[Number]) -> Number:
    """100 when a node's resources are used to the same share, less the further these shares are apart."""
    return _evenness([_share(*one) for one in zip(used, alloc, strict=True)], [one > 0 for one in alloc])


def _evenness(shares: Sequence[Number], counts: Sequence[Number]) -> Number:
    return (1 - deviation(shares, counts)) * MAX_SCORE


def _share(used: Number, alloc: Number) -> Number:
    """At most 1, and 0 of nothing."""
    share = used / (alloc + (alloc == 0))
    return ((share < 1) * share + (share >= 1)) * (alloc > 0)


def deviation(shares: Sequence[Number], counts: Sequence[Number]) -> Number:
    """The standard deviation of the shares that count; exactly half the difference of two."""
    if len(shares) == 2:
        return abs(shares[0] - shares[1]) / 2 * (counts[0] * counts[1])
    many = sum(counts)
    mean = sum(shares) / (many + (many == 0))
    squares = sum((share - mean) ** 2 * count for share, count in zip(shares, counts, strict=True))
    return np.sqrt(squares / (many + (many == 0)))
