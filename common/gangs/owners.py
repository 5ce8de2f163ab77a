"""Owners in memory: the part of them that the resolver reads, by group, kind, namespace and name.

Webhook and scheduler fill one from their reflectors. Which version of an object they watched does not matter.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kubenexus.common.gangs.model import Obj
from kubenexus.common.gangs.resolve import OWNER_KINDS

_METADATA: Final = ("name", "namespace", "uid", "annotations", "ownerReferences")
# What only pod templates and other bulk have; no rule reads it, and it is most of an owner.
_BULK: Final = frozenset(
    ("containers", "initContainers", "volumes", "volumeClaimTemplates", "affinity", "tolerations", "metadata", "env")
)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"  # the whole object once more
_MAX_DEPTH: Final = 12


class OwnerKey(NamedTuple):
    """Which object."""

    group: str
    kind: str
    namespace: str
    name: str


def plural(kind: str) -> str:
    """The resource of an owner kind: all of them are regular."""
    return f"{kind.lower()}s"


OWNER_RESOURCES: Final = tuple(sorted((group, plural(kind)) for group, kind in OWNER_KINDS))
"""(API group, plural) of every owner kind, for those who write rights."""


def trimmed(obj: Obj) -> Obj:
    """What is kept of an owner: its identity and its numbers, without the pod templates."""
    metadata = obj.get("metadata")
    kept = {key: metadata[key] for key in _METADATA if key in metadata} if isinstance(metadata, dict) else {}
    if isinstance(notes := kept.get("annotations"), dict):
        kept["annotations"] = {key: text for key, text in notes.items() if key != _LAST_APPLIED}
    status = obj.get("status")
    succeeded = status.get("succeeded") if isinstance(status, dict) else None
    return {"metadata": kept, "spec": _without_bulk(obj.get("spec"), _MAX_DEPTH), "status": {"succeeded": succeeded}}


def _without_bulk(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        left = {key: item for key, item in value.items() if key not in _BULK} if depth else {}
        return {key: _without_bulk(item, depth - 1) for key, item in left.items()}
    if isinstance(value, list):
        return [_without_bulk(item, depth - 1) for item in value] if depth else []
    return value


class OwnerStore:
    """Owners that are known now. Satisfies `Owners`."""

    def __init__(self) -> None:
        self._known: dict[OwnerKey, Obj] = {}

    def set(self, key: OwnerKey, owner: Obj) -> None:
        """The owner came or changed; `owner` is what `trimmed` left of it."""
        self._known[key] = owner

    def remove(self, key: OwnerKey) -> None:
        """The owner went."""
        self._known.pop(key, None)

    def get(self, api_version: str, kind: str, namespace: str, name: str, uid: str) -> Obj | None:
        found = self._known.get(OwnerKey(api_version.rpartition("/")[0], kind, namespace, name))
        return found if found is None or uid in ("", found["metadata"].get("uid")) else None
