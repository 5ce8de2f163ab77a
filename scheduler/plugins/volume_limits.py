"""NodeVolumeLimits: a node's CSI driver attaches only so many volumes.

Most nodes are far from their limits. So what a pod would add is first compared with all that is mounted on a node, of
whatever driver; only where that could be too much it is looked up which volumes these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kubenexus.common.objects import PersistentVolumeClaimView, PodView, VolumeAttachmentView
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.engine.plugin import At, Code, NodePlugin, Refusal
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.in_tree import SUCCESSORS, driver_of, handle_of
from kubenexus.scheduler.plugins.volumes import Barred, claim_key, not_found, wrong_owner

TOO_MANY = "node(s) exceed max volume count"

Numbers = npt.NDArray[np.int64]
UNLIMITED = np.iinfo(np.int64).max


class Volume(NamedTuple):
    """What counts as one: a driver's name for it, or the claim that it will be made for."""

    driver: str
    handle: str


Additions = Mapping[str, frozenset[Volume]]
"""The volumes that a pod brings, by driver."""


@dataclass(frozen=True, slots=True)
class Mounts:
    """The question how many volumes pods have, of all kinds and counted for each pod."""

    def weigh(self, pod: PodView) -> int:
        return len(pod.volume_claims) + len(pod.spec.needs.disks)


@dataclass(slots=True, eq=False)
class Drivers:
    """What CSINodes and VolumeAttachments say, by column of the node."""

    limits: dict[str, Numbers] = field(default_factory=dict)
    attachments: dict[int, list[VolumeAttachmentView]] = field(default_factory=dict)
    attached: Numbers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def limit(self, driver: str, size: int) -> Numbers:
        """The limits of a driver; unlimited where nothing was said."""
        if driver not in self.limits:
            self.limits[driver] = np.full(size, UNLIMITED)
        return self.limits[driver]


class InUse:
    """The volumes that pods on a node use: looked up when asked for, and again when its pods or the objects change."""

    def __init__(self) -> None:
        self._found: dict[int, set[Volume]] = {}
        self._read: tuple[object, ...] = ()
        self._position = 0

    def refresh(self, state: State) -> InUse:
        objects = state.objects
        now = (state, objects.pvcs.version, objects.pvs.version, objects.storage_classes.version)
        changed = state.changes.since(self._position) if self._read == now else None
        for node in list(self._found) if changed is None else changed:
            self._found.pop(node, None)
        self._read, self._position = now, state.changes.position
        return self

    def on(self, node: int, state: State) -> set[Volume]:
        found = self._found.get(node)
        if found is None:
            pods = state.slots[node].pods.values()
            found = self._found[node] = {one for pod in pods for one in volumes_of(pod, state.objects)}
        return found


class NodeVolumeLimits(NodePlugin[Additions | Barred]):
    """Refuses nodes where a driver would have to attach more volumes than it can."""

    name = "NodeVolumeLimits"

    def __init__(self) -> None:
        self._in_use = InUse()
        self._drivers = Drivers()
        self._read: tuple[object, ...] = ()

    def reads(self, pod: PodView) -> tuple[str, ...]:
        tables = ("pvcs", "pvs", "storage_classes", "csi_nodes", "volume_attachments")
        return tables if pod.volume_claims or pod.spec.needs.disks else ()

    def compile(self, pod: PodView, state: State) -> Additions | Barred | None:
        objects = state.objects
        for name, ephemeral in pod.volume_claims:
            claim = objects.pvcs.get(key := claim_key(pod, name))
            if claim is None:
                return Barred(f"looking up PVC {key}: {not_found(name)}")
            if ephemeral and (why := wrong_owner(pod, claim)):
                return Barred(why, Code.ERROR)
        volumes = volumes_of(pod, objects)
        drivers = {one.driver for one in volumes}
        return {driver: frozenset(one for one in volumes if one.driver == driver) for driver in drivers} or None

    def filter(self, term: Additions | Barred, state: State, at: At) -> Iterator[Refusal]:
        if isinstance(term, Barred):
            yield term.everywhere(state, at)
            return
        drivers, in_use, nodes = self._known(state), self._in_use.refresh(state), np.arange(state.size)[at]
        most = state.count(Mounts())[nodes] + drivers.attached[nodes]
        over = np.zeros(len(nodes), dtype=np.bool_)
        for driver in term.keys() & drivers.limits.keys():
            perhaps = most + len(term[driver]) > drivers.limits[driver][nodes]
            for number in np.flatnonzero(perhaps & ~over):
                node = int(nodes[number])
                attached = _attached(drivers.attachments.get(node, ()), state.objects)
                count = _count(driver, term[driver], in_use.on(node, state), attached)
                over[number] = count > drivers.limits[driver][node]
        yield Refusal(over, TOO_MANY)

    def _known(self, state: State) -> Drivers:
        """The drivers, read anew when they or the nodes have changed."""
        objects = state.objects
        now = (state, state.size, state.nodes_version, objects.csi_nodes.version, objects.volume_attachments.version)
        if self._read != now:
            self._read, self._drivers = now, _read_drivers(state)
        return self._drivers


def volumes_of(pod: PodView, objects: Objects) -> set[Volume]:
    """The volumes of a pod that a CSI driver has to attach. Claims that are missing or another pod's do not count."""
    disks = (one for one in pod.spec.needs.disks if one.source in SUCCESSORS)
    found = {Volume(SUCCESSORS[one.source].driver, handle_of(one.source, one.disk, {})) for one in disks}
    for name, ephemeral in pod.volume_claims:
        claim = objects.pvcs.get(claim_key(pod, name))
        if claim is not None and not (ephemeral and wrong_owner(pod, claim)):
            found.add(_volume(claim, objects))
    return {one for one in found if one.driver and one.handle}


def _volume(claim: PersistentVolumeClaimView, objects: Objects) -> Volume:
    """The claim's volume, or the one to be made for it; without a driver if none has to attach it."""
    volume = objects.pvs.get(claim.volume)
    if volume is None:
        kind = objects.storage_classes.get(claim.storage_class or "")
        return Volume(driver_of(kind.provisioner) if kind else "", f"not yet made for {claim.key}")
    if volume.source in SUCCESSORS:
        handle = handle_of(volume.source, volume.disk, volume.meta.labels)
        return Volume(SUCCESSORS[volume.source].driver, handle)
    return Volume(volume.driver, volume.handle)


def _read_drivers(state: State) -> Drivers:
    drivers = Drivers(attached=np.zeros(state.size, dtype=np.int64))
    for view in state.objects.csi_nodes.values():
        node = state.index(view.name)
        for driver in view.drivers if node is not None else ():
            if driver.limit is not None:
                drivers.limit(driver.name, state.size)[node] = driver.limit
    for attachment in state.objects.volume_attachments.values():
        node = state.index(attachment.node)
        if node is not None:
            drivers.attachments.setdefault(node, []).append(attachment)
            drivers.attached[node] += 1
    return drivers


def _count(driver: str, added: frozenset[Volume], used: set[Volume], attached: Iterable[Volume]) -> int:
    """How many volumes the driver would have on a node; 0 if it has nothing to add, since its pods use them already.

    Those attached to the node without a pod count even if they are among the added.
    """
    more = added - used
    there = sum(one.driver == driver for one in used.union(attached))
    return there + len(more) if more else 0


def _attached(attachments: Iterable[VolumeAttachmentView], objects: Objects) -> Iterator[Volume]:
    for one in attachments:
        volume = objects.pvs.get(one.volume)
        if volume is not None and volume.source == "csi":
            yield Volume(one.attacher, volume.handle)
