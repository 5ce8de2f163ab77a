"""As much OpenAPI as kubectl insists on: that the server itself validates fields. There are no schemas. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from kubenexus.common.sandbox.kinds import Kind

Obj = dict[str, Any]

PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_TITLE: Final = "KubeNexus sandbox"
_GVK: Final = "x-kubernetes-group-version-kind"
_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation", "force")


def index(kinds: Iterable[Kind]) -> Obj:
    """/openapi/v3"""
    places = {kind.resource.base_path.lstrip("/"): None for kind in kinds}
    return {"paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}"} for place in places}}


def document(kinds: Iterable[Kind], place: str) -> Obj | None:
    """/openapi/v3/<group version>"""
    here = [kind for kind in kinds if kind.resource.base_path == "/" + place]
    if not here:
        return None
    paths = {kind.resource.path("{namespace}", "{name}"): {"patch": _patch_operation(kind)} for kind in here}
    info = {"title": _TITLE, "version": "1"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


def _patch_operation(kind: Kind) -> Obj:
    return {
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        _GVK: _gvk(kind),
    }


def _gvk(kind: Kind) -> dict[str, str]:
    res = kind.resource
    return {"group": res.group, "version": res.version, "kind": res.kind}


def old_document(kinds: Iterable[Kind]) -> bytes:
    """/openapi/v2, which kubectl reads in Protocol Buffers only, and only for a `kind: List`."""
    paths = b"".join(_field(2, _old_path(kind)) for kind in kinds)
    info = _text(1, _TITLE) + _text(2, "1")
    return _text(1, "2.0") + _field(2, info) + _field(8, paths)


def _old_path(kind: Kind) -> bytes:
    parameters = b"".join(_field(8, _old_parameter(name)) for name in _PARAMETERS)
    extension = _text(1, _GVK) + _field(2, _text(2, json.dumps(_gvk(kind))))
    operation = parameters + _field(13, extension)
    return _text(1, kind.resource.path("{namespace}", "{name}")) + _field(2, _field(8, operation))


def _old_parameter(name: str) -> bytes:
    in_query = _text(2, "query") + _text(4, name) + _text(6, "string")
    return _field(1, _field(2, _field(3, in_query)))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, data: bytes) -> bytes:
    """A length-delimited field: all that this document consists of."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes((low | 0x80,)) + _varint(rest) if rest else bytes((low,))
