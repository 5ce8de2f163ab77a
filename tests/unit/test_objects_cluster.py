"""Views of everything that is not a pod: nodes, policies, storage and devices."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kubenexus.common import vocabulary
from kubenexus.common.objects import (
    AllocatedDevice,
    ClaimRef,
    Constraint,
    Consumer,
    DeviceConfig,
    DriverView,
    ImageView,
    Owner,
    Pool,
    Taint,
    Toleration,
    Version,
    project_csi_driver,
    project_csi_node,
    project_csi_storage_capacity,
    project_device_class,
    project_namespace,
    project_node,
    project_persistent_volume,
    project_persistent_volume_claim,
    project_pod_disruption_budget,
    project_priority_class,
    project_resource_claim,
    project_resource_slice,
    project_storage_class,
    project_volume_attachment,
)
from tests.builders import Builder, namespace, node, resource_slice

Obj = dict[str, Any]


def test_a_node() -> None:
    view = project_node(
        node("n1")
        .capacity(cpu="7500m", memory="16Gi", gpu=8)
        .zone("z1")
        .taint("dedicated", "gpu")
        .cordon()
        .image("registry.example/app:1", 5000)
        .annotation(vocabulary.TOPOLOGY_HASH_LABEL, "abc")
        .annotation("volumes.kubernetes.io/controller-managed-attach-detach", "true")
        .set("status.declaredFeatures", ["A", "B"])
        .build()
    )
    assert (view.name, view.key, view.meta.namespace) == ("n1", "n1", "")
    assert view.allocatable == {"cpu": 7500, "memory": 16 << 30, "nvidia.com/gpu": 8, "pods": 110}
    assert view.meta.labels == {"kubernetes.io/hostname": "n1", "topology.kubernetes.io/zone": "z1"}
    assert view.meta.annotations == {vocabulary.TOPOLOGY_HASH_LABEL: "abc"}
    assert view.taints == (Taint("dedicated", "gpu", "NoSchedule"),)
    assert (view.unschedulable, view.ready) == (True, True)
    assert view.images == (ImageView(("registry.example/app:1",), 5000),)
    assert view.features == {"A", "B"}
    assert view.problems == ()


def test_a_node_that_reports_no_allocatable_has_its_capacity() -> None:
    raw = node("n1").capacity(cpu=4).build()
    del raw["status"]["allocatable"]
    assert project_node(raw).allocatable == {"cpu": 4000, "pods": 110}


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", None)])
def test_readiness(status: str, ready: bool | None) -> None:
    raw = node("n1").set("status.conditions", [{"type": "MemoryPressure"}, {"type": "Ready", "status": status}]).build()
    assert project_node(raw).ready is ready


def test_a_node_with_one_bad_amount_keeps_the_others() -> None:
    view = project_node(node("n1").capacity(cpu="many", memory="1Gi").build())
    assert view.allocatable == {"memory": 1 << 30, "pods": 110}
    assert len(view.problems) == 1
    assert "status.allocatable.cpu" in view.problems[0]


def test_a_namespace_keeps_labels_and_our_annotations() -> None:
    raw = namespace("team").label(vocabulary.TENANT_TIER, "gold").annotation(vocabulary.GPU_QUOTA, "8").build()
    view = project_namespace(raw)
    assert view.meta.labels[vocabulary.TENANT_TIER] == "gold"
    assert view.meta.annotations == {vocabulary.GPU_QUOTA: "8"}


def test_a_priority_class() -> None:
    raw = Builder("scheduling.k8s.io/v1", "PriorityClass", "low").set("value", -5).set("globalDefault", True)
    view = project_priority_class(raw.build())
    assert (view.value, view.global_default, view.preempts) == (-5, True, True)
    assert not project_priority_class(raw.set("preemptionPolicy", "Never").build()).preempts


def test_a_disruption_budget() -> None:
    raw = (
        Builder("policy/v1", "PodDisruptionBudget", "b", "team")
        .set("spec.selector", {"matchLabels": {"app": "a"}})
        .set("status.disruptionsAllowed", 2)
        .set("status.disruptedPods", {"a-1": "2026-01-01T00:00:00Z"})
    )
    view = project_pod_disruption_budget(raw.build())
    assert (view.key, view.disruptions_allowed, view.disrupted) == ("team/b", 2, frozenset({"a-1"}))
    assert view.selector.matches({"app": "a"})
    assert project_pod_disruption_budget(raw.set("spec", {}).build()).selector.nil


def volume_claim(**spec: object) -> Builder:
    raw = Builder("v1", "PersistentVolumeClaim", "data", "team").set("spec", spec)
    return raw.set("spec.resources", {"requests": {"storage": "10Gi"}})


def test_a_volume_claim() -> None:
    raw = volume_claim(
        accessModes=["ReadWriteOncePod"],
        storageClassName="fast",
        volumeName="pv1",
        selector={"matchLabels": {"disk": "ssd"}},
        volumeAttributesClassName="gold",
    )
    raw.annotation("pv.kubernetes.io/bind-completed", "yes").annotation("volume.kubernetes.io/selected-node", "n1")
    view = project_persistent_volume_claim(raw.owner("Pod", "a", "u1", "v1").set("status.phase", "Bound").build())
    assert (view.key, view.storage_class, view.volume, view.bound) == ("team/data", "fast", "pv1", True)
    assert (view.selected_node, view.phase, view.request) == ("n1", "Bound", 10 << 30)
    assert view.access_modes == {"ReadWriteOncePod"}
    assert (view.volume_mode, view.attributes_class) == ("Filesystem", "gold")
    assert view.selector.matches({"disk": "ssd"})
    assert view.meta.owner == Owner("v1", "Pod", "a", "u1")


CLASSES: dict[str, tuple[Builder, str | None]] = {
    "none named": (volume_claim(), None),
    "the empty class": (volume_claim(storageClassName=""), ""),
    "by the old annotation": (volume_claim().annotation("volume.beta.kubernetes.io/storage-class", "old"), "old"),
}


@pytest.mark.parametrize(("raw", "name"), CLASSES.values(), ids=CLASSES)
def test_class_of_a_volume_claim(raw: Builder, name: str | None) -> None:
    assert project_persistent_volume_claim(raw.build()).storage_class == name


def test_a_claim_is_bound_only_when_binding_is_complete() -> None:
    assert not project_persistent_volume_claim(volume_claim(volumeName="pv1").build()).bound


def test_a_volume() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}
    spec = {
        "capacity": {"storage": "1Ti"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "volumeMode": "Block",
        "claimRef": {"namespace": "team", "name": "data", "uid": "u1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "csi": {"driver": "csi.example", "volumeHandle": "v-1"},
    }
    view = project_persistent_volume(Builder("v1", "PersistentVolume", "pv1").set("spec", spec).build())
    assert (view.storage_class, view.capacity, view.volume_mode) == ("fast", 1 << 40, "Block")
    assert (view.source, view.driver, view.handle) == ("csi", "csi.example", "v-1")
    assert view.claim == ClaimRef("team", "data", "u1")
    assert view.node_affinity is not None
    assert view.node_affinity.matches({"zone": "z1"}, "n1")


def test_a_volume_of_nobody() -> None:
    view = project_persistent_volume(Builder("v1", "PersistentVolume", "pv1").set("spec", {"nfs": {}}).build())
    assert (view.claim, view.node_affinity, view.source, view.driver, view.capacity) == (None, None, "nfs", "", 0)


OLD_DISKS: dict[str, tuple[Obj, str]] = {
    "awsElasticBlockStore": ({"volumeID": "vol-1"}, "vol-1"),
    "azureDisk": ({"diskName": "a", "diskURI": "/disks/a"}, "/disks/a"),
    "gcePersistentDisk": ({"pdName": "d"}, "d"),
    "nfs": ({"server": "s", "path": "/"}, ""),
}


@pytest.mark.parametrize(("source", "disk"), OLD_DISKS.items(), ids=OLD_DISKS)
def test_a_volume_of_an_old_kind(source: str, disk: tuple[Obj, str]) -> None:
    settings, name = disk
    raw = Builder("v1", "PersistentVolume", "pv1").set("spec", {"capacity": {"storage": "1Gi"}, source: settings})
    view = project_persistent_volume(raw.build())
    assert (view.source, view.disk, view.driver) == (source, name, "")


def test_a_storage_class() -> None:
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": ["z1", "z2"]}]}]
    raw = Builder("storage.k8s.io/v1", "StorageClass", "fast").set("provisioner", "csi.example")
    raw.set("volumeBindingMode", "WaitForFirstConsumer").set("allowedTopologies", terms)
    view = project_storage_class(raw.annotation("storageclass.kubernetes.io/is-default-class", "true").build())
    assert (view.provisioner, view.wait_for_consumer, view.is_default) == ("csi.example", True, True)
    assert view.topologies == ({"zone": frozenset({"z1", "z2"})},)


def test_a_csi_node() -> None:
    drivers = [
        {"name": "a", "nodeID": "i-1", "allocatable": {"count": 0}, "topologyKeys": ["zone"]},
        {"name": "b", "nodeID": "i-1"},
    ]
    raw = Builder("storage.k8s.io/v1", "CSINode", "n1").set("spec.drivers", drivers)
    view = project_csi_node(raw.annotation("storage.alpha.kubernetes.io/migrated-plugins", "x,y").build())
    assert view.drivers == (DriverView("a", "i-1", 0, ("zone",)), DriverView("b", "i-1", None, ()))
    assert view.migrated == {"x", "y"}


@pytest.mark.parametrize(("spec", "tracks"), [({}, False), ({"storageCapacity": True}, True)])
def test_a_csi_driver(spec: Obj, tracks: bool) -> None:
    assert project_csi_driver(Builder("", "CSIDriver", "d").set("spec", spec).build()).tracks_capacity is tracks


CAPACITIES: dict[str, tuple[Obj, int | None]] = {
    "unknown": ({}, None),
    "in all": ({"capacity": "10Gi"}, 10 << 30),
    "of one volume": ({"capacity": "10Gi", "maximumVolumeSize": "1Gi"}, 1 << 30),
    "rounded up": ({"capacity": "1500m"}, 2),
}


@pytest.mark.parametrize(("amounts", "limit"), CAPACITIES.values(), ids=CAPACITIES)
def test_a_storage_capacity(amounts: Obj, limit: int | None) -> None:
    raw = Builder("", "CSIStorageCapacity", "c", "team").set("storageClassName", "fast")
    raw.obj |= amounts
    view = project_csi_storage_capacity(raw.set("nodeTopology", {"matchLabels": {"zone": "z1"}}).build())
    assert (view.key, view.storage_class, view.limit) == ("team/c", "fast", limit)
    assert view.nodes.matches({"zone": "z1"})


def test_a_volume_attachment() -> None:
    spec = {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "pv1"}}
    view = project_volume_attachment(Builder("", "VolumeAttachment", "a").set("spec", spec).build())
    assert (view.key, view.attacher, view.node, view.volume) == ("a", "d", "n1", "pv1")


def test_a_resource_slice() -> None:
    raw = resource_slice("s", "gpu.example", "n1").device("gpu-0", capacity={"memory": "80Gi"}, index=0, healthy=True)
    device = raw.obj["spec"]["devices"][0]
    device["attributes"] |= {"driver": {"version": "1.2.3"}, "resource.kubernetes.io/numaNode": {"int": 1}}
    device["taints"] = [{"key": "bad", "effect": "NoSchedule"}]
    device["consumesCounters"] = [{"counterSet": "gpu-0", "counters": {"slices": {"value": "2"}}}]
    raw.set("spec.sharedCounters", [{"name": "gpu-0", "counters": {"slices": {"value": "8"}}}])
    view = project_resource_slice(raw.build())
    assert view.pool == Pool("gpu.example", "n1", 1, 1)
    assert (view.reach.node, view.reach.selector, view.reach.everywhere) == ("n1", None, False)
    assert view.counters == {"gpu-0": {"slices": 8}}
    (gpu,) = view.devices
    assert gpu.attributes == {
        "gpu.example/index": 0,
        "gpu.example/healthy": True,
        "gpu.example/driver": Version("1.2.3"),
        "resource.kubernetes.io/numaNode": 1,
    }
    assert gpu.attributes["gpu.example/driver"] != "1.2.3"
    assert gpu.capacity["gpu.example/memory"].value == 80 << 30
    assert gpu.taints == (Taint("bad", "", "NoSchedule"),)
    assert gpu.counters == {"gpu-0": {"slices": 2}}
    assert view.problems == ()


def test_capacity_that_is_shared_out_in_portions() -> None:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
    raw = resource_slice("s", "d", "n1").device("a").build()
    raw["spec"]["devices"][0] |= {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "8Gi", "requestPolicy": policy},
                     "slots": {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}}},
    }  # fmt: skip
    (device,) = project_resource_slice(raw).devices
    memory, slots = device.capacity["d/memory"], device.capacity["d/slots"]
    assert device.shareable
    assert memory.default == memory.minimum == memory.step == 1 << 30
    assert memory.maximum == 8 << 30
    assert (slots.allowed, slots.minimum) == ((Fraction(1), Fraction(2)), None)
    assert (memory.spelled, slots.spelled) == ("memory", "slots")


def test_a_device_that_must_be_prepared() -> None:
    raw = resource_slice("s", "d", "n1").device("a").build()
    conditions = {"bindingConditions": ["Linked"], "bindingFailureConditions": ["Broken"], "bindsToNode": True}
    raw["spec"]["devices"][0] |= conditions
    (device,) = project_resource_slice(raw).devices
    assert (device.binding_conditions, device.failure_conditions) == (("Linked",), ("Broken",))
    assert device.binds_to_node


def test_an_attribute_of_two_kinds_is_unknown() -> None:
    raw = resource_slice("s", "d", "n1").device("a", good=1).build()
    raw["spec"]["devices"][0]["attributes"]["bad"] = {"int": 1, "string": "1"}
    view = project_resource_slice(raw)
    assert view.devices[0].attributes == {"d/good": 1}
    assert view.devices[0].unreadable == ("d/bad",)
    assert view.problems == ("spec.devices[0].attributes.bad has not exactly one of int, bool, string, version",)


def test_a_resource_claim() -> None:
    exactly = {
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": "true"}}],
        "count": 2,
        "tolerations": [{"key": "bad", "operator": "Exists"}, {"key": "worn", "tolerationSeconds": 60}],
        "capacity": {"requests": {"memory": "1Gi"}},
    }
    either = [
        {"name": "big", "deviceClassName": "h100"},
        {"name": "all", "deviceClassName": "a10", "allocationMode": "All"},
    ]
    spec = {
        "requests": [{"name": "main", "exactly": exactly}, {"name": "extra", "firstAvailable": either}],
        "constraints": [{"requests": ["main"], "matchAttribute": "d/numa"}],
        "config": [{"requests": ["main"], "opaque": {"driver": "d", "parameters": {"a": 1}}}],
    }
    raw = Builder("resource.k8s.io/v1", "ResourceClaim", "c", "team").set("spec.devices", spec)
    view = project_resource_claim(raw.build())
    main, extra = view.requests
    assert (main.name, extra.name, view.allocation, view.reserved_for) == ("main", "extra", None, ())
    (only,) = main.options
    assert (only.device_class, only.selectors, only.count, only.admin) == ("gpu", ("true",), 2, False)
    assert only.tolerations == (Toleration("bad", "Exists", "", ""), Toleration("worn", "", "", ""))
    assert only.seconds == (None, 60)
    assert only.capacity == {"memory": 1 << 30}
    assert [(one.name, one.device_class, one.count) for one in extra.options] == [
        ("big", "h100", 1),
        ("all", "a10", None),
    ]
    assert view.constraints == (Constraint(("main",), "d/numa", ""),)
    assert view.config == (DeviceConfig(("main",), {"opaque": {"driver": "d", "parameters": {"a": 1}}}),)


def test_a_claim_that_asks_in_an_unknown_way() -> None:
    request = {"name": "main", "exactly": {"deviceClassName": "gpu", "allocationMode": "Some"}}
    raw = Builder("resource.k8s.io/v1", "ResourceClaim", "c", "team").set("spec.devices.requests", [request])
    (problem,) = project_resource_claim(raw.build()).problems
    assert problem == "spec.devices.requests[0].exactly.allocationMode is Some, neither ExactCount nor All"


def test_a_device_class() -> None:
    raw = Builder("resource.k8s.io/v1", "DeviceClass", "gpu")
    raw.set("spec.selectors", [{"cel": {"expression": "true"}}, {"future": {}}])
    raw.set("spec.config", [{"opaque": {"driver": "d", "parameters": {}}}])
    raw.set("spec.extendedResourceName", "example.com/gpu")
    view = project_device_class(raw.build())
    assert (view.name, view.selectors, view.extended_resource) == ("gpu", ("true", ""), "example.com/gpu")
    assert view.config == (DeviceConfig((), {"opaque": {"driver": "d", "parameters": {}}}),)


def test_an_allocated_claim() -> None:
    result = {"request": "main", "driver": "d", "pool": "n1", "device": "gpu-0", "adminAccess": True}
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    raw = Builder("resource.k8s.io/v1", "ResourceClaim", "c", "team")
    raw.set("status.allocation", {"devices": {"results": [result]}, "nodeSelector": selector})
    raw.append("status.reservedFor", {"resource": "pods", "name": "a", "uid": "u1"})
    view = project_resource_claim(raw.build())
    assert view.allocation is not None
    assert view.allocation.devices == (AllocatedDevice("main", "d", "n1", "gpu-0", True, "", {}),)
    assert view.allocation.nodes is not None
    assert [view.allocation.nodes.matches({}, name) for name in ("n1", "n2")] == [True, False]
    assert view.reserved_for == (Consumer("pods", "a", "u1"),)


READY: dict[str, tuple[list[Obj], tuple[str, ...]]] = {
    "nothing reported": ([], ("gpu-0",)),
    "ready": ([{"type": "Linked", "status": "True"}], ()),
    "not ready": ([{"type": "Linked", "status": "False"}], ("gpu-0",)),
    "failed": ([{"type": "Linked", "status": "True"}, {"type": "Broken", "status": "True"}], ("gpu-0",)),
}


@pytest.mark.parametrize(("conditions", "unready"), READY.values(), ids=READY)
def test_a_claim_whose_devices_must_be_prepared(conditions: list[Obj], unready: tuple[str, ...]) -> None:
    device = {"driver": "d", "pool": "n1", "device": "gpu-0"}
    result = {**device, "bindingConditions": ["Linked"], "bindingFailureConditions": ["Broken"]}
    other = {"driver": "d", "pool": "n1", "device": "gpu-1"}
    raw = Builder("resource.k8s.io/v1", "ResourceClaim", "c", "team")
    raw.set("status.allocation", {"devices": {"results": [result, other]}})
    raw.set("status.devices", [{**device, "conditions": conditions}])
    assert project_resource_claim(raw.build()).unready == unready
