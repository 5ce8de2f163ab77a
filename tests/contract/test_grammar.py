"""What the server takes for a name, a label, a quantity, a pod: anything else is refused with the field named."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.kube.resources import (
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    Resource,
)
from tests.contract.api import Api, Obj
from tests.contract.objects import config_map, meta, node, pod, rows

INVALID, REQUIRED, DUPLICATE = "FieldValueInvalid", "FieldValueRequired", "FieldValueDuplicate"
FORBIDDEN, NOT_SUPPORTED = "FieldValueForbidden", "FieldValueNotSupported"


def refused(api: Api, res: Resource, obj: Obj, field: str, reason: str) -> None:
    """Creating it fails with a Status that names the object and this cause."""
    refusal = api.create(res, obj)
    status = refusal.refused(422, "Invalid")
    assert (field, reason) in refusal.causes
    assert status["details"]["kind"] == res.kind
    group = f".{res.group}" if res.group else ""
    assert status["message"].startswith(f'{res.kind}{group} "{obj["metadata"]["name"]}" is invalid: ')


def container(**more: Any) -> Obj:
    return {"containers": [{"name": "main", "image": "i", **more}]}


def limits(**quantities: str) -> Obj:
    return container(resources={"limits": quantities})


def requests(**quantities: str) -> Obj:
    return container(resources={"requests": quantities})


def spread(**changes: Any) -> Obj:
    constraint = {"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "DoNotSchedule", **changes}
    return {"topologySpreadConstraints": [constraint]}


METADATA: list[tuple[str, Obj, str]] = [
    ("name with capitals", {"name": "Name"}, "metadata.name"),
    ("name with an underscore", {"name": "a_b"}, "metadata.name"),
    ("name of 254 characters", {"name": "a" * 254}, "metadata.name"),
    ("label value with a comma", {"labels": {"x": "0,1"}}, "metadata.labels"),
    ("label value -1", {"labels": {"x": "-1"}}, "metadata.labels"),
    ("label value of 64 characters", {"labels": {"x": "a" * 64}}, "metadata.labels"),
    ("label key with a space", {"labels": {"a b": ""}}, "metadata.labels"),
    ("label key with two slashes", {"labels": {"a/b/c": ""}}, "metadata.labels"),
    ("label key with capitals before the slash", {"labels": {"A.b/c": ""}}, "metadata.labels"),
    ("annotation key with a space", {"annotations": {"a b": ""}}, "metadata.annotations"),
    ("finalizer with a space", {"finalizers": ["a b"]}, "metadata.finalizers"),
    (
        "owner without uid",
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}]},
        "metadata.ownerReferences.uid",
    ),
]


@pytest.mark.parametrize(("metadata", "field"), rows(METADATA))
def test_object_is_refused_for(api: Api, metadata: Obj, field: str) -> None:
    refused(api, CONFIG_MAPS, {"metadata": {"name": "a", **metadata}}, field, INVALID)


POD_SPECS: list[tuple[str, Obj, str, str]] = [
    ("no containers", {"containers": []}, "containers", REQUIRED),
    ("a container without image", container(image=""), "containers[0].image", REQUIRED),
    ("a container without name", container(name=""), "containers[0].name", REQUIRED),
    ("a container name with capitals", container(name="Main"), "containers[0].name", INVALID),
    ("two containers of one name", {"containers": 2 * container()["containers"]}, "containers[1].name", DUPLICATE),
    ("a negative request", requests(cpu="-1"), "containers[0].resources.requests[cpu]", INVALID),
    ("half a GPU", limits(**{"nvidia.com/gpu": "500m"}), "containers[0].resources.limits[nvidia.com/gpu]", INVALID),
    ("GPUs without limit", requests(**{"nvidia.com/gpu": "1"}), "containers[0].resources.limits", REQUIRED),
    ("a resource of unknown name", requests(gpu="1"), "containers[0].resources.requests[gpu]", INVALID),
    (
        "a request above the limit",
        container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        "containers[0].resources.requests",
        INVALID,
    ),
    ("an unknown restart policy", {"restartPolicy": "Sometimes"}, "restartPolicy", NOT_SUPPORTED),
    (
        "a toleration of unknown effect",
        {"tolerations": [{"operator": "Exists", "effect": "Kick"}]},
        "tolerations[0].effect",
        NOT_SUPPORTED,
    ),
    ("a gate without name", {"schedulingGates": [{"name": ""}]}, "schedulingGates[0]", INVALID),
    ("two gates of one name", {"schedulingGates": [{"name": "g"}] * 2}, "schedulingGates[1]", DUPLICATE),
    ("a node selector with a comma", {"nodeSelector": {"x": "a,b"}}, "nodeSelector", INVALID),
    ("a spread without key", spread(topologyKey=""), "topologySpreadConstraints[0].topologyKey", REQUIRED),
    ("a spread without skew", spread(maxSkew=0), "topologySpreadConstraints[0].maxSkew", INVALID),
]


@pytest.mark.parametrize(("spec", "field", "reason"), rows(POD_SPECS))
def test_pod_is_refused_for(api: Api, spec: Obj, field: str, reason: str) -> None:
    refused(api, PODS, pod("a", spec), f"spec.{field}", reason)


def tainted(*effects: str) -> Obj:
    return node("n") | {"spec": {"taints": [{"key": "x", "effect": effect} for effect in effects]}}


def budget(**spec: Any) -> Obj:
    return {**meta("a"), "spec": {"selector": {}, **spec}}


OTHERS: list[tuple[str, Resource, Obj, str, str]] = [
    ("namespace with a dot", NAMESPACES, meta("a.b"), "metadata.name", INVALID),
    ("config map key with a slash", CONFIG_MAPS, config_map("a", {"a/b": ""}), "data[a/b]", INVALID),
    ("taint of unknown effect", NODES, tainted("Kick"), "metadata.taints[0].effect", NOT_SUPPORTED),
    ("two equal taints", NODES, tainted("NoSchedule", "NoSchedule"), "metadata.taints[1]", DUPLICATE),
    ("priority above a billion", PRIORITY_CLASSES, meta("high") | {"value": 1_000_000_001}, "value", FORBIDDEN),
    ("both kinds of budget", POD_DISRUPTION_BUDGETS, budget(minAvailable=1, maxUnavailable=1), "spec", INVALID),
    (
        "lease of no duration",
        LEASES,
        meta("a") | {"spec": {"leaseDurationSeconds": 0}},
        "spec.leaseDurationSeconds",
        INVALID,
    ),
]


@pytest.mark.parametrize(("res", "obj", "field", "reason"), rows(OTHERS))
def test_create_is_refused_for(api: Api, res: Resource, obj: Obj, field: str, reason: str) -> None:
    refused(api, res, obj, field, reason)


ACCEPTED: list[tuple[str, Resource, Obj]] = [
    ("name with dots", CONFIG_MAPS, config_map("a.b-c.d")),
    ("name of 253 characters", CONFIG_MAPS, config_map("a" * 253)),
    ("empty label value", CONFIG_MAPS, config_map("a", labels={"x": ""})),
    ("label value of 63 characters", CONFIG_MAPS, config_map("a", labels={"example.com/x": "0-15_32-47." + "a" * 52})),
    ("label key with a prefix", CONFIG_MAPS, config_map("a", labels={"a.b-c.example.com/D_e.f": "x"})),
    ("long annotation", CONFIG_MAPS, config_map("a", annotations={"example.com/x": "{,}" * 10_000})),
    ("request in any notation", PODS, pod("a", requests(cpu="1e-1", memory="1.5Gi"))),
    ("request of nothing", PODS, pod("a", requests(cpu="0"))),
]


@pytest.mark.parametrize(("res", "obj"), rows(ACCEPTED))
def test_create_is_accepted_for(api: Api, res: Resource, obj: Obj) -> None:
    api.create(res, obj).expect(201)


@pytest.mark.parametrize("text", ["abc", "1 Gi", "1gib", "--1", "", "1Gi2"])
def test_text_that_is_no_quantity_is_refused(api: Api, text: str) -> None:
    status = api.create(PODS, pod("a", requests(memory=text))).refused(400, "BadRequest")
    assert "quantit" in status["message"]


QUANTITIES = [
    ("1500m", "1500m"),
    ("2000m", "2"),
    ("0.5", "500m"),
    ("1024Mi", "1Gi"),
    ("1e9", "1e9"),
    ("1.5Gi", "1536Mi"),
]


@pytest.mark.parametrize(("written", "stored"), QUANTITIES)
def test_quantity_is_stored_in_canonical_form(api: Api, written: str, stored: str) -> None:
    created = api.create(PODS, pod("a", requests(memory=written))).expect(201)
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"memory": stored}


def test_priority_class_is_resolved(api: Api) -> None:
    created = api.create(PODS, pod("a", {"priorityClassName": "system-node-critical"})).expect(201)
    assert created["spec"]["priority"] == 2_000_001_000


def test_unknown_priority_class_is_refused(api: Api) -> None:
    status = api.create(PODS, pod("a", {"priorityClassName": "absent"})).refused(403, "Forbidden")
    assert "no PriorityClass with name absent was found" in status["message"]


WRONG_TYPES: list[tuple[str, Obj]] = [
    ("text for a list", {"spec": {"containers": "none"}}),
    ("text for a number", {"spec": {"priority": "high"}}),
    ("a number for a label", {"metadata": {"name": "a", "labels": {"x": 1}}}),
]


@pytest.mark.parametrize("part", rows(WRONG_TYPES))
def test_value_of_the_wrong_type_is_refused(api: Api, part: Obj) -> None:
    api.create(PODS, {**pod("a"), **part}).refused(400, "BadRequest")


def test_unknown_field_is_dropped_with_a_warning(api: Api) -> None:
    answer = api.create(PODS, pod("a", {"colour": "red"}))
    assert "colour" not in answer.expect(201)["spec"]
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.colour\\""'


def test_unknown_field_is_refused_when_asked_to_be_strict(api: Api) -> None:
    status = api.create(PODS, pod("a", {"colour": "red"}), fieldValidation="Strict").refused(400, "BadRequest")
    assert 'unknown field "spec.colour"' in status["message"]
