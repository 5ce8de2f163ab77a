"""Deleting: grace, finalizers, propagation, and what the garbage collector takes along."""

from __future__ import annotations

import pytest

from kubenexus.common.kube.resources import CONFIG_MAPS, LEASES, NODES, PODS, RESOURCE_SLICES
from tests.contract.api import Api, Obj, eventually
from tests.contract.objects import IDLE, config_map, meta, node, pod, resource_slice, unique

BOUND = {"nodeName": IDLE}


def owned_by(owner: Obj, kind: str, api_version: str = "v1", **more: bool) -> list[Obj]:
    name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
    return [{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, **more}]


def test_delete_answers_with_a_status_that_names_the_object(api: Api) -> None:
    created = api.create(CONFIG_MAPS, config_map("a")).expect(201)
    status = api.delete(CONFIG_MAPS, "a").expect(200)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}


def test_delete_of_a_pod_answers_with_the_pod(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    assert api.delete(PODS, "a").expect(200)["kind"] == "Pod"


def test_delete_of_an_unknown_object_is_not_found(api: Api) -> None:
    api.delete(CONFIG_MAPS, "absent").refused(404, "NotFound")


def test_pod_without_a_node_goes_at_once(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    api.delete(PODS, "a").expect(200)
    api.get(PODS, "a").refused(404, "NotFound")


@pytest.mark.parametrize(
    ("options", "grace"),
    [({}, 30), ({"gracePeriodSeconds": 5}, 5), ({"gracePeriodSeconds": 60}, 60)],
    ids=["its own grace", "a shorter grace", "a longer grace"],
)
def test_bound_pod_terminates_with(api: Api, options: Obj, grace: int) -> None:
    api.create(PODS, pod("a", BOUND)).expect(201)
    api.delete(PODS, "a", **options).expect(200)
    metadata = api.get(PODS, "a").expect(200)["metadata"]
    assert metadata["deletionTimestamp"]
    assert metadata["deletionGracePeriodSeconds"] == grace


def test_second_delete_may_shorten_the_grace_but_not_lengthen_it(api: Api) -> None:
    api.create(PODS, pod("a", BOUND)).expect(201)
    graces = []
    for asked in (20, 10, 40):
        api.delete(PODS, "a", gracePeriodSeconds=asked).expect(200)
        graces.append(api.get(PODS, "a").expect(200)["metadata"]["deletionGracePeriodSeconds"])
    assert graces == [20, 10, 10]


def test_delete_without_grace_removes_a_terminating_pod(api: Api) -> None:
    api.create(PODS, pod("a", BOUND)).expect(201)
    api.delete(PODS, "a").expect(200)
    api.delete(PODS, "a", gracePeriodSeconds=0).expect(200)
    api.get(PODS, "a").refused(404, "NotFound")


def test_finished_pod_goes_at_once(api: Api) -> None:
    api.create(PODS, pod("a", BOUND)).expect(201)
    api.patch(PODS, "a", {"status": {"phase": "Succeeded"}}, sub="status").expect(200)
    api.delete(PODS, "a").expect(200)
    api.get(PODS, "a").refused(404, "NotFound")


def test_finalizer_holds_the_object_until_it_is_taken_away(api: Api) -> None:
    api.create(LEASES, meta("a", finalizers=["example.com/hold"])).expect(201)
    deleted = api.delete(LEASES, "a").expect(200)
    assert deleted["metadata"]["deletionTimestamp"]
    assert api.get(LEASES, "a").expect(200)["metadata"]["deletionTimestamp"]
    api.patch(LEASES, "a", {"metadata": {"finalizers": None}}).expect(200)
    api.get(LEASES, "a").refused(404, "NotFound")


def test_name_of_a_terminating_object_is_taken(api: Api) -> None:
    api.create(LEASES, meta("a", finalizers=["example.com/hold"])).expect(201)
    api.delete(LEASES, "a").expect(200)
    status = api.create(LEASES, meta("a")).refused(409, "AlreadyExists")
    assert status["message"].startswith("object is being deleted: ")


def test_finalizer_cannot_be_added_once_deletion_began(api: Api) -> None:
    api.create(LEASES, meta("a", finalizers=["example.com/hold"])).expect(201)
    api.delete(LEASES, "a").expect(200)
    refusal = api.patch(LEASES, "a", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    refusal.refused(422, "Invalid")
    assert refusal.causes == {("metadata.finalizers", "FieldValueForbidden")}


def test_deletion_timestamp_cannot_be_taken_back(api: Api) -> None:
    api.create(LEASES, meta("a", finalizers=["example.com/hold"])).expect(201)
    api.delete(LEASES, "a").expect(200)
    after = api.patch(LEASES, "a", {"metadata": {"deletionTimestamp": None, "labels": {"x": "y"}}})
    assert after.expect(200)["metadata"]["deletionTimestamp"]


def test_delete_collection_takes_what_is_selected(api: Api) -> None:
    for name, labels in {"a": {"x": "1"}, "b": {"x": "1"}, "c": {"x": "2"}}.items():
        api.create(LEASES, meta(name, labels=labels)).expect(201)
    api.request("DELETE", LEASES.path(api.namespace), query={"labelSelector": "x=1"}).expect(200)
    assert [item["metadata"]["name"] for item in api.list(LEASES).expect(200)["items"]] == ["c"]


def test_dry_run_deletes_nothing(api: Api) -> None:
    api.create(LEASES, meta("a")).expect(201)
    api.request("DELETE", LEASES.path(api.namespace, "a"), query={"dryRun": "All"}).expect(200)
    api.get(LEASES, "a").expect(200)


def test_dependants_go_after_their_owner(api: Api) -> None:
    owner = api.create(CONFIG_MAPS, config_map("owner")).expect(201)
    api.create(LEASES, meta("child", ownerReferences=owned_by(owner, "ConfigMap"))).expect(201)
    api.delete(CONFIG_MAPS, "owner", propagationPolicy="Background").expect(200)
    eventually(lambda: api.get(LEASES, "child").status == 404)


def test_orphans_stay_without_their_owner(api: Api) -> None:
    owner = api.create(CONFIG_MAPS, config_map("owner")).expect(201)
    api.create(LEASES, meta("child", ownerReferences=owned_by(owner, "ConfigMap"))).expect(201)
    # The garbage collector orphans the dependants it knows of, so it must have seen this one.
    eventually(lambda: api.get(LEASES, "child").status == 200)
    api.delete(CONFIG_MAPS, "owner", propagationPolicy="Orphan").expect(200)
    eventually(lambda: api.get(CONFIG_MAPS, "owner").status == 404)
    assert not api.get(LEASES, "child").expect(200)["metadata"].get("ownerReferences")


def test_foreground_deletion_waits_for_dependants(api: Api) -> None:
    owner = api.create(CONFIG_MAPS, config_map("owner")).expect(201)
    blocking = owned_by(owner, "ConfigMap", blockOwnerDeletion=True)
    api.create(LEASES, meta("child", ownerReferences=blocking, finalizers=["example.com/hold"])).expect(201)
    api.delete(CONFIG_MAPS, "owner", propagationPolicy="Foreground").expect(200)
    eventually(lambda: "deletionTimestamp" in api.get(LEASES, "child").expect(200)["metadata"])
    assert api.get(CONFIG_MAPS, "owner").expect(200)["metadata"]["finalizers"] == ["foregroundDeletion"]
    api.patch(LEASES, "child", {"metadata": {"finalizers": None}}).expect(200)
    eventually(lambda: api.get(CONFIG_MAPS, "owner").status == 404)


def test_dependant_with_a_living_owner_stays(api: Api) -> None:
    first, second = (api.create(CONFIG_MAPS, config_map(name)).expect(201) for name in ("first", "second"))
    owners = owned_by(first, "ConfigMap") + owned_by(second, "ConfigMap")
    api.create(LEASES, meta("child", ownerReferences=owners)).expect(201)
    api.create(LEASES, meta("witness", ownerReferences=owned_by(first, "ConfigMap"))).expect(201)
    api.delete(CONFIG_MAPS, "first").expect(200)
    eventually(lambda: api.get(LEASES, "witness").status == 404)
    eventually(lambda: len(api.get(LEASES, "child").expect(200)["metadata"]["ownerReferences"]) == 1)


def test_object_whose_owner_never_existed_is_collected(api: Api) -> None:
    ghost = {"metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}}
    api.create(LEASES, meta("child", ownerReferences=owned_by(ghost, "ConfigMap"))).expect(201)
    eventually(lambda: api.get(LEASES, "child").status == 404)


def test_resource_slices_of_a_node_go_with_it(api: Api) -> None:
    name = unique("node")
    made = api.create(NODES, node(name)).expect(201)
    piece = resource_slice(name, nodeName=name)
    piece["metadata"]["ownerReferences"] = owned_by(made, "Node", controller=True)
    api.create(RESOURCE_SLICES, piece).expect(201)
    api.delete(NODES, name).expect(200)
    eventually(lambda: api.get(RESOURCE_SLICES, name).status == 404)


def test_namespace_takes_its_content_along(api: Api) -> None:
    name = unique("doomed")
    api.request("POST", "/api/v1/namespaces", meta(name)).expect(201)
    path = CONFIG_MAPS.path(name)
    api.request("POST", path, config_map("a")).expect(201)
    api.request("DELETE", f"/api/v1/namespaces/{name}").expect(200)
    eventually(lambda: api.request("GET", f"/api/v1/namespaces/{name}").status == 404, seconds=60)
    api.request("GET", f"{path}/a").refused(404, "NotFound")


def test_nothing_is_created_in_a_terminating_namespace(api: Api) -> None:
    name = unique("doomed")
    api.request("POST", "/api/v1/namespaces", meta(name)).expect(201)
    api.request("POST", LEASES.path(name), meta("a", finalizers=["example.com/hold"])).expect(201)
    api.request("DELETE", f"/api/v1/namespaces/{name}").expect(200)
    status = api.request("POST", CONFIG_MAPS.path(name), config_map("b")).refused(403, "Forbidden")
    assert "is being terminated" in status["message"]
    held = {"metadata": {"finalizers": None}}
    api.request("PATCH", LEASES.path(name, "a"), held, "application/merge-patch+json").expect(200, 404)
