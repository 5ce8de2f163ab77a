"""One node of a dry run: which of its weaker pods have to go so that a pod fits, and how many may stay.

All of them are removed; then each is brought back, those that a disruption budget protects first, the most important
first, and stays if the pod still fits. Where only amounts decide sums are enough for that; elsewhere it is tried on the
state.

Plugins are taken to be consistent: one that accepts a node both with all of its weaker pods and without any of them
accepts it with some of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from kubenexus.common.objects import Labels, PodDisruptionBudgetView, PodView
from kubenexus.scheduler.engine.evaluate import Verdict, passes
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.nominated import fits, judge
from kubenexus.scheduler.engine.plugin import At, ClusterPlugin
from kubenexus.scheduler.engine.shape import Asked, Shape
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.weaker import Weaker


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and the pods that would have to go, the most important first; `violations` of them break a budget."""

    node: int
    victims: tuple[PodView, ...]
    violations: int


def importance(pod: PodView) -> tuple[int, float, float, str]:
    """Sorts pods from the most to the least important: by priority, then by how long they have been running."""
    return (-pod.spec.priority, start(pod), pod.created, pod.uid)


def start(pod: PodView) -> float:
    """When the pod started; one that has not starts later than all others."""
    return inf if pod.started is None else pod.started


class Budgets:
    """Disruption budgets, found by the labels of the pods that they protect."""

    def __init__(self, budgets: Iterable[PodDisruptionBudgetView]) -> None:
        self._budgets = tuple(budgets)
        self._found: dict[tuple[str, Labels], list[PodDisruptionBudgetView]] = {}

    def split(self, pods: list[PodView]) -> tuple[list[PodView], list[PodView]]:
        """The pods that break a budget if all leave in this order, and the others."""
        if not self._budgets:
            return [], pods
        broken: list[PodView] = []
        others: list[PodView] = []
        taken = Counter[str]()
        for pod in pods:
            mine = [one for one in self._protecting(pod) if pod.name not in one.disrupted]  # they are counted already
            taken.update(one.key for one in mine)
            (broken if any(taken[one.key] > one.disruptions_allowed for one in mine) else others).append(pod)
        return broken, others

    def _protecting(self, pod: PodView) -> list[PodDisruptionBudgetView]:
        """As in kube-scheduler `{}` protects nobody, and nothing protects a pod without labels."""
        known = self._found.get(key := (pod.namespace, pod.labels))
        if known is None:
            near = (one for one in self._budgets if one.meta.namespace == pod.namespace and not one.selector.empty)
            known = self._found[key] = [one for one in near if pod.labels and one.selector.matches(pod.labels)]
        return known


class Nodes:
    """The nodes of a dry run for pods of one shape, and what is known of all of them."""

    def __init__(self, shape: Shape, state: State, at: At, weaker: Weaker, budgets: Budgets) -> None:
        self._shape, self._state, self._weaker, self._budgets = shape, state, weaker, budgets
        self._accepts = [(asked, passes(asked, state, at)) for asked in shape.asked]
        self._sums = _Sums.of(shape, self._accepts, state, at, weaker)

    def clear(self, position: int, node: int, rivals: Sequence[PodView]) -> Candidate | list[Verdict]:
        """The victims on one node, or why it would be refused without all its weaker pods."""
        pods = sorted(self._weaker.on(node), key=importance)
        if not rivals and self._sums is not None and self._sums.decide[position]:
            return self._choose(node, pods, self._sums.at(position))
        with self._state.trial():
            for pod in pods:
                self._state.remove(pod.uid)
            whole = self._shape
            if not fits(whole if rivals else Shape(tuple(self._affected(position))), self._state, node, rivals):
                return judge(whole, self._state, node, rivals)
            again = whole if rivals else Shape(tuple(self._refusing(position)))
            return self._choose(node, pods, lambda pod: self._may_stay(pod, node, again, rivals))

    def _choose(self, node: int, pods: list[PodView], may_stay: Callable[[PodView], bool]) -> Candidate:
        protected, others = self._budgets.split(pods)
        broken = [pod for pod in protected if not may_stay(pod)]
        victims = broken + [pod for pod in others if not may_stay(pod)]
        return Candidate(node, tuple(sorted(victims, key=importance) if broken else victims), len(broken))

    def _may_stay(self, pod: PodView, node: int, shape: Shape, rivals: Sequence[PodView]) -> bool:
        self._state.place(pod, self._state.name(node))
        if fits(shape, self._state, node, rivals):
            return True
        self._state.remove(pod.uid)
        return False

    def _refusing(self, position: int) -> Iterator[Asked]:
        """The plugins to ask again when pods come back: those that refuse the node as it is."""
        return (asked for asked, accepts in self._accepts if not accepts[position])

    def _affected(self, position: int) -> Iterator[Asked]:
        """The plugins to ask when the pods have left: also those for which that may be worse."""
        return (asked for asked, accepts in self._accepts if not accepts[position] or _may_miss(asked))


def _may_miss(asked: Asked) -> bool:
    return isinstance(asked.plugin, ClusterPlugin) and asked.plugin.may_miss(asked.term)


class _Sums:
    """What is left on each node without its weaker pods and with the pod, of the resources that it asks for."""

    def __init__(self, decide: Mask, rows: Sequence[int], left: list[list[int]], state: State) -> None:
        self.decide = decide
        """the nodes where this is all that counts"""
        self._rows, self._left, self._state = list(rows), left, state
        self._shares: dict[int, list[int]] = {}

    @classmethod
    def of(cls, shape: Shape, accepts: list[tuple[Asked, Mask]], state: State, at: At, weaker: Weaker) -> _Sums | None:
        """None if there is no plugin to which only amounts matter, or one that may miss pods that leave."""
        bills = [(asked, asked.plugin.bill(asked.term)) for asked in shape.asked]
        found = next(((asked, bill) for asked, bill in bills if bill is not None), None)
        if found is None or any(_may_miss(asked) for asked in shape.asked):
            return None
        decide = np.ones(len(state.alive[at]), dtype=np.bool_)
        for asked, accepted in accepts:
            decide &= ~accepted if asked is found[0] else accepted
        rows, amounts = list(found[1]), np.array(list(found[1].values()), dtype=np.int64)
        left = (state.alloc - state.used + weaker.amounts())[rows][:, at].T - amounts
        return cls(decide & (left >= 0).all(axis=1), rows, left.tolist(), state)

    def at(self, position: int) -> Callable[[PodView], bool]:
        """Whether a pod may stay, given those that may already; asked once for each."""
        left = self._left[position]

        def may_stay(pod: PodView) -> bool:
            rest = [room - amount for room, amount in zip(left, self._share(pod), strict=True)]
            if min(rest) < 0:
                return False
            left[:] = rest
            return True

        return may_stay

    def _share(self, pod: PodView) -> list[int]:
        if pod.annotations:  # it may keep others from more than it takes
            return [int(amount) for amount in self._state.booking(pod)[self._rows]]
        known = self._shares.get(id(pod.usage))
        if known is None:
            known = self._shares[id(pod.usage)] = self._state.footprint(pod.usage)[self._rows].tolist()
        return known
