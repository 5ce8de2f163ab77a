"""Dynamic resource allocation: devices as pods claim them (ResourceClaim), and the kinds they ask for (DeviceClass)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kubenexus.common.objects.interning import share
from kubenexus.common.objects.meta import View, read_meta
from kubenexus.common.objects.placement import Toleration, read_tolerations
from kubenexus.common.objects.reading import Amounts, Fields, Obj, identified
from kubenexus.common.objects.selectors import NodeSelector, read_node_selector


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Devices that a claim asks for: `count` of a class, or with `count` None all that match.

    `seconds` says for each toleration how long a device may have such a taint before its pods go; None: forever.
    """

    name: str
    device_class: str
    selectors: tuple[str, ...]
    count: int | None
    admin: bool
    tolerations: tuple[Toleration, ...]
    seconds: tuple[int | None, ...]
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


class DeviceConfig(NamedTuple):
    """What drivers are told about the devices of these requests (of all, if none is named).

    Nobody but the driver understands it. It goes into the allocation as it is.
    """

    requests: tuple[str, ...]
    content: Obj


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
    config: tuple[DeviceConfig, ...]
    allocation: Allocation | None
    reserved_for: tuple[Consumer, ...]
    unready: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceClassView(View):
    """A DeviceClass: which devices are meant, what their drivers are told, and the resource that it stands for."""

    selectors: tuple[str, ...]
    config: tuple[DeviceConfig, ...]
    extended_resource: str


def project_device_class(obj: Obj) -> DeviceClassView:
    """The view of a raw DeviceClass."""
    root, meta = identified(obj, "DeviceClass")
    spec = root.child("spec")
    return DeviceClassView(
        meta=read_meta(meta),
        selectors=_selectors(spec),
        config=_config(spec),
        extended_resource=share(spec.text("extendedResourceName")),
        problems=tuple(root.problems),
    )


def project_resource_claim(obj: Obj) -> ResourceClaimView:
    """The view of a raw ResourceClaim."""
    root, meta = identified(obj, "ResourceClaim")
    devices, status = root.child("spec").child("devices"), root.child("status")
    return ResourceClaimView(
        meta=read_meta(meta, namespaced=True),
        requests=tuple(_choice(one) for one in devices.children("requests")),
        constraints=tuple(_constraint(one) for one in devices.children("constraints")),
        config=_config(devices),
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
    mode = one.text("allocationMode", "ExactCount")
    if mode not in ("All", "ExactCount"):
        one.problem("allocationMode", f"is {mode}, neither ExactCount nor All")
    return DeviceRequest(
        name=one.text("name"),
        device_class=share(one.text("deviceClassName")),
        selectors=_selectors(one),
        count=None if mode == "All" else one.whole("count", 1),
        admin=one.flag("adminAccess"),
        tolerations=read_tolerations(one, "tolerations"),
        seconds=tuple(_seconds(toleration) for toleration in one.children("tolerations")),
        capacity=one.child("capacity").amounts("requests"),
    )


def _seconds(toleration: Fields) -> int | None:
    known = toleration.raw.get("tolerationSeconds") is not None
    return toleration.whole("tolerationSeconds") if known else None


def _selectors(fields: Fields) -> tuple[str, ...]:
    """CEL expressions; a selector of another kind is an empty one, which nothing can be compared with."""
    return tuple(share(one.child("cel").text("expression")) for one in fields.children("selectors"))


def _config(fields: Fields) -> tuple[DeviceConfig, ...]:
    found = fields.children("config")
    return tuple(
        DeviceConfig(one.texts("requests"), {name: value for name, value in one.raw.items() if name != "requests"})
        for one in found
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
