"""Dynamic resource allocation: devices as drivers publish them (ResourceSlice) and as pods claim them (ResourceClaim).

Opaque configuration is left out, since no decision looks at it; who allocates a claim copies it from the raw object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from kubenexus.common.objects.interning import share
from kubenexus.common.objects.meta import View, read_meta
from kubenexus.common.objects.placement import Taint, Toleration, read_taints, read_tolerations
from kubenexus.common.objects.reading import Amounts, Fields, Obj, identified
from kubenexus.common.objects.selectors import NodeSelector, read_node_selector


class Version(str):
    """An attribute that is a semantic version, so that it does not equal a text that looks the same."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


Attribute = str | int | bool | Version


class Pool(NamedTuple):
    """Which pool a slice is part of; only the slices of the newest generation count, and all of them are needed."""

    driver: str
    name: str
    generation: int
    slices: int


class Reach(NamedTuple):
    """From which nodes devices can be used: one by name, those a selector matches, or all."""

    node: str
    selector: NodeSelector | None
    everywhere: bool


class CapacityView(NamedTuple):
    """An amount that a device has, and in which portions it can be shared out (all None or empty: as one wishes)."""

    value: Fraction
    default: Fraction | None
    allowed: tuple[Fraction, ...]
    minimum: Fraction | None
    maximum: Fraction | None
    step: Fraction | None


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device. Names of attributes and capacities are qualified: `driver/name` where the slice gave no domain."""

    name: str
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, CapacityView]
    taints: tuple[Taint, ...]
    counters: Mapping[str, Amounts]
    reach: Reach
    shareable: bool
    binding_conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResourceSliceView(View):
    """A ResourceSlice. With `per_device` each device says for itself where it can be used."""

    pool: Pool
    reach: Reach
    per_device: bool
    devices: tuple[DeviceView, ...]
    counters: Mapping[str, Amounts]


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Devices that a claim asks for: `count` of a class, or with `count` None all that match."""

    name: str
    device_class: str
    selectors: tuple[str, ...]
    count: int | None
    admin: bool
    tolerations: tuple[Toleration, ...]
    capacity: Amounts


class RequestChoice(NamedTuple):
    """A request of a claim: the first of its options that can be had. One option without a name of its own is usual."""

    name: str
    options: tuple[DeviceRequest, ...]


class Constraint(NamedTuple):
    """All devices of these requests (of all, if none is named) share one value of `same`, or differ in `distinct`."""

    requests: tuple[str, ...]
    same: str
    distinct: str


class AllocatedDevice(NamedTuple):
    request: str
    driver: str
    pool: str
    device: str
    admin: bool
    share: str
    consumed: Amounts


class Allocation(NamedTuple):
    """Devices that a claim has, and the nodes they can be used from (None: any)."""

    devices: tuple[AllocatedDevice, ...]
    nodes: NodeSelector | None


class Consumer(NamedTuple):
    resource: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ResourceClaimView(View):
    """A ResourceClaim; `allocation` is None until somebody gave it devices.

    `unready` names allocated devices that their driver has not prepared: pods must not be bound before that.
    """

    requests: tuple[RequestChoice, ...]
    constraints: tuple[Constraint, ...]
    allocation: Allocation | None
    reserved_for: tuple[Consumer, ...]
    unready: tuple[str, ...]


def project_resource_slice(obj: Obj) -> ResourceSliceView:
    """The view of a raw ResourceSlice."""
    root, meta = identified(obj, "ResourceSlice")
    spec = root.child("spec")
    driver, pool = share(spec.text("driver")), spec.child("pool")
    return ResourceSliceView(
        meta=read_meta(meta),
        pool=Pool(driver, pool.text("name"), pool.whole("generation"), pool.whole("resourceSliceCount")),
        reach=_reach(spec),
        per_device=spec.flag("perDeviceNodeSelection"),
        devices=tuple(_device(one, driver) for one in spec.children("devices")),
        counters={one.text("name"): _counters(one) for one in spec.children("sharedCounters")},
        problems=tuple(root.problems),
    )


def _reach(fields: Fields) -> Reach:
    return Reach(
        share(fields.text("nodeName")), read_node_selector(fields, "nodeSelector"), everywhere=fields.flag("allNodes")
    )


def _device(one: Fields, driver: str) -> DeviceView:
    attributes = ((_qualified(name, driver), _attribute(value)) for name, value in one.named("attributes"))
    return DeviceView(
        name=share(one.text("name")),
        attributes={name: value for name, value in attributes if value is not None},
        capacity={_qualified(name, driver): _capacity(value) for name, value in one.named("capacity")},
        taints=read_taints(one, "taints"),
        counters={use.text("counterSet"): _counters(use) for use in one.children("consumesCounters")},
        reach=_reach(one),
        shareable=one.flag("allowMultipleAllocations"),
        binding_conditions=one.texts("bindingConditions"),
    )


def _qualified(name: str, driver: str) -> str:
    return share(name if "/" in name else f"{driver}/{name}")


_KINDS: Final = ("int", "bool", "string", "version")


def _attribute(value: Fields) -> Attribute | None:
    kinds = [kind for kind in _KINDS if value.raw.get(kind) is not None]
    match kinds:
        case ["int"]:
            return value.whole("int")
        case ["bool"]:
            return value.flag("bool")
        case ["string"]:
            return share(value.text("string"))
        case ["version"]:
            return Version(value.text("version"))
    value.problem("", f"has not exactly one of {', '.join(_KINDS)}")
    return None


def _capacity(fields: Fields) -> CapacityView:
    policy = fields.child("requestPolicy")
    span = policy.child("validRange")
    allowed = ({"value": value} for value in policy.items("validValues"))
    amounts = (Fields(one, policy.problems, policy, "validValues").amount("value") for one in allowed)
    return CapacityView(
        value=fields.amount("value") or Fraction(0),
        default=policy.amount("default"),
        allowed=tuple(amount for amount in amounts if amount is not None),
        minimum=span.amount("min"),
        maximum=span.amount("max"),
        step=span.amount("step"),
    )


def _counters(fields: Fields) -> Amounts:
    return {name: counter.amount("value") or Fraction(0) for name, counter in fields.named("counters")}


def project_resource_claim(obj: Obj) -> ResourceClaimView:
    """The view of a raw ResourceClaim."""
    root, meta = identified(obj, "ResourceClaim")
    devices, status = root.child("spec").child("devices"), root.child("status")
    return ResourceClaimView(
        meta=read_meta(meta, namespaced=True),
        requests=tuple(_choice(one) for one in devices.children("requests")),
        constraints=tuple(_constraint(one) for one in devices.children("constraints")),
        allocation=_allocation(status.maybe("allocation")),
        reserved_for=tuple(
            Consumer(one.text("resource"), one.text("name"), one.text("uid")) for one in status.children("reservedFor")
        ),
        unready=_unready(status),
        problems=tuple(root.problems),
    )


def _choice(one: Fields) -> RequestChoice:
    exactly = one.maybe("exactly")
    options = [exactly] if exactly is not None else one.children("firstAvailable")
    return RequestChoice(one.text("name"), tuple(_device_request(option) for option in options))


def _device_request(one: Fields) -> DeviceRequest:
    everything = one.text("allocationMode") == "All"
    return DeviceRequest(
        name=one.text("name"),
        device_class=share(one.text("deviceClassName")),
        selectors=tuple(selector.child("cel").text("expression") for selector in one.children("selectors")),
        count=None if everything else one.whole("count", 1),
        admin=one.flag("adminAccess"),
        tolerations=read_tolerations(one, "tolerations"),
        capacity=one.child("capacity").amounts("requests"),
    )


def _constraint(one: Fields) -> Constraint:
    return Constraint(one.texts("requests"), one.text("matchAttribute"), one.text("distinctAttribute"))


def _allocation(fields: Fields | None) -> Allocation | None:
    if fields is None:
        return None
    results = fields.child("devices").children("results")
    return Allocation(tuple(_allocated(one) for one in results), read_node_selector(fields, "nodeSelector"))


def _allocated(one: Fields) -> AllocatedDevice:
    return AllocatedDevice(
        request=one.text("request"),
        driver=share(one.text("driver")),
        pool=share(one.text("pool")),
        device=share(one.text("device")),
        admin=one.flag("adminAccess"),
        share=one.text("shareID"),
        consumed=one.amounts("consumedCapacity"),
    )


def _unready(status: Fields) -> tuple[str, ...]:
    """The allocated devices with a binding condition that does not hold, or a failure condition that does."""
    reported = {_device_key(one): one for one in status.children("devices")}
    allocated = status.child("allocation").child("devices").children("results")
    waited = [one for one in allocated if one.texts("bindingConditions")]
    return tuple(one.text("device") for one in waited if not _is_ready(one, reported.get(_device_key(one))))


def _device_key(one: Fields) -> tuple[str, ...]:
    return tuple(one.text(key) for key in ("driver", "pool", "device", "shareID"))


def _is_ready(allocated: Fields, reported: Fields | None) -> bool:
    conditions = () if reported is None else reported.children("conditions")
    true = {one.text("type") for one in conditions if one.text("status") == "True"}
    failed = true.intersection(allocated.texts("bindingFailureConditions"))
    return true.issuperset(allocated.texts("bindingConditions")) and not failed
