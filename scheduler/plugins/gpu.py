"""GPUTopology: a pod that asks for GPUs gets certain ones: free, healthy, large enough, and well linked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from kubenexus.common.objects import PodView
from kubenexus.common.vocabulary import GPU_ASSIGNED, TOPOLOGY_HASH
from kubenexus.scheduler.devices.ask import Ask, gpus_of
from kubenexus.scheduler.devices.fit import Fit, Refused
from kubenexus.scheduler.devices.islands import joined
from kubenexus.scheduler.devices.links import bits
from kubenexus.scheduler.devices.score import memory_use
from kubenexus.scheduler.devices.words import gpu_detail, gpu_reason
from kubenexus.scheduler.engine.plugin import At, NodePlugin, Refusal, Scores
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.arguments import read_args
from kubenexus.scheduler.plugins.placing import DeviceArgs, Seats, ask_of, columns, ratings, refusals
from kubenexus.scheduler.plugins.volumes import Barred

UNJOINED: Final = 80
"""percent; less would outweigh an exact fit"""


class GPUTopology(NodePlugin[Ask | Barred]):
    """Refuses nodes without enough free GPUs that will do; prefers good links, and cards that are not too large."""

    name = "GPUTopology"

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._args = read_args(DeviceArgs, args)

    def reads(self, pod: PodView) -> tuple[str, ...]:
        return ("numa_policies",) if gpus_of(pod.spec.requests, self._args.gpu_resources) else ()

    def compile(self, pod: PodView, state: State) -> Ask | Barred | None:
        ask = ask_of(pod, state, self._args)
        return None if isinstance(ask, Ask) and not ask.gpus else ask

    def filter(self, term: Ask | Barred, state: State, at: At) -> Iterator[Refusal]:
        if isinstance(term, Barred):
            yield term.everywhere(state, at)
        else:
            nodes = columns(state, at)
            answers = state.devices.places(term.anywhere, nodes)
            yield from refusals(answers, nodes, partial(gpu_reason, term), lambda spot: gpu_detail(spot, term))

    def admits(self, term: Ask | Barred, state: State, node: int) -> bool:
        return isinstance(term, Ask) and isinstance(state.devices.place(term.anywhere, node), Fit)

    def score(self, term: Ask | Barred, state: State, at: At) -> Scores | None:
        if isinstance(term, Barred):
            return None
        return ratings(state.devices.places(term, columns(state, at)), partial(_rate, term))

    def score_of(self, term: Ask | Barred, state: State, node: int) -> int:
        found = None if isinstance(term, Barred) else state.devices.place(term, node)
        return _rate(term, found) if isinstance(term, Ask) and isinstance(found, Fit) else 0

    def take(self, term: Ask | Barred, state: State, node: int) -> Seats | None:
        found = None if isinstance(term, Barred) else seat(term, state, node)
        known = state.devices.known(node)
        if not isinstance(found, Fit) or not found.gpus or known is None:
            return None
        notes = {GPU_ASSIGNED: ",".join(map(str, bits(found.gpus))), TOPOLOGY_HASH: known.digest}
        return Seats({key: text for key, text in notes.items() if text})


def seat(ask: Ask, state: State, node: int) -> Fit | Refused:
    """Where a pod goes on a node. One whose policy nobody enforces gets its GPUs all the same."""
    found = state.devices.place(ask, node)
    return found if isinstance(found, Fit) else state.devices.place(ask.anywhere, node)


def _rate(ask: Ask, found: Fit) -> int:
    """By the best that the machine could do; GPUs that nothing joins are worth less than the best of those that are."""
    whole = not found.gpus or joined(found.machine.layout, found.gpus)
    quality = found.quality if whole else found.quality * UNJOINED // 100
    if not ask.vram or not found.gpus:
        return quality
    return (quality + memory_use(found.machine, found.gpus, ask.vram)) // 2
