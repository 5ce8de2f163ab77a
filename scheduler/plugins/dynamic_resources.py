"""DynamicResources: pods go where the devices of their claims are.

Devices are not allocated here: a pod with a claim that has none yet waits, and says so. Claims that somebody else has
allocated are honoured. So are requests for a resource that device classes stand for, where a node itself has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kubenexus.common.objects import NodeSelector, PodView, ResourceClaimView
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.engine.plugin import At, Code, NodePlugin, Refusal
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.arguments import read_args
from kubenexus.scheduler.plugins.resources import device_resources
from kubenexus.scheduler.plugins.volumes import Barred

ELSEWHERE = "resourceclaim not available on the node"
IN_USE = "resourceclaim in use"
NOT_YET = "this scheduler does not allocate devices yet"

MOST_CONSUMERS: Final = 256


@dataclass(frozen=True, slots=True)
class DynamicResourcesArgs:
    """kube-scheduler's arguments. Nothing here takes time, so they are checked for their names only."""

    filter_timeout: str | None = None
    binding_timeout: str | None = None


class Devices(NamedTuple):
    """Where the devices of a pod can be used, and the rows of resources that would be devices where a node has none."""

    places: tuple[NodeSelector, ...]
    resources: tuple[tuple[str, int], ...]


class DynamicResources(NodePlugin[Devices | Barred]):
    """Refuses nodes from which an allocated device cannot be used, and all while a claim is not ready to be used."""

    name = "DynamicResources"

    def __init__(self, args: Mapping[str, Any]) -> None:
        read_args(DynamicResourcesArgs, args)

    def reads(self, pod: PodView) -> tuple[str, ...]:
        by_name = any("/" in name for name in pod.spec.requests)
        return (*(("claims",) if pod.resource_claims else ()), *(("device_classes",) if by_name else ()))

    def compile(self, pod: PodView, state: State) -> Devices | Barred | None:
        claims = _claims(pod, state.objects)
        if isinstance(claims, Barred):
            return claims
        reason = next(filter(None, (_why_not(pod, claim) for claim in claims)), "")
        if reason:
            return Barred(reason)
        allocations = (claim.allocation for claim in claims)
        places = tuple(one.nodes for one in allocations if one is not None and one.nodes is not None)
        named = [name for name in device_resources(state) if name and pod.spec.requests.get(name)]
        return Devices(places, tuple((name, state.row(name)) for name in sorted(named))) if places or named else None

    def filter(self, term: Devices | Barred, state: State, at: At) -> Iterator[Refusal]:
        if isinstance(term, Barred):
            yield term.everywhere(state, at)
            return
        for place in term.places:
            yield Refusal(~state.labels.any_term(place.terms)[at], ELSEWHERE, Code.UNRESOLVABLE)
        for name, row in term.resources:
            reason = f"node(s) have no {name} but by devices, and {NOT_YET}"
            yield Refusal(state.alloc[row, at] == 0, reason, Code.UNRESOLVABLE)


def _claims(pod: PodView, objects: Objects) -> Sequence[ResourceClaimView] | Barred:
    """The pod's claims; barred when one is missing, being deleted, or was made for another pod."""
    found = []
    for _, name, generated in pod.resource_claims:
        if not name:
            return Barred(f'pod "{pod.key}": ResourceClaim not created yet')
        claim = objects.claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            return Barred(f'resourceclaim "{name}" not found')
        if claim.meta.deleted is not None:
            return Barred(f'resourceclaim "{name}" is being deleted')
        if generated and (claim.meta.owner is None or claim.meta.owner.uid != pod.uid):
            return Barred(f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)")
        found.append(claim)
    return found


def _why_not(pod: PodView, claim: ResourceClaimView) -> str:
    """Why a pod cannot use a claim now, wherever it goes; empty if it can."""
    if claim.allocation is None:
        return (
            f"the claim {claim.name} is not allocated, and {NOT_YET}: "
            "have it allocated by other means, or let kube-scheduler place the pod"
        )
    if len(claim.reserved_for) >= MOST_CONSUMERS and all(one.uid != pod.uid for one in claim.reserved_for):
        return IN_USE
    if claim.unready:
        return f"the claim {claim.name} has devices that are not ready to be bound: {', '.join(claim.unready)}"
    return ""
