"""InterPodAffinity: pods that must or would like to share a domain with others, or to stay away from them.

Three kinds of pods count: those that this pod's terms mean, those whose own required anti-affinity means this pod, and
those whose wishes do. None of them is searched for: the state counts them as they come and go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kubenexus.common.objects import PodAffinity, PodTerm, PodView, WeightedPodTerm
from kubenexus.scheduler.engine.carried import Carried, carried_by, readable
from kubenexus.scheduler.engine.counts import Question
from kubenexus.scheduler.engine.domains import Totals
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.plugin import MAX_SCORE, At, ClusterPlugin, Code, Refusal, Scores
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.weaker import Weaker
from kubenexus.scheduler.plugins.arguments import read_args

NOT_NEAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
REPELLED = "node(s) didn't satisfy existing pods anti-affinity rules"

ByKey = Mapping[str, Question]
"""One question for each topology key."""


@dataclass(frozen=True, slots=True)
class InterPodAffinityArgs:
    """kube-scheduler's arguments."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.hard_pod_affinity_weight <= MAX_SCORE:
            raise ValueError(f"hardPodAffinityWeight is {self.hard_pod_affinity_weight}, which is not from 0 to 100")


@dataclass(frozen=True, slots=True)
class MatchesAll:
    """Counts the pods that all these terms of a pod in namespace `home` mean."""

    terms: tuple[PodTerm, ...]
    home: str
    state: State = field(compare=False, repr=False)

    def weigh(self, pod: PodView) -> int:
        return int(all(_means(term, self.home, pod.namespace, pod.labels, self.state) for term in self.terms))


@dataclass(frozen=True, slots=True)
class MatchesSome:
    """Counts pods by the weights of those terms that mean them."""

    terms: tuple[WeightedPodTerm, ...]
    home: str
    state: State = field(compare=False, repr=False)

    def weigh(self, pod: PodView) -> int:
        return sum(
            weight for weight, term in self.terms if _means(term, self.home, pod.namespace, pod.labels, self.state)
        )


@dataclass(frozen=True, slots=True)
class Carries:
    """Counts pods by the weights of those of their own terms that are among these."""

    terms: frozenset[Carried]
    required_weight: int

    def weigh(self, pod: PodView) -> int:
        found = (one for one in carried_by(pod) if one in self.terms)
        return sum(self.required_weight if one.required else one.weight for one in found)


def _means(term: PodTerm, home: str, namespace: str, labels: Mapping[str, str], state: State) -> bool:
    return term.matches(home, namespace, state.namespace_labels(namespace), labels)


class Others:
    """What the terms of placed pods say about one pod. They are read on as they come, each once."""

    def __init__(self, pod: PodView, required_weight: int) -> None:
        self.repelling: ByKey = {}
        """pods that refuse to be with this one"""
        self.wishing: ByKey = {}
        """pods that would like to be with it, or not"""
        self._namespace, self._labels = pod.namespace, pod.labels
        self._required_weight = required_weight
        self._epoch, self._read = -1, 0
        self._found: list[Carried] = []

    def refresh(self, state: State) -> Others:
        carried = state.carried
        if self._epoch != carried.epoch:
            self._epoch, self._read, self._found = carried.epoch, 0, []
            self._arrange()
        if self._read < len(carried.terms):
            fresh = [one for one in carried.terms[self._read :] if self._meant(one, state)]
            self._read = len(carried.terms)
            if fresh:
                self._found += fresh
                self._arrange()
        return self

    def _meant(self, one: Carried, state: State) -> bool:
        return _means(one.term, one.home, self._namespace, self._labels, state)

    def _arrange(self) -> None:
        repelling = (one for one in self._found if one.required and one.weight < 0)
        wishing = (one for one in self._found if self._counts(one))
        self.repelling = {key: Carries(terms, 1) for key, terms in _by_key(repelling).items()}
        self.wishing = {key: Carries(terms, self._required_weight) for key, terms in _by_key(wishing).items()}

    def _counts(self, one: Carried) -> bool:
        """Whether it makes a place better or worse: all but required anti-affinity, unless the weight is 0."""
        return one.weight > 0 and self._required_weight > 0 if one.required else one.weight != 0


def _by_key(terms: Iterable[Carried]) -> dict[str, frozenset[Carried]]:
    grouped = defaultdict[str, set[Carried]](set)
    for one in terms:
        grouped[one.term.topology_key].add(one)
    return {key: frozenset(group) for key, group in grouped.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Company:
    """Whom a pod wants near and whom not; `error` if that cannot be read."""

    error: str
    near: MatchesAll | None
    near_keys: tuple[str, ...]
    starts_alone: bool
    """it means itself, so the first of its kind needs nobody near"""
    apart: ByKey
    wishes: ByKey
    others: Others


class InterPodAffinity(ClusterPlugin[Company]):
    """Required affinity and anti-affinity, in both directions, refuse; preferred terms and those of others score."""

    name = "InterPodAffinity"

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._args = read_args(InterPodAffinityArgs, args)

    def compile(self, pod: PodView, state: State) -> Company:
        near, apart = pod.spec.affinity.pods, pod.spec.affinity.anti
        required = MatchesAll(near.required, pod.namespace, state) if near.required else None
        wishes = [*near.preferred, *(WeightedPodTerm(-weight, term) for weight, term in apart.preferred)]
        return Company(
            error=_error(near) or _error(apart),
            near=required,
            near_keys=tuple(dict.fromkeys(term.topology_key for term in near.required)),
            starts_alone=required is not None and required.weigh(pod) > 0,
            apart=_questions((WeightedPodTerm(1, term) for term in apart.required), pod, state),
            wishes=_questions(wishes, pod, state),
            others=Others(pod, self._args.hard_pod_affinity_weight),
        )

    def filter(self, term: Company, state: State, at: At) -> Iterator[Refusal]:
        if term.error:
            yield Refusal(np.ones(len(state.alive[at]), dtype=np.bool_), term.error, Code.UNRESOLVABLE)
            return
        not_near = _not_near(term, state, at)
        too_near = _shared(term.apart, state, at)
        repelled = _shared(term.others.refresh(state).repelling, state, at)
        if not_near is not None:
            yield Refusal(not_near, NOT_NEAR, Code.UNRESOLVABLE)
        if too_near is not None:
            yield Refusal(_without(too_near, not_near), TOO_NEAR)
        if repelled is not None:
            yield Refusal(_without(_without(repelled, not_near), too_near), REPELLED)

    def filter_without(self, term: Company, state: State, at: At, weaker: Weaker) -> Iterator[Refusal]:
        for questions, reason in ((term.apart, TOO_NEAR), (term.others.refresh(state).repelling, REPELLED)):
            for key, question in questions.items():
                domains = state.labels.column(key).domains
                near = state.totals(question, key).take(domains.of[at]) - weaker.count(question)[at]
                yield Refusal(domains.present[at] & (near > 0), reason)

    def heeds(self, term: Company, pods: Sequence[PodView]) -> bool:
        return bool(term.near or term.apart) or any(pod.spec.affinity.anti.required for pod in pods)

    def may_miss(self, term: Company) -> bool:
        return term.near is not None

    def score(self, term: Company, state: State, feasible: Mask) -> Scores | None:
        if self._args.ignore_preferred_terms_of_existing_pods and not term.wishes:
            return None
        sums: dict[str, Totals] = {}
        for questions in (term.wishes, term.others.refresh(state).wishing):
            for key, question in questions.items():
                totals = state.totals(question, key)
                sums[key] = sums[key] + totals if key in sums else totals
        near = [totals.take(state.labels.column(key).domains.of) for key, totals in sums.items()]
        return _between_extremes(sum(near[1:], near[0]), feasible) if near else None


def _error(part: PodAffinity) -> str:
    terms = (*part.required, *(term for _, term in part.preferred))
    wrong = next((term for term in terms if not readable(term)), None)
    return f"parsing pod: {wrong.selector.error or wrong.namespace_selector.error}" if wrong else ""


def _questions(terms: Iterable[WeightedPodTerm], pod: PodView, state: State) -> ByKey:
    grouped = defaultdict[str, list[WeightedPodTerm]](list)
    for one in terms:
        grouped[one.term.topology_key].append(one)
    return {key: MatchesSome(tuple(group), pod.namespace, state) for key, group in grouped.items()}


def _not_near(term: Company, state: State, at: At) -> Mask | None:
    """The nodes that lack a key, or a pod that all required terms mean; the latter not for the first of its kind."""
    if term.near is None:
        return None
    domains = [state.labels.column(key).domains for key in term.near_keys]
    totals = [state.totals(term.near, key) for key in term.near_keys]
    if term.starts_alone and not any(one.any() for one in totals):
        lonely = [~one.present[at] for one in domains]
    else:
        lonely = [(total <= 0).take(one.of[at]) for one, total in zip(domains, totals, strict=True)]
    answer: Mask = np.logical_or.reduce(lonely)
    return answer


def _shared(questions: ByKey, state: State, at: At) -> Mask | None:
    """The nodes that share a domain with a pod that counts."""
    answer: Mask | None = None
    for key, question in questions.items():
        taken = state.totals(question, key) > 0
        if taken.any():
            nodes = taken.take(state.labels.column(key).domains.of[at])
            answer = nodes if answer is None else answer | nodes
    return answer


def _without(nodes: Mask, before: Mask | None) -> Mask:
    """kube-scheduler tells the first reason only."""
    return nodes if before is None else nodes & ~before


def _between_extremes(raw: Totals, feasible: Mask) -> Scores | None:
    """0 for the lowest feasible value, 100 for the highest; None if they are all alike."""
    compared = raw.take(np.flatnonzero(feasible))
    lowest, highest = compared.min(initial=np.inf), compared.max(initial=-np.inf)
    if lowest >= highest:
        return None
    scaled: Totals = MAX_SCORE * ((raw - lowest) / (highest - lowest))
    return scaled.astype(np.int64)
