"""PodTopologySpread: pods of one kind evenly over the values of a node label, as a must or as a wish."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from kubenexus.common.objects import LabelSelector, PodView, SpreadConstraint
from kubenexus.scheduler.engine.domains import Domains, Indices, Totals
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.plugin import MAX_SCORE, At, ClusterPlugin, Code, Refusal, Scores
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.weaker import Weaker
from kubenexus.scheduler.plugins.arguments import read_args
from kubenexus.scheduler.plugins.node_affinity import matching, node_wish
from kubenexus.scheduler.plugins.spread_defaults import HOSTNAME, PodTopologySpreadArgs, default_selector, equal_to
from kubenexus.scheduler.plugins.taints import Tolerated, taints_of

UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_KEY = "node(s) didn't match pod topology spread constraints (missing required label)"


@dataclass(frozen=True, slots=True)
class Siblings:
    """Counts the pods of a namespace that a selector means and that are not being deleted; an empty one means none."""

    namespace: str
    selector: LabelSelector

    def weigh(self, pod: PodView) -> int:
        if pod.deleted is not None or pod.namespace != self.namespace or self.selector.empty:
            return 0
        return int(self.selector.matches(pod.labels))


@dataclass(frozen=True, slots=True)
class Rule:
    """One constraint of one pod; `itself` is 1 if the pod is among those it counts."""

    key: str
    max_skew: int
    min_domains: int
    honor_affinity: bool
    honor_taints: bool
    siblings: Siblings
    itself: int


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Where a rule counts: the nodes (None for all that have its key), and the domains that these make up."""

    rule: Rule
    domains: Domains
    nodes: Mask | None
    occupied: Indices

    def totals(self, state: State) -> Totals:
        """The number of pods in each domain. Only to be read."""
        if self.nodes is None:
            return state.totals(self.rule.siblings, self.rule.key)
        return self.domains.totals(state.count(self.rule.siblings) * self.nodes)


class Rules:
    """Rules that hold together, and the ground of each, surveyed once for as long as no node changes.

    With `every_key` a node that lacks the key of one rule is no ground for any.
    """

    def __init__(self, rules: Iterable[Rule], pod: PodView, *, every_key: bool = True) -> None:
        self.rules = tuple(rules)
        self._wish, self._tolerated = node_wish(pod), Tolerated(pod.spec.tolerations)
        self._every_key = every_key
        self._surveyed = (-1, -1)
        self._ignored: Mask | None = None
        self._grounds: list[Ground] = []

    def grounds(self, state: State) -> list[Ground]:
        self._survey(state)
        return self._grounds

    def counted(self, nodes: Mask, state: State) -> Mask:
        """Those of the nodes that have all the keys they must have."""
        self._survey(state)
        return nodes if self._ignored is None else nodes & ~self._ignored

    def _survey(self, state: State) -> None:
        if self._surveyed == (now := (state.nodes_version, state.size)):
            return
        self._surveyed = now
        domains = [state.labels.column(rule.key).domains for rule in self.rules]
        complete = state.alive.copy()
        for one in domains if self._every_key else ():
            complete &= one.present
        self._ignored = None if (complete == state.alive).all() else ~complete
        self._grounds = [self._ground(*pair, complete, state) for pair in zip(self.rules, domains, strict=True)]

    def _ground(self, rule: Rule, domains: Domains, complete: Mask, state: State) -> Ground:
        nodes = complete & domains.present
        if rule.honor_affinity:
            nodes &= matching(self._wish, state)
        if rule.honor_taints:
            column = state.facts.column(taints_of)
            self._tolerated.know(column.values)
            nodes &= ~self._tolerated.forbidden[column.codes]
        everywhere = bool((nodes == domains.present).all())
        return Ground(rule, domains, None if everywhere else nodes, domains.distinct(nodes))


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """What a pod's constraints refuse and what they score; `error` if they cannot be read."""

    hard: Rules
    soft: Rules
    error: str = ""


class PodTopologySpread(ClusterPlugin[Spread]):
    """Constraints of the pod itself, or else those of the profile with a selector from its services and controller."""

    name = "PodTopologySpread"

    def __init__(self, args: Mapping[str, Any]) -> None:
        read = read_args(PodTopologySpreadArgs, args)
        self._defaults, self._system = read.constraints, read.system

    def reads(self, pod: PodView) -> tuple[str, ...]:
        return () if pod.spec.spread or not self._defaults else ("services", "owners")

    def compile(self, pod: PodView, state: State) -> Spread | None:
        if pod.spec.spread:
            found = [(one, _selector(one, pod)) for one in pod.spec.spread]
        else:
            selector = default_selector(pod, state.objects)
            found = [(one, selector) for one in self._defaults if not selector.empty]
        if not found:
            return None
        rules = [(one.hard, _rule(one, selector, pod)) for one, selector in found]
        return Spread(
            Rules((rule for hard, rule in rules if hard), pod),
            Rules((rule for hard, rule in rules if not hard), pod, every_key=bool(pod.spec.spread) or not self._system),
            next((selector.error for _, selector in found if selector.error), ""),
        )

    def filter(self, term: Spread, state: State, at: At) -> Iterator[Refusal]:
        if term.error:
            yield Refusal(np.ones(len(state.alive[at]), dtype=np.bool_), term.error, Code.ERROR)
            return
        left = np.ones(len(state.alive[at]), dtype=np.bool_)
        for ground in term.hard.grounds(state):
            present = ground.domains.present[at]
            yield Refusal(left & ~present, NO_KEY, Code.UNRESOLVABLE)
            full = _full(ground, state).take(ground.domains.of[at])
            yield Refusal(left & present & full, UNEVEN)
            left &= present & ~full

    def filter_without(self, term: Spread, state: State, at: At, weaker: Weaker) -> Iterator[Refusal]:
        for ground in term.hard.grounds(state):
            domains = ground.domains
            excess = _excess(ground, state).take(domains.of[at]) - weaker.count(ground.rule.siblings)[at]
            yield Refusal(domains.present[at] & (excess > 0), UNEVEN)

    def heeds(self, term: Spread, _pods: Sequence[PodView]) -> bool:
        return bool(term.hard.rules)

    def may_miss(self, _term: Spread) -> bool:
        return False

    def score(self, term: Spread, state: State, feasible: Mask) -> Scores | None:
        if not term.soft.rules:
            return None
        scored = term.soft.counted(feasible, state)
        nodes, grounds = np.flatnonzero(scored), term.soft.grounds(state)
        if len(grounds) == 1 and grounds[0].rule.key != HOSTNAME:
            return _room_in_domains(grounds[0], nodes, state)
        raw = np.zeros(state.size)
        for ground in grounds:
            raw += _crowding(ground, nodes, state)
        return _room(raw, nodes) * scored

    def census(self, term: Spread, state: State) -> list[tuple[Rule, dict[str, int]]]:
        """Each rule that refuses, with the number of pods in every domain it looks at."""
        return [(ground.rule, _named(ground, state)) for ground in term.hard.grounds(state)]


def _selector(constraint: SpreadConstraint, pod: PodView) -> LabelSelector:
    """The constraint's selector, and the pod's own values of the labels it names."""
    same = {key: pod.labels[key] for key in constraint.match_label_keys if key in pod.labels}
    if not same or constraint.selector.error:
        return constraint.selector
    return LabelSelector((*equal_to(same), *(constraint.selector.requirements or ())))


def _rule(constraint: SpreadConstraint, selector: LabelSelector, pod: PodView) -> Rule:
    return Rule(
        key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains,
        honor_affinity=constraint.honor_affinity,
        honor_taints=constraint.honor_taints,
        siblings=Siblings(pod.namespace, selector),
        itself=int(selector.matches(pod.labels)),
    )


def _full(ground: Ground, state: State) -> Mask:
    """The domains that would have too many pods more than the emptiest."""
    full: Mask = _excess(ground, state) > 0
    return full


def _excess(ground: Ground, state: State) -> Totals:
    """By how many pods each domain would have too many."""
    rule, totals = ground.rule, ground.totals(state)
    enough = len(ground.occupied) >= rule.min_domains
    fewest = totals.take(ground.occupied).min(initial=np.inf) if enough else 0
    return totals + (rule.itself - fewest - rule.max_skew)


def _crowding(ground: Ground, nodes: Indices, state: State) -> Totals:
    """How crowded it is around each node, given those that compete."""
    rule, domains = ground.rule, ground.domains
    if rule.key != HOSTNAME:
        return _crowding_in_domains(ground, domains.distinct(nodes), state).take(domains.of)
    # kube-scheduler looks at the node itself, whichever others have its name.
    counts = state.count(rule.siblings).astype(np.float64)
    return (counts * log(len(nodes) + 2) + (rule.max_skew - 1)) * domains.present


def _crowding_in_domains(ground: Ground, competing: Indices, state: State) -> Totals:
    """How crowded each domain is: its pods, weighing more the more domains compete."""
    crowding = ground.totals(state) * log(len(competing) + 2) + (ground.rule.max_skew - 1)
    crowding[0] = 0
    return crowding


def _room_in_domains(ground: Ground, nodes: Indices, state: State) -> Scores:
    """Scores when there is one rule: nodes of a domain are alike, and there are far fewer domains than nodes."""
    competing = ground.domains.distinct(nodes)
    room = _room(_crowding_in_domains(ground, competing, state), competing)
    room[0] = 0
    return room.take(ground.domains.of)


def _room(crowding: Totals, among: Indices) -> Scores:
    """Scores: 100 for the least crowded among these, and less for all others."""
    rounded = np.floor(crowding + 0.5)
    compared = rounded.take(among)
    lowest, highest = compared.min(initial=np.inf), compared.max(initial=0)
    if highest == 0:
        return np.full(len(rounded), MAX_SCORE, dtype=np.int64)
    scaled: Totals = MAX_SCORE * (highest + lowest - rounded) / highest
    return scaled.astype(np.int64)


def _named(ground: Ground, state: State) -> dict[str, int]:
    totals, values = ground.totals(state), state.labels.column(ground.rule.key).values
    return {values[domain - 1]: int(totals[domain]) for domain in ground.occupied}
