"""The manifests in examples/, and the pods in them, whatever the kind that makes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Obj = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"
CLUSTER = "cluster.yaml"
BUILT_IN = frozenset(("", "apps", "batch", "policy", "resource.k8s.io"))
"""API groups that every cluster serves"""


def read(name: str) -> list[Obj]:
    """The objects of an example."""
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def names() -> list[str]:
    return sorted(path.name for path in FOLDER.glob("*.yaml"))


def group(obj: Obj) -> str:
    return str(obj["apiVersion"]).rpartition("/")[0]


def foreign() -> list[str]:
    """Examples of kinds that an operator brings."""
    return [name for name in names() if any(group(obj) not in BUILT_IN for obj in read(name))]


def pod_specs(value: Any) -> Iterator[Obj]:
    """Every pod spec in an object: whatever has containers."""
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
        for inner in value.values():
            yield from pod_specs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from pod_specs(inner)
