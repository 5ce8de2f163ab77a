"""What a claim gets, as the API wants it written: `status.allocation`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NamedTuple

from kubenexus.common import quantity
from kubenexus.common.objects import (
    AllocatedDevice,
    Allocation,
    DeviceClassView,
    DeviceRequest,
    NodeSelector,
    NodeSelectorTerm,
    Op,
    Requirement,
    ResourceClaimView,
)
from kubenexus.common.objects.reading import Amounts
from kubenexus.common.objects.selectors import NAME_FIELD
from kubenexus.scheduler.dra.ask import Option
from kubenexus.scheduler.dra.pools import Device

Obj = dict[str, Any]
ShareIds = Callable[[], str]
"""Gives a new id (a UUID) for each share of a device."""


class Pick(NamedTuple):
    """A device for an option of a request; `portion` is what it takes of one that is shared, else None."""

    option: Option
    device: Device
    portion: Amounts | None


@dataclass(frozen=True, slots=True)
class Grant:
    """What one claim gets. `allocation` is how we keep it, `body` how it is written; both say the same."""

    claim: ResourceClaimView
    allocation: Allocation
    body: Obj


def grant(
    claim: ResourceClaimView,
    picks: Sequence[Pick],
    node: str,
    classes: Mapping[str, DeviceClassView],
    share_ids: ShareIds,
) -> Grant:
    """What a claim gets when these devices were found for it on a node."""
    devices = tuple(_allocated(pick, share_ids) for pick in picks)
    nodes = _nodes([pick.device for pick in picks], node)
    body: Obj = {"devices": {"results": [_result(pick, one) for pick, one in zip(picks, devices, strict=True)]}}
    if config := [*_class_config(claim, picks, classes), *_claim_config(claim, picks)]:
        body["devices"]["config"] = config
    if nodes is not None:
        body["nodeSelector"] = {"nodeSelectorTerms": [_term(one) for one in nodes.terms]}
    return Grant(claim, Allocation(devices, nodes), body)


def _allocated(pick: Pick, share_ids: ShareIds) -> AllocatedDevice:
    driver, pool, name = pick.device.id
    share = share_ids() if pick.device.view.shareable else ""
    return AllocatedDevice(pick.option.name, driver, pool, name, pick.option.request.admin, share, pick.portion or {})


def _result(pick: Pick, one: AllocatedDevice) -> Obj:
    view = pick.device.view
    optional = {
        "adminAccess": one.admin,
        "tolerations": _tolerations(pick.option.request),
        "shareID": one.share,
        "consumedCapacity": {name: written(amount) for name, amount in one.consumed.items()},
        "bindingConditions": list(view.binding_conditions),
        "bindingFailureConditions": list(view.failure_conditions),
    }
    named = {"request": one.request, "driver": one.driver, "pool": one.pool, "device": one.device}
    return named | {key: value for key, value in optional.items() if value}


def _tolerations(request: DeviceRequest) -> list[Obj]:
    return [
        {key: text for key, text in one._asdict().items() if text}
        | ({} if seconds is None else {"tolerationSeconds": seconds})
        for one, seconds in zip(request.tolerations, request.seconds, strict=True)
    ]


_KI: Final = 1024


def written(amount: Fraction) -> str:
    """An amount as a quantity: in powers of 1024 where that is exact, else as a number or in billionths."""
    if amount.denominator != 1:
        return quantity.canonical(f"{amount.numerator * 10**9 // amount.denominator}n")
    binary = 0 < amount <= quantity.INT64_MAX and amount % _KI == 0
    return quantity.canonical(f"{int(amount) // _KI}Ki") if binary else str(int(amount))


def _class_config(
    claim: ResourceClaimView, picks: Sequence[Pick], classes: Mapping[str, DeviceClassView]
) -> Iterator[Obj]:
    """What classes tell the drivers, each class once, with all requests that got devices of it."""
    users: dict[str, list[str]] = {}
    for option in _chosen(claim, picks):
        users.setdefault(option.request.device_class, []).append(option.name)
    for name, requests in users.items():
        for one in classes[name].config:
            yield {"source": "FromClass", "requests": requests, **one.content}


def _claim_config(claim: ResourceClaimView, picks: Sequence[Pick]) -> Iterator[Obj]:
    """What the claim tells the drivers, as far as it is about options that were chosen."""
    for one in claim.config:
        if not one.requests:
            yield {"source": "FromClaim", **one.content}
        elif any(option.is_meant(one.requests) for option in _chosen(claim, picks)):
            yield {"source": "FromClaim", "requests": list(one.requests), **one.content}


def _chosen(claim: ResourceClaimView, picks: Sequence[Pick]) -> list[Option]:
    """The options that devices were chosen for, in the order of the claim's requests."""
    by_choice = {pick.option.choice: pick.option for pick in picks}
    return [by_choice[choice.name] for choice in claim.requests]


def _nodes(devices: Iterable[Device], node: str) -> NodeSelector | None:
    """From where all of these can be used: one node, those that match all selectors, or all (None)."""
    labels: dict[Requirement, None] = {}
    fields: dict[Requirement, None] = {}
    for device in devices:
        if device.reach.node or device.view.binds_to_node:
            return NodeSelector((NodeSelectorTerm(fields=(Requirement(NAME_FIELD, Op.IN, frozenset((node,))),)),))
        for term in device.reach.selector.terms if device.reach.selector else ():
            labels |= dict.fromkeys(term.labels)
            fields |= dict.fromkeys(term.fields)
    return NodeSelector((NodeSelectorTerm(tuple(labels), tuple(fields)),)) if labels or fields else None


def _term(term: NodeSelectorTerm) -> Obj:
    made = {"matchExpressions": _requirements(term.labels), "matchFields": _requirements(term.fields)}
    return {key: value for key, value in made.items() if value}


def _requirements(requirements: Iterable[Requirement]) -> list[Obj]:
    return [
        {"key": one.key, "operator": str(one.op)} | ({"values": sorted(one.values)} if one.values else {})
        for one in requirements
    ]
