"""Raw API objects into the engine's state, by kind: the one place that knows which table an object goes to. Pure.

`read` makes of an object what is kept of it, in any thread; `World.set` and `World.remove` put it into the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kubenexus.common.gangs import OWNER_KINDS, OwnerKey, trimmed
from kubenexus.common.objects import (
    ResourceSliceView,
    is_read,
    project_csi_driver,
    project_csi_node,
    project_csi_storage_capacity,
    project_device_class,
    project_namespace,
    project_node,
    project_persistent_volume,
    project_persistent_volume_claim,
    project_pod,
    project_pod_disruption_budget,
    project_resource_claim,
    project_resource_slice,
    project_storage_class,
    project_volume_attachment,
)
from kubenexus.common.vocabulary import DRA_DRIVER
from kubenexus.scheduler.devices.sources import NodeSlice, read_node_slice
from kubenexus.scheduler.engine.objects import owner_key
from kubenexus.scheduler.engine.state import State

Obj = dict[str, Any]


class SliceNews(NamedTuple):
    """What a ResourceSlice says of a node's machine, and the devices in it that claims may get.

    Our own slices describe machines, and nobody would prepare devices of them.
    """

    machine: NodeSlice
    devices: ResourceSliceView | None


def read_slice(obj: Obj) -> SliceNews:
    view = project_resource_slice(obj)
    return SliceNews(read_node_slice(obj), None if view.pool.driver == DRA_DRIVER else view)


def _part(*path: str) -> Callable[[Obj], Obj]:
    """Reads one field of an object and leaves out all others, whose changes are no news."""

    def read(raw: Obj) -> Obj:
        value: Any = raw
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        for key in reversed(path):
            value = {key: value}
        return value if isinstance(value, dict) else {}

    return read


def _controller(raw: Obj) -> Obj:
    """A controller of pods: its selector, and what may make its pods a gang."""
    meta, spec = raw.get("metadata") or {}, raw.get("spec") or {}
    notes = {key: text for key, text in (meta.get("annotations") or {}).items() if is_read(key)}
    kept = {key: meta[key] for key in ("uid", "ownerReferences") if key in meta}
    fields = {key: spec[key] for key in ("selector", "replicas", "podManagementPolicy") if key in spec}
    return {"metadata": {**kept, "annotations": notes}, "spec": fields}


_SELECTOR: Final = _part("spec", "selector")
# Kind → the state's table, and how an object is read.
_TABLES: Final[dict[str, tuple[str, Callable[[Obj], Any]]]] = {
    "PersistentVolumeClaim": ("pvcs", project_persistent_volume_claim),
    "PersistentVolume": ("pvs", project_persistent_volume),
    "StorageClass": ("storage_classes", project_storage_class),
    "CSINode": ("csi_nodes", project_csi_node),
    "CSIDriver": ("csi_drivers", project_csi_driver),
    "CSIStorageCapacity": ("csi_capacities", project_csi_storage_capacity),
    "VolumeAttachment": ("volume_attachments", project_volume_attachment),
    "Service": ("services", _SELECTOR),
    "DeviceClass": ("device_classes", project_device_class),
    "ResourceClaim": ("claims", project_resource_claim),
    "PodDisruptionBudget": ("pdbs", project_pod_disruption_budget),
    "ReplicaSet": ("owners", _controller),
    "StatefulSet": ("owners", _controller),
    "ReplicationController": ("owners", _SELECTOR),
}
# Kinds that only say who is in a gang; several groups have a kind of the same name.
_GANG_OWNERS: Final = {f"{kind}.{group}": (group, kind) for group, kind in OWNER_KINDS if group != "apps"}
_READERS: Final[dict[str, Callable[[Obj], Any]]] = {
    "Pod": project_pod,
    "Node": project_node,
    "Namespace": project_namespace,
    "ResourceSlice": read_slice,
    **{kind: reader for kind, (_, reader) in _TABLES.items()},
}
_CLUSTER_WIDE: Final = frozenset(
    (
        "Node",
        "Namespace",
        "PersistentVolume",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "VolumeAttachment",
        "DeviceClass",
        "ResourceSlice",
    )
)


def read(kind: str, obj: Obj) -> Any:
    """What is kept of an object. `ProjectionError` when it has no name."""
    return trimmed(obj) if kind in _GANG_OWNERS else _READERS[kind](obj)


def kind_of(group: str, kind: str) -> str:
    """What a kind is called here."""
    name = f"{kind}.{group}"
    return name if name in _GANG_OWNERS else kind


def owner_of(kind: str, key: str) -> OwnerKey | None:
    """Which owner of pods an object is, if it may say something about gangs."""
    group, name = _GANG_OWNERS.get(kind) or (("apps", kind) if kind in ("ReplicaSet", "StatefulSet") else ("", ""))
    return OwnerKey(group, name, *key.split("/", 1)) if name else None


def owner_in(obj: Obj) -> tuple[OwnerKey, Obj] | None:
    """The owner of pods that a raw object is, and what is kept of it."""
    kind = kind_of(str(obj.get("apiVersion", "")).rpartition("/")[0], str(obj.get("kind")))
    key = owner_of(kind, _key(kind, obj))
    return None if key is None else (key, read(kind, obj))


class World:
    """A state filled from objects."""

    def __init__(self) -> None:
        self.state = State()

    def add(self, obj: Obj) -> bool:
        """Take a raw object in, a pod only if it has a node; False if its kind means nothing to a scheduler."""
        kind = obj.get("kind", "")
        if kind not in _READERS:
            return False
        if kind != "Pod":
            self.set(kind, _key(kind, obj), read(kind, obj))
        elif (pod := project_pod(obj)).node:
            self.state.place(pod, pod.node)
        return True

    def set(self, kind: str, key: str, value: Any) -> None:
        """An object that is no pod came or changed. `key` is `namespace/name` or the name, `value` what `read` made."""
        if kind == "Node":
            self.state.set_node(value)
        elif kind == "Namespace":
            self.state.set_namespace(key, value.meta.labels)
            self.state.objects.note_namespace(key, value.meta.annotations)
        elif kind == "ResourceSlice":
            self.state.set_slice(key, value.machine)
            if value.devices is not None:
                self.state.objects.slices.set(key, value.devices)
        elif kind not in _GANG_OWNERS:
            table, key = self._place(kind, key)
            table.set(key, value)

    def remove(self, kind: str, key: str) -> None:
        """An object other than a pod went."""
        if kind == "Node":
            self.state.remove_node(key)
        elif kind == "Namespace":
            self.state.set_namespace(key, None)
            self.state.objects.note_namespace(key, {})
        elif kind == "ResourceSlice":
            self.state.set_slice(key, None)
            self.state.objects.slices.remove(key)
        elif kind not in _GANG_OWNERS:
            table, key = self._place(kind, key)
            table.remove(key)

    def _place(self, kind: str, key: str) -> tuple[Any, str]:
        """The table of a kind, and the key there: owners of several kinds share one."""
        name, _ = _TABLES[kind]
        return getattr(self.state.objects, name), owner_key(kind, *key.split("/", 1)) if name == "owners" else key


def _key(kind: str, obj: Obj) -> str:
    meta = obj.get("metadata") or {}
    name = str(meta.get("name", ""))
    return name if kind in _CLUSTER_WIDE else f"{meta.get('namespace') or 'default'}/{name}"
