"""Sets of fields, the currency of server-side apply.

A field is a path of elements as `FieldsV1` writes them: `f:name`, `k:{"name":"x"}` (an item of a keyed list) and
`v:"x"` (an item of a set). Sets of fields are plain Python sets of such paths, so ownership is set algebra. An inner
node is a member of its own right or not: a label map can be owned apart from its labels.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from kubenexus.common.sandbox.patch.errors import PatchError
from kubenexus.common.sandbox.patch.schema import KEY_DEFAULTS, Shape

Path = tuple[str, ...]
Fields = frozenset[Path]
Tree = dict[str, Any]

_ABSENT = object()


def fields_of(value: Any, shape: Shape, path: Path = (), *, strict: bool = False) -> Fields:
    """The fields that a configuration sets; `strict` refuses items with the same key."""
    found: set[Path] = set()
    if isinstance(value, dict) and not shape.atomic:
        for name, item in value.items():
            child = (*path, f"f:{name}")
            found |= fields_of(item, shape.child(name), child, strict=strict)
            if item is None or item == {}:
                found.add(child)
    elif isinstance(value, list) and _merging(shape):
        for element, item in keyed(value, shape, strict=strict).items():
            child = (*path, element)
            found |= {child} | fields_of(item, shape.element, child, strict=strict)
    else:
        found.add(path)
    return frozenset(found)


def changes(old: Any, new: Any, shape: Shape) -> tuple[Fields, Fields]:
    """The fields that `new` adds or alters, and those that it removes."""
    written: set[Path] = set()
    removed: set[Path] = set()
    _compare(old, new, shape, (), written, removed)
    return frozenset(written), frozenset(removed)


def merged(left: Any, right: Any, shape: Shape) -> Any:
    """`left` with `right` laid over it; neither is changed, parts may be shared."""
    if isinstance(left, dict) and isinstance(right, dict) and not shape.atomic:
        over = {name: merged(left.get(name), value, shape.child(name)) for name, value in right.items()}
        return {**left, **over}
    if isinstance(left, list) and isinstance(right, list) and _merging(shape):
        before, after = keyed(left, shape), keyed(right, shape)
        both = {**before, **{key: merged(before.get(key), item, shape.element) for key, item in after.items()}}
        return [both[key] for key in _order(list(before), list(after))]
    return right


def without(value: Any, fields: Fields, shape: Shape) -> Any:
    """`value` without these fields, each with all that is below it. What is emptied by that becomes None."""
    return _without(value, encode(fields), shape)


def named(fields: Fields) -> Fields:
    """The fields and every named field above one: what holds `a.b` holds `a` too."""
    return fields | {path[:end] for path in fields for end in range(1, len(path)) if path[end - 1][:2] == "f:"}


def without_nulls(value: Any, shape: Shape) -> Any:
    """A deep copy without the nulls that merging left; inside atomic values they stay."""
    if isinstance(value, dict) and not shape.atomic:
        return {name: without_nulls(item, shape.child(name)) for name, item in value.items() if item is not None}
    if isinstance(value, list) and _merging(shape):
        return [without_nulls(item, shape.element) for item in value]
    return copy.deepcopy(value)


def in_order(fields: Fields) -> list[Path]:
    """The fields as the server lists them: on each level what ends there, then what goes on."""
    return sorted(fields, key=lambda path: [(depth < len(path) - 1, element) for depth, element in enumerate(path)])


def encode(fields: Fields) -> Tree:
    """`FieldsV1`: nested maps, in which an inner node that is a member itself has a `.`."""
    tree: Tree = {}
    for path in sorted(fields):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        if path:
            node["."] = {}
    return _dotless(tree)


def decode(tree: Tree) -> Fields:
    """The fields of a `FieldsV1`."""
    found: set[Path] = set()
    _collect(tree, (), found)
    return frozenset(found)


def show(path: Path) -> str:
    """A field as conflicts name it: `.spec.containers[name="x"].image`."""
    return "".join(map(_show_element, path))


def keyed(items: list[Any], shape: Shape, *, strict: bool = False) -> dict[str, Any]:
    """The items of a list by their path elements. Of duplicates the last counts; `strict` refuses what is ambiguous."""
    found: dict[str, Any] = {}
    for item in items:
        element = _element(item, shape)
        if strict and element in found:
            raise PatchError(f"duplicate entries for key {_show_element(element)}", 400)
        if strict and shape.keys and element[:2] != "k:":
            raise PatchError(f"an item of a list has none of the fields that identify it: {', '.join(shape.keys)}", 400)
        found[element] = item
    return found


def _merging(shape: Shape) -> bool:
    return bool(shape.keys) or shape.is_set


def _element(item: Any, shape: Shape) -> str:
    """An item of a keyed list that lacks its keys, which validation will refuse, stands for itself."""
    values = {key: item.get(key, KEY_DEFAULTS.get(key)) for key in shape.keys} if isinstance(item, dict) else {}
    key = {name: value for name, value in values.items() if value is not None}
    return "k:" + _json(key) if key else "v:" + _json(item)


def _compare(old: Any, new: Any, shape: Shape, path: Path, written: set[Path], removed: set[Path]) -> None:
    before, after = _children(old, shape), _children(new, shape)
    if before or after:
        for element in {**before, **after}:
            child = shape.child(element[2:]) if element[:2] == "f:" else shape.element
            pair = before.get(element, _ABSENT), after.get(element, _ABSENT)
            _compare(*pair, child, (*path, element), written, removed)
    elif old is not _ABSENT and new is not _ABSENT and old != new:
        written.add(path)
    if old is _ABSENT:
        written.add(path)
    elif new is _ABSENT:
        removed.add(path)


def _children(value: Any, shape: Shape) -> dict[str, Any]:
    """What is below an inner node, by path element; nothing for a leaf."""
    if isinstance(value, dict) and not shape.atomic:
        return {f"f:{name}": item for name, item in value.items()}
    if isinstance(value, list) and _merging(shape):
        return keyed(value, shape)
    return {}


def _order(left: list[str], right: list[str]) -> list[str]:
    """All elements: those of the right in its order, those of the left alone behind the neighbour they had."""
    shared = [element for element in right if element in set(left)]
    order: list[str] = []
    rest = iter(right)
    for element in left:
        if element not in right:
            order.append(element)
        elif shared and element == shared[0]:
            shared.pop(0)
            for taken in rest:
                order.append(taken)
                if taken == element:
                    break
    return order + list(rest)


def _without(value: Any, tree: Tree, shape: Shape) -> Any:
    if isinstance(value, dict) and not shape.atomic:
        kept = {
            name: _without(item, tree[f"f:{name}"], shape.child(name)) if f"f:{name}" in tree else item
            for name, item in value.items()
            if not _member(tree.get(f"f:{name}"))
        }
        return kept or None
    if isinstance(value, list) and _merging(shape):
        return [
            _without(item, tree[element], shape.element) if (element := _element(item, shape)) in tree else item
            for item in value
            if not _member(tree.get(_element(item, shape)))
        ] or None
    return value


def _member(node: Tree | None) -> bool:
    return node is not None and (not node or "." in node)


def _dotless(tree: Tree) -> Tree:
    """Leaves are written as `{}`: their being there says it all."""
    return {name: {} if set(node) <= {"."} else _dotless(node) for name, node in tree.items()}


def _collect(tree: Tree, path: Path, found: set[Path]) -> None:
    for element, node in tree.items():
        if element != ".":
            if _member(node):
                found.add((*path, element))
            _collect(node, (*path, element), found)


def _show_element(element: str) -> str:
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "v:":
        return f"[={rest}]"
    return "[" + ",".join(f"{name}={_json(value)}" for name, value in json.loads(rest).items()) + "]"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
