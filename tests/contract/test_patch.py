"""Merge, strategic and JSON patches, and the status subresource."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.kube.resources import CONFIG_MAPS, NODES, PODS
from tests.contract.api import Api, Obj
from tests.contract.objects import config_map, node, pod, unique

NOW = "2026-01-01T00:00:00Z"


def condition(kind: str, status: str = "True", **more: str) -> Obj:
    return {"type": kind, "status": status, "lastTransitionTime": NOW, **more}


@pytest.mark.parametrize("kind", ["merge", "strategic"])
def test_patch_sets_adds_and_removes_keys(api: Api, kind: str) -> None:
    api.create(CONFIG_MAPS, config_map("a", {"keep": "1", "change": "1", "drop": "1"})).expect(201)
    patch = {"data": {"change": "2", "drop": None, "new": "3"}}
    assert api.patch(CONFIG_MAPS, "a", patch, kind).expect(200)["data"] == {"keep": "1", "change": "2", "new": "3"}


def test_null_for_a_whole_map_removes_it(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a", {"k": "1"})).expect(201)
    assert "data" not in api.patch(CONFIG_MAPS, "a", {"data": None}).expect(200)


def test_patch_without_effect_keeps_the_version(api: Api) -> None:
    created = api.create(CONFIG_MAPS, config_map("a", {"k": "1"})).expect(201)
    assert api.patch(CONFIG_MAPS, "a", {"data": {"k": "1"}}).expect(200) == created


@pytest.mark.parametrize("kind", ["merge", "strategic", "json"])
def test_patch_of_an_unknown_object_is_not_found(api: Api, kind: str) -> None:
    api.patch(CONFIG_MAPS, "absent", [] if kind == "json" else {}, kind).refused(404, "NotFound")


def test_patch_cannot_rename(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    api.patch(CONFIG_MAPS, "a", {"metadata": {"name": "b"}}).expect(400, 422)


def test_patch_of_unknown_type_is_refused(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    refusal = api.request("PATCH", CONFIG_MAPS.path(api.namespace, "a"), {}, "application/json")
    refusal.refused(415, "UnsupportedMediaType")


def test_patched_object_is_validated(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    refusal = api.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"x": "a,b"}}})
    refusal.refused(422, "Invalid")
    assert refusal.causes == {("metadata.labels", "FieldValueInvalid")}


def test_merge_patch_replaces_lists(api: Api) -> None:
    name = unique("node")
    api.create(NODES, node(name) | {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}).expect(201)
    patch = {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}
    patched = api.patch(NODES, name, patch, "merge").expect(200)
    assert [taint["key"] for taint in patched["spec"]["taints"]] == ["b"]


def test_strategic_patch_merges_conditions_by_type(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    first = {"status": {"conditions": [condition("PodScheduled", "False", reason="Unschedulable", message="no room")]}}
    api.patch(PODS, "a", first, "strategic", "status").expect(200)
    second = {"status": {"conditions": [condition("Ready", "False"), condition("PodScheduled", message="yes")]}}
    patched = api.patch(PODS, "a", second, "strategic", "status").expect(200)
    by_type = {entry["type"]: entry for entry in patched["status"]["conditions"]}
    assert set(by_type) == {"PodScheduled", "Ready"}
    scheduled = by_type["PodScheduled"]
    assert (scheduled["status"], scheduled["message"], scheduled["reason"]) == ("True", "yes", "Unschedulable")


def test_strategic_patch_deletes_a_list_entry_by_its_key(api: Api) -> None:
    name = unique("node")
    api.create(NODES, node(name)).expect(201)
    both = {"status": {"conditions": [condition("A"), condition("B")]}}
    api.patch(NODES, name, both, "strategic", "status").expect(200)
    drop = {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}}
    patched = api.patch(NODES, name, drop, "strategic", "status").expect(200)
    assert [entry["type"] for entry in patched["status"]["conditions"]] == ["B"]


def test_strategic_patch_replaces_taints(api: Api) -> None:
    name = unique("node")
    api.create(NODES, node(name) | {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}).expect(201)
    patch = {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}
    patched = api.patch(NODES, name, patch, "strategic").expect(200)
    assert [taint["key"] for taint in patched["spec"]["taints"]] == ["b"]


def test_strategic_patch_changes_one_container_by_name(api: Api) -> None:
    containers = [{"name": name, "image": f"example.invalid/{name}"} for name in ("one", "two")]
    api.create(PODS, pod("a", {"containers": containers})).expect(201)
    patch = {"spec": {"containers": [{"name": "two", "image": "example.invalid/new"}]}}
    patched = api.patch(PODS, "a", patch, "strategic").expect(200)
    assert [c["image"] for c in patched["spec"]["containers"]] == ["example.invalid/one", "example.invalid/new"]


def test_strategic_patch_may_replace_a_map(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a", {"old": "1"})).expect(201)
    patch = {"data": {"$patch": "replace", "new": "2"}}
    assert api.patch(CONFIG_MAPS, "a", patch, "strategic").expect(200)["data"] == {"new": "2"}


def test_strategic_patch_merges_finalizers(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a", finalizers=["example.com/one"])).expect(201)
    patch = {"metadata": {"finalizers": ["example.com/two"]}}
    patched = api.patch(CONFIG_MAPS, "a", patch, "strategic").expect(200)
    assert set(patched["metadata"]["finalizers"]) == {"example.com/one", "example.com/two"}
    api.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}).expect(200)


JSON_PATCHES: list[tuple[str, list[Obj], dict[str, str]]] = [
    ("add sets a key", [{"op": "add", "path": "/data/n", "value": "2"}], {"k": "1", "n": "2"}),
    ("add replaces a key", [{"op": "add", "path": "/data/k", "value": "2"}], {"k": "2"}),
    ("replace changes a key", [{"op": "replace", "path": "/data/k", "value": "2"}], {"k": "2"}),
    ("replace sets a missing key", [{"op": "replace", "path": "/data/n", "value": "2"}], {"k": "1", "n": "2"}),
    ("remove drops a key", [{"op": "remove", "path": "/data/k"}], {}),
    ("move renames a key", [{"op": "move", "from": "/data/k", "path": "/data/n"}], {"n": "1"}),
    ("copy doubles a key", [{"op": "copy", "from": "/data/k", "path": "/data/n"}], {"k": "1", "n": "1"}),
    (
        "true test lets the rest pass",
        [{"op": "test", "path": "/data/k", "value": "1"}, {"op": "replace", "path": "/data/k", "value": "2"}],
        {"k": "2"},
    ),
]


@pytest.mark.parametrize(("ops", "data"), [pytest.param(ops, data, id=name) for name, ops, data in JSON_PATCHES])
def test_json_patch(api: Api, ops: list[Obj], data: dict[str, str]) -> None:
    api.create(CONFIG_MAPS, config_map("a", {"k": "1"})).expect(201)
    assert api.patch(CONFIG_MAPS, "a", ops, "json").expect(200).get("data", {}) == data


def test_json_patch_unescapes_its_path(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a", labels={"example.com/x": "1", "y": "1"})).expect(201)
    ops = [{"op": "replace", "path": "/metadata/labels/example.com~1x", "value": "2"}]
    assert api.patch(CONFIG_MAPS, "a", ops, "json").expect(200)["metadata"]["labels"]["example.com/x"] == "2"


BAD_JSON_PATCHES: list[tuple[str, Any, int]] = [
    ("a test that fails", [{"op": "test", "path": "/data/k", "value": "other"}], 422),
    ("removal of a missing key", [{"op": "remove", "path": "/data/absent"}], 422),
    ("a missing parent", [{"op": "add", "path": "/metadata/labels/x", "value": "1"}], 422),
    ("an object instead of a list", {"op": "add"}, 400),
]


@pytest.mark.parametrize(("ops", "status"), [pytest.param(ops, code, id=name) for name, ops, code in BAD_JSON_PATCHES])
def test_json_patch_is_refused_for(api: Api, ops: Any, status: int) -> None:
    api.create(CONFIG_MAPS, config_map("a", {"k": "1"})).expect(201)
    api.patch(CONFIG_MAPS, "a", ops, "json").expect(status)
    assert api.get(CONFIG_MAPS, "a").expect(200)["data"] == {"k": "1"}


def test_json_patch_appends_to_and_inserts_into_lists(api: Api) -> None:
    name = unique("node")
    api.create(NODES, node(name) | {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}).expect(201)
    ops = [
        {"op": "add", "path": "/spec/taints/-", "value": {"key": "c", "effect": "NoSchedule"}},
        {"op": "add", "path": "/spec/taints/0", "value": {"key": "a", "effect": "NoSchedule"}},
    ]
    patched = api.patch(NODES, name, ops, "json").expect(200)
    assert [taint["key"] for taint in patched["spec"]["taints"]] == ["a", "b", "c"]


def test_status_write_leaves_the_rest_alone(api: Api) -> None:
    api.create(PODS, pod("a", labels={"x": "1"})).expect(201)
    patch = {"metadata": {"labels": {"x": "2"}}, "spec": {"nodeName": "n"}, "status": {"message": "hello"}}
    patched = api.patch(PODS, "a", patch, sub="status").expect(200)
    assert patched["status"]["message"] == "hello"
    assert "nodeName" not in patched["spec"]


def test_write_leaves_the_status_alone(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    patched = api.patch(PODS, "a", {"metadata": {"labels": {"x": "2"}}, "status": {"phase": "Running"}}).expect(200)
    assert patched["metadata"]["labels"] == {"x": "2"}
    assert patched["status"]["phase"] == "Pending"


def test_status_can_be_replaced(api: Api) -> None:
    created = api.create(PODS, pod("a")).expect(201)
    created["status"] = {"phase": "Running"}
    assert api.update(PODS, created, sub="status").expect(200)["status"]["phase"] == "Running"


def test_status_with_a_stale_version_is_refused(api: Api) -> None:
    created = api.create(PODS, pod("a")).expect(201)
    api.patch(PODS, "a", {"metadata": {"labels": {"x": "2"}}}).expect(200)
    created["status"] = {"phase": "Running"}
    api.update(PODS, created, sub="status").refused(409, "Conflict")


def test_node_status_takes_capacity_and_keeps_labels(api: Api) -> None:
    name = unique("node")
    api.create(NODES, node(name, labels={"x": "1"})).expect(201)
    patch = {"status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "7"}}}
    status = api.patch(NODES, name, patch, "strategic", "status").expect(200)["status"]
    assert (status["capacity"]["nvidia.com/gpu"], status["capacity"]["cpu"]) == ("8", "8")
    assert status["allocatable"]["nvidia.com/gpu"] == "7"


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"spec": {"nodeName": "node-1"}}, "spec"),
        ({"spec": {"schedulerName": "other"}}, "spec"),
        ({"spec": {"priority": 7}}, "spec"),
        ({"spec": {"nodeSelector": {"x": "y"}}}, "spec"),
    ],
    ids=["node", "scheduler", "priority", "node selector"],
)
def test_pod_keeps_its(api: Api, patch: Obj, field: str) -> None:
    api.create(PODS, pod("a")).expect(201)
    refusal = api.patch(PODS, "a", patch)
    refusal.refused(422, "Invalid")
    assert field in {cause for cause, _ in refusal.causes}


def test_gated_pod_may_be_narrowed_and_then_released(api: Api) -> None:
    api.create(PODS, pod("a", {"schedulingGates": [{"name": "example.com/wait"}]})).expect(201)
    api.patch(PODS, "a", {"spec": {"nodeSelector": {"x": "y"}}}).expect(200)
    released = api.patch(PODS, "a", {"spec": {"schedulingGates": None}}).expect(200)
    assert "schedulingGates" not in released["spec"]


def test_gate_cannot_be_added_later(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    refusal = api.patch(PODS, "a", {"spec": {"schedulingGates": [{"name": "example.com/wait"}]}})
    refusal.refused(422, "Invalid")
