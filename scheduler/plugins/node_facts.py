"""What a node says about itself: its name, whether it is cordoned, the features it declares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kubenexus.common.objects import NodeView, PodView, Taint
from kubenexus.scheduler.engine.plugin import At, Code, NodePlugin, Refusal
from kubenexus.scheduler.engine.state import State

CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def is_cordoned(view: NodeView) -> bool:
    return view.unschedulable


def features_of(view: NodeView) -> frozenset[str]:
    return view.features


class NodeName(NodePlugin[str]):
    """A pod that names its node goes nowhere else."""

    name = "NodeName"
    minds_pods = False

    def compile(self, pod: PodView, _state: State) -> str | None:
        return pod.node or None

    def filter(self, term: str, state: State, at: At) -> Iterator[Refusal]:
        others = np.ones(state.size, dtype=np.bool_)
        node = state.index(term)
        if node is not None:
            others[node] = False
        yield Refusal(others[at], "node(s) didn't match the requested node name", Code.UNRESOLVABLE)


class NodeUnschedulable(NodePlugin[bool]):
    """Cordoned nodes take only pods that tolerate it."""

    name = "NodeUnschedulable"
    minds_pods = False

    def compile(self, pod: PodView, _state: State) -> bool | None:
        return None if any(one.tolerates(CORDONED) for one in pod.spec.tolerations) else True

    def filter(self, _term: bool, state: State, at: At) -> Iterator[Refusal]:
        column = state.facts.column(is_cordoned)
        cordoned: int = column.code(True)
        if cordoned >= 0:
            yield Refusal(column.codes[at] == cordoned, "node(s) were unschedulable", Code.UNRESOLVABLE)


class NodeDeclaredFeatures(NodePlugin[frozenset[str]]):
    """Pods that rely on a feature of the kubelet go where it is declared."""

    name = "NodeDeclaredFeatures"
    minds_pods = False

    def compile(self, pod: PodView, _state: State) -> frozenset[str] | None:
        return pod.spec.needs.required_features or None

    def filter(self, term: frozenset[str], state: State, at: At) -> Iterator[Refusal]:
        column = state.facts.column(features_of)
        for code, declared in enumerate(column.values):
            if missing := ", ".join(sorted(term - declared)):
                reason = f"node declared features check failed - unsatisfied requirements: {missing}"
                yield Refusal(column.codes[at] == code, reason, Code.UNRESOLVABLE)
