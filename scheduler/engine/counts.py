"""Counting pods by node and by domain: questions asked once and kept answered as pods come and go, never recounted.

Pods of one namespace, template, labels and volume claims are of one kind and count alike. A question is put to each
kind once, so that asking costs as much as there are kinds and pods that count, and placing a pod an addition where it
counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.carried import CarriedTerms
from kubenexus.scheduler.engine.domains import Domains, Totals

Counts = npt.NDArray[np.int32]
# Questions come from the templates of pending pods; those of long ago make room.
MAX_QUESTIONS = 1024
# Kinds without pods are kept, because they often come back, as long as there are not too many.
MIN_KINDS = 1024


class Question(Protocol):
    """What to count; equal questions share an answer."""

    def __hash__(self) -> int: ...

    def weigh(self, pod: PodView) -> int:
        """How often this pod counts: 0 for not at all. Must depend on its `kind_of` only."""
        ...


def kind_of(pod: PodView) -> Hashable:
    """What a question may look at: pods of the same kind count alike."""
    return (pod.namespace, pod.labels, pod.spec.key, pod.volume_claims, pod.deleted is not None)


@dataclass(slots=True, eq=False)
class _Answer:
    """One column of counts, and its sums by domain; `kept` until the question makes room for others."""

    counts: Counts
    sums: dict[str, tuple[Domains, Totals]] = field(default_factory=dict)
    kept: bool = True

    def add(self, node: int, weight: int) -> None:
        self.counts[node] += weight
        for domains, totals in self.sums.values():
            domain = domains.of[node]
            if domain:
                totals[domain] += weight

    def grow(self, extra: Counts) -> None:
        self.counts = np.concatenate([self.counts, extra])
        self.sums.clear()  # the domains are of the old size


@dataclass(slots=True, eq=False)
class _Kind:
    """One of the pods, how many there are by node, and the answers in which they count, with their weight."""

    pod: PodView
    nodes: dict[int, int] = field(default_factory=dict)
    counted: list[tuple[_Answer, int]] = field(default_factory=list)

    def weigh(self, question: Question, answer: _Answer) -> int:
        weight = question.weigh(self.pod)
        if weight:
            self.counted.append((answer, weight))
        return weight


class PodCounts:
    """The answers, one column per question."""

    def __init__(self) -> None:
        self.carried = CarriedTerms()
        """the affinity terms of all placed pods"""
        self._size = 0
        self._answers: dict[Question, _Answer] = {}
        self._kinds: dict[Hashable, _Kind] = {}
        self._most_kinds = MIN_KINDS

    def grow(self, size: int) -> None:
        extra = np.zeros(size - self._size, dtype=np.int32)
        for answer in self._answers.values():
            answer.grow(extra)
        self._size = size

    def ask(self, question: Question) -> Counts:
        """How many pods count on each node."""
        return self._answer(question).counts

    def ask_totals(self, question: Question, key: str, domains: Domains) -> Totals:
        """How many pods count in each of the domains, which are those of the label `key` now."""
        answer = self._answer(question)
        known = answer.sums.get(key)
        if known is None or known[0] is not domains:
            known = answer.sums[key] = (domains, domains.totals(answer.counts))
        return known[1]

    def add(self, pod: PodView, node: int, sign: int = 1) -> None:
        """The pod is on the node (1) or no more (-1)."""
        kind = self._kinds.get(key := kind_of(pod)) or self._new_kind(key, pod)
        left = kind.nodes.get(node, 0) + sign
        if left:
            kind.nodes[node] = left
        else:
            del kind.nodes[node]
        for answer, weight in kind.counted:
            answer.add(node, sign * weight)

    def answers(self) -> Iterable[tuple[Question, Counts]]:
        return ((question, answer.counts) for question, answer in self._answers.items())

    def forget(self) -> None:
        """Forget all answers: what questions look at (labels of namespaces) has changed."""
        self._answers.clear()
        self.carried.renew()
        for kind in self._kinds.values():
            kind.counted.clear()

    def _answer(self, question: Question) -> _Answer:
        answer = self._answers.pop(question, None) or self._count(question)
        self._answers[question] = answer  # the one asked last is forgotten last
        return answer

    def _count(self, question: Question) -> _Answer:
        if len(self._answers) >= MAX_QUESTIONS:
            self._forget_oldest()
        answer = _Answer(np.zeros(self._size, dtype=np.int32))
        for kind in self._kinds.values():
            weight = kind.weigh(question, answer)
            if weight and kind.nodes:
                nodes = np.fromiter(kind.nodes.keys(), dtype=np.intp, count=len(kind.nodes))
                many = np.fromiter(kind.nodes.values(), dtype=np.int32, count=len(kind.nodes))
                answer.counts[nodes] += weight * many
        return answer

    def _forget_oldest(self) -> None:
        for question in list(self._answers)[: MAX_QUESTIONS // 2]:
            self._answers.pop(question).kept = False
        for kind in self._kinds.values():
            kind.counted = [(answer, weight) for answer, weight in kind.counted if answer.kept]

    def _new_kind(self, key: Hashable, pod: PodView) -> _Kind:
        if len(self._kinds) >= self._most_kinds:
            self._forget_empty()
        kind = self._kinds[key] = _Kind(pod)
        self.carried.add(pod)
        for question, answer in self._answers.items():
            kind.weigh(question, answer)
        return kind

    def _forget_empty(self) -> None:
        gone = [key for key, kind in self._kinds.items() if not kind.nodes]
        self.carried.remove([self._kinds.pop(key).pod for key in gone])
        self._most_kinds = max(MIN_KINDS, 2 * len(self._kinds))
