"""The smallest objects the API server accepts, with room for what a test is about."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import pytest

from kubenexus.common.sandbox.controllers.kubelet import KUBELET_ANNOTATION

Obj = dict[str, Any]

IDLE = "idle"
"""A Node that is always there, on which nobody runs pods."""


def rows(table: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Parameters from a table whose first column says what the case is."""
    return [pytest.param(*row[1:], id=row[0]) for row in table]


def meta(name: str, **metadata: Any) -> Obj:
    return {"metadata": {"name": name, **metadata}}


def unique(prefix: str) -> str:
    """A name for an object outside of namespaces, where tests meet."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def config_map(name: str = "", data: dict[str, str] | None = None, **metadata: Any) -> Obj:
    return {**meta(name, **metadata), "data": data or {}}


def pod(name: str = "a", spec: Obj | None = None, **metadata: Any) -> Obj:
    containers = [{"name": "main", "image": "example.invalid/main"}]
    return {**meta(name, **metadata), "spec": {"containers": containers, **(spec or {})}}


def node(name: str, **metadata: Any) -> Obj:
    """A Node on which nobody runs pods: the real server has no kubelets, and the sandbox's leave it alone."""
    whole = {"annotations": {KUBELET_ANNOTATION: "none"}, **metadata}
    return {**meta(name, **whole), "status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}}}


def device(name: str = "gpu-0", **attributes: Obj) -> Obj:
    return {"name": name, "attributes": attributes}


def resource_slice(name: str, *devices: Obj, **spec: Any) -> Obj:
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    whole = {"driver": "test.example.com", "nodeName": "node-1", "pool": pool, "devices": list(devices), **spec}
    return {**meta(name), "spec": {key: value for key, value in whole.items() if value is not None}}
