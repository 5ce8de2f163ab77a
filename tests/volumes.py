"""Clusters with volumes, for the scheduler's tests: raw objects of storage, and a state made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kubenexus.common.objects import (
    project_csi_driver,
    project_csi_node,
    project_csi_storage_capacity,
    project_node,
    project_persistent_volume,
    project_persistent_volume_claim,
    project_pod,
    project_resource_claim,
    project_storage_class,
    project_volume_attachment,
)
from kubenexus.scheduler.engine.plugin import ALL, Plugin
from kubenexus.scheduler.engine.state import State
from tests.builders import Builder, node

Obj = dict[str, Any]

HOST = "kubernetes.io/hostname"

TABLES: dict[str, tuple[str, Callable[[Obj], Any]]] = {
    "PersistentVolumeClaim": ("pvcs", project_persistent_volume_claim),
    "PersistentVolume": ("pvs", project_persistent_volume),
    "StorageClass": ("storage_classes", project_storage_class),
    "CSINode": ("csi_nodes", project_csi_node),
    "CSIDriver": ("csi_drivers", project_csi_driver),
    "CSIStorageCapacity": ("csi_capacities", project_csi_storage_capacity),
    "VolumeAttachment": ("volume_attachments", project_volume_attachment),
    "ResourceClaim": ("claims", project_resource_claim),
}


def put(state: State, *objects: Builder) -> None:
    """The objects came or changed."""
    for builder in objects:
        raw = builder.build()
        table, project = TABLES[raw["kind"]]
        view = project(raw)
        state.objects.table(table).set(view.key, view)


def cluster(*objects: Builder, nodes: Iterable[str] = ("n1", "n2")) -> State:
    """Nodes that are known by their host name only, and objects."""
    state = State()
    for name in nodes:
        state.set_node(project_node(node(name).build()))
    put(state, *objects)
    return state


def volume_claim(name: str, kind: str = "wait", size: str = "10Gi", **spec: object) -> Builder:
    made = Builder("v1", "PersistentVolumeClaim", name, "default")
    return made.set("spec", {"storageClassName": kind, "resources": {"requests": {"storage": size}}, **spec}).set(
        "status.phase", "Pending"
    )


def bound_claim(name: str, volume: str, kind: str = "wait") -> Builder:
    made = volume_claim(name, kind, volumeName=volume).set("status.phase", "Bound")
    return made.annotation("pv.kubernetes.io/bind-completed", "yes")


def volume(name: str, size: str = "10Gi", kind: str = "wait", **spec: object) -> Builder:
    made = Builder("v1", "PersistentVolume", name).set("status.phase", "Available")
    return made.set("spec", {"storageClassName": kind, "capacity": {"storage": size}, **spec})


def only_on(**labels: str) -> Obj:
    """The affinity of a volume that can be used from nodes with these labels; `host` is the host's name."""
    named = {HOST if key == "host" else key: value for key, value in labels.items()}
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in named.items()]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}


def storage_class(name: str = "wait", provisioner: str = "", mode: str = "WaitForFirstConsumer") -> Builder:
    made = Builder("storage.k8s.io/v1", "StorageClass", name)
    return made.set("provisioner", provisioner).set("volumeBindingMode", mode)


def refused(plugin: Plugin, pod: Builder, state: State) -> dict[str, list[str]]:
    """The reasons for each node that the plugin refuses."""
    term = plugin.compile(project_pod(pod.build()), state)
    found: dict[str, list[str]] = {}
    for refusal in () if term is None else plugin.filter(term, state, ALL):
        for number in state.live():
            if refusal.nodes[number]:
                found.setdefault(state.name(number), []).append(refusal.reason)
    return found
