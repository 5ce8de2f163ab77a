"""`pods/binding`: how a scheduler assigns a node, what travels along, and every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.kube.resources import NODES, PODS
from tests.contract.api import Answer, Api, Obj
from tests.contract.objects import IDLE, node, pod, unique


def bind(api: Api, name: str = "a", target: Obj | None = None, **metadata: Any) -> Answer:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": api.namespace, **metadata},
        "target": target if target is not None else {"kind": "Node", "name": "node-1"},
    }
    return api.create(PODS, body, "binding", name)


def test_binding_assigns_the_node_and_marks_the_pod_scheduled(api: Api) -> None:
    created = api.create(PODS, pod("a")).expect(201)
    status = bind(api, uid=created["metadata"]["uid"]).expect(201)
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Success", 201)
    bound = api.get(PODS, "a").expect(200)
    assert bound["spec"]["nodeName"] == "node-1"
    [scheduled] = bound["status"]["conditions"]
    assert (scheduled["type"], scheduled["status"]) == ("PodScheduled", "True")
    assert scheduled["lastTransitionTime"]


def test_binding_replaces_an_earlier_refusal_to_schedule(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    patch = {"status": {"conditions": [refused], "nominatedNodeName": "node-2"}}
    api.patch(PODS, "a", patch, "strategic", "status").expect(200)
    bind(api).expect(201)
    status = api.get(PODS, "a").expect(200)["status"]
    [scheduled] = status["conditions"]
    assert scheduled["status"] == "True"
    assert "reason" not in scheduled
    assert "nominatedNodeName" not in status


def test_annotations_and_labels_of_the_binding_are_merged_into_the_pod(api: Api) -> None:
    api.create(PODS, pod("a", labels={"keep": "1", "over": "1"}, annotations={"keep": "1", "over": "1"})).expect(201)
    bind(api, labels={"over": "2", "new": "2"}, annotations={"over": "2", "new": "2"}).expect(201)
    metadata = api.get(PODS, "a").expect(200)["metadata"]
    assert metadata["labels"] == {"keep": "1", "over": "2", "new": "2"}
    assert metadata["annotations"] == {"keep": "1", "over": "2", "new": "2"}


def test_topology_labels_of_the_node_come_along(api: Api) -> None:
    name = unique("node")
    topology = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"}
    api.create(NODES, node(name, labels={**topology, "other": "x"})).expect(201)
    api.create(PODS, pod("a")).expect(201)
    bind(api, target={"kind": "Node", "name": name}).expect(201)
    assert api.get(PODS, "a").expect(200)["metadata"]["labels"] == topology


def test_binding_to_an_unknown_node_is_accepted(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    bind(api, target={"kind": "Node", "name": "no-such-node"}).expect(201)


def test_target_without_kind_is_a_node(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    bind(api, target={"name": "node-1"}).expect(201)


def test_current_version_and_uid_are_accepted(api: Api) -> None:
    metadata = api.create(PODS, pod("a")).expect(201)["metadata"]
    bind(api, uid=metadata["uid"], resourceVersion=metadata["resourceVersion"]).expect(201)


@pytest.mark.parametrize("target", ["node-1", "node-2"], ids=["to the same node", "to another node"])
def test_bound_pod_is_not_bound_again(api: Api, target: str) -> None:
    api.create(PODS, pod("a")).expect(201)
    bind(api).expect(201)
    status = bind(api, target={"kind": "Node", "name": target}).refused(409, "Conflict")
    assert "is already assigned to node" in status["message"]
    assert api.get(PODS, "a").expect(200)["spec"]["nodeName"] == "node-1"


def test_gated_pod_is_not_bound(api: Api) -> None:
    api.create(PODS, pod("a", {"schedulingGates": [{"name": "example.com/wait"}]})).expect(201)
    status = bind(api).refused(409, "Conflict")
    assert "has non-empty .spec.schedulingGates" in status["message"]


def test_pod_that_is_being_deleted_is_not_bound(api: Api) -> None:
    api.create(PODS, pod("a", finalizers=["example.com/hold"])).expect(201)
    api.delete(PODS, "a").expect(200)
    status = bind(api).refused(409, "Conflict")
    assert "is being deleted" in status["message"]
    api.patch(PODS, "a", {"metadata": {"finalizers": None}}).expect(200)


def test_another_uid_is_refused(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    status = bind(api, uid="00000000-0000-0000-0000-000000000000").refused(409, "Conflict")
    assert "Precondition failed: UID in precondition" in status["message"]


def test_stale_version_is_refused(api: Api) -> None:
    old = api.create(PODS, pod("a")).expect(201)["metadata"]["resourceVersion"]
    api.patch(PODS, "a", {"metadata": {"labels": {"x": "y"}}}).expect(200)
    bind(api, resourceVersion=old).refused(409, "Conflict")
    assert "nodeName" not in api.get(PODS, "a").expect(200)["spec"]


def test_unknown_pod_is_not_found(api: Api) -> None:
    bind(api, "absent").refused(404, "NotFound")


BAD_TARGETS: list[tuple[str, Obj]] = [
    ("another kind", {"kind": "Pod", "name": "node-1"}),
    ("no name", {"kind": "Node"}),
]


@pytest.mark.parametrize("target", [pytest.param(target, id=name) for name, target in BAD_TARGETS])
def test_bad_target_is_refused(api: Api, target: Obj) -> None:
    api.create(PODS, pod("a")).expect(201)
    assert bind(api, target=target).status in (400, 422, 500)
    assert "nodeName" not in api.get(PODS, "a").expect(200)["spec"]


def test_name_that_contradicts_the_path_is_refused(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    body = {"metadata": {"name": "b"}, "target": {"kind": "Node", "name": IDLE}}
    api.create(PODS, body, "binding", "a").refused(400, "BadRequest")


def test_failed_binding_merges_nothing(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    bind(api, uid="00000000-0000-0000-0000-000000000000", annotations={"x": "y"}).refused(409, "Conflict")
    assert "annotations" not in api.get(PODS, "a").expect(200)["metadata"]
