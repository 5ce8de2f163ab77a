"""VolumeZone: volumes that are labelled with a zone or region are used from nodes there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from kubenexus.common.objects import PersistentVolumeClaimView, PersistentVolumeView, PodView
from kubenexus.scheduler.engine.labels import LabelIndex, Mask
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.engine.plugin import At, Code, NodePlugin, Refusal
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.volumes import (
    OLD_REGION,
    OLD_ZONE,
    REGION,
    ZONE,
    ZONE_SEPARATOR,
    Barred,
    mounted_claims,
    no_binding_mode,
)

ELSEWHERE = "node(s) had no available volume zone"

LABELS: Final = (OLD_ZONE, OLD_REGION, ZONE, REGION)
# Nodes that lack the old label of a volume are looked at for the one that replaced it.
REPLACED: Final = {OLD_ZONE: ZONE, OLD_REGION: REGION}


class Within(NamedTuple):
    """A label that a node must have, with one of these values."""

    key: str
    values: frozenset[str]


@dataclass(slots=True, eq=False)
class Places:
    """What holds for all of a pod's volumes, and the nodes that are elsewhere, as long as nodes are as `seen`."""

    within: tuple[Within, ...]
    seen: tuple[int, int] = (-1, -1)
    elsewhere: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def outside(self, state: State) -> Mask:
        now = (state.nodes_version, state.size)
        if self.seen != now:
            somewhere = np.logical_or.reduce([state.labels.column(key).present() for key in LABELS])
            inside = np.logical_and.reduce([_inside(place, state.labels) for place in self.within])
            self.seen, self.elsewhere = now, somewhere & ~inside
        return self.elsewhere


class VolumeZone(NodePlugin[Places | Barred]):
    """Refuses nodes outside the zones of bound volumes; nodes without any zone or region are good for all."""

    name = "VolumeZone"

    def reads(self, pod: PodView) -> tuple[str, ...]:
        return ("pvcs", "pvs", "storage_classes") if pod.volume_claims else ()

    def compile(self, pod: PodView, state: State) -> Places | Barred | None:
        claims = mounted_claims(pod, state.objects)
        if isinstance(claims, Barred):
            return claims
        places: list[Within] = []
        for claim in claims:
            found = _places(claim, state.objects)
            if isinstance(found, Barred):
                return found
            places += found
        return Places(tuple(places)) if places else None

    def filter(self, term: Places | Barred, state: State, at: At) -> Iterator[Refusal]:
        if isinstance(term, Barred):
            yield term.everywhere(state, at)
            return
        yield Refusal(term.outside(state)[at], ELSEWHERE, Code.UNRESOLVABLE)


def _places(claim: PersistentVolumeClaimView, objects: Objects) -> list[Within] | Barred:
    """Where the claim's volume is; a claim without one must be of a class that waits for its first user."""
    if claim.volume:
        volume = objects.pvs.get(claim.volume)
        return Barred(f'persistentvolume "{claim.volume}" not found') if volume is None else _labelled(volume)
    if not claim.storage_class:
        return Barred("PersistentVolumeClaim had no pv name and storageClass name")
    kind = objects.storage_classes.get(claim.storage_class)
    if kind is None:
        return Barred(f'storageclass.storage.k8s.io "{claim.storage_class}" not found')
    if not kind.binding_mode:
        return Barred(no_binding_mode(kind))
    return [] if kind.wait_for_consumer else Barred("PersistentVolume had no name")


def _labelled(volume: PersistentVolumeView) -> list[Within]:
    """What the volume's labels say; one with an empty value among others says nothing."""
    labels = volume.meta.labels
    places = (Within(key, _values(labels[key])) for key in LABELS if key in labels)
    return [place for place in places if "" not in place.values]


def _values(label: str) -> frozenset[str]:
    return frozenset(value.strip() for value in label.split(ZONE_SEPARATOR))


def _inside(place: Within, labels: LabelIndex) -> Mask:
    column = labels.column(place.key)
    inside = column.where_in(place.values)
    if place.key in REPLACED:
        inside |= ~column.present() & labels.column(REPLACED[place.key]).where_in(place.values)
    return inside
