"""Creating, reading, replacing and listing objects, and what the server writes into them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kubenexus.common.kube.resources import CONFIG_MAPS, LEASES, NAMESPACES, NODES, PODS, Resource
from tests.contract.api import Api, Obj
from tests.contract.objects import config_map, node, pod, unique


def test_created_object_carries_identity_and_type(api: Api) -> None:
    created = api.create(CONFIG_MAPS, config_map("a", {"k": "v"})).expect(201)
    metadata = created["metadata"]
    assert (created["apiVersion"], created["kind"], created["data"]) == ("v1", "ConfigMap", {"k": "v"})
    assert (metadata["name"], metadata["namespace"]) == ("a", api.namespace)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    assert api.get(CONFIG_MAPS, "a").expect(200) == created


def test_client_cannot_choose_identity(api: Api) -> None:
    wished: Obj = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}
    metadata = api.create(CONFIG_MAPS, config_map("a", **wished)).expect(201)["metadata"]
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2001")


def test_second_create_of_a_name_is_refused(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    status = api.create(CONFIG_MAPS, config_map("a")).refused(409, "AlreadyExists")
    assert status["message"] == 'configmaps "a" already exists'
    assert status["details"] == {"name": "a", "kind": "configmaps"}


def test_create_with_resource_version_is_refused(api: Api) -> None:
    refusal = api.create(CONFIG_MAPS, config_map("a", resourceVersion="1"))
    assert refusal.status in (400, 500)
    assert refusal.body["message"] == "resourceVersion should not be set on objects to be created"


def test_generated_name_appends_five_characters(api: Api) -> None:
    both = [api.create(CONFIG_MAPS, {"metadata": {"generateName": "job-"}}).expect(201)["metadata"] for _ in range(2)]
    assert all(re.fullmatch(r"job-[bcdfghjklmnpqrstvwxz2456789]{5}", metadata["name"]) for metadata in both)
    assert both[0]["name"] != both[1]["name"]
    assert both[0]["generateName"] == "job-"


def test_long_generate_name_is_cut_to_fit(api: Api) -> None:
    name = api.create(CONFIG_MAPS, {"metadata": {"generateName": "x" * 100}}).expect(201)["metadata"]["name"]
    assert len(name) == 63


def test_create_without_any_name_is_refused(api: Api) -> None:
    refusal = api.create(CONFIG_MAPS, {"data": {}})
    refusal.refused(422, "Invalid")
    assert refusal.causes == {("metadata.name", "FieldValueRequired")}


def test_create_into_an_unknown_namespace_is_refused(api: Api) -> None:
    status = api.request("POST", CONFIG_MAPS.path("nowhere"), config_map("a")).refused(404, "NotFound")
    assert status["message"] == 'namespaces "nowhere" not found'


def test_create_whose_namespace_contradicts_the_path_is_refused(api: Api) -> None:
    status = api.create(CONFIG_MAPS, config_map("a", namespace="other")).refused(400, "BadRequest")
    assert "does not match the namespace" in status["message"]


def test_create_of_another_kind_than_the_path_is_refused(api: Api) -> None:
    wrong = {"apiVersion": "v1", "kind": "Secret", **config_map("a")}
    api.create(CONFIG_MAPS, wrong).refused(400, "BadRequest")


def test_body_that_is_no_json_is_refused(api: Api) -> None:
    api.request("POST", CONFIG_MAPS.path(api.namespace), "{nonsense").refused(400, "BadRequest")


def test_unknown_object_is_not_found(api: Api) -> None:
    status = api.get(CONFIG_MAPS, "absent").refused(404, "NotFound")
    assert status["message"] == 'configmaps "absent" not found'
    assert status["details"] == {"name": "absent", "kind": "configmaps"}


def test_not_found_in_a_named_group_says_the_group(api: Api) -> None:
    status = api.get(LEASES, "absent").refused(404, "NotFound")
    assert status["message"] == 'leases.coordination.k8s.io "absent" not found'
    assert status["details"] == {"name": "absent", "group": "coordination.k8s.io", "kind": "leases"}


def test_unknown_resource_is_not_found(api: Api) -> None:
    assert api.request("GET", "/apis/example.invalid/v1/things").status == 404


@pytest.mark.parametrize(
    "obj", [pytest.param({}, id="without type"), pytest.param({"kind": "Pod"}, id="with kind only")]
)
def test_type_may_be_left_out_of_a_created_object(api: Api, obj: dict[str, Any]) -> None:
    created = api.create(PODS, {**pod("a"), **obj}).expect(201)
    assert (created["apiVersion"], created["kind"]) == ("v1", "Pod")


def test_pod_gets_the_defaults_we_rely_on(api: Api) -> None:
    created = api.create(PODS, pod("a")).expect(201)
    spec, status = created["spec"], created["status"]
    assert spec["schedulerName"] == "default-scheduler"
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert {t["key"] for t in spec["tolerations"]} == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    assert (status["phase"], status["qosClass"]) == ("Pending", "BestEffort")


def test_container_limits_become_requests(api: Api) -> None:
    limits = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}
    spec = {"containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}]}
    created = api.create(PODS, pod("a", spec)).expect(201)
    assert created["spec"]["containers"][0]["resources"]["requests"] == limits
    assert created["status"]["qosClass"] == "Guaranteed"


def test_created_pod_starts_pending_whatever_status_is_sent(api: Api) -> None:
    created = api.create(PODS, {**pod("a"), "status": {"phase": "Running", "podIP": "10.0.0.1"}}).expect(201)
    assert created["status"]["phase"] == "Pending"
    assert "podIP" not in created["status"]


def test_gated_pod_says_so_from_the_start(api: Api) -> None:
    created = api.create(PODS, pod("a", {"schedulingGates": [{"name": "example.com/wait"}]})).expect(201)
    [condition] = created["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_node_allocatable_defaults_to_capacity(api: Api) -> None:
    created = api.create(NODES, node(unique("node"))).expect(201)
    assert created["status"]["allocatable"] == created["status"]["capacity"]


def test_namespace_is_labelled_with_its_name(api: Api) -> None:
    namespace = api.get(NAMESPACES, api.namespace).expect(200)
    assert namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] == api.namespace
    assert namespace["status"]["phase"] == "Active"


def test_update_replaces_the_object_and_keeps_identity(api: Api) -> None:
    created = api.create(CONFIG_MAPS, config_map("a", {"k": "1"}, labels={"x": "y"})).expect(201)
    changed = api.update(CONFIG_MAPS, config_map("a", {"other": "2"})).expect(200)
    assert changed["data"] == {"other": "2"}
    assert "labels" not in changed["metadata"]
    assert changed["metadata"]["uid"] == created["metadata"]["uid"]
    assert changed["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]


def test_update_that_changes_nothing_keeps_the_version(api: Api) -> None:
    created = api.create(CONFIG_MAPS, config_map("a", {"k": "1"})).expect(201)
    same = api.update(CONFIG_MAPS, created).expect(200)
    assert same["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


def test_update_of_an_unknown_object_is_not_found(api: Api) -> None:
    api.update(CONFIG_MAPS, config_map("absent")).refused(404, "NotFound")


def test_update_whose_name_contradicts_the_path_is_refused(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    api.request("PUT", CONFIG_MAPS.path(api.namespace, "a"), config_map("b")).refused(400, "BadRequest")


def test_dry_run_answers_but_stores_nothing(api: Api) -> None:
    created = api.create(CONFIG_MAPS, config_map("a"), dryRun="All").expect(201)
    assert created["metadata"]["uid"]
    api.get(CONFIG_MAPS, "a").refused(404, "NotFound")


@pytest.mark.parametrize("res", [PODS, CONFIG_MAPS, LEASES], ids=str)
def test_list_is_typed_and_its_items_are_not(api: Api, res: Resource) -> None:
    body = pod("a") if res is PODS else {"metadata": {"name": "a"}}
    api.create(res, body).expect(201)
    listed = api.list(res).expect(200)
    assert (listed["kind"], listed["apiVersion"]) == (f"{res.kind}List", res.api_version)
    named = [item for item in listed["items"] if item["metadata"]["name"] == "a"]
    assert len(named) == 1
    assert "kind" not in named[0]
    assert "apiVersion" not in named[0]


def test_list_over_all_namespaces_holds_every_namespace(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("mine")).expect(201)
    listed = api.request("GET", CONFIG_MAPS.path()).expect(200)
    assert (api.namespace, "mine") in {(i["metadata"]["namespace"], i["metadata"]["name"]) for i in listed["items"]}


def test_list_is_ordered_by_name(api: Api) -> None:
    for name in ("b", "c", "a"):
        api.create(CONFIG_MAPS, config_map(name)).expect(201)
    names = [item["metadata"]["name"] for item in api.list(CONFIG_MAPS).expect(200)["items"]]
    assert [name for name in names if len(name) == 1] == ["a", "b", "c"]
