"""Decoding: what a typed server makes of a JSON object of a built-in kind. Pure.

Fields that the kind does not have are dropped and reported, values of the wrong type refused, quantities and times put
into their one form, and what is empty left out. The types are data (`types.json`, made by `hack/sandbox_types.py` from
the published API); of custom resources only the metadata is typed.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

from kubenexus.common import quantity
from kubenexus.common.sandbox.errors import bad_request
from kubenexus.common.sandbox.kinds import Kind

Obj = dict[str, Any]

_METADATA: Final = "meta.v1.ObjectMeta"
_JSON_WORDS: Final = {str: "string", bool: "bool", int: "number", float: "number", dict: "object", list: "array"}
_CANONICAL_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class _TypeError(Exception):
    """A value is not of its field's type; says what Go's decoder would say."""


@cache
def _types() -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    data = orjson.loads(Path(__file__).with_name("types.json").read_bytes())
    return data["kinds"], data["types"]


def decode(kind: Kind, obj: Obj) -> tuple[Obj, list[str]]:
    """The object as the server understands it, and the paths of its unknown fields. A 400 names a wrong type."""
    kinds, types = _types()
    res = kind.resource
    unknown: list[str] = []
    try:
        if kind.custom:
            metadata = _struct(types[_METADATA], obj.get("metadata") or {}, "metadata", unknown)
            return obj | {"metadata": metadata}, unknown
        return _struct(types[kinds[f"{res.api_version}/{res.kind}"]], obj, "", unknown), unknown
    except _TypeError as error:
        message = f'{res.kind} in version "{res.version}" cannot be handled as a {res.kind}: {error}'
        raise bad_request(message) from None


def _struct(fields: dict[str, str], obj: Any, path: str, unknown: list[str]) -> Obj:
    if not isinstance(obj, dict):
        raise _mismatch(obj, path, "object")
    result = {}
    for name, value in obj.items():
        type_ = fields.get(name)
        place = f"{path}.{name}" if path else name
        if type_ is None:
            unknown.append(place)
        elif value is not None:
            decoded = _value(type_, value, place, unknown)
            if decoded or type_[0] not in "[{":
                result[name] = decoded
    return result


def _value(type_: str, value: Any, path: str, unknown: list[str]) -> Any:
    if type_[0] == "[":
        if not isinstance(value, list):
            raise _mismatch(value, path, "array")
        return [_value(type_[1:], each, f"{path}[{index}]", unknown) for index, each in enumerate(value)]
    if type_[0] == "{":
        if not isinstance(value, dict):
            raise _mismatch(value, path, "object")
        return {key: _value(type_[1:], each, f"{path}.{key}", unknown) for key, each in value.items()}
    scalar = _SCALARS.get(type_)
    return scalar(value, path) if scalar else _struct(_types()[1][type_], value, path, unknown)


def _string(value: Any, path: str) -> Any:
    if not isinstance(value, str):
        raise _mismatch(value, path, "string")
    return value


def _boolean(value: Any, path: str) -> Any:
    if not isinstance(value, bool):
        raise _mismatch(value, path, "bool")
    return value


def _integer(value: Any, path: str) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _mismatch(value, path, "int64")
    return value


def _number(value: Any, path: str) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _mismatch(value, path, "float64")
    return value


def _int_or_string(value: Any, path: str) -> Any:
    return value if isinstance(value, str) else _integer(value, path)


def _quantity(value: Any, path: str) -> Any:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise _mismatch(value, path, "resource.Quantity")
    try:
        return quantity.canonical(value)
    except quantity.QuantityError:
        pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise _TypeError(f"quantities must match the regular expression '{pattern}' ({path})") from None


def _bytes(value: Any, path: str) -> Any:
    try:
        b64decode(_string(value, path), validate=True)
    except binascii.Error:
        raise _TypeError(f"illegal base64 data at {path}") from None
    return value


def _time(value: Any, path: str) -> Any:
    if _CANONICAL_TIME.fullmatch(_string(value, path)):
        return value
    return _moment(value, path).strftime("%Y-%m-%dT%H:%M:%SZ")


def _microtime(value: Any, path: str) -> Any:
    return _moment(_string(value, path), path).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(text: str, path: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _TypeError(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00" failed ({path})') from None
    return moment.astimezone(UTC)


def _anything(value: Any, path: str) -> Any:  # noqa: ARG001 (the form of every type)
    return value


_SCALARS: Final = {
    "string": _string,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "int-or-string": _int_or_string,
    "quantity": _quantity,
    "bytes": _bytes,
    "time": _time,
    "microtime": _microtime,
    "any": _anything,
}


def _mismatch(value: Any, path: str, wanted: str) -> _TypeError:
    found = _JSON_WORDS.get(type(value), "null")
    return _TypeError(f"json: cannot unmarshal {found} into Go struct field {path} of type {wanted}")
