"""NodeResourcesFit: a pod goes where there is enough of everything it asks for, and rather where that suits best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kubenexus.common.objects import NeedsView, PodView
from kubenexus.common.objects.requests import ASSUMED_REQUESTS, aggregate, plus, rounded
from kubenexus.scheduler.devices.words import account
from kubenexus.scheduler.engine.footprints import CPU, MEMORY, PODS, SCORED_CPU, SCORED_MEMORY, Amounts
from kubenexus.scheduler.engine.plugin import At, Code, NodePlugin, Refusal, Scores
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.weaker import Weaker
from kubenexus.scheduler.plugins.arguments import read_args
from kubenexus.scheduler.plugins.strategies import CPU_AND_MEMORY, ResourceWeight, ScoringStrategy

NATIVE = (CPU, MEMORY, "ephemeral-storage")
_SCALARS = ("hugepages-", "attachable-volumes-")
_ASSUMED = rounded(ASSUMED_REQUESTS)


@dataclass(frozen=True, slots=True)
class NodeResourcesFitArgs:
    """Extended resources that somebody else looks after, by name or by the part before the slash; how to score."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = field(default_factory=ScoringStrategy)

    def __post_init__(self) -> None:
        for group in self.ignored_resource_groups:
            if "/" in group:
                raise ValueError(f"ignoredResourceGroups has {group!r}: a group is the part before the slash")

    def ignores(self, resource: str) -> bool:
        group = resource.partition("/")[0]
        return is_extended(resource) and (resource in self.ignored_resources or group in self.ignored_resource_groups)


def is_extended(resource: str) -> bool:
    """A resource that only its vendor knows."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def is_counted(resource: str) -> bool:
    """A resource that pods take from a node; others, such as a number of pods, mean nothing in a request."""
    return resource in NATIVE or "/" in resource or resource.startswith(_SCALARS)


class Scored(NamedTuple):
    """A resource that counts for the score: the rows of what there is and what is used, what the pod adds, a weight."""

    alloc: int
    used: int
    amount: int
    weight: int


class Asked(NamedTuple):
    """A resource that the pod needs. Devices stand in for a `delegated` one where a node has none."""

    resource: str
    row: int
    amount: int
    delegated: bool


class Demand(NamedTuple):
    """What a pod asks for, the number of pods first, and what is scored."""

    asked: tuple[Asked, ...]
    scored: tuple[Scored, ...]


def scored_resources(
    resources: tuple[ResourceWeight, ...], asked: Mapping[str, int], state: State
) -> tuple[Scored, ...]:
    """The resources that count for such a pod: an extended one only if it is asked for."""
    counted = ((one.name, one.weight or 1) for one in resources if one.name in NATIVE or asked.get(one.name))
    return tuple(Scored(row := state.row(name), row, asked.get(name, 0), weight) for name, weight in counted)


class NodeResourcesFit(NodePlugin[Demand]):
    """Refuses nodes without enough of every requested resource; scores by the strategy of its arguments."""

    name = "NodeResourcesFit"

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._args = read_args(NodeResourcesFitArgs, args)
        self._resources = self._args.scoring_strategy.resources or CPU_AND_MEMORY
        self._strategy = self._args.scoring_strategy.strategy()

    def reads(self, pod: PodView) -> tuple[str, ...]:
        return ("device_classes",) if any("/" in name for name in pod.spec.requests) else ()

    def compile(self, pod: PodView, state: State) -> Demand:
        wanted = {PODS: 1} | {name: amount for name, amount in pod.spec.requests.items() if self._minds(name, amount)}
        by_devices = device_resources(state)
        asked = (Asked(name, state.row(name), amount, name in by_devices) for name, amount in wanted.items())
        twins = {state.row(CPU): state.row(SCORED_CPU), state.row(MEMORY): state.row(SCORED_MEMORY)}
        scored = scored_resources(self._resources, scored_requests(pod.spec.needs), state)
        return Demand(tuple(asked), tuple(one._replace(used=twins.get(one.used, one.used)) for one in scored))

    def _minds(self, resource: str, amount: int) -> bool:
        return amount > 0 and is_counted(resource) and not self._args.ignores(resource)

    def filter(self, term: Demand, state: State, at: At) -> Iterator[Refusal]:
        return _refusals(term, state, state.used, at)

    def filter_without(self, term: Demand, state: State, at: At, weaker: Weaker) -> Iterator[Refusal]:
        return _refusals(term, state, state.used - weaker.amounts(), at)

    def bill(self, term: Demand) -> Mapping[int, int] | None:
        return None if any(one.delegated for one in term.asked) else {one.row: one.amount for one in term.asked}

    def admits(self, term: Demand, state: State, node: int) -> bool:
        alloc, used = state.alloc.item, state.used.item
        for _, row, amount, delegated in term.asked:
            whole = alloc(row, node)
            if amount > whole - used(row, node) and (whole or not delegated):
                return False
        return True

    def score(self, term: Demand, state: State, at: At) -> Scores:
        alloc, used = state.alloc, state.used
        parts = [(used[row, at] + amount, alloc[top, at], weight) for top, row, amount, weight in term.scored]
        scores: Scores = np.zeros(len(state.alive[at]), dtype=np.int64) + self._strategy(parts)
        return scores

    def score_of(self, term: Demand, state: State, node: int) -> int:
        alloc, used = state.alloc.item, state.used.item
        parts = [(used(row, node) + amount, alloc(top, node), weight) for top, row, amount, weight in term.scored]
        return int(self._strategy(parts))


def _refusals(term: Demand, state: State, used: Amounts, at: At) -> Iterator[Refusal]:
    """Where a resource does not suffice, and where it could not even if the node were empty."""
    for resource, row, amount, delegated in term.asked:
        whole = state.alloc[row, at]
        lacking = amount > whole - used[row, at]
        if delegated:
            lacking &= whole > 0
        if not lacking.any():
            continue
        if resource == PODS:
            yield Refusal(lacking, "Too many pods")
        else:
            never = lacking & (amount > whole)
            kept = lacking & (amount <= whole - used[row, at] + state.kept(row)[at])
            detail = partial(_account, state, resource)
            yield Refusal(lacking & ~never & ~kept, f"Insufficient {resource}", detail=detail)
            yield Refusal(
                kept & ~never, f"Insufficient {resource} beside isolated pods", detail=partial(_keepers, state)
            )
            yield Refusal(never, f"Insufficient {resource}", Code.UNRESOLVABLE)


def _keepers(state: State, node: int) -> str:
    """Why there is less room than it seems."""
    pods = ", ".join(pod.key for pod in state.keepers(node))
    return f"{pods} isolated: the rest of the NUMA node is kept free"


def _account(state: State, resource: str, node: int) -> str:
    """What is taken of each NUMA node, if that is known."""
    return account(state.devices.spot(node), resource, gpus=resource in state.devices.gpu_resources)


def scored_requests(needs: NeedsView) -> Mapping[str, int]:
    """What scoring counts for a new pod: containers that ask for no CPU or memory count a little.

    Like kube-scheduler 1.36 this does not look at requests of the pod as a whole.
    """
    usage = needs.usage
    if not needs.has_pod_level_resources:
        return {**usage.requests, CPU: usage.nonzero_cpu, MEMORY: usage.nonzero_memory}
    demands = ((one.role, _exact({**_ASSUMED, **one.requests})) for one in needs.containers)
    return {resource: int(amount) for resource, amount in plus(aggregate(demands), _exact(needs.overhead)).items()}


def _exact(amounts: Mapping[str, int]) -> dict[str, Fraction]:
    return {resource: Fraction(amount) for resource, amount in amounts.items()}


def device_resources(state: State) -> set[str]:
    """The extended resources that device classes stand for."""
    classes = state.objects.device_classes
    named = {one.extended_resource for one in classes.values() if one.extended_resource}
    return named | {f"deviceclass.resource.kubernetes.io/{name}" for name in classes}
