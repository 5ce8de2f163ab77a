"""Shapes: pods that no plugin can tell apart share one, compiled once.

What makes a shape is everything of a pod that a plugin may look at when it compiles: namespace, labels, the template's
spec, claims, the annotations we read, and its owner.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.objects import Table
from kubenexus.scheduler.engine.plugin import ClusterPlugin, NodePlugin
from kubenexus.scheduler.engine.state import State


def shape_key(pod: PodView) -> Hashable:
    owner = pod.owner and pod.owner.uid
    # Whether a claim was made or reserved for a pod, and not for one of the same name, is told by its uid.
    personal = pod.resource_claims or any(one.ephemeral for one in pod.volume_claims)
    return (
        pod.spec.key,
        pod.namespace,
        pod.labels,
        pod.annotations,
        owner,
        pod.volume_claims,
        pod.resource_claims,
        pod.uid if personal else "",
    )


@dataclass(frozen=True, slots=True)
class Weighted:
    """A plugin of a profile, with the weight of its score; 0 leaves the score out."""

    plugin: NodePlugin[Any] | ClusterPlugin[Any]
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A plugin that has something to say about a shape, and what it compiled."""

    plugin: NodePlugin[Any] | ClusterPlugin[Any]
    weight: int
    term: Any


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What the plugins of a profile compiled for such pods, in the order of the profile."""

    asked: tuple[Asked, ...]
    tables: tuple[Table[Any], ...] = ()
    version: int = 0

    @property
    def outdated(self) -> bool:
        """Whether objects have changed that it was compiled from."""
        return bool(self.tables) and self.version != _version(self.tables)


def compile_shape(pod: PodView, profile: Sequence[Weighted], state: State) -> Shape:
    names = dict.fromkeys(name for one in profile for name in one.plugin.reads(pod))
    tables = tuple(state.objects.table(name) for name in names)
    terms = ((one, one.plugin.compile(pod, state)) for one in profile)
    asked = tuple(Asked(one.plugin, one.weight, term) for one, term in terms if term is not None)
    return Shape(asked, tables, _version(tables))


def _version(tables: tuple[Table[Any], ...]) -> int:
    return sum(table.version for table in tables)
