"""NUMATopology: a pod goes where its CPUs, memory and GPUs are on the same NUMA nodes, as strictly as it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from kubenexus.common.objects import PodView, Qos
from kubenexus.common.vocabulary import NUMA_ASSIGNED, NUMA_POLICY, TOPOLOGY_HASH, NumaPolicy
from kubenexus.scheduler.devices.ask import Ask, gpus_of
from kubenexus.scheduler.devices.fit import Fit
from kubenexus.scheduler.devices.words import numa_detail, numa_reason
from kubenexus.scheduler.engine.plugin import At, NodePlugin, Refusal, Scores
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.arguments import read_args
from kubenexus.scheduler.plugins.placing import DeviceArgs, Seats, ask_of, columns, ratings, refusals
from kubenexus.scheduler.plugins.volumes import Barred


class NUMATopology(NodePlugin[Ask | Barred]):
    """Refuses nodes that cannot keep the pod's policy or whose kubelet refuses it; prefers few, close NUMA nodes."""

    name = "NUMATopology"

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._args = read_args(DeviceArgs, args)

    def reads(self, pod: PodView) -> tuple[str, ...]:
        concerned = pod.spec.needs.qos is Qos.GUARANTEED or gpus_of(pod.spec.requests, self._args.gpu_resources)
        return ("kubelets", "numa_policies") if concerned else ()

    def compile(self, pod: PodView, state: State) -> Ask | Barred | None:
        kubelets = bool(state.objects.kubelets)
        ask = ask_of(pod, state, self._args, kubelets=kubelets)
        return None if isinstance(ask, Ask) and ask.policy is NumaPolicy.NONE and not kubelets else ask

    def filter(self, term: Ask | Barred, state: State, at: At) -> Iterator[Refusal]:
        if isinstance(term, Barred):
            yield term.everywhere(state, at)
        elif term.strict or state.objects.kubelets:
            nodes = columns(state, at)
            answers = state.devices.places(term, nodes)
            yield from refusals(answers, nodes, partial(numa_reason, term), lambda spot: numa_detail(spot, term))

    def admits(self, term: Ask | Barred, state: State, node: int) -> bool:
        if isinstance(term, Barred):
            return False
        if not (term.strict or state.objects.kubelets):
            return True
        found = state.devices.place(term, node)
        return isinstance(found, Fit) or not (term.strict or found.kubelet)

    def score(self, term: Ask | Barred, state: State, at: At) -> Scores | None:
        if isinstance(term, Barred) or term.policy is NumaPolicy.NONE:
            return None
        return ratings(state.devices.places(term, columns(state, at)), lambda found: found.score)

    def score_of(self, term: Ask | Barred, state: State, node: int) -> int:
        found = None if isinstance(term, Barred) else state.devices.place(term, node)
        return found.score if isinstance(found, Fit) else 0

    def take(self, term: Ask | Barred, state: State, node: int) -> Seats | None:
        found = None if isinstance(term, Barred) else state.devices.place(term, node)
        known = state.devices.known(node)
        if not isinstance(found, Fit) or not found.numa or known is None:
            return None
        notes = {NUMA_ASSIGNED: ",".join(map(str, found.numa)), TOPOLOGY_HASH: known.digest}
        if isinstance(term, Ask) and term.inherited:
            notes[NUMA_POLICY] = term.policy  # what it was placed by stays true, whatever becomes of the namespace
        return Seats({key: text for key, text in notes.items() if text})
