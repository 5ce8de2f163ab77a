"""What the API server refuses, and in which words.

The cases stand in `test_validation_cases.json`: a change to a plain object of a kind, or to a stored one, and what
Kubernetes 1.36.4 answered (explanations of a grammar cut off, structs printed as `{…}`).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common.sandbox import validation
from kubenexus.common.sandbox.patch import merge_patch

Obj = dict[str, Any]

RECORDED = json.loads(Path(__file__).with_name("test_validation_cases.json").read_text(encoding="utf-8"))


def cases(key: str) -> list[Any]:
    return [pytest.param(case, id=f"{case['kind']}: {case['name']}") for case in RECORDED["cases"] if key in case]


def arrived(kind: str, patch: Obj) -> Obj:
    """The object as the server validates it: with defaults, and a Job with its generated selector."""
    obj = validation.apply_defaults(kind, merge_patch(RECORDED["plain"][kind], patch))
    if kind == "Job":
        obj["spec"]["template"].setdefault("metadata", {})["labels"] = {"job": "1"}
        obj["spec"]["selector"] = {"matchLabels": {"job": "1"}}
    return obj


def shown(errors: list[validation.FieldError]) -> list[str]:
    texts = {re.sub(r"value: [{\[].*[}\]]", "value: {…}", str(error), count=1) for error in errors}
    return sorted(text.split(" (e.g.")[0] for text in texts)


@pytest.mark.parametrize("case", cases("object"))
def test_a_new_object_is_refused_as_the_server_refuses_it(case: Obj) -> None:
    obj = arrived(case["kind"], case["object"])
    assert shown(validation.validate_create(case["kind"], obj)) == case["refusals"]


@pytest.mark.parametrize("case", cases("change"))
def test_a_change_is_refused_as_the_server_refuses_it(case: Obj) -> None:
    old = arrived(case["kind"], case["old"])
    new = validation.apply_defaults(case["kind"], merge_patch(old, case["change"]))
    assert shown(validation.validate_update(case["kind"], new, old)) == case["refusals"]


@pytest.mark.parametrize(("extra", "refused"), [(-1, False), (0, True)], ids=["at the limit", "beyond it"])
def test_annotations_have_256_kib_in_all(extra: int, refused: bool) -> None:
    node = merge_patch(RECORDED["plain"]["Node"], {"metadata": {"annotations": {"a": "x" * (256 * 1024 + extra)}}})
    assert shown(validation.validate_create("Node", node)) == (
        ["metadata.annotations: Too long: may not be more than 262144 bytes"] if refused else []
    )


def test_every_kind_here_is_valid_when_plain() -> None:
    for kind in RECORDED["plain"]:
        assert shown(validation.validate_create(kind, arrived(kind, {}))) == []


def test_a_foreign_kind_of_the_same_name_is_a_custom_resource() -> None:
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j", "labels": {"a": "b c"}}}
    assert [error.field for error in validation.validate_create("Job", job)] == ["metadata.labels"]
    assert validation.apply_defaults("Job", job) == job


WRONG_TYPES: list[tuple[str, Obj]] = [
    ("spec.containers", {"spec": {"containers": "c"}}),
    ("spec.containers[0].name", {"spec": {"containers": [{"name": 5, "image": "i"}]}}),
    ("metadata.labels[a]", {"metadata": {"labels": {"a": 1}}}),
    ("spec.nodeSelector", {"spec": {"nodeSelector": ["a"]}}),
]


@pytest.mark.parametrize(("field", "patch"), WRONG_TYPES, ids=[row[0] for row in WRONG_TYPES])
def test_a_wrong_type_is_a_refusal_and_no_crash(field: str, patch: Obj) -> None:
    errors = validation.validate_create("Pod", arrived("Pod", patch))
    assert (field, "FieldValueTypeInvalid") in {(error.field, error.reason) for error in errors}


def test_finalizers_are_not_added_to_what_is_being_deleted() -> None:
    old = merge_patch(RECORDED["plain"]["Node"], {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    new = merge_patch(old, {"metadata": {"finalizers": ["a.b/c"]}})
    (error,) = validation.validate_update("Node", new, old)
    assert (error.field, error.reason) == ("metadata.finalizers", "FieldValueForbidden")


def test_the_quality_of_service_stays() -> None:
    old = arrived("Pod", {"status": {"qosClass": "BestEffort"}})
    new = merge_patch(old, {"status": {"qosClass": "Guaranteed", "conditions": [{"type": "Bad Type"}]}})
    fields = {error.field for error in validation.validate_status("Pod", new, old)}
    assert fields == {"status.qosClass", "status.conditions[0].Type"}
