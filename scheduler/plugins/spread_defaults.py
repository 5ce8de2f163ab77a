"""Arguments of PodTopologySpread, and the constraints and selectors of pods that name none themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kubenexus.common.objects import (
    Fields,
    LabelSelector,
    Op,
    PodView,
    Requirement,
    SpreadConstraint,
    read_label_selector,
)
from kubenexus.common.objects.selectors import NIL_SELECTOR
from kubenexus.scheduler.engine.objects import Objects, owner_key

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

# Controllers whose selector says which pods belong together: kind → API version.
_OWNERS: Final = {"ReplicationController": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}


class Defaulting(StrEnum):
    SYSTEM = "System"
    LIST = "List"


class Action(StrEnum):
    REFUSE = "DoNotSchedule"
    SCORE = "ScheduleAnyway"


class Policy(StrEnum):
    HONOR = "Honor"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class DefaultConstraint:
    """A constraint for pods without any; its selector comes from their services and controller."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: Action
    min_domains: int = 1
    node_affinity_policy: Policy = Policy.HONOR
    node_taints_policy: Policy = Policy.IGNORE

    def __post_init__(self) -> None:
        for name, value in (("maxSkew", self.max_skew), ("minDomains", self.min_domains)):
            if value < 1:
                raise ValueError(f"{name} is {value}, which is less than 1")
        if not self.topology_key:
            raise ValueError("topologyKey is empty")

    def constraint(self) -> SpreadConstraint:
        return SpreadConstraint(
            topology_key=self.topology_key,
            max_skew=self.max_skew,
            hard=self.when_unsatisfiable is Action.REFUSE,
            selector=NIL_SELECTOR,
            min_domains=self.min_domains,
            honor_affinity=self.node_affinity_policy is Policy.HONOR,
            honor_taints=self.node_taints_policy is Policy.HONOR,
            match_label_keys=(),
        )


SYSTEM_DEFAULTS: Final = (
    DefaultConstraint(3, HOSTNAME, Action.SCORE),
    DefaultConstraint(5, ZONE, Action.SCORE),
)


@dataclass(frozen=True, slots=True)
class PodTopologySpreadArgs:
    """kube-scheduler's arguments."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: Defaulting = Defaulting.SYSTEM

    def __post_init__(self) -> None:
        if self.system and self.default_constraints:
            raise ValueError("defaultConstraints must be empty unless defaultingType is List")
        places = [(one.topology_key, one.when_unsatisfiable) for one in self.default_constraints]
        for key, action in places:
            if places.count((key, action)) > 1:
                raise ValueError(f"defaultConstraints has {key} with {action} more than once")

    @property
    def system(self) -> bool:
        return self.defaulting_type is Defaulting.SYSTEM

    @property
    def constraints(self) -> tuple[SpreadConstraint, ...]:
        chosen = SYSTEM_DEFAULTS if self.system else self.default_constraints
        return tuple(one.constraint() for one in chosen)


def default_selector(pod: PodView, objects: Objects) -> LabelSelector:
    """The pods that belong with this one, by its services and its controller; empty if nothing says so."""
    equal: dict[str, str] = {}
    for service in _services(pod, objects):
        equal |= service
    owner = _owner(pod, objects)
    if owner is None:
        return LabelSelector(equal_to(equal))
    if pod.owner is not None and pod.owner.kind == "ReplicationController":
        return LabelSelector(equal_to(equal | owner.pairs("selector")))
    more = read_label_selector(owner, "selector").requirements or ()
    return LabelSelector((*equal_to(equal), *more))


def _services(pod: PodView, objects: Objects) -> Iterator[dict[str, str]]:
    """The selectors of the services that the pod is part of."""
    prefix = f"{pod.namespace}/"
    for key, raw in objects.services.items():
        if key.startswith(prefix):
            selector = Fields(raw, []).child("spec").pairs("selector")
            if selector.items() <= pod.labels.items():
                yield selector


def _owner(pod: PodView, objects: Objects) -> Fields | None:
    owner = pod.owner
    if owner is None or _OWNERS.get(owner.kind) != owner.api_version:
        return None
    raw = objects.owners.get(owner_key(owner.kind, pod.namespace, owner.name))
    return Fields(raw, []).child("spec") if raw is not None else None


def equal_to(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """One condition for each label, that it has this value."""
    return tuple(Requirement(key, Op.IN, frozenset((value,))) for key, value in labels.items())
