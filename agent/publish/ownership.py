"""Who holds which of a Node's labels and annotations, read from its managedFields. Pure.

The Node itself is the memory of what was applied: nothing has to be remembered over a restart, a foreign edit shows as
a difference, and what was published by an earlier version and is no longer wanted shows as held without being wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kubenexus.agent.publish.wanted import Share
from kubenexus.common.kube.resources import NODES

Obj = dict[str, Any]


class Held(NamedTuple):
    """Keys that a manager holds by apply."""

    labels: frozenset[str]
    annotations: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.labels or self.annotations)


def held(obj: Obj, manager: str) -> Held:
    metadata: Mapping[str, Any] = {}
    for entry in obj["metadata"].get("managedFields") or ():
        if (entry.get("manager"), entry.get("operation")) == (manager, "Apply") and not entry.get("subresource"):
            metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return Held(_keys(metadata.get("f:labels")), _keys(metadata.get("f:annotations")))


def _keys(fields: Mapping[str, Any] | None) -> frozenset[str]:
    return frozenset(field[2:] for field in fields or () if field.startswith("f:"))


def managers(obj: Obj) -> frozenset[str]:
    """Everybody who wrote to the object."""
    return frozenset(entry.get("manager", "") for entry in obj["metadata"].get("managedFields") or ())


def is_current(node: Obj, share: Share) -> bool:
    """Whether the manager holds exactly its share, with these values."""
    metadata = node["metadata"]
    return (
        held(node, share.manager) == Held(frozenset(share.labels), frozenset(share.annotations))
        and _contains(metadata.get("labels"), share.labels)
        and _contains(metadata.get("annotations"), share.annotations)
    )


def _contains(whole: Mapping[str, str] | None, part: Mapping[str, str]) -> bool:
    return part.items() <= (whole or {}).items()


def apply_body(node: Obj, share: Share) -> Obj:
    """The document to apply. The uid in it keeps a Node that was deleted from coming back as a ghost of labels."""
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    metadata: Obj = {"name": name, "uid": uid}
    if share.labels:
        metadata["labels"] = dict(share.labels)
    if share.annotations:
        metadata["annotations"] = dict(share.annotations)
    return {"apiVersion": NODES.api_version, "kind": NODES.kind, "metadata": metadata}
