"""A request as a value: built here, without I/O, and sent by the client.

What is built wrongly (no name, no namespace, a name that would change the path) is a bug, and raises ValueError before
anything leaves the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from kubenexus.common.kube.resources import Resource

JSON = "application/json"


class PatchType(Enum):
    """How the server reads a patch; the value is its content type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, ready to send. `target` is path and query, `label` names it in errors and metrics."""

    method: str
    target: str
    label: str
    body: bytes | None = None
    content_type: str = JSON

    @property
    def is_read(self) -> bool:
        return self.method in ("GET", "HEAD")

    def __str__(self) -> str:
        return f"{self.method} {self.target}"


Query = Mapping[str, str | int | bool | None]


def prepare(
    method: str,
    res: Resource,
    namespace: str | None = None,
    name: str | None = None,
    *,
    subresource: str | None = None,
    query: Query | None = None,
    body: Any = None,
    content_type: str = JSON,
) -> Request:
    """A request for a collection (no name), an object, or its subresource; query values of None are left out."""
    if name is not None and res.namespaced and namespace is None:
        raise ValueError(f"{res} live in a namespace: name one for {name!r}")
    path = res.path(_segment(namespace), _segment(name), subresource)
    label = f"{res}/{subresource}" if subresource else str(res)
    return raw(method, path, query=query, body=body, content_type=content_type, label=label)


def raw(
    method: str,
    path: str,
    *,
    query: Query | None = None,
    body: Any = None,
    content_type: str = JSON,
    label: str = "other",
) -> Request:
    """A request for any path, such as `/version`. The body is encoded as JSON unless it is bytes already."""
    given = {key: _text(value) for key, value in (query or {}).items() if value is not None}
    target = f"{path}?{urlencode(given)}" if given else path
    data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
    return Request(method, target, label, data, content_type)


def object_name(obj: Mapping[str, Any]) -> tuple[str | None, str]:
    """Namespace and name that an object carries itself."""
    meta = obj.get("metadata") or {}
    if not meta.get("name"):
        raise ValueError(f"the {obj.get('kind', 'object')} has no metadata.name")
    return meta.get("namespace"), meta["name"]


def _segment(text: str | None) -> str | None:
    if text is None:
        return None
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is not a name")
    return quote(text, safe=":")


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
