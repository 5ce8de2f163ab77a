"""TaintToleration: nodes with taints a pod does not tolerate are refused, or avoided where they only ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kubenexus.common.objects import NodeView, PodView, Taint, Toleration
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.plugin import At, Code, NodePlugin, Refusal, Scores, proportional
from kubenexus.scheduler.engine.state import State

AVOID = "PreferNoSchedule"
FORBID = ("NoSchedule", "NoExecute")


def taints_of(view: NodeView) -> tuple[Taint, ...]:
    return view.taints


@dataclass(slots=True, eq=False)
class Tolerated:
    """What a pod tolerates, and what follows for each distinct set of taints, by the number of the set.

    The last entry of a table is for nodes that are not there.
    """

    tolerations: tuple[Toleration, ...]
    forbidden: Mask = field(default_factory=lambda: np.zeros(1, dtype=np.bool_))
    avoided: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    forbids: bool = False

    def know(self, sets: list[tuple[Taint, ...]]) -> None:
        """Judge the sets of taints that have come up since; those known before keep their numbers."""
        if len(self.forbidden) == len(sets) + 1:
            return
        self.forbidden = np.array([*(self.offends(taints, FORBID) > 0 for taints in sets), False])
        self.forbids = bool(self.forbidden.any())
        self.avoided = np.array([*(self.offends(taints, (AVOID,)) for taints in sets), 0], dtype=np.int64)

    def offends(self, taints: tuple[Taint, ...], effects: tuple[str, ...]) -> int:
        """How many taints with these effects are not tolerated."""
        return sum(
            taint.effect in effects and not any(one.tolerates(taint) for one in self.tolerations) for taint in taints
        )


class TaintToleration(NodePlugin[Tolerated]):
    """Compares taints with tolerations, each distinct set of taints once."""

    name = "TaintToleration"
    minds_pods = False

    def compile(self, pod: PodView, _state: State) -> Tolerated:
        return Tolerated(pod.spec.tolerations)

    def filter(self, term: Tolerated, state: State, at: At) -> Iterator[Refusal]:
        column = state.facts.column(taints_of)
        term.know(column.values)
        if term.forbids:
            yield Refusal(term.forbidden[column.codes[at]], "node(s) had untolerated taint(s)", Code.UNRESOLVABLE)

    def score(self, term: Tolerated, state: State, at: At) -> Scores:
        column = state.facts.column(taints_of)
        term.know(column.values)
        return term.avoided[column.codes[at]]

    def normalize(self, raw: Scores, feasible: Mask) -> Scores:
        return proportional(raw, feasible, reverse=True)
