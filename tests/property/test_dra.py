"""Devices for claims: what is found is what trying everything would find first, and nobody gets what another has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubenexus.common.objects import (
    AllocatedDevice,
    Constraint,
    DeviceRequest,
    DeviceView,
    ResourceClaimView,
    project_device_class,
    project_resource_claim,
    project_resource_slice,
)
from kubenexus.scheduler.dra import Allocator, InUse, Inventory, NoDevices

Obj = dict[str, Any]
TAINT = {"key": "broken", "effect": "NoSchedule"}
CLASSES = {"any": project_device_class({"metadata": {"name": "any"}})}


def meaning(kind: str) -> str:
    """The expression for a kind of device."""
    return f"device.attributes['d'].kind == '{kind}'"


SELDOM = st.sampled_from([False] * 5 + [True])


@st.composite
def devices(draw: st.DrawFn, plain: bool) -> list[Obj]:
    counted, shared = not plain and draw(st.booleans()), not plain and draw(st.booleans())
    made = []
    for number in range(draw(st.integers(3, 6))):
        attributes: Obj = {"kind": {"string": draw(st.sampled_from("ab"))}}
        if not draw(SELDOM):
            attributes["numa"] = {"int": draw(st.integers(0, 2))}
        one: Obj = {"name": f"dev-{number}", "attributes": attributes}
        if draw(SELDOM):
            one["taints"] = [TAINT]
        if counted and draw(st.booleans()):
            drawn = {"memory": {"value": str(draw(st.integers(1, 3)))}}
            one["consumesCounters"] = [{"counterSet": "card", "counters": drawn}]
        if shared and draw(st.booleans()):
            one |= {"allowMultipleAllocations": True, "capacity": {"slots": {"value": str(draw(st.integers(1, 3)))}}}
        made.append(one)
    return made


@st.composite
def slices(draw: st.DrawFn, plain: bool) -> list[Obj]:
    """One pool, with counters."""
    base = {"driver": "d", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 2}, "nodeName": "n"}
    counters = [{"name": "card", "counters": {"memory": {"value": str(draw(st.integers(2, 8)))}}}]
    return [
        {"metadata": {"name": "n-1"}, "spec": base | {"sharedCounters": counters}},
        {"metadata": {"name": "n-2"}, "spec": base | {"devices": draw(devices(plain))}},
    ]


@st.composite
def requests(draw: st.DrawFn) -> Obj:
    one: Obj = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": draw(st.integers(1, 3))}
    if draw(SELDOM):
        one = {"deviceClassName": "any", "allocationMode": "All"}
    if draw(st.booleans()):
        one["selectors"] = [{"cel": {"expression": meaning(draw(st.sampled_from("ab")))}}]
    if not draw(SELDOM):
        one["tolerations"] = [{"operator": "Exists"}]
    if draw(SELDOM):
        one["capacity"] = {"requests": {"slots": "1"}}
    return one


@st.composite
def choices(draw: st.DrawFn, name: str) -> Obj:
    if draw(SELDOM):
        return {"name": name, "firstAvailable": [{"name": option, **draw(requests())} for option in "xy"]}
    return {"name": name, "exactly": draw(requests()) | ({"adminAccess": True} if draw(SELDOM) else {})}


@st.composite
def constraints(draw: st.DrawFn) -> Obj:
    kind = draw(st.sampled_from(["matchAttribute", "distinctAttribute"]))
    attribute = draw(st.sampled_from(["d/numa", "d/numa", "d/kind"]))
    return {kind: attribute, "requests": draw(st.sampled_from([[], ["r0"], ["r1", "r0/x"]]))}


@st.composite
def claims(draw: st.DrawFn, plain: bool) -> list[Obj]:
    made = []
    for number, size in enumerate(draw(st.sampled_from([(1,), (2,), (3,), (1, 1), (1, 2), (2, 1)]))):
        wanted: Obj = {"requests": [draw(choices(f"r{index}")) for index in range(size)]}
        wanted["constraints"] = [draw(constraints()) for _ in range(draw(st.integers(1 if plain else 0, 2)))]
        made.append({"metadata": {"name": f"c{number}"}, "spec": {"devices": wanted}})
    return made


@dataclass(frozen=True)
class Cluster:
    """One node, its devices, what others have of them, and the claims of a pod."""

    slices: list[Obj]
    claims: list[ResourceClaimView]
    held: list[AllocatedDevice]

    def allocator(self) -> Allocator:
        inventory, in_use = Inventory(), InUse()
        for one in self.slices:
            inventory.set(project_resource_slice(one))
        for number, device in enumerate(self.held):
            in_use.hold(f"other {number}", [device])
        return Allocator(inventory, in_use, CLASSES)

    @property
    def devices(self) -> tuple[DeviceView, ...]:
        return project_resource_slice(self.slices[1]).devices

    @property
    def memory(self) -> int:
        return int(project_resource_slice(self.slices[0]).counters["card"]["memory"])


@st.composite
def clusters(draw: st.DrawFn, plain: bool = False) -> Cluster:
    """With `plain` it is all about constraints."""
    made = draw(slices(plain))
    held = []
    for one in project_resource_slice(made[1]).devices:
        if draw(SELDOM):
            share, amounts = ("s", {"slots": 1}) if one.shareable else ("", {})
            held.append(AllocatedDevice("r", "d", "n", one.name, False, share, amounts))  # type: ignore[arg-type]
    return Cluster(made, [project_resource_claim(one) for one in draw(claims(plain))], held)


@dataclass(frozen=True)
class Choice:
    """One device for one request, in the words of the claim."""

    claim: int
    name: str
    request: DeviceRequest
    device: DeviceView


def find(cluster: Cluster) -> list[tuple[int, str, str]] | NoDevices:
    allocator = cluster.allocator()
    ask = allocator.ask(cluster.claims)
    assert not isinstance(ask, NoDevices)
    found = allocator.find(ask, "n", {})
    assert (allocator.refusal(ask, "n", {}) is None) == (not isinstance(found, NoDevices))
    if isinstance(found, NoDevices):
        return found
    return [(number, one.option.name, one.device.id.name) for number, picks in enumerate(found) for one in picks]


def try_all(cluster: Cluster) -> Iterator[list[Choice]]:
    """Every way to give each request its number of devices, in order."""
    ways = [
        list(_ways(cluster, number, choice.name, choice.options))
        for number, claim in enumerate(cluster.claims)
        for choice in claim.requests
    ]
    return ([one for part in way for one in part] for way in product(*ways))


def _ways(cluster: Cluster, claim: int, name: str, options: Sequence[DeviceRequest]) -> Iterator[list[Choice]]:
    for one in options:
        meant = [device for device in cluster.devices if _is_meant(one, device)]
        full = f"{name}/{one.name}" if one.name else name
        if one.count is None:
            meant = [device for device in meant if _room(cluster, one, device)]
        for chosen in combinations(meant, len(meant) if one.count is None else one.count):
            if chosen:
                yield [Choice(claim, full, one, device) for device in chosen]


def _is_meant(request: DeviceRequest, device: DeviceView) -> bool:
    right = all(meaning(str(device.attributes["d/kind"])) == selector for selector in request.selectors)
    return right and (not request.capacity or "d/slots" in device.capacity)


def _slots(request: DeviceRequest, device: DeviceView) -> int:
    """How much of a device's slots a request takes: what it says, or all there is."""
    return 1 if request.capacity else int(device.capacity["d/slots"].value)


def _held_slots(cluster: Cluster, device: DeviceView) -> int:
    return sum(int(one.consumed.get("slots", 0)) for one in cluster.held if one.device == device.name)


def _room(cluster: Cluster, request: DeviceRequest, device: DeviceView) -> bool:
    if not device.shareable:
        return True
    return _held_slots(cluster, device) + _slots(request, device) <= device.capacity["d/slots"].value


def is_right(cluster: Cluster, chosen: Sequence[Choice]) -> bool:
    tainted = any(one.device.taints and not one.request.tolerations for one in chosen)
    return not tainted and _alone(cluster, chosen) and _capacity(cluster, chosen) and _counters(cluster, chosen) and (
        all(_keeps(rule, [one for one in chosen if one.claim == number])
            for number, claim in enumerate(cluster.claims) for rule in claim.constraints)
    )  # fmt: skip


def _alone(cluster: Cluster, chosen: Sequence[Choice]) -> bool:
    """Nobody has a device that another has for itself, administrators apart."""
    others = {one.device for one in cluster.held if not one.share}
    for number, one in enumerate(chosen):
        before = [other.claim for other in chosen[:number] if other.device is one.device or other.device == one.device]
        if one.device.shareable:
            continue
        if one.claim in before or (not one.request.admin and (before or one.device.name in others)):
            return False
    return True


def _capacity(cluster: Cluster, chosen: Sequence[Choice]) -> bool:
    shared = [one for one in chosen if one.device.shareable]
    return all(
        _held_slots(cluster, device)
        + sum(_slots(one.request, one.device) for one in shared if one.device.name == device.name)
        <= device.capacity["d/slots"].value
        for device in (one.device for one in shared)
    )


def _counters(cluster: Cluster, chosen: Sequence[Choice]) -> bool:
    """Devices in use count once; so do shares of one device. Who draws nothing does not care what is left."""
    held = {one.device for one in cluster.held}
    draws = {one.name: int(one.counters["card"]["memory"]) for one in cluster.devices if one.counters}
    mine = [one.device for one in chosen if one.device.counters]
    shared = {one.name for one in mine if one.shareable} - held
    whole = [one.name for one in mine if not one.shareable]
    used = sum(draws.get(name, 0) for name in held)
    drawn = sum(draws[name] for name in (*shared, *whole))
    return not drawn or used + drawn <= cluster.memory


def _keeps(rule: Constraint, chosen: Sequence[Choice]) -> bool:
    meant = [one for one in chosen if not rule.requests or {one.name, one.name.split("/")[0]} & {*rule.requests}]
    values = [one.device.attributes.get(rule.same or rule.distinct) for one in meant]
    if None in values:
        return False
    return len({*values}) <= 1 if rule.same else len({*values}) == len(values)


@settings(max_examples=400, deadline=None)
@given(clusters() | clusters(plain=True))
def test_the_first_way_is_found_if_there_is_one(cluster: Cluster) -> None:
    found = find(cluster)
    if isinstance(found, NoDevices) and found.fatal:
        return  # a constraint is against having all devices, which ends the search wherever it comes up
    first = next((way for way in try_all(cluster) if is_right(cluster, way)), None)
    if first is None:
        assert isinstance(found, NoDevices)
    else:
        assert found == [(one.claim, one.name, one.device.name) for one in first]


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_the_same_question_has_the_same_answer(cluster: Cluster) -> None:
    assert find(cluster) == find(cluster)
