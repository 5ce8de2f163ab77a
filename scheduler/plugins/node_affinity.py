"""NodeAffinity: nodes that a pod, or the profile for all its pods, selects or prefers by labels and name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kubenexus.common.config import ConfigError
from kubenexus.common.objects import (
    Affinity,
    Fields,
    Labels,
    NodeSelector,
    NodeSelectorTerm,
    Op,
    PodView,
    Requirement,
    WeightedNodeTerm,
)
from kubenexus.common.objects.placement import read_affinity
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.plugin import At, Code, NodePlugin, Refusal, Scores, proportional
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.arguments import read_args

Terms = tuple[NodeSelectorTerm, ...]

NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"
NOT_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
NOT_PINNED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
CONFLICT = "pod affinity terms conflict"


@dataclass(frozen=True, slots=True)
class NodeAffinityArgs:
    """`added_affinity` (a NodeAffinity) holds for every pod of the profile, besides its own."""

    added_affinity: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pod wants of its node. Of each tuple of `required` one term must match."""

    required: tuple[Terms, ...]
    pinned: Terms | None
    conflict: bool
    preferred: tuple[WeightedNodeTerm, ...]


def node_wish(pod: PodView, preferred: tuple[WeightedNodeTerm, ...] = ()) -> Wish:
    """What the pod's nodeSelector and node affinity ask for, and more that is preferred."""
    affinity = pod.spec.affinity
    required = () if affinity.node is None else (affinity.node.terms,)
    names = pinned_names(affinity.node)
    return Wish(
        (*_selected(pod.spec.node_selector), *required),
        None if names is None else tuple(_named(name) for name in sorted(names)),
        names is not None and not names,
        (*preferred, *affinity.node_preferred),
    )


def _selected(labels: Labels) -> tuple[Terms, ...]:
    wanted = tuple(Requirement(key, Op.IN, frozenset((value,))) for key, value in labels.items())
    return ((NodeSelectorTerm(labels=wanted),),) if wanted else ()


def _named(name: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(fields=(Requirement("metadata.name", Op.IN, frozenset((name,))),))


def pinned_names(selector: NodeSelector | None) -> frozenset[str] | None:
    """The only nodes worth a look, if every term names its own; None if some term does not."""
    found: frozenset[str] = frozenset()
    for term in () if selector is None else selector.terms:
        names = [one.values for one in term.fields if one.op is Op.IN]
        if not names:
            return None
        found |= frozenset.intersection(*names)
    return found if selector is not None and selector.terms else None


def matching(wish: Wish, state: State) -> Mask:
    """The nodes, of all, that the pod's own nodeSelector and required affinity allow. Yours to change."""
    answer = np.ones(state.size, dtype=np.bool_)
    for terms in wish.required:
        answer &= state.labels.any_term(terms)
    return answer


class NodeAffinity(NodePlugin[Wish]):
    """Selectors are answered for all nodes at once and remembered until a label changes."""

    name = "NodeAffinity"
    minds_pods = False

    def __init__(self, args: Mapping[str, Any]) -> None:
        added = _added(read_args(NodeAffinityArgs, args))
        self._enforced = None if added.node is None else added.node.terms
        self._preferred = added.node_preferred

    def compile(self, pod: PodView, _state: State) -> Wish | None:
        wish = node_wish(pod, self._preferred)
        return wish if wish.required or wish.preferred or self._enforced is not None else None

    def filter(self, term: Wish, state: State, at: At) -> Iterator[Refusal]:
        left = np.ones(len(state.alive[at]), dtype=np.bool_)
        for error in (one.term.error for one in term.preferred if one.term.error):
            yield Refusal(left.copy(), error, Code.ERROR)
        for terms, reason in self._conditions(term):
            fits = state.labels.any_term(terms)[at]
            yield Refusal(left & ~fits, reason, Code.UNRESOLVABLE)
            left &= fits

    def _conditions(self, term: Wish) -> Iterator[tuple[Terms, str]]:
        """What must match, in kube-scheduler's order: a node is told the first reason only."""
        if term.pinned is not None:
            yield term.pinned, CONFLICT if term.conflict else NOT_PINNED
        if self._enforced is not None:
            yield self._enforced, NOT_ENFORCED
        for terms in term.required:
            yield terms, NOT_SELECTED

    def score(self, term: Wish, state: State, at: At) -> Scores | None:
        if not term.preferred:
            return None
        total = np.zeros(len(state.alive[at]), dtype=np.int64)
        for weight, preference in term.preferred:
            total += weight * state.labels.term(preference)[at]
        return total

    def normalize(self, raw: Scores, feasible: Mask) -> Scores:
        return proportional(raw, feasible)


def _added(args: NodeAffinityArgs) -> Affinity:
    fields = Fields({"affinity": {"nodeAffinity": dict(args.added_affinity or {})}}, [])
    read = read_affinity(fields)
    wrong = [*fields.problems, *(read.node.errors if read.node else ()), *(p.term.error for p in read.node_preferred)]
    if read.node is not None and not read.node.terms:
        wrong.append("requiredDuringSchedulingIgnoredDuringExecution has no nodeSelectorTerms")
    for problem in filter(None, wrong):
        raise ConfigError(f"addedAffinity: {problem}")
    return read
