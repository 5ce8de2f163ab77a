"""Data that stands beside the project, not in it: conformance cases and captured machines.

Where it is absent the tests that need it skip and say so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared_file(name: str) -> Path:
    """The path of a shared file, or a skip that names it."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"shared data {name} is not beside this checkout")
    return path


def conformance(name: str, *kinds: str, gated: bool = False) -> list[Any]:
    """Parameters for `@pytest.mark.parametrize`: every case of a conformance file, of these kinds, with default gates.

    Each has its upstream test and name as id. Without the file there is one parameter, which skips. With `gated` the
    cases that need other gates are there, too, and skip with that reason.
    """
    path = SHARED / "conformance" / f"{name}.json"
    if not path.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"shared data conformance/{name}.json is not here"))]
    cases = json.loads(path.read_text(encoding="utf-8"))["cases"]
    wanted = [case for case in cases if (gated or "gate" not in case) and (not kinds or case["kind"] in kinds)]
    return [pytest.param(case, id=f"{case['test']}: {case['name']}", marks=_gates(case)) for case in wanted]


def _gates(case: dict[str, Any]) -> list[Any]:
    gates = ", ".join(f"{gate} {'on' if on else 'off'}" for gate, on in case.get("gate", {}).items())
    return [pytest.mark.skip(reason=f"not by default: {gates}")] if gates else []
