"""What a client needs before and around the objects: discovery, authentication, health, custom kinds, tables."""

from __future__ import annotations

import pytest

from kubenexus.common.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from tests.contract.api import Api, Obj, eventually
from tests.contract.objects import config_map, meta, node, pod, unique
from tests.servers import REAL_ONLY

SERVED = [
    PODS, NODES, CONFIG_MAPS, EVENTS, LEASES, PRIORITY_CLASSES, POD_DISRUPTION_BUDGETS, STORAGE_CLASSES,
    RESOURCE_SLICES, RESOURCE_CLAIMS, JOBS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS, CUSTOM_RESOURCES,
]  # fmt: skip


@pytest.mark.parametrize("res", SERVED, ids=str)
def test_discovery_lists(api: Api, res: Resource) -> None:
    listed = api.request("GET", res.base_path).expect(200)
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", res.api_version)
    [found] = [entry for entry in listed["resources"] if entry["name"] == res.plural]
    assert (found["kind"], found["namespaced"]) == (res.kind, res.namespaced)
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(found["verbs"])


def test_discovery_lists_subresources(api: Api) -> None:
    names = {entry["name"] for entry in api.request("GET", "/api/v1").expect(200)["resources"]}
    assert {"pods/status", "pods/binding", "pods/eviction", "nodes/status"} <= names


def test_discovery_lists_groups_with_their_preferred_version(api: Api) -> None:
    assert api.request("GET", "/api").expect(200)["versions"] == ["v1"]
    groups = {group["name"]: group for group in api.request("GET", "/apis").expect(200)["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert {"batch", "policy", "resource.k8s.io", "coordination.k8s.io", "events.k8s.io"} <= set(groups)


def test_version_is_told(api: Api) -> None:
    version = api.request("GET", "/version").expect(200)
    assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor']}.")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_is_told(api: Api, path: str) -> None:
    assert api.request("GET", path).expect(200) == "ok"


def test_wrong_token_is_refused(api: Api) -> None:
    status = Api(api.server, token="wrong").list(PODS).refused(401, "Unauthorized")
    assert status["message"] == "Unauthorized"


@REAL_ONLY  # the sandbox knows no permissions
def test_missing_permission_is_named(api: Api) -> None:
    api.create(SERVICE_ACCOUNTS, meta("nobody")).expect(201)
    token = api.create(SERVICE_ACCOUNTS, {}, "token", "nobody").expect(201)["status"]["token"]
    status = Api(api.server, token=token).list(PODS).refused(403, "Forbidden")
    who = f'User "system:serviceaccount:{api.namespace}:nobody"'
    what = f'list resource "pods" in API group "" in the namespace "{api.namespace}"'
    assert status["message"] == f"pods is forbidden: {who} cannot {what}"
    assert status["details"] == {"kind": "pods"}


def test_no_version_of_a_group_is_not_found(api: Api) -> None:
    assert api.request("GET", "/apis/apps/v9").status == 404


def test_method_the_resource_lacks_is_refused(api: Api) -> None:
    api.request("POST", PODS.path(api.namespace, "a"), pod("a")).refused(405, "MethodNotAllowed")


def columns(api: Api, res: Resource) -> list[str]:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    table = api.request("GET", res.path(api.namespace), headers=accept).expect(200)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    for row in table["rows"]:
        assert len(row["cells"]) == len(table["columnDefinitions"])
        assert row["object"]["kind"] == "PartialObjectMetadata"
    return [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]


def test_pods_can_be_had_as_a_table(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    assert columns(api, PODS) == ["Name", "Ready", "Status", "Restarts", "Age"]


def test_nodes_can_be_had_as_a_table(api: Api) -> None:
    api.create(NODES, node(unique("node"))).expect(201)
    assert columns(api, NODES) == ["Name", "Status", "Roles", "Age", "Version"]


def test_objects_can_be_had_as_metadata_only(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a", {"k": "v"}, labels={"x": "y"})).expect(201)
    accept = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    found = api.request("GET", CONFIG_MAPS.path(api.namespace, "a"), headers=accept).expect(200)
    assert (found["kind"], found["metadata"]["labels"]) == ("PartialObjectMetadata", {"x": "y"})
    assert "data" not in found


@pytest.fixture
def gadgets(api: Api) -> Resource:
    """A custom kind with a status subresource, in a group of its own."""
    group = f"{unique('g')}.example.com"
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": free, "status": free}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    spec = {
        "group": group,
        "scope": "Namespaced",
        "versions": [version],
        "names": {"plural": "gadgets", "kind": "Gadget"},
    }
    api.create(CUSTOM_RESOURCES, {**meta(f"gadgets.{group}"), "spec": spec}).expect(201)
    resource = Resource(group, "v1", "gadgets", "Gadget")
    eventually(lambda: api.list(resource).status == 200)
    return resource


def gadget(res: Resource, **more: Obj) -> Obj:
    return {"apiVersion": res.api_version, "kind": res.kind, **meta("a"), **more}


def test_custom_kind_is_discovered(api: Api, gadgets: Resource) -> None:
    listed = eventually(lambda: (answer := api.request("GET", gadgets.base_path)).status == 200 and answer.body)
    assert {"gadgets", "gadgets/status"} == {entry["name"] for entry in listed["resources"]}


def test_custom_object_has_versions_status_and_watch(api: Api, gadgets: Resource) -> None:
    start = api.list(gadgets).expect(200)["metadata"]["resourceVersion"]
    created = api.create(gadgets, gadget(gadgets, spec={"size": 3}, status={"ready": True})).expect(201)
    assert "status" not in created
    api.patch(gadgets, "a", {"status": {"ready": True}}, sub="status").expect(200)
    events = api.watch(gadgets, resourceVersion=start)
    assert [next(events)["type"] for _ in range(2)] == ["ADDED", "MODIFIED"]
    assert api.get(gadgets, "a").expect(200)["status"] == {"ready": True}


def test_custom_object_can_be_applied(api: Api, gadgets: Resource) -> None:
    api.apply(gadgets, gadget(gadgets, spec={"size": 3}), "me").expect(201)
    assert api.apply(gadgets, gadget(gadgets, spec={"size": 4}), "me").expect(200)["spec"] == {"size": 4}


def test_custom_object_without_a_type_is_refused(api: Api, gadgets: Resource) -> None:
    api.create(gadgets, meta("a")).refused(400, "BadRequest")


def test_strategic_patch_of_a_custom_object_is_refused(api: Api, gadgets: Resource) -> None:
    api.create(gadgets, gadget(gadgets)).expect(201)
    api.patch(gadgets, "a", {"spec": {"size": 1}}, "strategic").refused(415, "UnsupportedMediaType")


def test_custom_objects_go_with_their_kind(api: Api, gadgets: Resource) -> None:
    api.create(gadgets, gadget(gadgets)).expect(201)
    api.delete(CUSTOM_RESOURCES, f"gadgets.{gadgets.group}").expect(200)
    eventually(lambda: api.list(gadgets).status == 404)
