"""Values that travel between the owner thread and the others. Pure.

`Heard` comes in; the actions go out; what became of each comes back. Of a `Report` nothing does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kubenexus.common.kube.mirror import Change
from kubenexus.common.objects import PodView
from kubenexus.scheduler.dra import Grant
from kubenexus.scheduler.plugins.volume_binding import VolumeDecision

POD: Final = "Pod"
REJECTED: Final = "rejected Pod"
"""pods that a kubelet refused to run; they have ended, so that the watch of pods does not show them"""
OWNERS: Final = "kinds of owners"
"""which kinds that own pods are watched"""
UNSCHEDULABLE = "Unschedulable"
ERROR = "SchedulerError"


class Heard(NamedTuple):
    """News of one kind. Pods are known by uid, all others by `namespace/name`."""

    kind: str
    change: Change[Any]


class Use(NamedTuple):
    """A claim, by name, that is reserved for a pod; `given`: with devices that were found for it."""

    claim: str
    given: bool = False


@dataclass(frozen=True, slots=True)
class Bind:
    """The pod shall go to this node. The annotations travel with the Binding, in the same write.

    `claims` are reserved for it before.
    """

    pod: PodView
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Use, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepare:
    """What must stand on the server before a bind: volumes chosen, devices given to claims, claims reserved."""

    bind: Bind
    volumes: VolumeDecision | None = None
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Undo:
    """The pod will not be bound there, for this reason: its claims are free again. Ends as `Undone`."""

    bind: Bind
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    """Claims of pods that wait have devices where these pods cannot go: they give them back. Ends as `Released`."""

    unit: str
    claims: tuple[tuple[PodView, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Eviction:
    """`victims` leave a node for `pod`; `displaced` pods are not promised it any more."""

    pod: PodView
    node: str
    victims: tuple[PodView, ...]
    displaced: tuple[PodView, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """Why a pod is pending. `nominated` is the node promised to it, `""` for none; None leaves what stands there."""

    pod: PodView
    reason: str
    message: str
    nominated: str | None = None


Action = Bind | Prepare | Undo | Release | Eviction | Report


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod is on the node."""

    bind: Bind


@dataclass(frozen=True, slots=True)
class Astray:
    """The pod is gone, or somebody else has bound it: the watch will tell."""

    bind: Bind
    why: str


@dataclass(frozen=True, slots=True)
class Unbound:
    """The pod is certainly not on that node, for this reason."""

    bind: Bind
    why: str


@dataclass(frozen=True, slots=True)
class Undone:
    """The pod is certainly not on that node, for this reason, and nothing is left of what was written for it."""

    bind: Bind
    why: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """It is written; volumes may still take their time."""

    bind: Bind


@dataclass(frozen=True, slots=True)
class Evicted:
    """The victims are leaving; `why` says what went wrong if some are not."""

    eviction: Eviction
    why: str = ""


@dataclass(frozen=True, slots=True)
class Released:
    """The claims have no devices any more, as far as we could help it."""

    release: Release


Outcome = Bound | Astray | Unbound | Undone | Prepared | Evicted | Released
