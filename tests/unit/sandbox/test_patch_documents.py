"""JSON merge patch and JSON patch."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubenexus.common.sandbox.patch import PatchError, json_patch, merge_patch

Obj = dict[str, Any]

# The examples of RFC 7386, as fields of an object.
MERGES: list[tuple[str, Any, Any, Any]] = [
    ("replace", "b", "c", "c"),
    ("add", {"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ("delete", {"a": "b"}, {"a": None}, {}),
    ("delete one of two", {"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ("a list is replaced", ["b"], "c", "c"),
    ("by a list", "c", ["b"], ["b"]),
    ("nested", {"b": "c"}, {"b": "d", "c": None}, {"b": "d"}),
    ("lists do not merge", [{"b": "c"}], [1], [1]),
    ("null in a list stays", ["a"], [None], [None]),
    ("a scalar becomes a map", "a", {"b": {"c": None}}, {"b": {}}),
    ("false is a value", True, False, False),
]


@pytest.mark.parametrize(("before", "patch", "after"), [row[1:] for row in MERGES], ids=[row[0] for row in MERGES])
def test_merge_patch(before: Any, patch: Any, after: Any) -> None:
    assert merge_patch({"x": before, "kept": 1}, {"x": patch}) == {"x": after, "kept": 1}


def test_a_merge_patch_is_an_object() -> None:
    with pytest.raises(PatchError) as refused:
        merge_patch({}, [])  # type: ignore[arg-type]
    assert refused.value.code == 400


DOCUMENT: Obj = {"metadata": {"labels": {"a/b": "1", "c~d": "2"}}, "list": [1, 2, 3], "none": None}
OPERATIONS: list[tuple[str, Obj, Obj]] = [
    ("add a field", {"op": "add", "path": "/new", "value": {"x": 1}}, {**DOCUMENT, "new": {"x": 1}}),
    ("add replaces a field", {"op": "add", "path": "/none", "value": 5}, {**DOCUMENT, "none": 5}),
    ("insert", {"op": "add", "path": "/list/1", "value": 9}, {**DOCUMENT, "list": [1, 9, 2, 3]}),
    ("append", {"op": "add", "path": "/list/-", "value": 9}, {**DOCUMENT, "list": [1, 2, 3, 9]}),
    ("insert at the end", {"op": "add", "path": "/list/3", "value": 9}, {**DOCUMENT, "list": [1, 2, 3, 9]}),
    ("remove an item", {"op": "remove", "path": "/list/0"}, {**DOCUMENT, "list": [2, 3]}),
    (
        "remove by escaped key",
        {"op": "remove", "path": "/metadata/labels/a~1b"},
        {**DOCUMENT, "metadata": {"labels": {"c~d": "2"}}},
    ),
    ("replace an item", {"op": "replace", "path": "/list/2", "value": 0}, {**DOCUMENT, "list": [1, 2, 0]}),
    ("replace sets a key", {"op": "replace", "path": "/new", "value": 1}, {**DOCUMENT, "new": 1}),
    ("test that nothing is there", {"op": "test", "path": "/new", "value": None}, DOCUMENT),
    ("replace everything", {"op": "replace", "path": "", "value": {"a": 1}}, {"a": 1}),
    ("test", {"op": "test", "path": "/metadata/labels/c~0d", "value": "2"}, DOCUMENT),
    ("test null", {"op": "test", "path": "/none", "value": None}, DOCUMENT),
    (
        "test a map in any order",
        {"op": "test", "path": "/metadata/labels", "value": {"c~d": "2", "a/b": "1"}},
        DOCUMENT,
    ),
    ("move", {"op": "move", "from": "/list/0", "path": "/first"}, {**DOCUMENT, "list": [2, 3], "first": 1}),
    ("move inside a list", {"op": "move", "from": "/list/0", "path": "/list/2"}, {**DOCUMENT, "list": [2, 3, 1]}),
    ("copy", {"op": "copy", "from": "/list", "path": "/again"}, {**DOCUMENT, "again": [1, 2, 3]}),
]


@pytest.mark.parametrize(("operation", "after"), [row[1:] for row in OPERATIONS], ids=[row[0] for row in OPERATIONS])
def test_json_patch(operation: Obj, after: Obj) -> None:
    before = copy.deepcopy(DOCUMENT)
    assert json_patch(before, [operation]) == after
    assert before == DOCUMENT


REFUSED: list[tuple[str, Obj, str]] = [
    ("failed test", {"op": "test", "path": "/list/0", "value": 7}, "test failed: /list/0 is 1, not 7"),
    ("test of nothing", {"op": "test", "path": "/x", "value": 7}, "test failed: /x is null, not 7"),
    ("remove nothing", {"op": "remove", "path": "/a~1b"}, "there is nothing at /a~1b"),
    (
        "replace beyond the end",
        {"op": "replace", "path": "/list/3", "value": 1},
        "/list/3 is beyond the end of a list of 3",
    ),
    ("add below nothing", {"op": "add", "path": "/x/y", "value": 1}, "there is nothing at /x"),
    (
        "add below a scalar",
        {"op": "add", "path": "/list/0/y", "value": 1},
        "/list/0 is neither an object nor a list",
    ),
    ("beyond the end", {"op": "add", "path": "/list/4", "value": 1}, "/list/4 is beyond the end of a list of 3"),
    ("no index", {"op": "remove", "path": "/list/01"}, "/list/01 is an element of a list: '01' is no index"),
    (
        "into itself",
        {"op": "move", "from": "/metadata", "path": "/metadata/x"},
        "cannot move /metadata into itself",
    ),
    ("nothing left", {"op": "remove", "path": ""}, "the patch leaves no object"),
    ("no such operation", {"op": "frob", "path": "/x"}, "there is no operation 'frob'"),
    ("no value", {"op": "add", "path": "/x"}, "'add' needs a 'value'"),
    (
        "no pointer",
        {"op": "remove", "path": "x"},
        "'path' must be a JSON pointer such as /metadata/labels, not 'x'",
    ),
]


@pytest.mark.parametrize(("operation", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_json_patch_refuses(operation: Obj, why: str) -> None:
    with pytest.raises(PatchError) as refused:
        json_patch(DOCUMENT, [operation])
    assert (refused.value.code, refused.value.message.removeprefix("operation 0: ")) == (422, why)


def test_a_json_patch_is_a_list() -> None:
    with pytest.raises(PatchError) as refused:
        json_patch({}, {"op": "add"})  # type: ignore[arg-type]
    assert refused.value.code == 400


def test_the_refusal_names_the_operation() -> None:
    with pytest.raises(PatchError, match="operation 1: there is nothing at /gone"):
        json_patch({"gone": 1}, [{"op": "remove", "path": "/gone"}, {"op": "remove", "path": "/gone"}])
