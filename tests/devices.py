"""Devices for tests: a class of GPUs, slices full of them, claims for them, and pods that use the claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubenexus.common.objects import CapacityView, DeviceView, Reach
from kubenexus.common.objects.devices import Attribute
from tests.builders import Builder, PodBuilder, pod

Obj = dict[str, Any]

DRIVER = "gpu.example.com"
CLASS = "gpu"
API = "resource.k8s.io/v1"


def device_class(name: str = CLASS, driver: str = DRIVER) -> Obj:
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {"selectors": [selector]}}


def resource_slice(node: str, count: int = 8, driver: str = DRIVER, **device: Any) -> Obj:
    """The GPUs of a node."""
    devices = [
        {"name": f"gpu-{i}", "attributes": {"model": {"string": "H100"}, "index": {"int": i}}, **device}
        for i in range(count)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    meta = {"name": f"{node}-{driver.split('.')[0]}"}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": meta, "spec": spec}


def wanted(*counts: int, **request: Any) -> Obj:
    """The spec of a claim with a request for each number of devices."""
    exactly = ({"deviceClassName": CLASS, "count": count, **request} for count in counts or (1,))
    return {"devices": {"requests": [{"name": f"r{i}", "exactly": one} for i, one in enumerate(exactly)]}}


def claim_template(name: str, *counts: int, **request: Any) -> Obj:
    spec = {"spec": wanted(*counts, **request)}
    return {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec}


def claim(name: str, *counts: int, owner: PodBuilder | None = None, **request: Any) -> Builder:
    made = Builder(API, "ResourceClaim", name, "default").uid(f"uid-{name}").set("spec", wanted(*counts, **request))
    if owner is not None:
        meta = owner.obj["metadata"]
        made.owner("Pod", meta["name"], meta["uid"], api_version="v1")
    return made


def user(name: str, *claims: str) -> PodBuilder:
    """A pod that uses these claims."""
    made = pod(name).uid(f"uid-{name}").cpu("100m")
    return made.set(
        "spec.resourceClaims", [{"name": f"c{i}", "resourceClaimName": one} for i, one in enumerate(claims)]
    )


def from_template(*templates: str) -> list[Obj]:
    """What a pod says whose claims are made for it."""
    return [{"name": f"c{i}", "resourceClaimTemplateName": one} for i, one in enumerate(templates)]


def device_view(
    attributes: Mapping[str, Attribute], capacity: Mapping[str, CapacityView] | None = None, *, shareable: bool = False
) -> DeviceView:
    """A device of which only this is to be known."""
    return DeviceView(
        name="gpu",
        attributes=attributes,
        capacity=capacity or {},
        taints=(),
        counters={},
        reach=Reach("", None, everywhere=True),
        shareable=shareable,
        binding_conditions=(),
        failure_conditions=(),
        binds_to_node=False,
        unreadable=(),
    )


def devices_of(claim: Obj) -> list[str]:
    """The devices that a claim has, with their pools."""
    allocation = claim.get("status", {}).get("allocation", {})
    return [f"{one['pool']}/{one['device']}" for one in allocation.get("devices", {}).get("results", ())]
