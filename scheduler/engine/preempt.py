"""Preemption: which pods of lower priority must go so that a pod gets a place, and on which node that hurts least.

Nodes are tried one by one (see `victims.py`). Most are ruled out before, all at once, because even without their weaker
pods there would be no room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from zlib import crc32

import numpy as np

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.evaluate import Verdict, summarize
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.plugin import Code
from kubenexus.scheduler.engine.shape import Shape
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.victims import Budgets, Candidate, Nodes, start
from kubenexus.scheduler.engine.weaker import Weaker

NAME = "DefaultPreemption"
NEVER = "not eligible due to preemptionPolicy=Never."
LEAVING = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
# Distinct priorities of pods that look for victims; the sums of those of long ago make room.
_MAX_PRIORITIES = 16
# What every victim costs, beside its priority: priorities may be negative.
_ONE_MORE = 1 << 31


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """kube-scheduler's arguments: how many possible nodes to find before the best of them is taken."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def __post_init__(self) -> None:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        if not 0 <= percentage <= 100:
            raise ValueError(f"minCandidateNodesPercentage is {percentage}, which is not from 0 to 100")
        if absolute < 0:
            raise ValueError(f"minCandidateNodesAbsolute is {absolute}, which is less than 0")
        if percentage == absolute == 0:
            raise ValueError("minCandidateNodesPercentage and minCandidateNodesAbsolute are both 0")

    def enough(self, nodes: int) -> int:
        """How many of so many nodes are enough to choose from."""
        wanted = max(nodes * self.min_candidate_nodes_percentage // 100, self.min_candidate_nodes_absolute)
        return min(wanted, nodes)


@dataclass(slots=True)
class DryRun:
    """The nodes where it would work, and why not on the others that were looked at.

    It ends with `enough` candidates, one of which breaks no budget; of those that break one no more are kept.
    """

    enough: int
    candidates: list[Candidate] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    harmless: int = 0

    def add(self, found: Candidate) -> None:
        breaks = found.violations > 0
        if not breaks or len(self.candidates) - self.harmless < self.enough:
            self.candidates.append(found)
            self.harmless += not breaks

    @property
    def done(self) -> bool:
        return self.harmless > 0 and len(self.candidates) >= self.enough


class Preemption:
    """Looks for victims on one state."""

    def __init__(self, state: State, nominations: Nominations, args: PreemptionArgs | None = None) -> None:
        self._state = state
        self._nominations = nominations
        self._args = args or PreemptionArgs()
        self._weaker: dict[int, Weaker] = {}
        self._budgets: Budgets | None = None
        self._budgets_version = 0

    def find(self, pod: PodView, shape: Shape, verdicts: Sequence[Verdict]) -> Candidate | str:
        """The best node to clear for a pod that all nodes refuse, or kube-scheduler's sentence why there is none."""
        curable, hopeless = _curable(verdicts, self._state)
        nodes = np.flatnonzero(curable)
        start = crc32(pod.uid.encode()) % max(1, len(nodes))
        run = self.dry_run(pod, shape, np.roll(nodes, -start).tolist(), self._args.enough(len(nodes)))
        if run.candidates:
            return choose(run.candidates)
        if hopeless:
            run.verdicts.append(Verdict(NAME, NOT_HELPFUL, Code.UNRESOLVABLE, hopeless))
        return f"preemption: {summarize(run.verdicts, int(self._state.alive.sum()))}"

    def ineligible(self, pod: PodView, verdicts: Iterable[Verdict]) -> str:
        """Why this pod must not look for victims; empty if it may. Pods that leave for it already are waited for."""
        if not pod.spec.preempts:
            return NEVER
        nomination = self._nominations.of(pod.uid)
        node = None if nomination is None else self._state.index(nomination.node)
        if nomination is None or node is None or _refused_for_good(node, verdicts):
            return ""
        weaker = self._weaker_than(pod).on(node)
        waits = any(other.uid in nomination.victims or _makes_room(other) for other in weaker)
        return LEAVING if waits else ""

    def dry_run(self, pod: PodView, shape: Shape, nodes: Sequence[int], enough: int) -> DryRun:
        """Try the nodes in this order, until there are enough candidates and one of them breaks no budget."""
        run, weaker = DryRun(enough), self._weaker_than(pod)
        rivals = self._nominations.rivals(pod, self._state)
        left = np.array(self._possible(shape, nodes, weaker, run), dtype=np.intp)
        worth = Nodes(shape, self._state, left, weaker, self._known_budgets())
        for position, node in enumerate(left.tolist()):
            if run.done:
                break
            found = worth.clear(position, node, rivals.get(node, ()))
            if isinstance(found, Candidate):
                run.add(found)
            else:
                run.verdicts += found
        weaker.skip()
        return run

    def _known_budgets(self) -> Budgets:
        pdbs = self._state.objects.pdbs
        if self._budgets is None or self._budgets_version != pdbs.version:
            self._budgets, self._budgets_version = Budgets(pdbs.values()), pdbs.version
        return self._budgets

    def _weaker_than(self, pod: PodView) -> Weaker:
        priority = pod.spec.priority
        known = self._weaker.pop(priority, None) or Weaker(priority, self._state)
        if len(self._weaker) >= _MAX_PRIORITIES:
            del self._weaker[next(iter(self._weaker))]
        self._weaker[priority] = known
        return known

    def _possible(self, shape: Shape, nodes: Sequence[int], weaker: Weaker, run: DryRun) -> list[int]:
        """The nodes worth a try; the verdicts about the others are added to the run."""
        at = np.array(nodes, dtype=np.intp)
        left = weaker.anywhere()[at]
        if not left.all():
            run.verdicts.append(Verdict(NAME, NO_VICTIMS, Code.UNRESOLVABLE, tuple(at[~left].tolist())))
        for asked in shape.asked:
            refused = np.zeros(len(at), dtype=np.bool_)
            for refusal in asked.plugin.filter_without(asked.term, self._state, at, weaker):
                found = refusal.nodes & left
                refused |= found
                if found.any():
                    verdict = Verdict(asked.plugin.name, refusal.reason, refusal.code, tuple(at[found].tolist()))
                    run.verdicts.append(verdict)
            left &= ~refused
        return [int(node) for node in at[left]]


def choose(candidates: Iterable[Candidate]) -> Candidate:
    """The node where preemption hurts least; the first of equals."""
    return min(candidates, key=_harm)


def _harm(candidate: Candidate) -> tuple[float, ...]:
    """Broken budgets, the highest priority, the sum of priorities, the number of pods, and how long they have run."""
    victims = candidate.victims
    priorities = [pod.spec.priority for pod in victims]
    highest = max(priorities, default=-_ONE_MORE)
    oldest = min((start(pod) for pod in victims if pod.spec.priority == highest), default=inf)
    return candidate.violations, highest, sum(priorities) + _ONE_MORE * len(victims), len(victims), -oldest


def _curable(verdicts: Iterable[Verdict], state: State) -> tuple[Mask, tuple[int, ...]]:
    """The nodes that are refused only for reasons that pods can lift by leaving, and the others."""
    curable = np.zeros(state.size, dtype=np.bool_)
    hopeless = state.alive.copy()
    for verdict in verdicts:
        if verdict.code is Code.UNSCHEDULABLE:
            curable[list(verdict.nodes)] = True
    for verdict in verdicts:
        if verdict.code is not Code.UNSCHEDULABLE:
            curable[list(verdict.nodes)] = False
    hopeless &= ~curable
    return curable, tuple(np.flatnonzero(hopeless).tolist())


def _refused_for_good(node: int, verdicts: Iterable[Verdict]) -> bool:
    return any(verdict.code is Code.UNRESOLVABLE and node in verdict.nodes for verdict in verdicts)


def _makes_room(pod: PodView) -> bool:
    """Whether the pod is leaving because a scheduler asked it to."""
    target = pod.condition("DisruptionTarget")
    return pod.deleted is not None and target is not None and target[1:3] == ("True", "PreemptionByScheduler")
