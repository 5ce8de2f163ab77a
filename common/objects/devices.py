"""Dynamic resource allocation: devices as drivers publish them (ResourceSlice)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from kubenexus.common.objects.interning import share
from kubenexus.common.objects.meta import View, read_meta
from kubenexus.common.objects.placement import Taint, read_taints
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
    """An amount that a device has, and in which portions it can be shared out (all None or empty: as one wishes).

    `spelled` is its name as the slice gives it: who asks for some of it must spell it the same.
    """

    value: Fraction
    default: Fraction | None
    allowed: tuple[Fraction, ...]
    minimum: Fraction | None
    maximum: Fraction | None
    step: Fraction | None
    spelled: str = ""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device. Names of attributes and capacities are qualified: `driver/name` where the slice gave no domain.

    `unreadable` names attributes whose value is of no known kind: no selector can be evaluated on such a device.
    """

    name: str
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, CapacityView]
    taints: tuple[Taint, ...]
    counters: Mapping[str, Amounts]
    reach: Reach
    shareable: bool
    binding_conditions: tuple[str, ...]
    failure_conditions: tuple[str, ...] = ()
    binds_to_node: bool = False
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceSliceView(View):
    """A ResourceSlice. With `per_device` each device says for itself where it can be used."""

    pool: Pool
    reach: Reach
    per_device: bool
    devices: tuple[DeviceView, ...]
    counters: Mapping[str, Amounts]


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
    attributes = {_qualified(name, driver): _attribute(value) for name, value in one.named("attributes")}
    return DeviceView(
        name=share(one.text("name")),
        attributes={name: value for name, value in attributes.items() if value is not None},
        capacity={_qualified(name, driver): _capacity(name, value) for name, value in one.named("capacity")},
        taints=read_taints(one, "taints"),
        counters={use.text("counterSet"): _counters(use) for use in one.children("consumesCounters")},
        reach=_reach(one),
        shareable=one.flag("allowMultipleAllocations"),
        binding_conditions=one.texts("bindingConditions"),
        failure_conditions=one.texts("bindingFailureConditions"),
        binds_to_node=one.flag("bindsToNode"),
        unreadable=tuple(name for name, value in attributes.items() if value is None),
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


def _capacity(name: str, fields: Fields) -> CapacityView:
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
        spelled=share(name),
    )


def _counters(fields: Fields) -> Amounts:
    return {name: counter.amount("value") or Fraction(0) for name, counter in fields.named("counters")}
