"""The two patches that need to know nothing of the kind: JSON merge patch (RFC 7386) and JSON patch (RFC 6902)."""

from __future__ import annotations

import copy
import json
from typing import Any

from kubenexus.common.sandbox.patch.errors import PatchError

Obj = dict[str, Any]

MAX_OPERATIONS = 10_000


def merge_patch(obj: Obj, patch: Obj) -> Obj:
    """`obj` with the patch laid over it: maps merge, null deletes, everything else replaces."""
    if not isinstance(patch, dict):
        raise PatchError("a merge patch must be a JSON object", 400)
    merged: Obj = _merged(copy.deepcopy(obj), patch)
    return merged


def json_patch(obj: Obj, ops: list[Obj]) -> Obj:
    """`obj` after the operations, in order; all of them or none.

    As in Kubernetes, `replace` also sets a key that a map does not have, and such a key tests equal to null.
    """
    if not isinstance(ops, list):
        raise PatchError("a JSON patch must be a list of operations", 400)
    if len(ops) > MAX_OPERATIONS:
        raise PatchError(f"a JSON patch may have {MAX_OPERATIONS} operations, this one has {len(ops)}", 413)
    document: Any = copy.deepcopy(obj)
    for number, operation in enumerate(ops):
        try:
            document = _operate(document, operation)
        except PatchError as error:
            raise PatchError(f"operation {number}: {error.message}", error.code) from None
    if not isinstance(document, dict):
        raise PatchError("the patch leaves no object")
    return document


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = target if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _operate(document: Any, operation: Obj) -> Any:
    if not isinstance(operation, dict):
        raise PatchError("an operation must be a JSON object")
    path = _pointer(operation, "path")
    match operation.get("op"):
        case "add":
            return _add(document, path, _value(operation))
        case "remove":
            return _remove(document, path)
        case "replace":
            return _set(document, path, _value(operation))
        case "test":
            return _test(document, path, _value(operation))
        case "move":
            source = _pointer(operation, "from")
            if path[: len(source)] == source and path != source:
                raise PatchError(f"cannot move {_show(source)} into itself")
            moved = _get(document, source)
            return _add(_remove(document, source), path, moved)
        case "copy":
            return _add(document, path, copy.deepcopy(_get(document, _pointer(operation, "from"))))
        case other:
            raise PatchError(f"there is no operation {other!r}")


def _pointer(operation: Obj, name: str) -> list[str]:
    text = operation.get(name)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchError(f"{name!r} must be a JSON pointer such as /metadata/labels, not {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _value(operation: Obj) -> Any:
    if "value" not in operation:
        raise PatchError(f"{operation['op']!r} needs a 'value'")
    return copy.deepcopy(operation["value"])


def _get(document: Any, path: list[str], *, or_null: bool = False) -> Any:
    """What stands there; `or_null`: a key that the last map lacks counts as null."""
    for depth, part in enumerate(path):
        if isinstance(document, list):
            document = document[_index(document, path[: depth + 1])]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, dict) and or_null and depth == len(path) - 1:
            return None
        else:
            raise PatchError(f"there is nothing at {_show(path[: depth + 1])}")
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        index = len(parent) if path[-1] == "-" else _index(parent, path, room=1)
        parent.insert(index, value)
        return document
    return _set(document, path, value)


def _set(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        parent[_index(parent, path)] = value
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise PatchError(f"{_show(path[:-1])} is neither an object nor a list")
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _get(document, path)
    if not path:
        return None
    parent = _get(document, path[:-1])
    del parent[_index(parent, path) if isinstance(parent, list) else path[-1]]
    return document


def _test(document: Any, path: list[str], value: Any) -> Any:
    found = _get(document, path, or_null=True)
    if canonical(found) != canonical(value):
        raise PatchError(f"test failed: {_show(path)} is {canonical(found)}, not {canonical(value)}")
    return document


def _index(items: list[Any], path: list[str], room: int = 0) -> int:
    text = path[-1]
    if not text.isascii() or not text.isdigit() or (text != "0" and text.startswith("0")):
        raise PatchError(f"{_show(path)} is an element of a list: {text!r} is no index")
    if int(text) >= len(items) + room:
        raise PatchError(f"{_show(path)} is beyond the end of a list of {len(items)}")
    return int(text)


def canonical(value: Any) -> str:
    """JSON that is equal for equal values."""
    return json.dumps(value, sort_keys=True)


def _show(path: list[str]) -> str:
    return "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)
