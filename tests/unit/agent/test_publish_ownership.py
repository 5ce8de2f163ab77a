"""The Node's managedFields tell whether anything has to be applied."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.agent.publish.ownership import Held, apply_body, held, is_current, managers
from kubenexus.agent.publish.wanted import Share

ME = "me"


def node(
    labels: dict[str, str] | None = None,
    own: list[str] | None = None,
    *,
    annotations: dict[str, str] | None = None,
    notes: list[str] | None = None,
    operation: str = "Apply",
    subresource: str | None = None,
) -> dict[str, Any]:
    """A Node with these labels and annotations, of which `me` holds those in `own` and `notes`."""
    fields: dict[str, Any] = {
        "f:labels": {".": {}, **{f"f:{key}": {} for key in own or ()}},
        "f:annotations": {f"f:{key}": {} for key in notes or ()},
    }
    entry: dict[str, Any] = {"manager": ME, "operation": operation, "fieldsV1": {"f:metadata": fields}}
    if subresource:
        entry["subresource"] = subresource
    foreign = {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:host": {}}}}}
    metadata = {"name": "n", "uid": "u", "managedFields": [foreign, entry]}
    return {"metadata": {**metadata, "labels": {"host": "h", **(labels or {})}, "annotations": annotations or {}}}


@pytest.mark.parametrize(
    ("live", "labels", "annotations", "current"),
    [
        pytest.param(node({"a": "1"}, ["a"]), {"a": "1"}, {}, True, id="as wanted"),
        pytest.param(node({"a": "2"}, ["a"]), {"a": "1"}, {}, False, id="another value"),
        pytest.param(node({}, ["a"]), {"a": "1"}, {}, False, id="removed by somebody"),
        pytest.param(node({"a": "1"}), {"a": "1"}, {}, False, id="written by hand: not ours yet"),
        pytest.param(node({"a": "1", "b": "1"}, ["a", "b"]), {"a": "1"}, {}, False, id="one is no longer wanted"),
        pytest.param(node({"a": "1"}, ["a"]), {}, {}, False, id="none is wanted any more"),
        pytest.param(node(), {}, {}, True, id="none is wanted and there is none"),
        pytest.param(node({"a": "1"}, ["a"], operation="Update"), {"a": "1"}, {}, False, id="held by update only"),
        pytest.param(node({"a": "1"}, ["a"], subresource="status"), {"a": "1"}, {}, False, id="held in status only"),
        pytest.param(node(annotations={"n": "1"}, notes=["n"]), {}, {"n": "1"}, True, id="annotation as wanted"),
        pytest.param(node(annotations={"n": "1"}, notes=["n"]), {}, {"n": "2"}, False, id="another annotation"),
        pytest.param({"metadata": {"name": "n", "uid": "u"}}, {"a": "1"}, {}, False, id="a bare Node"),
        pytest.param({"metadata": {"name": "n", "uid": "u"}}, {}, {}, True, id="a bare Node, nothing wanted"),
    ],
)
def test_current(live: dict[str, Any], labels: dict[str, str], annotations: dict[str, str], current: bool) -> None:
    assert is_current(live, Share(ME, labels, annotations)) is current


def test_held_and_managers() -> None:
    live = node({"a": "1"}, ["a"], annotations={"n": "1"}, notes=["n"])
    assert held(live, ME) == Held(frozenset(["a"]), frozenset(["n"]))
    assert not held(live, "kubelet")
    assert managers(live) == {ME, "kubelet"}


def test_the_body_names_the_node_by_uid_and_nothing_that_is_empty() -> None:
    assert apply_body(node(), Share(ME, {"a": "1"}, {})) == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "uid": "u", "labels": {"a": "1"}},
    }
    assert apply_body(node(), Share(ME, {}, {}))["metadata"] == {"name": "n", "uid": "u"}
