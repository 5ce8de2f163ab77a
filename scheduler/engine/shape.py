"""Shapes: pods that no plugin can tell apart share one, compiled once.

What makes a shape is everything of a pod that a plugin may look at when it compiles: namespace, labels, the template's
spec, claims, the annotations we read, and its owner. Of the labels only those count that some selector looks at: each
pod of an indexed Job or of a StatefulSet has a label of its own, and yet nobody can tell them apart by it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubenexus.common.objects import PodSpecView, PodView, is_read
from kubenexus.common.vocabulary import EXPECTED_DURATION, SIMULATED_RUN_TIME
from kubenexus.scheduler.engine.carried import selected_keys
from kubenexus.scheduler.engine.plugin import ClusterPlugin, NodePlugin
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.table import Table

# What pods say about themselves that no plugin reads.
_UNREAD: Final = frozenset((SIMULATED_RUN_TIME, EXPECTED_DURATION))


def shape_key(pod: PodView, labels: Hashable | None = None) -> Hashable:
    """Equal for pods of one shape; `labels` are those that count, if it is known which do."""
    owner = pod.owner and pod.owner.uid
    # Whether a claim was made or reserved for a pod, and not for one of the same name, is told by its uid.
    personal = pod.resource_claims or any(one.ephemeral for one in pod.volume_claims)
    notes: Hashable = pod.annotations
    if not _UNREAD.isdisjoint(pod.annotations):
        notes = frozenset(item for item in pod.annotations.items() if item[0] not in _UNREAD)
    return (
        pod.spec.key,
        pod.namespace,
        pod.labels if labels is None else labels,
        notes,
        owner,
        pod.volume_claims,
        pod.resource_claims,
        pod.uid if personal else "",
    )


class Alike:
    """Tells which pods of a state no plugin can tell apart, by a key that is equal for them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._own: dict[bytes, frozenset[str]] = {}
        self._mark = (-1, -1)
        self._looked_at: frozenset[str] = frozenset()

    def key(self, pod: PodView) -> Hashable:
        own, everybodys = self._own_keys(pod.spec), self._keys()
        items = ((key, value) for key, value in pod.labels.items() if key in own or key in everybodys or is_read(key))
        # With what is looked at in the key, pods that were alike are not taken for it when somebody looks closer.
        return shape_key(pod, (frozenset(items), everybodys))

    def _keys(self) -> frozenset[str]:
        """The label keys that selectors of services and terms of placed pods look at."""
        carried, services = self._state.carried, self._state.objects.services
        mark = (len(carried.keys), services.version)
        if mark != self._mark:
            selectors = ((one.get("spec") or {}).get("selector") or {} for one in services.values())
            self._looked_at = frozenset(carried.keys).union(*selectors)
            self._mark = mark
        return self._looked_at

    def _own_keys(self, spec: PodSpecView) -> frozenset[str]:
        """The label keys that a template's own rules look at."""
        known = self._own.get(spec.key)
        if known is None:
            if len(self._own) >= _MAX_SPECS:
                self._own.clear()
            known = self._own[spec.key] = frozenset(_selected(spec))
        return known


_MAX_SPECS: Final = 4096


def _selected(spec: PodSpecView) -> Iterator[str]:
    for constraint in spec.spread:
        yield from constraint.match_label_keys
        yield from selected_keys(constraint.selector)
    for part in (spec.affinity.pods, spec.affinity.anti):
        for term in (*part.required, *(term for _, term in part.preferred)):
            yield from selected_keys(term.selector)


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
