"""What `kubectl get` prints: the server renders objects as rows of a Table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from kubenexus.common.sandbox.columns import BUILTIN, PLAIN, Column, custom
from kubenexus.common.sandbox.kinds import Kind

Obj = dict[str, Any]


def table(kind: Kind, objects: Iterable[Obj], metadata: Obj, now: datetime, include: str = "Metadata") -> Obj:
    """A Table of these objects. `include` says what rides along with each row: None, Metadata or Object."""
    columns = custom(kind.columns) if kind.custom else BUILTIN.get(kind.resource, PLAIN)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [_row(obj, columns, now, include) for obj in objects],
    }


def _definition(column: Column) -> Obj:
    form = "name" if column.name == "Name" else ""
    return {"name": column.name, "type": column.type, "format": form, "description": "", "priority": column.priority}


def _row(obj: Obj, columns: Sequence[Column], now: datetime, include: str) -> Obj:
    row: Obj = {"cells": [column.cell(obj, now) for column in columns]}
    if include == "Object":
        row["object"] = obj
    elif include == "Metadata":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"],
        }
    return row
