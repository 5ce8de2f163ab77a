"""Strategic merge patch: lists merge by their merge keys, and directives in the patch say what merging cannot."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from typing import Any

from kubenexus.common.sandbox.patch.documents import canonical
from kubenexus.common.sandbox.patch.errors import PatchError
from kubenexus.common.sandbox.patch.schema import CUSTOM, Shape, kind_of

Obj = dict[str, Any]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def strategic_patch(kind: str, obj: Obj, patch: Obj) -> Obj:
    """`obj` after the patch. Custom resources have no merge keys: they are refused, with 415."""
    known = kind_of(kind, obj)
    if known is CUSTOM:
        raise PatchError(f"strategic merge patches are not supported for the custom resource {kind}", 415)
    if not isinstance(patch, dict):
        raise PatchError("a strategic merge patch must be a JSON object", 400)
    return _merge(copy.deepcopy(obj), copy.deepcopy(patch), known.shape)


def _merge(original: Obj, patch: Obj, shape: Shape) -> Obj:
    """`original` (which is changed) with the patch merged in."""
    if _DIRECTIVE in patch:
        return _replaced(patch)
    _retain(original, patch)
    for name, value in patch.items():
        if name == _RETAIN:
            continue
        if name.startswith(_ORDER):
            name = name.removeprefix(_ORDER)
            if name not in patch and isinstance(original.get(name), list):
                original[name] = _ordered(original[name], value, original[name], shape.child(name))
        elif name.startswith(_DELETE):
            name = name.removeprefix(_DELETE)
            original[name] = [item for item in original.get(name) or [] if item not in _list(value)]
        elif value is None:
            original.pop(name, None)
        else:
            _put(original, name, _merged(original.get(name), value, patch.get(_ORDER + name), shape.child(name)))
    return original


def _put(original: Obj, name: str, value: Any) -> None:
    if value is None:
        original.pop(name, None)
    else:
        original[name] = value


def _merged(before: Any, value: Any, order: Any, shape: Shape) -> Any:
    """What stands in the field after the patch; None: nothing."""
    if isinstance(before, dict) and isinstance(value, dict):
        return value if shape.replaced else _merge(before, value, shape)
    if isinstance(before, list) and isinstance(value, list) and shape.merges:
        items = _merged_list(before, value, shape)
        return items if order is None else _ordered(items, order, before, shape)
    return _clean(value)


def _replaced(patch: Obj) -> Obj:
    directive = patch.pop(_DIRECTIVE)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise PatchError(f"unknown patch type: {directive} in map: {canonical(patch)}", 400)


def _retain(original: Obj, patch: Obj) -> None:
    if _RETAIN not in patch:
        return
    kept = _list(patch[_RETAIN])
    named = {name for name, value in patch.items() if value is not None and not name.startswith("$")}
    if not named <= set(kept):
        raise PatchError("invalid patch format of retainKeys", 400)
    for name in set(original) - set(kept):
        del original[name]


def _merged_list(before: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    """The list with the patch's items merged in; new ones come first, as the server has it."""
    if not shape.merge_key:
        items = before + [item for item in patch if item not in before]
        return _ordered(items, patch, before, shape)
    if any(_directive(item) == "replace" for item in patch):
        return [item for item in patch if not _directive(item)]
    deleted = [_key(item, shape) for item in patch if _directive(item) == "delete"]
    before = [item for item in before if _key(item, shape) not in deleted]
    wanted = [item for item in patch if _directive(item) != "delete"]
    found = {_key(item, shape): item for item in before}
    for item in wanted:
        if _directive(item):
            raise PatchError(f"unknown patch type: {_directive(item)} in map: {canonical(item)}", 400)
        key = _key(item, shape)
        found[key] = _merge(found[key], item, shape.element) if key in found else _clean(item)
    return _ordered(list(found.values()), wanted, before, shape)


def _ordered(items: list[Any], wanted: Any, before: list[Any], shape: Shape) -> list[Any]:
    """The items: those that are wanted in the order wanted, the others kept in place against them."""
    key = _key_of(shape)
    rank = {key(item): index for index, item in enumerate(_list(wanted))}
    place = {key(item): index for index, item in enumerate(before)}
    chosen = sorted((item for item in items if key(item) in rank), key=lambda item: rank[key(item)])
    others = sorted((item for item in items if key(item) not in rank), key=lambda item: place.get(key(item), 0))
    result: list[Any] = []
    while chosen and others:
        first = place.get(key(chosen[0]))
        earlier = first is not None and place.get(key(others[0]), first) < first
        result.append((others if earlier else chosen).pop(0))
    return result + chosen + others


def _key_of(shape: Shape) -> Callable[[Any], Hashable]:
    return (lambda item: _key(item, shape)) if shape.merge_key else canonical


def _key(item: Any, shape: Shape) -> str:
    if not isinstance(item, dict) or shape.merge_key not in item:
        raise PatchError(f"map: {canonical(item)} does not contain declared merge key: {shape.merge_key}", 400)
    return canonical(item[shape.merge_key])


def _directive(item: Any) -> Any:
    return item.get(_DIRECTIVE) if isinstance(item, dict) else None


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PatchError(f"a list is needed where the patch has {canonical(value)}", 400)
    return value


def _clean(value: Any) -> Any:
    """A value that is new: without nulls, and without anything that only instructs."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None
        kept = {name: _clean(item) for name, item in value.items() if not name.startswith("$")}
        return {name: item for name, item in kept.items() if item is not None}
    if isinstance(value, list):
        return [_clean(item) for item in value if not _directive(item)]
    return value
