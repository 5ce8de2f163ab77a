"""resource.k8s.io against the outcomes of the real API server, case by case."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kubenexus.common.sandbox import validation
from tests.shared import conformance


def outcome(case: dict[str, Any]) -> list[str]:
    """The object's way through the server: namespace and deletion from the request, defaults, then checks."""
    kind, old = case["objectKind"], case.get("old", {})
    new = validation.apply_defaults(kind, case["object"])
    if kind.startswith("ResourceClaim"):
        new["metadata"].setdefault("namespace", "default")
    match case["kind"]:
        case "create":
            errors = validation.validate_create(kind, new)
        case "update":
            errors = validation.validate_update(kind, new, old)
        case _:
            errors = validation.validate_status(kind, new, old)
    return [_comparable(str(error)) for error in errors]


def _comparable(error: str) -> str:
    """Structs are printed with the field names of Go's internal types; only that there is one is compared."""
    return re.sub(r"value: [{\[].*[}\]]", "value: {…}", error, count=1)


@pytest.mark.parametrize("case", conformance("dra_validation", "create", "update", "updateStatus"))
def test_same_outcome_as_the_server(case: dict[str, Any]) -> None:
    got, want = outcome(case), [_comparable(error) for error in case["want"].get("errors", [])]
    assert set(want) <= set(got)
    if "errorCount" not in case["want"]:
        assert set(got) == set(want)
    assert (not got) == case["want"]["valid"]
    assert len(got) >= case["want"].get("errorCount", 0)
