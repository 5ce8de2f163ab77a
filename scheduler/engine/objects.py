"""What the cluster holds besides nodes, pods and namespaces: objects that plugins look up by name.

Terms are compiled from them, so whoever keeps terms compares `version` and compiles anew when it has grown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubenexus.common import vocabulary as v
from kubenexus.common.objects import (
    CsiDriverView,
    CsiNodeView,
    CsiStorageCapacityView,
    DeviceClassView,
    PersistentVolumeClaimView,
    PersistentVolumeView,
    PodDisruptionBudgetView,
    StorageClassView,
    VolumeAttachmentView,
)
from kubenexus.common.vocabulary import NumaPolicy
from kubenexus.common.wire import KubeletSettings, decode_kubelet
from kubenexus.scheduler.engine.claims import Claims, Slices
from kubenexus.scheduler.engine.table import Table

Raw = dict[str, Any]


class Objects:
    """One table per kind."""

    def __init__(self) -> None:
        self.pvcs = Table[PersistentVolumeClaimView]()
        self.pvs = Table[PersistentVolumeView]()
        self.storage_classes = Table[StorageClassView]()
        self.csi_nodes = Table[CsiNodeView]()
        self.csi_drivers = Table[CsiDriverView]()
        self.csi_capacities = Table[CsiStorageCapacityView]()
        self.volume_attachments = Table[VolumeAttachmentView]()
        self.services = Table[Raw]()
        self.owners = Table[Raw]()
        """controllers of pods that have a selector, by `owner_key`"""
        self.device_classes = Table[DeviceClassView]()
        self.slices = Slices()
        """of devices that claims may get"""
        self.claims = Claims()
        self.pdbs = Table[PodDisruptionBudgetView]()
        self.rejections = Table[Mapping[str, str]]()
        """owner's uid → nodes whose kubelet lately refused its pods, and why"""
        self.gpu_mixes = Table[tuple[int, ...]]()
        """by the plugin that reads it: how often pods ask for sets of 1, 2, 4 and 8 GPUs, roughly"""

        self.kubelets = Table[KubeletSettings]()
        """of the nodes whose kubelet, by their labels, refuses pods on account of NUMA nodes or cores"""

        self.numa_policies = Table[NumaPolicy]()
        """by namespace: of its pods that name none"""

    def note_namespace(self, name: str, annotations: Mapping[str, str]) -> None:
        """What a namespace's annotations say of its pods; none if it went. What cannot be read says nothing."""
        try:
            self.numa_policies.set(name, v.parse_numa_policy(v.DEFAULT_NUMA_POLICY, annotations[v.DEFAULT_NUMA_POLICY]))
        except (KeyError, v.VocabularyError):
            self.numa_policies.remove(name)

    def note_kubelet(self, node: str, labels: Mapping[str, str]) -> None:
        """What a node's labels say of its kubelet; none if it went."""
        told = v.KUBELET_POLICY in labels or v.KUBELET_OPTIONS in labels
        if told and (settings := decode_kubelet(labels)).may_refuse:
            self.kubelets.set(node, settings)
        else:
            self.kubelets.remove(node)

    def table(self, name: str) -> Table[Any]:
        """A table by the name of its attribute."""
        found: Table[Any] = vars(self)[name]
        return found

    @property
    def version(self) -> int:
        """Grows with every change of any table."""
        return sum(table.version for table in vars(self).values())


def owner_key(kind: str, namespace: str, name: str) -> str:
    """The key of a ReplicaSet, StatefulSet or ReplicationController among the owners."""
    return f"{kind}/{namespace}/{name}"
