"""The pods that a pod of some priority may drive out: what they hold on each node, for all nodes at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.counts import Counts, Question
from kubenexus.scheduler.engine.footprints import PODS, Amounts
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.state import State


@dataclass(frozen=True, slots=True)
class Among:
    """Counts as another question does, but only pods of a lower priority."""

    question: Question
    priority: int

    def weigh(self, pod: PodView) -> int:
        return self.question.weigh(pod) if pod.spec.priority < self.priority else 0


class Weaker:
    """All pods of a lower priority. Sums are kept, and taken anew only for nodes that changed."""

    def __init__(self, priority: int, state: State) -> None:
        self.priority = priority
        self._state = state
        self._position = -1
        self._amounts: Amounts = np.zeros((0, 0), dtype=np.int64)

    def on(self, node: int) -> list[PodView]:
        """Those on one node."""
        return [pod for pod in self._state.slots[node].pods.values() if pod.spec.priority < self.priority]

    def count(self, question: Question) -> Counts:
        """How many of them count on each node."""
        return self._state.count(Among(question, self.priority))

    def amounts(self) -> Amounts:
        """What they use, with the rows and columns of `state.used`. Read it, do not write to it."""
        state = self._state
        same = self._amounts.shape == state.used.shape
        changed = state.changes.since(self._position) if same else None
        if changed is None:
            self._amounts, changed = np.zeros_like(state.used), set(range(len(state.slots)))
        for node in changed:
            self._amounts[:, node] = self._sum(node)
        self._position = state.changes.position
        return self._amounts

    def anywhere(self) -> Mask:
        """The nodes that have some of them."""
        found: Mask = self.amounts()[self._state.row(PODS)] > 0
        return found

    def skip(self) -> None:
        """What changed since has been undone again."""
        self._position = self._state.changes.position

    def _sum(self, node: int) -> Amounts | int:
        """Rows that a footprint would add are there already: the pods have been placed."""
        return sum((self._state.booking(pod) for pod in self.on(node)), start=0)
