"""What the plugins for NUMA nodes and GPUs share: arguments, a pod's term, and what is written when it is placed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kubenexus.common.objects import PodView
from kubenexus.common.vocabulary import GPU_RESOURCES
from kubenexus.scheduler.devices.ask import Ask, Unusable, read_ask
from kubenexus.scheduler.devices.fit import Fit, Refused
from kubenexus.scheduler.devices.ledger import Answers, Spot
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.engine.plugin import At, Code, Refusal, Scores
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.volumes import Barred


@dataclass(frozen=True, slots=True)
class DeviceArgs:
    """The extended resources that count whole GPUs."""

    gpu_resources: tuple[str, ...] = GPU_RESOURCES


@dataclass(frozen=True, slots=True)
class Seats:
    """NUMA nodes or GPUs that a pod gets. The pod itself says so from now on, wherever it is counted."""

    annotations: Mapping[str, str]

    def assume(self, _objects: Objects) -> None:
        """Nothing else holds it."""

    def forget(self, _objects: Objects) -> None:
        """It goes with the pod."""


def ask_of(pod: PodView, state: State, args: DeviceArgs, *, kubelets: bool = False) -> Ask | Barred | None:
    """What a pod asks of NUMA nodes and GPUs, or (with `kubelets`) what a kubelet may refuse to it."""
    state.devices.recognise(args.gpu_resources)
    found = read_ask(pod, args.gpu_resources, state.objects.numa_policies.get(pod.namespace), kubelets=kubelets)
    return Barred(found.reason.rstrip(".")) if isinstance(found, Unusable) else found


def columns(state: State, at: At) -> npt.NDArray[np.intp]:
    """The columns that are asked about."""
    return np.arange(state.size, dtype=np.intp)[at]


def refusals(
    answers: Answers,
    nodes: npt.NDArray[np.intp],
    reason: Callable[[Refused], str],
    detail: Callable[[Spot], str],
) -> Iterator[Refusal]:
    """The nodes that refuse a pod, by reason; where there is none it is for others to refuse it."""
    by_reason: dict[tuple[str, Code], list[int]] = {}
    for number, found in enumerate(answers.found):
        if isinstance(found, Refused):
            code, text = Code.UNRESOLVABLE if found.hopeless else Code.UNSCHEDULABLE, reason(found)
            if text:
                by_reason.setdefault((text, code), []).append(number)

    def tell(node: int) -> str:
        return detail(answers.spot(int(np.flatnonzero(nodes == node)[0])))

    for (text, code), numbers in by_reason.items():
        chosen = np.zeros(len(answers.found), dtype=np.bool_)
        chosen[numbers] = True
        yield Refusal(chosen[answers.which], text, code, tell)


def ratings(answers: Answers, rate: Callable[[Fit], int]) -> Scores:
    """A score for each node, none where the pod cannot go."""
    table = np.array([rate(one) if isinstance(one, Fit) else 0 for one in answers.found], dtype=np.int64)
    return table[answers.which]
