"""Server-side apply and field ownership. The outcomes were compared with Kubernetes 1.36.4."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubenexus.common.sandbox.patch import ApplyConflict, PatchError, apply_patch, track_update

Obj = dict[str, Any]


def node(**meta: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", **meta}}


def labels(**values: str) -> Obj:
    return node(labels=values)


class Story:
    """One object and the writes to it; each has its own second."""

    def __init__(self, kind: str = "Node") -> None:
        self.kind = kind
        self.seconds = 0
        self.obj: Obj | None = None

    def now(self) -> str:
        self.seconds += 1
        return f"2026-01-01T00:00:{self.seconds:02d}Z"

    def apply(self, manager: str, config: Obj, force: bool = False, subresource: str = "") -> Obj:
        before, given = copy.deepcopy(self.obj), copy.deepcopy(config)
        after = apply_patch(self.kind, self.obj, config, manager, force, self.now(), subresource)
        assert (self.obj, config) == (before, given)
        self.obj = after
        return after

    def update(self, manager: str, new: Obj, subresource: str = "") -> Obj:
        before, given = copy.deepcopy(self.obj), copy.deepcopy(new)
        after = track_update(self.kind, self.obj, new, manager, self.now(), subresource)
        assert (self.obj, new) == (before, given)
        self.obj = after
        return after

    @property
    def labels(self) -> Obj:
        assert self.obj is not None
        found: Obj = self.obj["metadata"].get("labels", {})
        return found

    @property
    def owners(self) -> dict[str, set[str]]:
        """Who owns which fields, as dotted paths."""
        assert self.obj is not None
        entries = self.obj["metadata"].get("managedFields", [])
        return {_who(entry): set(_paths(entry["fieldsV1"])) for entry in entries}


def _who(entry: Obj) -> str:
    return "/".join(filter(None, (entry["manager"], entry["operation"], entry.get("subresource"))))


def _paths(tree: Obj, above: str = "") -> list[str]:
    found = []
    for element, below in tree.items():
        if element == ".":
            found.append(above)
        elif not below:
            found.append(f"{above}.{element[2:]}")
        else:
            found += _paths(below, f"{above}.{element[2:]}")
    return found


def test_two_managers_own_their_own_labels() -> None:
    story = Story()
    story.update("kubelet", labels(host="h"))
    story.apply("agent", labels(gpu="8", numa="2"))
    story.apply("operator", labels(driver="550"))
    story.apply("agent", labels(gpu="4"))
    assert story.labels == {"host": "h", "gpu": "4", "driver": "550"}
    assert story.owners == {
        "agent/Apply": {".metadata.labels.gpu"},
        "operator/Apply": {".metadata.labels.driver"},
        "kubelet/Update": {".metadata.labels", ".metadata.labels.host"},
    }


def test_what_the_last_owner_drops_is_removed() -> None:
    story = Story()
    story.apply("a", labels(x="1", y="1"))
    story.apply("b", labels(x="1"))
    story.apply("a", labels())
    assert story.labels == {"x": "1"}
    story.apply("b", node())
    assert story.labels == {}


def test_the_same_value_is_shared_and_another_conflicts() -> None:
    story = Story()
    story.apply("a", labels(x="1"))
    story.apply("b", labels(x="1", y="1"))
    with pytest.raises(ApplyConflict) as refused:
        story.apply("a", labels(x="2"))
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "b": .metadata.labels.x'
    assert refused.value.causes == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "b"', "field": ".metadata.labels.x"}
    ]


def test_conflicts_are_listed_by_manager() -> None:
    story = Story()
    story.update("kubectl", labels(x="1"))
    story.apply("b", node(labels={"x": "1", "y": "1"}, annotations={"n": "1"}))
    with pytest.raises(ApplyConflict) as refused:
        story.apply("a", node(labels={"x": "2", "y": "2"}, annotations={"n": "2"}))
    assert refused.value.message == (
        'Apply failed with 4 conflicts: conflicts with "b":\n- .metadata.annotations.n\n- .metadata.labels.x\n'
        '- .metadata.labels.y\nconflicts with "kubectl" using v1:\n- .metadata.labels.x'
    )


def test_force_takes_over() -> None:
    story = Story()
    story.apply("b", labels(x="1", y="1"))
    story.apply("a", labels(x="2"), force=True)
    assert story.labels == {"x": "2", "y": "1"}
    assert story.owners == {"a/Apply": {".metadata.labels.x"}, "b/Apply": {".metadata.labels.y"}}


def test_a_manager_with_nothing_left_vanishes() -> None:
    story = Story()
    story.apply("b", labels(x="1"))
    story.apply("a", labels(x="2"), force=True)
    assert set(story.owners) == {"a/Apply"}
    story.apply("a", node())
    assert story.owners == {}


def test_apply_without_change_changes_nothing() -> None:
    story = Story()
    first = story.apply("a", labels(x="1"))
    assert story.apply("a", labels(x="1")) == first


def test_what_the_server_sets_comes_from_the_live_object() -> None:
    story = Story()
    story.update("x", node(uid="1", resourceVersion="7", creationTimestamp="2026-01-01T00:00:00Z", generation=3))
    after = story.apply("a", node(resourceVersion="5", creationTimestamp=None, labels={"x": "1"}))
    meta = {name: value for name, value in after["metadata"].items() if name not in ("managedFields", "labels")}
    assert meta == {
        "name": "n", "uid": "1", "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3
    }  # fmt: skip
    assert story.owners == {"a/Apply": {".metadata.labels.x"}}


def test_an_update_moves_ownership_of_what_it_changes() -> None:
    story = Story()
    story.apply("a", labels(x="1", y="1"))
    story.update("kubectl", labels(x="2", y="1"))
    assert story.owners == {"a/Apply": {".metadata.labels.y"}, "kubectl/Update": {".metadata.labels.x"}}
    story.update("other", labels(y="1"))
    assert story.owners == {"a/Apply": {".metadata.labels.y"}}


def test_an_update_without_change_keeps_all_times() -> None:
    story = Story()
    story.update("a", labels(x="1"))
    before = copy.deepcopy(story.obj)
    assert before is not None
    assert story.update("b", before) == before


def test_status_is_tracked_apart() -> None:
    story = Story()
    story.apply("agent", labels(x="1"))
    assert story.obj is not None
    status = {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}
    story.update("kubelet", {**story.obj, "status": status, "spec": {"providerID": "not stored"}}, "status")
    config = {"status": {"conditions": [{"type": "Gpu", "status": "True"}]}}
    story.apply("agent", {**node(), **config}, subresource="status")
    assert story.owners == {
        "agent/Apply": {".metadata.labels.x"},
        "agent/Apply/status": {
            '.status.conditions.{"type":"Gpu"}',
            '.status.conditions.{"type":"Gpu"}.type',
            '.status.conditions.{"type":"Gpu"}.status',
        },
        "kubelet/Update/status": {
            ".status.capacity",
            ".status.capacity.cpu",
            ".status.conditions",
            '.status.conditions.{"type":"Ready"}',
            '.status.conditions.{"type":"Ready"}.type',
            '.status.conditions.{"type":"Ready"}.status',
        },
    }


def test_status_in_a_write_to_the_object_is_not_owned() -> None:
    story = Story()
    story.apply("a", {**labels(x="1"), "status": {"capacity": {"cpu": "4"}}})
    assert story.owners == {"a/Apply": {".metadata.labels.x"}}


def test_an_empty_map_is_owned_itself() -> None:
    story = Story()
    story.apply("a", labels())
    with pytest.raises(ApplyConflict, match=r'conflict with "a": \.metadata\.labels$'):
        story.apply("b", labels(x="1"))


def test_atomic_lists_belong_to_one() -> None:
    story = Story()
    story.update("cloud", {**node(), "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    with pytest.raises(ApplyConflict, match=r"\.spec\.taints"):
        story.apply("agent", {**node(), "spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}})


def test_sets_are_shared_item_by_item() -> None:
    story = Story()
    story.apply("a", node(finalizers=["x/1"]))
    story.apply("b", node(finalizers=["x/2", "x/1"]))
    story.apply("a", node())
    assert story.obj is not None
    assert story.obj["metadata"]["finalizers"] == ["x/2", "x/1"]
    assert story.owners == {"b/Apply": {'.metadata.finalizers."x/1"', '.metadata.finalizers."x/2"'}}


def deployment(*containers: Obj, **spec: Any) -> Obj:
    template = {"spec": {"containers": list(containers)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {**spec, "template": template},
    }


def test_keyed_lists_merge_and_shrink() -> None:
    story = Story("Deployment")
    story.apply("app", deployment({"name": "main", "image": "i"}, replicas=1))
    story.apply(
        "mesh", deployment({"name": "proxy", "image": "p"}, {"name": "main", "env": [{"name": "P", "value": "1"}]})
    )
    assert story.obj is not None
    assert story.obj["spec"]["template"]["spec"]["containers"] == [
        {"name": "proxy", "image": "p"},
        {"name": "main", "image": "i", "env": [{"name": "P", "value": "1"}]},
    ]
    story.apply("mesh", deployment())
    assert story.obj["spec"]["template"]["spec"]["containers"] == [{"name": "main", "image": "i"}]


def test_a_key_with_a_default_need_not_be_said() -> None:
    story = Story("Deployment")
    story.update("x", deployment({"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}]}))
    story.apply("a", deployment({"name": "c", "ports": [{"containerPort": 80, "name": "http"}]}))
    assert story.obj is not None
    (container,) = story.obj["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP", "name": "http"}]


def test_items_with_the_same_key_are_refused() -> None:
    with pytest.raises(PatchError, match=r'duplicate entries for key \[name="c"\]'):
        Story("Deployment").apply("a", deployment({"name": "c"}, {"name": "c"}))


def test_an_item_without_its_key_is_refused() -> None:
    with pytest.raises(PatchError, match="none of the fields that identify it: name"):
        Story("Deployment").apply("a", deployment({"image": "i"}))


def test_the_creator_owns_what_it_wrote_and_not_what_every_object_has() -> None:
    story = Story("Deployment")
    story.update("kubectl", deployment({"name": "c"}, selector={"matchLabels": {"a": "b"}}))
    assert story.owners == {
        "kubectl/Update": {
            ".spec.selector",
            '.spec.template.spec.containers.{"name":"c"}',
            '.spec.template.spec.containers.{"name":"c"}.name',
        }
    }


def widget(**spec: Any) -> Obj:
    return {"apiVersion": "t.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def test_custom_resources_have_granular_maps_and_atomic_lists() -> None:
    story = Story("Widget")
    story.apply("a", widget(map={"x": 1}, items=[{"name": "a"}]))
    story.apply("b", widget(map={"y": 1}))
    assert story.owners == {"a/Apply": {".spec.map.x", ".spec.items"}, "b/Apply": {".spec.map.y"}}
    with pytest.raises(ApplyConflict, match=r"\.spec\.items"):
        story.apply("b", widget(items=[{"name": "b"}]))


def test_an_untracked_object_belongs_to_those_before_the_first_apply() -> None:
    story = Story()
    story.obj = node(uid="1", labels={"x": "1", "y": "1"})
    with pytest.raises(ApplyConflict, match=r'"before-first-apply" using v1: \.metadata\.labels\.x'):
        story.apply("a", labels(x="2"))
    story.apply("a", labels(x="1"))
    assert story.owners["before-first-apply/Update"] == {
        ".metadata.labels",
        ".metadata.labels.x",
        ".metadata.labels.y",
    }


@pytest.mark.parametrize("reset", [[], [{}]], ids=["empty list", "empty entry"])
def test_an_empty_list_of_managers_ends_the_tracking(reset: list[Obj]) -> None:
    story = Story()
    story.apply("a", labels(x="1"))
    assert "managedFields" not in story.update("b", node(labels={"x": "1"}, managedFields=reset))["metadata"]
    story.update("c", labels(x="2"))
    assert story.owners == {}


def test_managers_are_nothing_to_apply() -> None:
    with pytest.raises(PatchError, match=r"metadata.managedFields must be nil") as refused:
        Story().apply("a", node(managedFields=[]))
    assert refused.value.code == 400


def test_malformed_managers_in_an_update_do_not_count() -> None:
    story = Story()
    story.apply("a", labels(x="1"))
    story.update("b", node(labels={"x": "1"}, managedFields=[{"manager": "evil", "operation": "Frob"}]))
    assert set(story.owners) == {"a/Apply"}
