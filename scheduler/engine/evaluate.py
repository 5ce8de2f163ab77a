"""Evaluating a shape on the cluster: where such pods can go, how good each place is, and why the others are refused.

A `Board` remembers what node plugins said about each node and asks again only about nodes that changed, so that the
next pod of a shape costs little more than finding the maximum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.plugin import ALL, At, ClusterPlugin, Code, NodePlugin, Numbers, Scores
from kubenexus.scheduler.engine.shape import Asked, Shape
from kubenexus.scheduler.engine.state import State

# With more changed nodes than this share, asking about all is cheaper than about each; few are asked one by one.
_MANY = 4
_FEW = 4


def passes(asked: Asked, state: State, at: At) -> Mask:
    """The nodes (of those asked about) that a plugin does not refuse."""
    answer = np.ones(len(state.alive[at]), dtype=np.bool_)
    _exclude(answer, asked, state, at)
    return answer


def _exclude(answer: Mask, asked: Asked, state: State, at: At) -> None:
    """Strike out the nodes that a plugin refuses."""
    for refusal in asked.plugin.filter(asked.term, state, at):
        np.greater(answer, refusal.nodes, out=answer)  # in one step: there before, and not refused


def feasible_at(shape: Shape, state: State, at: At) -> Mask:
    """The nodes (of those asked about) where such a pod can go, with every plugin asked afresh."""
    answer: Mask = state.alive[at].copy()
    for asked in shape.asked:
        if not answer.any():
            break
        _exclude(answer, asked, state, at)
    return answer


class _Scorer(NamedTuple):
    """A node plugin whose score counts."""

    plugin: NodePlugin[Any]
    term: Any
    weight: int

    def raw(self, state: State, at: At) -> Scores:
        found = self.plugin.score(self.term, state, at)
        assert found is not None, f"{self.plugin.name}: whether there is a preference depends on the pod alone"
        return found


class _Local(NamedTuple):
    plugin: NodePlugin[Any]
    asked: Asked


class _Wide(NamedTuple):
    plugin: ClusterPlugin[Any]
    asked: Asked


class _Answers:
    """What some node plugins of a shape say about each node."""

    def __init__(self, local: list[_Local]) -> None:
        self._local = local
        self.mask: Mask = np.zeros(0, dtype=np.bool_)
        """the nodes that none of them refuses"""
        self.sum: Scores = np.zeros(0, dtype=np.int64)
        """what the plain and the level scorers add up to on each node"""
        self.uneven: list[tuple[_Scorer, Scores]] = []
        """those that are normalised at each decision, with what is normalised"""
        self._plain: list[_Scorer] = []
        """those that need no normalising"""
        self._level: list[_Scorer] = []
        """those whose raw score is 0 on every node, so that normalising gives all nodes the same"""
        self._height = 0
        """what the level scorers add to every node"""

    def renew(self, state: State) -> None:
        """Ask about all nodes."""
        self.mask = np.ones(state.size, dtype=np.bool_)
        for _, asked in self._local:
            _exclude(self.mask, asked, state, ALL)
        self._plain, self.uneven, self._level, self._height = [], [], [], 0
        self.sum = np.zeros(state.size, dtype=np.int64)
        for plugin, asked in self._local:
            raw = plugin.score(asked.term, state, ALL) if asked.weight else None
            if raw is not None:
                self._sort(_Scorer(plugin, asked.term, asked.weight), raw)
        self.sum += self._height

    def _sort(self, scorer: _Scorer, raw: Scores) -> None:
        """Put a scorer where it belongs, by what it says of all nodes."""
        if type(scorer.plugin).normalize is NodePlugin.normalize:
            self._plain.append(scorer)
            self.sum += scorer.weight * raw
        elif raw.any():
            self.uneven.append((scorer, raw))
        else:
            self._level.append(scorer)
            self._height += scorer.weight * int(scorer.plugin.normalize(raw[:1], np.ones(1, dtype=np.bool_))[0])

    def ask_one(self, state: State, node: int) -> bool:
        """Ask again about one node; False if the answer changes what counts on all others: then all are to be asked."""
        for scorer in self._level:
            if scorer.plugin.score_of(scorer.term, state, node):
                return False
        admitted = True
        for plugin, asked in self._local:
            if not plugin.admits(asked.term, state, node):
                admitted = False
                break
        total = self._height
        for plugin, term, weight in self._plain:
            total += weight * plugin.score_of(term, state, node)
        for scorer, raw in self.uneven:
            raw[node] = scorer.plugin.score_of(scorer.term, state, node)
        self.mask[node], self.sum[node] = admitted, total
        return True

    def ask(self, state: State, at: Numbers) -> bool:
        """The same about several nodes."""
        if any(scorer.raw(state, at).any() for scorer in self._level):
            return False
        mask, total = np.ones(len(at), dtype=np.bool_), np.full(len(at), self._height)
        for _, asked in self._local:
            _exclude(mask, asked, state, at)
        for scorer in self._plain:
            total += scorer.weight * scorer.raw(state, at)
        for scorer, raw in self.uneven:
            raw[at] = scorer.raw(state, at)
        self.mask[at], self.sum[at] = mask, total
        return True


class Board:
    """One shape's answers, kept up to date.

    Those of plugins that do not mind pods are kept apart: most often it is only pods that have changed on a node.
    """

    def __init__(self, shape: Shape, state: State) -> None:
        self.shape = shape
        self._state = state
        local = [_Local(one.plugin, one) for one in shape.asked if isinstance(one.plugin, NodePlugin)]
        self._of_nodes = _Answers([one for one in local if not one.plugin.minds_pods])
        self._of_pods = _Answers([one for one in local if one.plugin.minds_pods])
        self._wide = [_Wide(one.plugin, one) for one in shape.asked if isinstance(one.plugin, ClusterPlugin)]
        self._position = -1
        self._nodes_version = -1
        self._mask: Mask = np.zeros(0, dtype=np.bool_)
        """the live nodes that no node plugin refuses"""
        self._sum: Scores = np.zeros(0, dtype=np.int64)

    def feasible(self) -> Mask:
        """The nodes where such a pod can go now. Yours to change."""
        self._refresh()
        answer = self._mask.copy()
        for _, asked in self._wide:
            _exclude(answer, asked, self._state, ALL)
        return answer

    def admitted(self) -> Mask:
        """The nodes that would take such a pod as far as they themselves go, wherever other pods are. Only to be read.

        It loses nodes when pods are placed and never gains any.
        """
        self._refresh()
        return self._mask

    @property
    def social(self) -> bool:
        """Whether it matters to such a pod where others are: it may fit once they are placed."""
        return bool(self._wide)

    def scores(self, feasible: Mask) -> Scores:
        """The weighted sum of all scores as of the last `feasible`; meaningful where feasible. Yours to change."""
        total = self._sum.copy()
        for answers in (self._of_nodes, self._of_pods):
            for scorer, raw in answers.uneven:
                total += scorer.weight * scorer.plugin.normalize(raw, feasible)
        for plugin, asked in self._wide:
            scores = plugin.score(asked.term, self._state, feasible) if asked.weight else None
            if scores is not None:
                total += asked.weight * scores
        return total

    def _refresh(self) -> None:
        state = self._state
        changed = state.changes.since(self._position) if len(self._mask) == state.size else None
        only_pods = self._nodes_version == state.nodes_version
        self._position, self._nodes_version = state.changes.position, state.nodes_version
        if changed is None or len(changed) * _MANY > state.size or not self._ask(changed, only_pods):
            self._renew()

    def _renew(self) -> None:
        self._of_nodes.renew(self._state)
        self._of_pods.renew(self._state)
        self._mask = self._state.alive & self._of_nodes.mask & self._of_pods.mask
        self._sum = self._of_nodes.sum + self._of_pods.sum

    def _ask(self, changed: set[int], only_pods: bool) -> bool:
        """Ask again about some nodes; False if that does not do."""
        if only_pods and len(changed) <= _FEW:
            return all(self._ask_one(node) for node in changed)
        at = np.fromiter(changed, dtype=np.intp, count=len(changed))
        if not (self._of_nodes.ask(self._state, at) and self._of_pods.ask(self._state, at)):
            return False
        self._mask[at] = self._state.alive[at] & self._of_nodes.mask[at] & self._of_pods.mask[at]
        self._sum[at] = self._of_nodes.sum[at] + self._of_pods.sum[at]
        return True

    def _ask_one(self, node: int) -> bool:
        """Pods have come to a node, or left it."""
        nodes, pods = self._of_nodes, self._of_pods
        if not pods.ask_one(self._state, node):
            return False
        self._mask[node] = self._state.alive[node] and nodes.mask[node] and pods.mask[node]
        self._sum[node] = nodes.sum[node] + pods.sum[node]
        return True


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why one plugin refuses some nodes that all before it let pass."""

    plugin: str
    reason: str
    code: Code
    nodes: tuple[int, ...]
    detail: Callable[[int], str] | None = field(default=None, compare=False)

    def about(self, node: int) -> str:
        """The reason, with all that can be said about one node."""
        more = self.detail(node) if self.detail else ""
        return f"{self.reason} ({more})" if more else self.reason

    def settled(self) -> Verdict:
        """The same, with all that can be said about each node said now."""
        said = {node: self.detail(node) for node in self.nodes} if self.detail else {}
        return replace(self, detail=said.__getitem__) if said else self


def explain(shape: Shape, state: State, at: At = ALL) -> list[Verdict]:
    """Every live node (of those asked about) that is refused, by the first plugin that does, with all its reasons."""
    numbers, left = np.arange(state.size)[at], state.alive[at].copy()
    verdicts: list[Verdict] = []
    for asked in shape.asked:
        refused = np.zeros(len(left), dtype=np.bool_)
        for refusal in asked.plugin.filter(asked.term, state, at):
            nodes = refusal.nodes & left
            refused |= nodes
            if nodes.any():
                found = tuple(numbers[nodes].tolist())
                verdicts.append(Verdict(asked.plugin.name, refusal.reason, refusal.code, found, refusal.detail))
        left &= ~refused
    return verdicts


def summarize(verdicts: list[Verdict], nodes: int) -> str:
    """kube-scheduler's sentence: `0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).`"""
    counts = Counter[str]()
    for verdict in verdicts:
        counts[verdict.reason] += len(verdict.nodes)
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{nodes} nodes are available: {', '.join(reasons)}." if reasons else f"0/{nodes} nodes are available."


def best(scores: Scores, feasible: Mask, state: State, pod_uid_hash: int) -> int | None:
    """The feasible node with the highest score; equals are told apart by a number that is the same everywhere."""
    first = int(scores.argmax())
    if not feasible[first]:
        if not np.count_nonzero(feasible):
            return None
        first = int(np.where(feasible, scores, -1).argmax())
    tied = (scores == scores[first]) & feasible
    if np.count_nonzero(tied) == 1:
        return first
    lots = state.tie ^ np.uint32(pod_uid_hash | 1)  # odd, and never 0, which is for those that take no part
    return int((lots * tied).argmax())


def by_node(verdicts: Iterable[Verdict]) -> Iterator[tuple[int, Verdict]]:
    """(node, verdict) pairs; a node with several reasons comes several times."""
    return ((node, verdict) for verdict in verdicts for node in verdict.nodes)
