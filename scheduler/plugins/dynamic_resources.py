"""DynamicResources: pods go where the devices of their claims are, or where devices can be had for them.

Claims that are allocated say from where their devices can be used. For the others devices are sought on each node, and
where the pod goes they are given to the claims by the same decision. Nobody is driven out for devices: a claim may keep
them when its pod goes. Resources that a device class stands for are not had by devices here; nodes must have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_OID, uuid5

import numpy as np

from kubenexus.common.objects import NodeSelector, PodView, ResourceClaimView
from kubenexus.scheduler.dra import Ask, Found, Grant, NoDevices
from kubenexus.scheduler.engine.claims import Granted
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.engine.plugin import At, Code, NodePlugin, Refusal, Scores, proportional
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.arguments import read_args
from kubenexus.scheduler.plugins.device_survey import Survey, Surveys
from kubenexus.scheduler.plugins.placing import columns
from kubenexus.scheduler.plugins.resources import device_resources
from kubenexus.scheduler.plugins.volumes import Barred

ELSEWHERE = "resourceclaim not available on the node"
IN_USE = "resourceclaim in use"
NOT_BY_DEVICES = "this scheduler does not give out devices for it: ask for them by a claim"

MOST_CONSUMERS: Final = 256
MOST_OPTIONS: Final = 8
"""of one request, as the API allows"""


@dataclass(frozen=True, slots=True)
class DynamicResourcesArgs:
    """kube-scheduler's arguments. A search ends by its steps, not by time, so they are checked for their names only."""

    filter_timeout: str | None = None
    binding_timeout: str | None = None


class Devices(NamedTuple):
    """What a pod's claims want: to be where allocated devices can be used, and devices for those that have none."""

    places: tuple[NodeSelector, ...]
    resources: tuple[tuple[str, int], ...]
    """rows of resources that would be devices where a node has none"""
    claims: tuple[ResourceClaimView, ...] = ()
    """without devices"""
    ask: Ask | None = None
    """what they ask for"""

    @property
    def picky(self) -> bool:
        """Whether some devices would be better than others."""
        return self.ask is not None and any(len(one) > 1 for claim in self.ask.claims for one in claim.requests)


@dataclass(frozen=True, slots=True)
class ClaimDecision:
    """Devices that a pod's claims get when it goes to a node."""

    grants: tuple[Granted, ...] = ()

    @property
    def annotations(self) -> Mapping[str, str]:
        return {}

    def is_used_by(self, pod: PodView) -> bool:
        """Whether a pod uses one of the claims."""
        names = {f"{pod.namespace}/{one.claim}" for one in pod.resource_claims}
        return any(one.grant.claim.key in names for one in self.grants)

    def assume(self, objects: Objects) -> None:
        for one in self.grants:
            objects.claims.grant(one.grant.claim.key, one)

    def forget(self, objects: Objects) -> None:
        for one in reversed(self.grants):
            objects.claims.withdraw(one.grant.claim.key, one)


class DynamicResources(NodePlugin[Devices | Barred]):
    """Refuses nodes from which the pod's devices cannot be used, or where too few are left for its claims."""

    name = "DynamicResources"
    minds_pods = False  # what is in use is said by claims, which outlive pods

    def __init__(self, args: Mapping[str, Any]) -> None:
        read_args(DynamicResourcesArgs, args)
        self._surveys = Surveys()

    def reads(self, pod: PodView) -> tuple[str, ...]:
        if pod.resource_claims:
            return ("claims", "device_classes", "slices")
        return ("device_classes",) if any("/" in name for name in pod.spec.requests) else ()

    def compile(self, pod: PodView, state: State) -> Devices | Barred | None:
        claims = _claims(pod, state.objects)
        if isinstance(claims, Barred):
            return claims
        reason = next(filter(None, (_why_not(pod, claim) for claim in claims)), "")
        if reason:
            return Barred(reason)
        given = (claim.allocation for claim in claims)
        places = tuple(one.nodes for one in given if one is not None and one.nodes is not None)
        wanting = tuple(claim for claim in claims if claim.allocation is None)
        ask = state.allocator.ask(wanting) if wanting else None
        if isinstance(ask, NoDevices):
            return Barred(ask.reason)
        named = [name for name in device_resources(state) if pod.spec.requests.get(name)]
        resources = tuple((name, state.row(name)) for name in sorted(named))
        return Devices(places, resources, wanting, ask) if places or resources or ask else None

    def filter(self, term: Devices | Barred, state: State, at: At) -> Iterator[Refusal]:
        if isinstance(term, Barred):
            yield term.everywhere(state, at)
            return
        for place in term.places:
            yield Refusal(~state.labels.any_term(place.terms)[at], ELSEWHERE, Code.UNRESOLVABLE)
        for name, row in term.resources:
            reason = f"node(s) have no {name} but by devices, and {NOT_BY_DEVICES}"
            yield Refusal(state.alloc[row, at] == 0, reason, Code.UNRESOLVABLE)
        if term.ask is not None:
            yield from _short(self._surveys.of(term.ask, state), term.ask, state, at)

    def score(self, term: Devices | Barred, state: State, at: At) -> Scores | None:
        """Where requests name alternatives: how early among them is what they get."""
        if isinstance(term, Barred) or not term.picky:
            return None
        return np.array([_rank(term, state, int(node)) for node in columns(state, at)], dtype=np.int64)

    def normalize(self, raw: Scores, feasible: Mask) -> Scores:
        return proportional(raw, feasible)

    def take(self, term: Devices | Barred, state: State, node: int) -> ClaimDecision | None:
        found = None if isinstance(term, Barred) else _find(term, state, node)
        if isinstance(term, Barred) or found is None:
            return None
        number = count()
        # The engine draws no lots: an id is made of what is the same wherever it is decided.
        ids = (str(uuid5(NAMESPACE_OID, f"{term.claims[0].meta.uid}/{next(number)}")) for _ in count())
        grants = state.allocator.grants(term.claims, found, state.name(node), lambda: next(ids))
        return ClaimDecision(tuple(Granted(one, _to_prepare(one)) for one in grants))


def _find(term: Devices, state: State, node: int) -> Found | None:
    """The devices for the pod's claims on a node; None if they need none, or there are none."""
    if term.ask is None or not state.alive[node]:
        return None
    found = state.allocator.find(term.ask, state.name(node), state.node(node).meta.labels)
    return None if isinstance(found, NoDevices) else found


def _short(survey: Survey, ask: Ask, state: State, at: At) -> Iterator[Refusal]:
    """The nodes where devices cannot be had, by reason."""
    which = survey.which[at]

    def tell(node: int) -> str:
        return state.allocator.explain(ask, state.name(node), state.node(node).meta.labels)

    for why, number in survey.reasons.items():
        refused = which == number
        if why is not None and refused.any():
            yield Refusal(refused, str(why), *((Code.ERROR,) if why.fatal else (Code.UNRESOLVABLE, tell)))


def _rank(term: Devices, state: State, node: int) -> int:
    found = _find(term, state, node)
    if found is None or term.ask is None:
        return 0
    taken = {pick.option for picks in found for pick in picks}
    choices = (request for claim in term.ask.claims for request in claim.requests if len(request) > 1)
    return sum(MOST_OPTIONS - place for request in choices for place, one in enumerate(request) if one in taken)


def _to_prepare(grant: Grant) -> tuple[str, ...]:
    """The devices that their driver prepares before a pod is bound."""
    return tuple(one["device"] for one in grant.body["devices"]["results"] if one.get("bindingConditions"))


def _claims(pod: PodView, objects: Objects) -> Sequence[ResourceClaimView] | Barred:
    """The pod's claims; barred when one is missing, being deleted, or was made for another pod."""
    found = {}
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
        found[name] = claim
    return list(found.values())


def _why_not(pod: PodView, claim: ResourceClaimView) -> str:
    """Why a pod cannot use a claim now, wherever it goes; empty if it can."""
    if len(claim.reserved_for) >= MOST_CONSUMERS and all(one.uid != pod.uid for one in claim.reserved_for):
        return IN_USE
    if claim.unready:
        return f"the claim {claim.name} has devices that are not ready to be bound: {', '.join(claim.unready)}"
    return ""
