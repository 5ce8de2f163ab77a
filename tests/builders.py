"""Fluent builders of raw API objects: `pod("a").gpu(2).gang("g", 8).node("n1").build()` is the JSON of a Pod.

Each step changes the builder and returns it; `build()` gives a deep copy, so a builder can be kept as a template. What
identifies an object (uid, namespace, creation time) is filled in; API defaulting is left to the server.
"""

from __future__ import annotations

import copy
from typing import Any, Self

from kubenexus.common import vocabulary

Obj = dict[str, Any]

GPU = "nvidia.com/gpu"
CREATED = "2026-01-01T00:00:00Z"


class Builder:
    """What every object has. `set` reaches any field by its dotted path, for what has no method of its own."""

    def __init__(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> None:
        uid = "-".join(filter(None, (kind.lower(), namespace, name)))
        meta: Obj = {"name": name, "uid": uid, "creationTimestamp": CREATED}
        if namespace is not None:
            meta["namespace"] = namespace
        self.obj: Obj = {"apiVersion": api_version, "kind": kind, "metadata": meta}

    def build(self) -> Obj:
        return copy.deepcopy(self.obj)

    def part(self, path: str) -> Obj:
        """The mapping at a dotted path, made where it is missing."""
        at = self.obj
        for key in path.split("."):
            at = at.setdefault(key, {})
        return at

    def append(self, path: str, item: Any) -> Self:
        parent, _, key = path.rpartition(".")
        self.part(parent).setdefault(key, []).append(item)
        return self

    def set(self, path: str, value: Any) -> Self:
        parent, _, key = path.rpartition(".")
        (self.part(parent) if parent else self.obj)[key] = value
        return self

    def label(self, key: str, value: str) -> Self:
        self.part("metadata.labels")[key] = value
        return self

    def annotation(self, key: str, value: str) -> Self:
        self.part("metadata.annotations")[key] = value
        return self

    def uid(self, uid: str) -> Self:
        return self.set("metadata.uid", uid)

    def created(self, time: str) -> Self:
        return self.set("metadata.creationTimestamp", time)

    def deleting(self, time: str = CREATED) -> Self:
        return self.set("metadata.deletionTimestamp", time)

    def owner(self, kind: str, name: str, uid: str | None = None, api_version: str = "apps/v1") -> Self:
        """Adds the controller's owner reference."""
        uid = uid or f"{kind.lower()}-{name}"
        owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}
        return self.append("metadata.ownerReferences", owner)


class PodBuilder(Builder):
    """A pending pod with one container, which the resource steps fill."""

    def __init__(self, name: str, namespace: str) -> None:
        super().__init__("v1", "Pod", name, namespace)
        self.container: Obj = {"name": "main", "image": "registry.example/app:1", "resources": {}}
        self.obj["spec"] = {"schedulerName": vocabulary.SCHEDULER_NAME, "containers": [self.container]}
        self.obj["status"] = {"phase": "Pending"}

    def request(self, resource: str, amount: str | int, limit: str | int | None = None) -> Self:
        """Requests a resource for the first container; extended resources get the limit they must have."""
        self.container["resources"].setdefault("requests", {})[resource] = str(amount)
        if limit is not None or "/" in resource:
            self.container["resources"].setdefault("limits", {})[resource] = str(amount if limit is None else limit)
        return self

    def cpu(self, amount: str | int, limit: str | int | None = None) -> Self:
        return self.request("cpu", amount, limit)

    def memory(self, amount: str | int, limit: str | int | None = None) -> Self:
        return self.request("memory", amount, limit)

    def gpu(self, count: int) -> Self:
        return self.request(GPU, count)

    def guaranteed(self, cpu: str | int, memory: str | int) -> Self:
        return self.cpu(cpu, cpu).memory(memory, memory)

    def gang(self, name: str, minimum: int) -> Self:
        return self.label(vocabulary.GANG_NAME, name).label(vocabulary.GANG_MIN_AVAILABLE, str(minimum))

    def node(self, name: str) -> Self:
        """Bound to that node and running there."""
        return self.set("spec.nodeName", name).phase("Running")

    def phase(self, phase: str) -> Self:
        return self.set("status.phase", phase)

    def priority(self, value: int) -> Self:
        return self.set("spec.priority", value)

    def scheduler(self, name: str) -> Self:
        return self.set("spec.schedulerName", name)

    def select(self, **labels: str) -> Self:
        self.part("spec.nodeSelector").update(labels)
        return self

    def gate(self, name: str) -> Self:
        return self.append("spec.schedulingGates", {"name": name})

    def tolerate(self, key: str, value: str | None = None, effect: str = "") -> Self:
        how: Obj = {"operator": "Exists"} if value is None else {"operator": "Equal", "value": value}
        return self.append("spec.tolerations", {"key": key, **how, **({"effect": effect} if effect else {})})

    def host_port(self, port: int, protocol: str = "TCP") -> Self:
        self.container.setdefault("ports", []).append({"containerPort": port, "hostPort": port, "protocol": protocol})
        return self

    def claim(self, name: str) -> Self:
        """Mounts a PersistentVolumeClaim."""
        return self.append("spec.volumes", {"name": name, "persistentVolumeClaim": {"claimName": name}})

    def init(self, **requests: str) -> Self:
        return self._init_container({"resources": {"requests": requests}})

    def sidecar(self, **requests: str) -> Self:
        return self._init_container({"restartPolicy": "Always", "resources": {"requests": requests}})

    def _init_container(self, rest: Obj) -> Self:
        name = f"init-{len(self.obj['spec'].get('initContainers', []))}"
        return self.append("spec.initContainers", {"name": name, **rest})

    def condition(self, kind: str, status: str, reason: str = "", message: str = "") -> Self:
        condition = {"type": kind, "status": status, "reason": reason, "message": message}
        return self.append("status.conditions", condition)


class NodeBuilder(Builder):
    """A ready node with room for 110 pods; `capacity` says what else it has."""

    def __init__(self, name: str) -> None:
        super().__init__("v1", "Node", name)
        self.obj["spec"] = {}
        self.obj["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.label("kubernetes.io/hostname", name).capacity(pods=110)

    def capacity(self, *, gpu: int | None = None, **amounts: str | int) -> Self:
        """Capacity and allocatable by resource name; `gpu=8` is eight NVIDIA GPUs."""
        named = {key.replace("_", "-"): str(value) for key, value in amounts.items()}
        named |= {} if gpu is None else {GPU: str(gpu)}
        self.part("status.capacity").update(named)
        self.part("status.allocatable").update(named)
        return self

    def zone(self, zone: str) -> Self:
        return self.label("topology.kubernetes.io/zone", zone)

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        return self.append("spec.taints", {"key": key, "effect": effect, **({"value": value} if value else {})})

    def cordon(self) -> Self:
        return self.set("spec.unschedulable", True)

    def image(self, name: str, size: int) -> Self:
        return self.append("status.images", {"names": [name], "sizeBytes": size})


class JobBuilder(Builder):
    """A Job that runs copies of a pod: `job("train", pod("x").gpu(8)).parallelism(4).indexed()`."""

    def __init__(self, name: str, namespace: str, template: PodBuilder) -> None:
        super().__init__("batch/v1", "Job", name, namespace)
        built = template.build()
        labels = built["metadata"].get("labels", {})
        spec = {"restartPolicy": "Never", **built["spec"]}
        self.obj["spec"] = {"template": {"metadata": {"labels": labels}, "spec": spec}}

    def parallelism(self, count: int) -> Self:
        return self.set("spec.parallelism", count).set("spec.completions", count)

    def indexed(self) -> Self:
        return self.set("spec.completionMode", "Indexed")


class SliceBuilder(Builder):
    """A ResourceSlice that is its whole pool, on one node."""

    def __init__(self, name: str, driver: str, node: str, pool: str) -> None:
        super().__init__("resource.k8s.io/v1", "ResourceSlice", name)
        self.obj["spec"] = {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "devices": [],
        }

    def device(self, name: str, *, capacity: dict[str, str] | None = None, **attributes: str | int | bool) -> Self:
        """Adds a device; an attribute's kind follows the Python type."""
        made: Obj = {"name": name, "attributes": {key: _attribute(value) for key, value in attributes.items()}}
        if capacity:
            made["capacity"] = {key: {"value": value} for key, value in capacity.items()}
        return self.append("spec.devices", made)


class ClaimBuilder(Builder):
    """A ResourceClaim."""

    def __init__(self, name: str, namespace: str) -> None:
        super().__init__("resource.k8s.io/v1", "ResourceClaim", name, namespace)

    def request(self, name: str, device_class: str = "gpu", count: int | None = 1, **more: Any) -> Self:
        """Asks for some devices of a class, or with None for all."""
        return self.append(
            "spec.devices.requests", {"name": name, "exactly": device_request(device_class, count, **more)}
        )

    def either(self, name: str, **options: Obj) -> Self:
        """Asks for the first of these that can be had."""
        named = [{"name": key, **option} for key, option in options.items()]
        return self.append("spec.devices.requests", {"name": name, "firstAvailable": named})

    def constraint(self, kind: str, attribute: str, *requests: str) -> Self:
        return self.append("spec.devices.constraints", {kind: attribute, "requests": [*requests]})


def device_request(device_class: str = "gpu", count: int | None = 1, **more: Any) -> Obj:
    """Devices of a class; `selectors` are expressions."""
    mode = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    if "selectors" in more:
        more["selectors"] = [{"cel": {"expression": one}} for one in more["selectors"]]
    return {"deviceClassName": device_class, **mode, **more}


def _attribute(value: str | int | bool) -> Obj:
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return {kind: value}


def pod(name: str, namespace: str = "default") -> PodBuilder:
    return PodBuilder(name, namespace)


def node(name: str) -> NodeBuilder:
    return NodeBuilder(name)


def namespace(name: str) -> Builder:
    return Builder("v1", "Namespace", name).label("kubernetes.io/metadata.name", name)


def job(name: str, template: PodBuilder, namespace: str = "default") -> JobBuilder:
    return JobBuilder(name, namespace, template)


def resource_slice(name: str, driver: str, node: str, pool: str | None = None) -> SliceBuilder:
    return SliceBuilder(name, driver, node, pool or node)


def claim(name: str, namespace: str = "default") -> ClaimBuilder:
    return ClaimBuilder(name, namespace)


def device_class(name: str, *selectors: str) -> Builder:
    made = [{"cel": {"expression": one}} for one in selectors]
    return Builder("resource.k8s.io/v1", "DeviceClass", name).set("spec.selectors", made)
