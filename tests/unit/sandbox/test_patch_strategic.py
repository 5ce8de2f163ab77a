"""Strategic merge patch. The outcomes were compared with Kubernetes 1.36.4."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubenexus.common.sandbox.patch import PatchError, strategic_patch

Obj = dict[str, Any]

POD: Obj = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "finalizers": ["a/1", "a/2"]},
    "spec": {
        "containers": [
            {"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}], "ports": [{"containerPort": 80}]},
            {"name": "b", "image": "y"},
        ],
        "tolerations": [{"key": "k"}],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
        "nodeSelector": {"zone": "1", "disk": "ssd"},
    },
}


def spec(**fields: Any) -> Obj:
    return {"spec": fields}


def names(pod: Obj, field: str = "containers") -> list[str]:
    return [item["name"] for item in pod["spec"][field]]


def patched(patch: Obj) -> Obj:
    before = copy.deepcopy(POD)
    after = strategic_patch("Pod", before, patch)
    assert before == POD
    return after


def test_items_merge_by_their_key() -> None:
    pod = patched(spec(containers=[{"name": "a", "image": "z", "env": [{"name": "F", "value": "2"}]}]))
    container = pod["spec"]["containers"][0]
    assert (container["name"], container["image"], container["ports"]) == ("a", "z", [{"containerPort": 80}])
    assert container["env"] == [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]


ORDERS: list[tuple[str, Obj, list[str]]] = [
    ("what is new comes first", spec(containers=[{"name": "c"}]), ["c", "a", "b"]),
    ("what is known keeps its place", spec(containers=[{"name": "b"}]), ["a", "b"]),
    ("the patch orders what it names", spec(containers=[{"name": "b"}, {"name": "a"}]), ["b", "a"]),
    ("new ones stand where the patch has them", spec(containers=[{"name": "a"}, {"name": "c"}]), ["a", "c", "b"]),
    ("an order", spec(**{"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}), ["b", "a"]),
    (
        "an order with a new one",
        spec(containers=[{"name": "c"}], **{"$setElementOrder/containers": [{"name": n} for n in "bca"]}),
        ["b", "c", "a"],
    ),
    ("delete one", spec(containers=[{"$patch": "delete", "name": "a"}]), ["b"]),
    ("delete one that is not there", spec(containers=[{"$patch": "delete", "name": "z"}]), ["a", "b"]),
    ("replace the list", spec(containers=[{"$patch": "replace"}, {"name": "n"}]), ["n"]),
    ("replace by nothing", spec(containers=[{"$patch": "replace"}]), []),
]


@pytest.mark.parametrize(("patch", "order"), [row[1:] for row in ORDERS], ids=[row[0] for row in ORDERS])
def test_order_of_a_keyed_list(patch: Obj, order: list[str]) -> None:
    assert names(patched(patch)) == order


FIELDS: list[tuple[str, Obj, str, Any]] = [
    ("a list without key is replaced", spec(tolerations=[{"key": "x"}]), "tolerations", [{"key": "x"}]),
    ("null deletes", spec(nodeSelector={"zone": None, "rack": "7"}), "nodeSelector", {"disk": "ssd", "rack": "7"}),
    ("replace a map", spec(nodeSelector={"$patch": "replace", "a": "b"}), "nodeSelector", {"a": "b"}),
    ("empty a map", spec(nodeSelector={"$patch": "delete"}), "nodeSelector", {}),
    ("nulls in something new are dropped", spec(affinity={"a": None, "b": {"c": None}}), "affinity", {"b": {}}),
    (
        "retain keys",
        spec(volumes=[{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]),
        "volumes",
        [{"name": "v", "configMap": {"name": "c"}}],
    ),
    (
        "a volume without retain keys keeps both sources",
        spec(volumes=[{"name": "v", "configMap": {"name": "c"}}]),
        "volumes",
        [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}, "configMap": {"name": "c"}}],
    ),
]


@pytest.mark.parametrize(("patch", "field", "value"), [row[1:] for row in FIELDS], ids=[row[0] for row in FIELDS])
def test_fields(patch: Obj, field: str, value: Any) -> None:
    assert patched(patch)["spec"][field] == value


FINALIZERS: list[tuple[str, Obj, list[str]]] = [
    ("scalars are a set", {"finalizers": ["a/2", "a/3"]}, ["a/1", "a/2", "a/3"]),
    ("delete from it", {"$deleteFromPrimitiveList/finalizers": ["a/1", "a/9"]}, ["a/2"]),
    ("order it", {"$setElementOrder/finalizers": ["a/2", "a/1"]}, ["a/2", "a/1"]),
]


@pytest.mark.parametrize(("patch", "value"), [row[1:] for row in FINALIZERS], ids=[row[0] for row in FINALIZERS])
def test_a_list_of_scalars(patch: Obj, value: list[str]) -> None:
    assert patched({"metadata": patch})["metadata"]["finalizers"] == value


KEYED: list[tuple[str, str, str, Obj, Obj]] = [
    ("taints are replaced", "Node", "v1", {"spec": {"taints": [{"key": "a"}]}}, {"spec": {"taints": [{"key": "b"}]}}),
    (
        "the selector is replaced",
        "PodDisruptionBudget",
        "policy/v1",
        {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
        {"spec": {"selector": {"matchLabels": {"c": "d"}}}},
    ),
]


@pytest.mark.parametrize(
    ("kind", "version", "before", "patch"), [row[1:] for row in KEYED], ids=[row[0] for row in KEYED]
)
def test_what_other_kinds_replace(kind: str, version: str, before: Obj, patch: Obj) -> None:
    assert strategic_patch(kind, {"apiVersion": version, **before}, patch)["spec"] == patch["spec"]


CONDITIONS: list[tuple[str, str]] = [
    ("Node", "v1"),
    ("Pod", "v1"),
    ("Job", "batch/v1"),
    ("Deployment", "apps/v1"),
    ("PodDisruptionBudget", "policy/v1"),
]


@pytest.mark.parametrize(("kind", "version"), CONDITIONS, ids=[row[0] for row in CONDITIONS])
def test_conditions_merge_by_type(kind: str, version: str) -> None:
    before = {"apiVersion": version, "status": {"conditions": [{"type": "A", "status": "True", "reason": "r"}]}}
    after = strategic_patch(kind, before, {"status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B"}]}})
    assert after["status"]["conditions"] == [{"type": "A", "status": "False", "reason": "r"}, {"type": "B"}]


REFUSED: list[tuple[str, Obj, str]] = [
    (
        "no merge key",
        spec(containers=[{"image": "x"}]),
        'map: {"image": "x"} does not contain declared merge key: name',
    ),
    ("unknown directive", spec(nodeSelector={"$patch": "frob"}), "unknown patch type: frob in map: {}"),
    ("merge of a list item", spec(containers=[{"$patch": "merge", "name": "a"}]), "unknown patch type: merge"),
    ("retain keys that leave out a field", spec(nodeSelector={"$retainKeys": ["a"], "b": "c"}), "retainKeys"),
    ("an order that is no list", spec(**{"$setElementOrder/containers": "a"}), "a list is needed"),
]


@pytest.mark.parametrize(("patch", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_malformed(patch: Obj, why: str) -> None:
    with pytest.raises(PatchError) as refused:
        patched(patch)
    assert refused.value.code == 400
    assert why in refused.value.message


@pytest.mark.parametrize("kind", ["Widget", "Job"])
def test_custom_resources_have_no_strategic_patch(kind: str) -> None:
    with pytest.raises(PatchError) as refused:
        strategic_patch(kind, {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": kind}, {})
    assert refused.value.code == 415
