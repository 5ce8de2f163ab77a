"""What may happen in a cluster that gives a refused pod new hope, and whose refusals it may lift."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class Event(Enum):
    """A cause, by kind. `POD_*` are about pods that have a node."""

    NODE_ADDED = auto()
    NODE_REMOVED = auto()
    NODE_ALLOCATABLE = auto()
    """there is more of something"""
    NODE_LABELS = auto()
    NODE_TAINTS = auto()
    NODE_UNCORDONED = auto()
    NODE_FEATURES = auto()
    NODE_TOPOLOGY = auto()
    """what a node's annotations say of its machine, and of who has what of it"""
    POD_ADDED = auto()
    POD_DELETED = auto()
    """also when a pod has finished, or has given up a place that it was promised or booked on"""
    POD_LABELS = auto()
    POD_SHRUNK = auto()
    POD_SEATS = auto()
    """a pod has other NUMA nodes or GPUs than it was thought to have"""
    NAMESPACE = auto()
    SELECTOR = auto()
    """a service or a controller with its selector"""
    PVC = auto()
    PV = auto()
    STORAGE_CLASS = auto()
    CSI_NODE = auto()
    CSI_DRIVER = auto()
    CSI_CAPACITY = auto()
    VOLUME_ATTACHMENT = auto()
    RESOURCE_CLAIM = auto()
    RESOURCE_SLICE = auto()
    DEVICE_CLASS = auto()
    PDB = auto()
    REJECTION_LIFTED = auto()
    """a node may take pods of an owner again that its kubelet rejected"""


_VOLUMES: Final = frozenset((Event.PVC, Event.PV, Event.STORAGE_CLASS))
_PODS: Final = frozenset((Event.POD_ADDED, Event.POD_DELETED, Event.POD_LABELS))
_MACHINES: Final = frozenset(
    (
        Event.NODE_ALLOCATABLE,
        Event.NODE_LABELS,
        Event.NODE_TOPOLOGY,
        Event.RESOURCE_SLICE,
        Event.POD_DELETED,
        Event.POD_SHRUNK,
        Event.POD_SEATS,
    )
)

# Plugin → what may lift its refusals, beside a new node. Whoever is not named here may be cured by anything.
_CURES: Final[Mapping[str, frozenset[Event]]] = {
    "NodeUnschedulable": frozenset((Event.NODE_UNCORDONED,)),
    "NodeName": frozenset(),
    "TaintToleration": frozenset((Event.NODE_TAINTS,)),
    "NodeAffinity": frozenset((Event.NODE_LABELS,)),
    "NodePorts": frozenset((Event.POD_DELETED,)),
    "NodeResourcesFit": frozenset(
        (Event.NODE_ALLOCATABLE, Event.POD_DELETED, Event.POD_SHRUNK, Event.DEVICE_CLASS),
    ),
    "NodeDeclaredFeatures": frozenset((Event.NODE_FEATURES,)),
    "KubeletRejections": frozenset((Event.REJECTION_LIFTED,)),
    # A gang that fits in no domain is refused for all that its nodes refuse, and for where its members are.
    "NetworkFabric": frozenset(Event) - {Event.POD_ADDED, Event.SELECTOR, Event.PDB},
    "NUMATopology": _MACHINES | {Event.NAMESPACE},
    "GPUTopology": _MACHINES,
    "VolumeRestrictions": frozenset((Event.POD_DELETED, Event.PVC)),
    "VolumeZone": _VOLUMES | {Event.NODE_LABELS},
    "NodeVolumeLimits": _VOLUMES | {Event.POD_DELETED, Event.CSI_NODE, Event.CSI_DRIVER, Event.VOLUME_ATTACHMENT},
    "VolumeBinding": _VOLUMES | {Event.NODE_LABELS, Event.CSI_NODE, Event.CSI_DRIVER, Event.CSI_CAPACITY},
    "PodTopologySpread": _PODS | {Event.NODE_REMOVED, Event.NODE_LABELS, Event.NODE_TAINTS, Event.SELECTOR},
    "InterPodAffinity": _PODS | {Event.NODE_LABELS, Event.NAMESPACE},
    "DynamicResources": frozenset(
        (
            Event.RESOURCE_CLAIM,
            Event.RESOURCE_SLICE,
            Event.DEVICE_CLASS,
            Event.NODE_ALLOCATABLE,
            Event.NODE_LABELS,
            Event.POD_DELETED,
        ),
    ),
}


def cures(event: Event, refused_by: frozenset[str]) -> bool:
    """Whether a pod that these plugins refuse may have a place after the event."""
    return event is Event.NODE_ADDED or any(event in _CURES.get(plugin, (event,)) for plugin in refused_by)
