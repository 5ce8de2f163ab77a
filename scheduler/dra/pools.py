"""Devices in pools, as they can be used from one node.

Drivers publish a pool in slices. Only slices of the newest generation count; while some of them are missing, or when
they contradict each other, nothing is given from the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from kubenexus.common.cel import Facts
from kubenexus.common.objects import DeviceView, Reach, ResourceSliceView
from kubenexus.common.objects.reading import Amounts

INCOMPLETE = "being updated"


class PoolId(NamedTuple):
    driver: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


class CounterId(NamedTuple):
    set: str
    name: str


class DeviceId(NamedTuple):
    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


class Device:
    """A device of a pool. It is the same object for all nodes, and another one when its slice has changed.

    `reach` says from where it can be used, be it by its slice's word or its own. `known` is for who asks about devices
    again and again: what was found out about this one, by whatever was asked. `drawn` is what it needs of which counter
    of which set.
    """

    __slots__ = ("_facts", "drawn", "id", "known", "plain", "pool", "reach", "view")

    def __init__(self, pool: PoolId, view: DeviceView, reach: Reach) -> None:
        self.id = DeviceId(pool.driver, pool.name, view.name)
        self.pool = pool
        self.view = view
        self.reach = reach
        self.drawn = tuple(flat(view.counters))
        self.plain = not view.shareable and not view.counters
        """whether it is in use or not, and that is all there is to it"""
        self.known: dict[Any, Any] = {}
        self._facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        """What selectors see of it."""
        if self._facts is None:
            self._facts = Facts.of(self.id.driver, self.view)
        return self._facts

    def __repr__(self) -> str:
        return f"Device({self.id})"


class Slice:
    """A slice and its devices."""

    __slots__ = ("devices", "pool", "view")

    def __init__(self, view: ResourceSliceView) -> None:
        self.view = view
        self.pool = PoolId(view.pool.driver, view.pool.name)
        self.devices = tuple(
            Device(self.pool, one, one.reach if view.per_device else view.reach) for one in view.devices
        )

    def concerns(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node can use a device of it."""
        if self.view.per_device:
            return any(reaches(one.reach, name, labels) for one in self.devices)
        return reaches(self.view.reach, name, labels)


def flat(sets: Mapping[str, Amounts]) -> Iterator[tuple[CounterId, Fraction]]:
    """The counters of several sets."""
    return ((CounterId(name, counter), amount) for name, some in sets.items() for counter, amount in some.items())


def reaches(reach: Reach, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node is among those that a device can be used from."""
    if reach.node:
        return reach.node == name
    return reach.everywhere or (reach.selector is not None and reach.selector.matches(labels, name))


@dataclass(frozen=True, slots=True, eq=False)
class NodePool:
    """What a node can use of a pool, in the order of slices' names. With a `problem` nothing can be given from it.

    `consumers` are all its devices that draw on its counters, those of other nodes, too.
    """

    id: PoolId
    devices: tuple[Device, ...] = ()
    counters: Mapping[str, Amounts] = field(default_factory=dict)
    consumers: tuple[Device, ...] = ()
    problem: str = ""
    conditional: bool = False
    """whether some of its devices have to be prepared before a pod is bound: such pools are used last"""

    @property
    def incomplete(self) -> bool:
        return self.problem == INCOMPLETE


def build_pool(
    relevant: Sequence[Slice], everything: Iterable[Slice], name: str, labels: Mapping[str, str]
) -> NodePool:
    """A pool, given its slices of one generation: those that concern the node, and all there are."""
    ordered = sorted(relevant, key=lambda one: one.view.name)
    others = [one for one in everything if one not in ordered]
    pool, wanted = ordered[0].pool, relevant[0].view.pool.slices
    if len(ordered) + len(others) != wanted:
        return NodePool(pool, problem=INCOMPLETE)
    devices = [device for one in ordered for device in one.devices]
    consumers = tuple(device for one in (*ordered, *others) for device in one.devices if device.view.counters)
    problem = _duplicates(devices) or _bad_counters(ordered, consumers)
    if problem:
        return NodePool(pool, problem=problem)
    return NodePool(
        id=pool,
        devices=tuple(device for device in devices if reaches(device.reach, name, labels)),
        counters={key: counters for one in ordered for key, counters in one.view.counters.items()},
        consumers=consumers,
        conditional=any(device.view.binding_conditions for device in devices),
    )


def _duplicates(devices: Iterable[Device]) -> str:
    seen: set[str] = set()
    for device in devices:
        if device.id.name in seen:
            return f"the device {device.id.name} is in it twice"
        seen.add(device.id.name)
    return ""


def _bad_counters(slices: Iterable[Slice], consumers: Iterable[Device]) -> str:
    """What is wrong with the counters of a pool: a set that is there twice, or unknown ones in use."""
    sets: dict[str, Amounts] = {}
    for one in slices:
        for key, counters in one.view.counters.items():
            if key in sets:
                return f"the counter set {key} is in it twice"
            sets[key] = counters
    for device in consumers:
        for key, needed in device.view.counters.items():
            if key not in sets or not sets[key].keys() >= needed.keys():
                return f"the device {device.id.name} needs counters of {key} that are not there"
    return ""
