"""Whatever arrives, it is refused and nothing breaks."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubenexus.common.sandbox import validation
from kubenexus.common.sandbox.patch import track_update

Obj = dict[str, Any]

RECORDED = json.loads(Path(__file__).with_name("test_validation_cases.json").read_text(encoding="utf-8"))
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 1.5, "", "x y", [], [None], ["x"], [[]], [{}], {}, {"a": None}, {"a": [1]}, {"": {}}]
)


def paths(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in an object, except the type and the object itself."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [above] if above else []
    for key, child in children:
        if above or key not in ("apiVersion", "kind"):
            found += paths(child, (*above, key))
    return found


@st.composite
def broken(draw: st.DrawFn) -> tuple[str, Obj, Obj]:
    """A kind, a recorded object of it, and the same with junk in one place."""
    case = draw(st.sampled_from([case for case in RECORDED["cases"] if "object" in case]))
    kind = case["kind"]
    whole = validation.apply_defaults(kind, {**RECORDED["plain"][kind], **case["object"]})
    bad = copy.deepcopy(whole)
    *above, last = draw(st.sampled_from(paths(bad)))
    place = bad
    for key in above:
        place = place[key]
    place[last] = draw(JUNK)
    return kind, whole, bad


@settings(max_examples=300, deadline=None)
@given(broken())
def test_junk_is_refused_or_taken_but_never_breaks_anything(case: tuple[str, Obj, Obj]) -> None:
    kind, whole, bad = case
    given_bad = copy.deepcopy(bad)
    new = validation.apply_defaults(kind, bad)
    for errors in (
        validation.validate_create(kind, new),
        validation.validate_update(kind, new, whole),
        validation.validate_status(kind, new, whole),
    ):
        assert all(error.message and error.reason.startswith("FieldValue") for error in errors)
    if isinstance(new.get("metadata") or {}, dict):
        track_update(kind, whole, new, "m", "2026-01-01T00:00:00Z")
    assert bad == given_bad
