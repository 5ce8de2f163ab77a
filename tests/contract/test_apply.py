"""Server-side apply: who owns which field, and what follows from that."""

from __future__ import annotations

import json

from kubenexus.common.kube.resources import CONFIG_MAPS, NODES, PODS, RESOURCE_SLICES
from tests.contract.api import Api, Obj
from tests.contract.objects import config_map, device, meta, node, pod, resource_slice, unique


def entries(obj: Obj) -> dict[tuple[str, str], Obj]:
    """managedFields by (manager, operation)."""
    return {(entry["manager"], entry["operation"]): entry for entry in obj["metadata"]["managedFields"]}


def test_apply_creates_and_then_updates(api: Api) -> None:
    created = api.apply(CONFIG_MAPS, config_map("a", {"k": "1"}), "me").expect(201)
    updated = api.apply(CONFIG_MAPS, config_map("a", {"k": "2"}), "me").expect(200)
    assert (created["data"], updated["data"]) == ({"k": "1"}, {"k": "2"})
    assert created["metadata"]["uid"] == updated["metadata"]["uid"]


def test_apply_records_what_it_owns(api: Api) -> None:
    applied = api.apply(CONFIG_MAPS, config_map("a", {"k": "1"}, labels={"x": "y"}), "me").expect(201)
    entry = entries(applied)["me", "Apply"]
    assert (entry["apiVersion"], entry["fieldsType"]) == ("v1", "FieldsV1")
    assert entry["fieldsV1"] == {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:x": {}}}}
    assert entry["time"]


def test_apply_needs_a_manager(api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("a")}
    api.patch(CONFIG_MAPS, "a", body, "apply").refused(422, "Invalid")


def test_apply_needs_a_type(api: Api) -> None:
    api.patch(CONFIG_MAPS, "a", config_map("a"), "apply", fieldManager="me").refused(400, "BadRequest")


def test_apply_with_managed_fields_is_refused(api: Api) -> None:
    applied = api.apply(CONFIG_MAPS, config_map("a"), "me").expect(201)
    api.apply(CONFIG_MAPS, applied, "me").refused(400, "BadRequest")


def test_same_apply_again_changes_nothing(api: Api) -> None:
    first = api.apply(CONFIG_MAPS, config_map("a", {"k": "1"}), "me").expect(201)
    assert api.apply(CONFIG_MAPS, config_map("a", {"k": "1"}), "me").expect(200) == first


def test_dropped_field_is_removed(api: Api) -> None:
    api.apply(CONFIG_MAPS, config_map("a", {"keep": "1", "drop": "1"}), "me").expect(201)
    assert api.apply(CONFIG_MAPS, config_map("a", {"keep": "1"}), "me").expect(200)["data"] == {"keep": "1"}


def test_dropped_field_of_two_owners_stays(api: Api) -> None:
    api.apply(CONFIG_MAPS, config_map("a", {"shared": "1", "mine": "1"}), "me").expect(201)
    api.apply(CONFIG_MAPS, config_map("a", {"shared": "1"}), "you").expect(200)
    left = api.apply(CONFIG_MAPS, config_map("a"), "me").expect(200)
    assert left["data"] == {"shared": "1"}


def test_another_managers_field_is_a_conflict(api: Api) -> None:
    api.apply(CONFIG_MAPS, config_map("a", {"k": "1"}), "me").expect(201)
    refusal = api.apply(CONFIG_MAPS, config_map("a", {"k": "2"}), "you")
    status = refusal.refused(409, "Conflict")
    [cause] = status["details"]["causes"]
    assert cause == {"reason": "FieldManagerConflict", "message": 'conflict with "me"', "field": ".data.k"}
    assert api.get(CONFIG_MAPS, "a").expect(200)["data"] == {"k": "1"}


def test_force_takes_the_field_over(api: Api) -> None:
    api.apply(CONFIG_MAPS, config_map("a", {"k": "1", "other": "1"}), "me").expect(201)
    forced = api.apply(CONFIG_MAPS, config_map("a", {"k": "2"}), "you", force="true").expect(200)
    assert forced["data"] == {"k": "2", "other": "1"}
    assert entries(forced)["me", "Apply"]["fieldsV1"] == {"f:data": {"f:other": {}}}
    assert entries(forced)["you", "Apply"]["fieldsV1"] == {"f:data": {"f:k": {}}}


def test_update_of_an_applied_field_takes_it_over(api: Api) -> None:
    api.apply(CONFIG_MAPS, config_map("a", {"k": "1"}), "me").expect(201)
    api.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, fieldManager="editor").expect(200)
    status = api.apply(CONFIG_MAPS, config_map("a", {"k": "1"}), "me").refused(409, "Conflict")
    [cause] = status["details"]["causes"]
    assert cause["field"] == ".data.k"
    assert cause["message"].startswith('conflict with "editor"')


def test_update_without_a_manager_is_owned_by_the_user_agent(api: Api) -> None:
    created = api.request(
        "POST", CONFIG_MAPS.path(api.namespace), config_map("a", {"k": "1"}), headers={"User-Agent": "tool/1.0 (test)"}
    ).expect(201)
    assert ("tool", "Update") in entries(created)


def test_apply_with_the_uid_of_a_vanished_object_creates_no_ghost(api: Api) -> None:
    created = api.create(CONFIG_MAPS, config_map("a")).expect(201)
    api.delete(CONFIG_MAPS, "a").expect(200)
    ghost = config_map("a", {"k": "1"}, uid=created["metadata"]["uid"])
    api.apply(CONFIG_MAPS, ghost, "me").refused(409, "Conflict")
    api.get(CONFIG_MAPS, "a").refused(404, "NotFound")


def test_apply_with_another_uid_is_refused(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    ghost = config_map("a", {"k": "1"}, uid="00000000-0000-0000-0000-000000000000")
    api.apply(CONFIG_MAPS, ghost, "me").refused(422, "Invalid")


def test_two_managers_share_the_labels_of_a_node(api: Api) -> None:
    """As the agent does it: it applies its labels beside those of others, and takes back its own."""
    name = unique("node")
    made = api.create(NODES, node(name, labels={"kubernetes.io/hostname": name}), fieldManager="kubelet").expect(201)
    api.made.append(NODES.path(name=name))
    uid = made["metadata"]["uid"]
    api.apply(NODES, meta(name, uid=uid, labels={"a.example.com/x": "1", "a.example.com/y": "1"}), "agent").expect(200)
    api.apply(NODES, meta(name, labels={"b.example.com/z": "1"}), "admin").expect(200)
    after = api.apply(NODES, meta(name, uid=uid, labels={"a.example.com/x": "2"}), "agent").expect(200)
    labels = after["metadata"]["labels"]
    assert labels == {"kubernetes.io/hostname": name, "a.example.com/x": "2", "b.example.com/z": "1"}
    assert after["status"]["capacity"]["cpu"] == "8"


def test_empty_apply_takes_back_everything_the_manager_owned(api: Api) -> None:
    name = unique("node")
    api.create(NODES, node(name)).expect(201)
    api.apply(
        NODES, meta(name, labels={"a.example.com/x": "1"}, annotations={"a.example.com/y": "{}"}), "agent"
    ).expect(200)
    after = api.apply(NODES, meta(name), "agent").expect(200)["metadata"]
    assert "labels" not in after
    assert "a.example.com" not in json.dumps(after)  # other annotations may be there: controllers write some
    assert "agent" not in {entry["manager"] for entry in after["managedFields"]}


def test_apply_merges_conditions_by_type_and_per_manager(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)

    def applied(manager: str, kind: str) -> Obj:
        status = {"conditions": [{"type": kind, "status": "True"}]}
        body: Obj = api.apply(PODS, {**meta("a"), "status": status}, manager, "status").expect(200)
        return body

    applied("one", "example.com/one")
    both = applied("two", "example.com/two")
    assert [c["type"] for c in both["status"]["conditions"]] == ["example.com/one", "example.com/two"]
    assert entries(both)["one", "Apply"]["subresource"] == "status"


def test_apply_replaces_the_devices_of_a_slice_as_one(api: Api) -> None:
    name = unique("slice")
    first = resource_slice(name, device("gpu-0", index={"int": 0}), device("gpu-1", index={"int": 1}))
    api.apply(RESOURCE_SLICES, first, "agent").expect(201)
    second = resource_slice(name, device("gpu-1", index={"int": 7}))
    second["spec"]["pool"]["generation"] = 2
    applied = api.apply(RESOURCE_SLICES, second, "agent").expect(200)
    assert applied["spec"]["devices"] == [{"name": "gpu-1", "attributes": {"index": {"int": 7}}}]


def test_apply_takes_yaml(api: Api) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: 'yes'\n"
    path = CONFIG_MAPS.path(api.namespace, "a")
    query = {"fieldManager": "me"}
    applied = api.request("PATCH", path, text, "application/apply-patch+yaml", query).expect(201)
    assert applied["data"] == {"k": "yes"}
