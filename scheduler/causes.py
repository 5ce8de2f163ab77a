"""What a change in the cluster means to pods that wait. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubenexus.common.kube.mirror import Added, Change, Deleted, Updated
from kubenexus.common.objects import NodeView, PodView
from kubenexus.scheduler.engine.events import Event

_KINDS: Final = {
    "Service": Event.SELECTOR,
    "ReplicaSet": Event.SELECTOR,
    "StatefulSet": Event.SELECTOR,
    "ReplicationController": Event.SELECTOR,
    "Namespace": Event.NAMESPACE,
    "PersistentVolumeClaim": Event.PVC,
    "PersistentVolume": Event.PV,
    "StorageClass": Event.STORAGE_CLASS,
    "CSINode": Event.CSI_NODE,
    "CSIDriver": Event.CSI_DRIVER,
    "CSIStorageCapacity": Event.CSI_CAPACITY,
    "VolumeAttachment": Event.VOLUME_ATTACHMENT,
    "ResourceClaim": Event.RESOURCE_CLAIM,
    "DeviceClass": Event.DEVICE_CLASS,
    "ResourceSlice": Event.RESOURCE_SLICE,
    "PodDisruptionBudget": Event.PDB,
}


def causes(kind: str, change: Change[Any]) -> Iterator[Event]:
    """The events that a change of anything but a pod stands for."""
    if kind != "Node":
        if kind in _KINDS:
            yield _KINDS[kind]
    elif isinstance(change, Added):
        yield Event.NODE_ADDED
    elif isinstance(change, Deleted):
        yield Event.NODE_REMOVED
    elif isinstance(change, Updated):
        yield from _node_causes(change.old, change.value)


def _node_causes(old: NodeView, new: NodeView) -> Iterator[Event]:
    if any(amount > old.allocatable.get(name, 0) for name, amount in new.allocatable.items()):
        yield Event.NODE_ALLOCATABLE
    if old.meta.labels != new.meta.labels:
        yield Event.NODE_LABELS
    if old.taints != new.taints:
        yield Event.NODE_TAINTS
    if old.unschedulable and not new.unschedulable:
        yield Event.NODE_UNCORDONED
    if old.features != new.features:
        yield Event.NODE_FEATURES
    if old.meta.annotations != new.meta.annotations:
        yield Event.NODE_TOPOLOGY


def pod_causes(old: PodView | None, new: PodView) -> Iterator[Event]:
    """The events that a pod with a node stands for; `old` is how it was known on that node, None if it is new there."""
    if old is None:
        yield Event.POD_ADDED
        return
    # A pod that is leaving counts no more where pods are spread, as if its labels had changed.
    if old.labels != new.labels or (old.deleted is None) != (new.deleted is None):
        yield Event.POD_LABELS
    if old.annotations != new.annotations:
        yield Event.POD_SEATS
    if any(amount < old.usage.requests.get(name, 0) for name, amount in new.usage.requests.items()):
        yield Event.POD_SHRUNK
