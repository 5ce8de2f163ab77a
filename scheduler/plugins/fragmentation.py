"""ResourceFragmentation: a pod takes its GPUs where that destroys least of what other pods will ask for.

What they will ask for is taken from what pods ask for now, those that have a node and those that wait. It is kept in
the state, roughly, so that it seldom changes: with it the scores of all nodes do.

A pod that says how much memory it needs goes to the smallest cards that will do, unless that breaks an island that
nobody has touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from kubenexus.common.objects import PodSpecView, PodView
from kubenexus.scheduler.devices.ask import Ask, gpus_of
from kubenexus.scheduler.devices.fit import Fit
from kubenexus.scheduler.devices.islands import EXACT, SIZES, UNTOUCHED, Mix, mix_of, score_leftover
from kubenexus.scheduler.devices.score import memory_use
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.engine.plugin import At, NodePlugin, Scores
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.arguments import read_args
from kubenexus.scheduler.plugins.placing import DeviceArgs, ask_of, columns, ratings

EVEN: Final[Mix] = (1,) * len(SIZES)
"""while there are too few pods to tell"""
FEW: Final = 20
SELDOM: Final = 16
"""of so many pods only one is worth the while to count all again"""
SCATTER: Final = 40503
"""makes numbers that come in any rhythm fall anywhere among 2¹⁶"""
MOVED: Final = 3
"""the steps by which a share must move to count as changed"""
NOBODY_KNOWS: Final = 50
"""the score of a node whose GPUs cannot be told apart"""
MEMORY_SHARE: Final = 0.9
"""how much the size of cards counts beside what is destroyed: cards of the next size never make up for it"""


@dataclass(frozen=True, slots=True)
class OfSize:
    """The question how many pods ask for a set of GPUs that counts as one of this size."""

    size: int
    gpu_resources: tuple[str, ...]

    def weigh(self, pod: PodView) -> int:
        return self.weigh_spec(pod.spec)

    def weigh_spec(self, spec: PodSpecView) -> int:
        gpus = gpus_of(spec.requests, self.gpu_resources)
        return bool(gpus) and mix_of([gpus])[SIZES.index(self.size)]


class Term(NamedTuple):
    """What a pod asks for, and others beside it."""

    ask: Ask
    mix: Mix


@dataclass(frozen=True, slots=True)
class NewMix:
    """Pods ask for other sets than before."""

    mix: Mix
    annotations: Mapping[str, str] = field(default_factory=dict)

    def assume(self, objects: Objects) -> None:
        objects.gpu_mixes.set(ResourceFragmentation.name, self.mix)

    def forget(self, _objects: Objects) -> None:
        """One pod more or less makes no difference."""


class ResourceFragmentation(NodePlugin[Term]):
    """Prefers machines that become full, then those that are in use, and spares islands that nobody has touched."""

    name = "ResourceFragmentation"

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._args = read_args(DeviceArgs, args)
        self._questions = [OfSize(size, self._args.gpu_resources) for size in SIZES]

    def reads(self, pod: PodView) -> tuple[str, ...]:
        return ("gpu_mixes", "numa_policies") if gpus_of(pod.spec.requests, self._args.gpu_resources) else ()

    def compile(self, pod: PodView, state: State) -> Term | None:
        ask = ask_of(pod, state, self._args)
        if not isinstance(ask, Ask) or not ask.gpus:
            return None
        return Term(ask, state.objects.gpu_mixes.get(self.name, EVEN))

    def score(self, term: Term, state: State, at: At) -> Scores:
        return ratings(state.devices.places(term.ask, columns(state, at)), partial(_rate, term))

    def score_of(self, term: Term, state: State, node: int) -> int:
        found = state.devices.place(term.ask, node)
        return _rate(term, found) if isinstance(found, Fit) else 0

    def take(self, term: Term, state: State, _node: int) -> NewMix | None:
        if state.changes.position * SCATTER % 2**16 >= 2**16 // SELDOM:
            return None
        mix = rough(tuple(self._counts(state)))
        moved = any(abs(now - before) >= MOVED for now, before in zip(mix, term.mix, strict=True))
        return NewMix(mix) if moved else None

    def _counts(self, state: State) -> Iterator[int]:
        waiting = state.waiting.templates
        for question in self._questions:
            soon = sum(count * question.weigh_spec(spec) for spec, count in waiting.items())
            yield soon + int(state.count(question).sum())


def rough(counts: Mix) -> Mix:
    """The shares of each size in few steps; nothing is ever asked for by nobody."""
    total = sum(counts)
    return EVEN if total < FEW else tuple(1 + round(9 * count / total) for count in counts)


def _rate(term: Term, found: Fit) -> int:
    if found.free is None or not found.gpus:
        return NOBODY_KNOWS
    spared = score_leftover(found.machine.layout, found.free, found.gpus, term.mix)
    if not term.ask.vram:
        return spared
    low, high = (0, UNTOUCHED) if spared <= UNTOUCHED else (UNTOUCHED + 1, EXACT)
    use = memory_use(found.machine, found.gpus, term.ask.vram) / 100
    share = MEMORY_SHARE * use + (1 - MEMORY_SHARE) * (spared - low) / (high - low)
    return low + round((high - low) * share)
