"""Nominations: pending pods that a node is promised to, because others make room for them there or somebody said so.

A pod goes where it fits both with the pods of at least its priority that are promised a place there and without them:
they may come, or go elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.evaluate import Verdict, explain, passes
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.plugin import NodePlugin
from kubenexus.scheduler.engine.shape import Asked, Shape
from kubenexus.scheduler.engine.state import State


class Nomination(NamedTuple):
    """A pod, its node, and the uids of the pods that were asked to leave for it."""

    pod: PodView
    node: str
    victims: frozenset[str] = frozenset()


class Nominations:
    """Which pods are promised which node. What we decided holds until the API server says something new."""

    def __init__(self) -> None:
        self.version = 0
        """grows with every change"""
        self._known: dict[str, Nomination] = {}
        self._said: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, uid: str) -> Nomination | None:
        return self._known.get(uid)

    def see(self, pod: PodView) -> None:
        """A pending pod came or changed: what its status says counts if it says something new."""
        known = self._known.get(pod.uid)
        if pod.nominated_node != self._said.get(pod.uid, ""):
            self._said[pod.uid] = pod.nominated_node
            if known is None or known.node != pod.nominated_node:
                self.nominate(pod, pod.nominated_node)
        elif known is not None and known.pod != pod:
            self.nominate(pod, known.node, known.victims)

    def nominate(self, pod: PodView, node: str, victims: Iterable[str] = ()) -> None:
        """The pod is promised that node; none if it has no name."""
        self.withdraw(pod.uid)
        if node:
            self._known[pod.uid] = Nomination(pod, node, frozenset(victims))
            self.version += 1

    def withdraw(self, uid: str) -> None:
        """The promise, if there is one, is void."""
        if self._known.pop(uid, None):
            self.version += 1

    def forget(self, uid: str) -> None:
        """The pod has its place, or is gone."""
        self.withdraw(uid)
        self._said.pop(uid, None)

    def weaker(self, pod: PodView, node: str) -> list[PodView]:
        """Pods of a lower priority that are promised this node."""
        found = (one.pod for one in self._known.values() if one.node == node)
        return [other for other in found if other.spec.priority < pod.spec.priority]

    def rivals(self, pod: PodView, state: State) -> dict[int, list[PodView]]:
        """By node, the other pods of at least this pod's priority that are promised a place there."""
        found = defaultdict[int, list[PodView]](list)
        for other, name, _ in self._known.values():
            node = state.index(name)
            if node is not None and other.uid != pod.uid and other.spec.priority >= pod.spec.priority:
                found[node].append(other)
        return found


def fits(shape: Shape, state: State, node: int, rivals: Sequence[PodView]) -> bool:
    """Whether such a pod can go to a node, with its rivals there and without them."""
    return _accepted(shape, state, node) and (not rivals or _fits_with(rivals, shape, state, node))


def _fits_with(rivals: Sequence[PodView], shape: Shape, state: State, node: int) -> bool:
    with state.trial():
        _place(rivals, node, state)
        return _accepted(shape, state, node)


def _accepted(shape: Shape, state: State, node: int) -> bool:
    return all(_admits(asked, state, node) for asked in shape.asked)


def _admits(asked: Asked, state: State, node: int) -> bool:
    plugin = asked.plugin
    if isinstance(plugin, NodePlugin):
        return plugin.admits(asked.term, state, node)
    return bool(passes(asked, state, slice(node, node + 1))[0])


def judge(shape: Shape, state: State, node: int, rivals: Sequence[PodView]) -> list[Verdict]:
    """Why such a pod cannot go to a node, with its rivals there or without them; empty if it can."""
    at = np.array([node])
    with state.trial():
        _place(rivals, node, state)
        found = explain(shape, state, at)
    return found or explain(shape, state, at)


def without_rivals(feasible: Mask, rivals: dict[int, list[PodView]], shape: Shape, state: State) -> Mask:
    """Those of the feasible nodes where such a pod fits with its rivals too."""
    answer = feasible.copy()
    terms = [(asked, asked.plugin.bill(asked.term)) for asked in shape.asked]
    bills = [bill for _, bill in terms if bill is not None]
    others = [asked for asked, bill in terms if bill is None]
    for node, pods in rivals.items():
        if feasible[node]:
            enough = all(_enough(bill, pods, state, node) for bill in bills)
            alone = not any(asked.plugin.heeds(asked.term, pods) for asked in others)
            answer[node] = enough and (alone or _fits_with(pods, shape, state, node))
    return answer


def _enough(bill: Mapping[int, int], rivals: Sequence[PodView], state: State, node: int) -> bool:
    """Whether there is enough for all, which a trial would find out too, but not so fast."""
    shares = [state.footprint(pod.usage).item for pod in rivals]
    alloc, used = state.alloc.item, state.used.item
    return all(
        amount + sum(share(row) for share in shares) <= alloc(row, node) - used(row, node)
        for row, amount in bill.items()
    )


def _place(pods: Iterable[PodView], node: int, state: State) -> None:
    for pod in pods:
        state.place(pod, state.name(node))
