"""ResourceSlices: the grammar that the agent's output has to meet, and what of a slice may change."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.kube.resources import RESOURCE_SLICES
from tests.contract.api import Api, Obj
from tests.contract.objects import device, resource_slice, rows, unique

INVALID, REQUIRED, DUPLICATE = "FieldValueInvalid", "FieldValueRequired", "FieldValueDuplicate"
TOO_LONG, TOO_MANY = "FieldValueTooLong", "FieldValueTooMany"


def one(name: str = "gpu-0", **more: Any) -> Obj:
    return {"devices": [{"name": name, **more}]}


def attribute(name: str, **value: Any) -> Obj:
    return one(attributes={name: value})


def pool(**changes: Any) -> Obj:
    return {"pool": {"name": "p", "generation": 1, "resourceSliceCount": 1, **changes}}


REFUSED: list[tuple[str, Obj, str, str]] = [
    ("attribute numa-node", attribute("numa-node", int=0), "spec.devices[0].attributes", INVALID),
    ("attribute of 33 characters", attribute("a" * 33, int=0), "spec.devices[0].attributes", TOO_LONG),
    ("attribute without value", attribute("x"), "spec.devices[0].attributes[x]", INVALID),
    ("attribute with two values", attribute("x", int=0, string="0"), "spec.devices[0].attributes[x]", INVALID),
    ("string of 65 characters", attribute("x", string="a" * 65), "spec.devices[0].attributes[x].string", TOO_LONG),
    ("version that is no semver", attribute("x", version="570"), "spec.devices[0].attributes[x].version", INVALID),
    ("capacity with a dash", one(capacity={"huge-pages": {"value": "1"}}), "spec.devices[0].capacity", INVALID),
    ("device name with an underscore", one("gpu_0"), "spec.devices[0].name", INVALID),
    ("device without name", one(""), "spec.devices[0].name", INVALID),
    ("two devices of one name", {"devices": [device(), device()]}, "spec.devices[1]", DUPLICATE),
    ("129 devices", {"devices": [device(f"d-{i}") for i in range(129)]}, "spec.devices", TOO_MANY),
    ("taint without effect", one(taints=[{"key": "x"}]), "spec.devices[0].taints[0].effect", REQUIRED),
    ("no pool", {"pool": None}, "spec.pool.name", REQUIRED),
    ("no pool name", pool(name=""), "spec.pool.name", REQUIRED),
    ("pool name with a double slash", pool(name="a//b"), "spec.pool.name", INVALID),
    ("pool of no slices", pool(resourceSliceCount=0), "spec.pool.resourceSliceCount", INVALID),
    ("negative generation", pool(generation=-1), "spec.pool.generation", INVALID),
    ("driver with an underscore", {"driver": "test_example.com"}, "spec.driver", INVALID),
    ("no driver", {"driver": ""}, "spec.driver", REQUIRED),
    ("no place", {"nodeName": None}, "spec", REQUIRED),
    ("two places", {"allNodes": True}, "spec", INVALID),
]


@pytest.mark.parametrize(("spec", "field", "reason"), rows(REFUSED))
def test_slice_is_refused_for(api: Api, spec: Obj, field: str, reason: str) -> None:
    refusal = api.create(RESOURCE_SLICES, resource_slice(unique("slice"), **spec))
    refusal.refused(422, "Invalid")
    assert (field, reason) in refusal.causes


def test_attribute_of_the_wrong_type_is_refused(api: Api) -> None:
    wrong = resource_slice(unique("slice"), **attribute("x", int="0"))
    api.create(RESOURCE_SLICES, wrong).refused(400, "BadRequest")


def test_slice_as_the_agent_writes_it_is_accepted(api: Api) -> None:
    attributes = {
        "resource.kubernetes.io/numaNode": {"int": 0},
        "index": {"int": 0},
        "uuid": {"string": "GPU-00000000-0000-0000-0000-000000000000"},
        "driverVersion": {"version": "570.124.6"},
        "migEnabled": {"bool": False},
        "nvlinkPeerLinks": {"string": "0iiiiiii"},
    }
    taints = [{"key": "topology.example.com/informational", "effect": "NoSchedule"}]
    whole = one(attributes=attributes, capacity={"memory": {"value": "80Gi"}}, taints=taints)
    created = api.create(RESOURCE_SLICES, resource_slice(unique("slice"), **whole, **pool(name="node-1/gpu"))).expect(
        201
    )
    assert created["spec"]["devices"][0]["attributes"] == attributes


FIXED: list[tuple[str, Obj]] = [
    ("driver", {"driver": "other.example.com"}),
    ("node", {"nodeName": "node-2"}),
    ("pool", {"pool": {"name": "other"}}),
]


@pytest.mark.parametrize("change", rows(FIXED))
def test_slice_keeps_its(api: Api, change: Obj) -> None:
    name = unique("slice")
    api.create(RESOURCE_SLICES, resource_slice(name)).expect(201)
    api.patch(RESOURCE_SLICES, name, {"spec": change}).refused(422, "Invalid")


def test_devices_of_a_slice_can_change(api: Api) -> None:
    name = unique("slice")
    api.create(RESOURCE_SLICES, resource_slice(name, device("gpu-0"))).expect(201)
    patch = {"spec": {"pool": {"generation": 2}, "devices": [{"name": "gpu-1"}]}}
    changed = api.patch(RESOURCE_SLICES, name, patch).expect(200)
    assert [entry["name"] for entry in changed["spec"]["devices"]] == ["gpu-1"]
    assert changed["spec"]["pool"]["name"] == "node-1"


def test_generation_counts_changes_of_the_spec_only(api: Api) -> None:
    name = unique("slice")
    first = api.create(RESOURCE_SLICES, resource_slice(name)).expect(201)
    labelled = api.patch(RESOURCE_SLICES, name, {"metadata": {"labels": {"x": "y"}}}).expect(200)
    changed = api.patch(RESOURCE_SLICES, name, {"spec": {"pool": {"generation": 2}}}).expect(200)
    assert [obj["metadata"]["generation"] for obj in (first, labelled, changed)] == [1, 1, 2]
