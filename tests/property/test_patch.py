"""What holds for all patches, whatever is in them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubenexus.common.sandbox.patch import (
    ApplyConflict,
    apply_patch,
    json_patch,
    merge_patch,
    strategic_patch,
    track_update,
)

Obj = dict[str, Any]

NAMES = st.sampled_from("abcd")
SCALARS = st.integers(0, 2) | st.sampled_from(["x", "y"]) | st.booleans()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)
LABELS = st.dictionaries(NAMES, st.sampled_from("12"), min_size=1, max_size=4)
# The machine may be busy, and what is rare here is rare in the first examples too.
QUICK = settings(deadline=None, max_examples=60)
MANAGERS = st.sampled_from(["m1", "m2", "m3"])


@st.composite
def pods(draw: st.DrawFn) -> Obj:
    names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=3))
    variables = st.lists(NAMES, unique=True, max_size=2)
    containers = [
        {
            "name": name,
            "image": draw(st.sampled_from("12")),
            "env": [{"name": one, "value": "v"} for one in draw(variables)],
        }
        for name in names
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": draw(LABELS)},
        "spec": {"containers": containers},
    }


@st.composite
def writes(draw: st.DrawFn) -> list[tuple[str, Obj, bool]]:
    """Appliers and the configurations they apply, one after another."""
    return draw(st.lists(st.tuples(MANAGERS, pods(), st.booleans()), min_size=1, max_size=6))


def run(steps: list[tuple[str, Obj, bool]]) -> Obj | None:
    """The object after these applies; refused ones are left out."""
    obj: Obj | None = None
    for number, (manager, config, force) in enumerate(steps):
        try:
            obj = apply_patch("Pod", obj, config, manager, force, f"2026-01-01T00:00:{number:02d}Z")
        except ApplyConflict:
            continue
    return obj


@QUICK
@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_idempotent_and_leaves_its_arguments_alone(obj: Obj, patch: Obj) -> None:
    before, given_patch = copy.deepcopy(obj), copy.deepcopy(patch)
    once = merge_patch(obj, patch)
    assert merge_patch(once, patch) == once
    assert (obj, patch) == (before, given_patch)


@QUICK
@given(OBJECTS, OBJECTS)
def test_there_is_a_merge_patch_to_everything(old: Obj, new: Obj) -> None:
    patch = {**dict.fromkeys(old), **new}
    wiped = merge_patch(old, dict.fromkeys(old))
    assert merge_patch(wiped, patch) == new


@QUICK
@given(OBJECTS, NAMES, VALUES)
def test_what_a_json_patch_adds_it_can_remove(obj: Obj, name: str, value: Any) -> None:
    path = f"/new{name}"
    added = json_patch(obj, [{"op": "add", "path": path, "value": value}, {"op": "test", "path": path, "value": value}])
    assert json_patch(added, [{"op": "remove", "path": path}]) == obj


@QUICK
@given(pods(), pods())
def test_a_strategic_patch_is_idempotent_and_gives_what_it_says(pod: Obj, patch: Obj) -> None:
    once = strategic_patch("Pod", pod, patch)
    assert strategic_patch("Pod", once, patch) == once
    images = {container["name"]: container["image"] for container in once["spec"]["containers"]}
    wanted = {container["name"]: container["image"] for container in patch["spec"]["containers"]}
    kept = {container["name"]: container["image"] for container in pod["spec"]["containers"]}
    assert images == {**kept, **wanted}


@QUICK
@given(pods(), pods())
def test_deleting_every_item_but_the_patch_s_own_replaces_the_list(pod: Obj, patch: Obj) -> None:
    wanted = [container["name"] for container in patch["spec"]["containers"]]
    gone = [one["name"] for one in pod["spec"]["containers"] if one["name"] not in wanted]
    items = [*patch["spec"]["containers"], *({"$patch": "delete", "name": name} for name in gone)]
    order = [{"name": name} for name in wanted]
    after = strategic_patch("Pod", pod, {"spec": {"containers": items, "$setElementOrder/containers": order}})
    assert [container["name"] for container in after["spec"]["containers"]] == wanted


@QUICK
@given(writes())
def test_applying_the_same_again_changes_nothing(steps: list[tuple[str, Obj, bool]]) -> None:
    manager, config, _ = steps[-1]
    once = run([*steps[:-1], (manager, config, True)])
    assert once is not None
    assert apply_patch("Pod", once, config, manager, False, "2030-01-01T00:00:00Z") == once


@QUICK
@given(writes())
def test_a_forced_configuration_is_in_force(steps: list[tuple[str, Obj, bool]]) -> None:
    manager, config, _ = steps[-1]
    after = run([*steps[:-1], (manager, config, True)])
    assert after is not None
    labels = after["metadata"].get("labels", {})
    assert {name: labels.get(name) for name in config["metadata"]["labels"]} == config["metadata"]["labels"]
    images = {container["name"]: container.get("image") for container in after["spec"]["containers"]}
    for container in config["spec"]["containers"]:
        assert images[container["name"]] == container["image"]


@QUICK
@given(writes())
def test_when_everybody_lets_go_nothing_is_left(steps: list[tuple[str, Obj, bool]]) -> None:
    obj = run(steps)
    assert obj is not None
    nothing = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    for manager in ("m1", "m2", "m3"):
        obj = apply_patch("Pod", obj, nothing, manager, False, "2030-01-01T00:00:00Z")
    assert obj["metadata"] in ({"name": "p"}, {"name": "p", "labels": {}})
    assert obj.get("spec", {}) == {}


@QUICK
@given(LABELS, LABELS)
def test_managers_of_different_labels_never_meet(first: Obj, second: Obj) -> None:
    mine = {f"a.io/{name}": value for name, value in first.items()}
    theirs = {f"b.io/{name}": value for name, value in second.items()}
    obj: Obj | None = None
    for manager, labels in (("a", mine), ("b", theirs), ("a", None), ("a", mine)):
        meta = {"name": "n", "labels": labels} if labels else {"name": "n"}
        config = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
        obj = apply_patch("Node", obj, config, manager, False, "2026-01-01T00:00:00Z")
    assert obj is not None
    assert obj["metadata"].get("labels", {}) == {**mine, **theirs}


@QUICK
@given(pods(), pods())
def test_every_changed_field_has_one_owner_after_an_update(old: Obj, new: Obj) -> None:
    before = track_update("Pod", None, old, "first", "2026-01-01T00:00:00Z")
    after = track_update("Pod", before, new, "second", "2026-01-01T00:00:01Z")
    assert {**after, "metadata": {k: v for k, v in after["metadata"].items() if k != "managedFields"}} == new
    entries = {entry["manager"]: entry["fieldsV1"] for entry in after["metadata"].get("managedFields", [])}
    for name, value in new["metadata"]["labels"].items():
        owner = "first" if old["metadata"]["labels"].get(name) == value else "second"
        holders = {
            who for who, tree in entries.items() if f"f:{name}" in tree.get("f:metadata", {}).get("f:labels", {})
        }
        assert holders == {owner}
