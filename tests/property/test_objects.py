"""Projections under any JSON, and under churn."""

from __future__ import annotations

import copy
import gc
import json
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common import vocabulary
from kubenexus.common.objects import (
    ProjectionError,
    project_csi_driver,
    project_csi_node,
    project_csi_storage_capacity,
    project_namespace,
    project_node,
    project_persistent_volume,
    project_persistent_volume_claim,
    project_pod,
    project_pod_disruption_budget,
    project_priority_class,
    project_resource_claim,
    project_resource_slice,
    project_storage_class,
    project_volume_attachment,
)
from kubenexus.common.objects.interning import share
from tests import builders

Obj = dict[str, Any]
Project = Callable[[Obj], Any]
Path = tuple[str | int, ...]

wild: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1Gi", "In", "-1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

TERM = {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}], "matchFields": [
    {"key": "metadata.name", "operator": "In", "values": ["n"]}]}  # fmt: skip
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
POD_TERM = {"topologyKey": "zone", "labelSelector": SELECTOR, "namespaces": ["x"], "namespaceSelector": {}}
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))

POD = (
    builders.pod("a")
    .guaranteed(1, "1Gi")
    .gpu(1)
    .gang("g", 2)
    .owner("Job", "j")
    .annotation("kueue.x-k8s.io/pod-group-name", "g")
    .init(cpu="1")
    .sidecar(memory="1Gi")
    .node("n1")
    .gate("wait")
    .tolerate("x")
    .select(a="b")
    .host_port(80)
    .claim("data")
    .condition("PodScheduled", "True")
    .append("spec.volumes", {"name": "r", "rbd": {"image": "i", "monitors": ["m"]}})
    .append("spec.volumes", {"name": "e", "ephemeral": {}})
    .append("spec.volumes", {"name": "i", "image": {"reference": "x"}})
    .append("spec.resourceClaims", {"name": "c", "resourceClaimTemplateName": "t"})
    .append("status.resourceClaimStatuses", {"name": "c", "resourceClaimName": "a-c"})
    .append("spec.topologySpreadConstraints", {"topologyKey": "zone", "maxSkew": 1, "labelSelector": SELECTOR})
    .set("spec.overhead", {"cpu": "1m"})
    .set("spec.resources", {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}})
    .set(f"spec.affinity.nodeAffinity.{REQUIRED}", {"nodeSelectorTerms": [TERM]})
    .set(f"spec.affinity.nodeAffinity.{PREFERRED}", [{"weight": 1, "preference": TERM}])
    .set(f"spec.affinity.podAffinity.{REQUIRED}", [POD_TERM])
    .set(f"spec.affinity.podAntiAffinity.{PREFERRED}", [{"weight": 1, "podAffinityTerm": POD_TERM}])
    .append("status.containerStatuses", {"name": "main", "resources": {"requests": {"cpu": "1"}}})
    .set("status.startTime", builders.CREATED)
    .build()
)
NODE = builders.node("n").capacity(cpu=1, gpu=8).taint("x").image("i", 1).set("status.declaredFeatures", ["A"]).build()
CLAIM = (
    builders.Builder("v1", "PersistentVolumeClaim", "c", "x")
    .set("spec", {"accessModes": ["A"], "resources": {"requests": {"storage": "1"}}, "selector": SELECTOR})
    .annotation("volume.kubernetes.io/selected-node", "n")
    .build()
)
VOLUME = (
    builders.Builder("v1", "PersistentVolume", "v")
    .set("spec", {"capacity": {"storage": "1"}, "csi": {"driver": "d"}, "claimRef": {"name": "c"}})
    .set("spec.nodeAffinity", {"required": {"nodeSelectorTerms": [TERM]}})
    .build()
)
SLICE = builders.resource_slice("s", "d", "n").device("a", capacity={"m": "1"}, index=1, name_="x").build()
DEVICES = {
    "requests": [{"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"cel": {"expression": "true"}}]}},
                 {"name": "f", "firstAvailable": [{"name": "s", "capacity": {"requests": {"m": "1"}}}]}],
    "constraints": [{"requests": ["r"], "matchAttribute": "d/x"}],
}  # fmt: skip
RESOURCE_CLAIM = (
    builders.Builder("resource.k8s.io/v1", "ResourceClaim", "c", "x")
    .set("spec.devices", DEVICES)
    .set(
        "status.allocation", {"devices": {"results": [{"device": "a"}]}, "nodeSelector": {"nodeSelectorTerms": [TERM]}}
    )
    .set("status.reservedFor", [{"resource": "pods", "name": "a", "uid": "u"}])
    .build()
)
KINDS: dict[str, tuple[Project, Obj]] = {
    "Pod": (project_pod, POD),
    "Node": (project_node, NODE),
    "Namespace": (project_namespace, builders.namespace("x").build()),
    "PriorityClass": (project_priority_class, builders.Builder("", "PriorityClass", "p").set("value", 1).build()),
    "PodDisruptionBudget": (
        project_pod_disruption_budget,
        builders.Builder("", "PodDisruptionBudget", "b", "x").set("spec.selector", SELECTOR).build(),
    ),
    "PersistentVolumeClaim": (project_persistent_volume_claim, CLAIM),
    "PersistentVolume": (project_persistent_volume, VOLUME),
    "StorageClass": (
        project_storage_class,
        builders.Builder("", "StorageClass", "s")
        .set("allowedTopologies", [{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}])
        .build(),
    ),
    "CSINode": (
        project_csi_node,
        builders.Builder("", "CSINode", "n").set("spec.drivers", [{"name": "d", "allocatable": {"count": 1}}]).build(),
    ),
    "CSIDriver": (
        project_csi_driver,
        builders.Builder("", "CSIDriver", "d").set("spec", {"storageCapacity": True}).build(),
    ),
    "CSIStorageCapacity": (
        project_csi_storage_capacity,
        builders.Builder("", "CSIStorageCapacity", "c", "x")
        .set("nodeTopology", SELECTOR)
        .set("capacity", "1Gi")
        .set("maximumVolumeSize", "1Gi")
        .build(),
    ),
    "VolumeAttachment": (
        project_volume_attachment,
        builders.Builder("", "VolumeAttachment", "v")
        .set("spec", {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}})
        .build(),
    ),
    "ResourceSlice": (project_resource_slice, SLICE),
    "ResourceClaim": (project_resource_claim, RESOURCE_CLAIM),
}


def paths(value: object, at: Path = ()) -> Iterator[Path]:
    """Where something stands in a JSON value."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*at, key))


def replaced(value: Any, path: Path, new: Any) -> Any:
    """A copy with another value at one place."""
    if not path:
        return new
    changed = copy.copy(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], new)
    return changed


@pytest.mark.parametrize(("project", "raw"), KINDS.values(), ids=KINDS)
def test_the_samples_are_without_problems(project: Project, raw: Obj) -> None:
    assert project(raw).problems == ()


@pytest.mark.parametrize(("project", "raw"), KINDS.values(), ids=KINDS)
@given(data=st.data())
def test_one_wild_value_gives_a_view_or_the_one_typed_error(project: Project, raw: Obj, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(paths(raw))))
    broken = replaced(raw, path, data.draw(wild))
    before = repr(broken)
    try:
        view = project(broken)
    except ProjectionError:
        assert path in ((), ("metadata",), ("metadata", "name"))
    else:
        if len(path) > 2:
            assert view.key == project(raw).key
        assert all(type(problem) is str for problem in view.problems)
        assert repr(project(broken)) == repr(view)
    assert repr(broken) == before


@given(
    kind=st.sampled_from(list(KINDS)),
    meta=st.fixed_dictionaries({"name": st.just("x")}, optional={"labels": wild, "annotations": wild, "uid": wild}),
    rest=st.fixed_dictionaries({}, optional={"spec": wild, "status": wild}),
)
def test_wild_objects_with_a_name_always_have_a_view(kind: str, meta: Obj, rest: Obj) -> None:
    project, _ = KINDS[kind]
    assert project({"metadata": meta, **rest}).key in ("x", "default/x")


@given(path=st.sampled_from(sorted(paths(POD["spec"]), key=str)), new=wild)
def test_sharing_never_changes_what_is_read(path: Path, new: Any) -> None:
    changed = {**POD, "spec": replaced(POD["spec"], path, new)}
    alone = repr(project_pod(changed))
    neighbour = project_pod(POD)
    assert repr(project_pod(changed)) == alone
    assert neighbour == project_pod(POD)


def test_deep_nesting_is_survived() -> None:
    deep = orjson.loads("[" * 900 + "]" * 900)
    assert project_pod({"metadata": {"name": "a"}, "spec": {"affinity": {"x": deep}}}).problems == ()


def test_what_no_json_text_can_hold_is_survived() -> None:
    odd = json.loads('{"image": "\\ud800", "resources": {"requests": {"cpu": 123456789012345678901234567890}}}')
    view = project_pod({"metadata": {"name": "a"}, "spec": {"containers": [odd]}})
    assert view.spec.requests["cpu"] == 2**63 - 1


def test_nothing_stays_behind_when_a_pod_is_gone() -> None:
    status = {"name": "main", "resources": {"requests": {"cpu": "3013m"}}}
    # Pods that are alike share what they have, and other tests keep theirs: no other asks for so much.
    raw = builders.pod("once").label("only", "here").cpu("2013m").append("status.containerStatuses", status)
    view = project_pod(raw.annotation(vocabulary.GANG_TIMEOUT, "7m").build())
    parts = (view.spec, view.spec.needs, view.usage, view.labels, view.annotations)
    left = [weakref.ref(part) for part in parts]
    del view, parts
    gc.collect()
    assert [ref() for ref in left] == [None] * len(left)


def test_shared_texts_are_forgotten_in_time() -> None:
    first, again = ("".join(["nobody else ", "shares this"]) for _ in range(2))
    assert share(first) is share(again) is first
    for number in range(100_000):
        share(f"text-{number}")
    assert share(again) is again
