"""Paths: which object, collection or subresource a URL names. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kubenexus.common.sandbox.kinds import Catalogue, Kind


@dataclass(frozen=True, slots=True)
class Route:
    """A place below a kind. `namespace` is None for cluster-scoped kinds and for all namespaces together."""

    kind: Kind
    namespace: str | None
    name: str | None = None
    subresource: str = ""


def route(catalogue: Catalogue, path: str) -> Route | None:
    """The place that a path names, or None when it names none."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, version, rest = "", parts[1] if len(parts) > 1 else "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 2:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = None
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if not 1 <= len(rest) <= 3:
        return None
    kind = catalogue.find(group, version, rest[0])
    if kind is None or (namespace is not None and not kind.resource.namespaced):
        return None
    name = rest[1] if len(rest) > 1 else None
    if name is not None and kind.resource.namespaced and namespace is None:
        return None
    return Route(kind, namespace, name, rest[2] if len(rest) > 2 else "")
