"""KubeletRejections: nodes whose kubelet lately refused pods of the same owner get none of them for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.plugin import At, Code, NodePlugin, Refusal
from kubenexus.scheduler.engine.state import State


class KubeletRejections(NodePlugin[Mapping[str, str]]):
    """Which owners are barred from which nodes is told by the state; who bars and lifts decides for how long."""

    name = "KubeletRejections"
    minds_pods = False

    def reads(self, _pod: PodView) -> tuple[str, ...]:
        return ("rejections",)

    def compile(self, pod: PodView, state: State) -> Mapping[str, str] | None:
        return state.objects.rejections.get(pod.owner.uid) if pod.owner else None

    def filter(self, term: Mapping[str, str], state: State, at: At) -> Iterator[Refusal]:
        for reason in sorted(set(term.values())):
            barred = np.zeros(state.size, dtype=np.bool_)
            nodes = (state.index(name) for name, why in term.items() if why == reason)
            barred[[node for node in nodes if node is not None]] = True
            yield Refusal(barred[at], f"node(s) lately rejected this workload with {reason}", Code.UNRESOLVABLE)
