"""Who owns which field: `metadata.managedFields`, and the tracking of writes that are not applies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kubenexus.common.sandbox.patch import fieldsets
from kubenexus.common.sandbox.patch.fieldsets import Fields, Path
from kubenexus.common.sandbox.patch.schema import CUSTOM, Kind, kind_of

Obj = dict[str, Any]

SERVER_SET = ("creationTimestamp", "generation", "selfLink")
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "managedFields")
NEVER_OWNED: Fields = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {("f:metadata", f"f:{name}") for name in (*_IDENTITY, *SERVER_SET)}
)
_MAPS = {
    "labels",
    "annotations",
    "matchLabels",
    "nodeSelector",
    "limits",
    "requests",
    "capacity",
    "allocatable",
    "data",
}


class Manager(NamedTuple):
    """Who writes, and how. The version tells updates apart; an applier is the same in every version."""

    name: str
    operation: str
    api_version: str
    subresource: str

    def __str__(self) -> str:
        shown = f'"{self.name}"' + (f' with subresource "{self.subresource}"' if self.subresource else "")
        return f"{shown} using {self.api_version}" if self.operation == "Update" else shown


@dataclass(frozen=True, slots=True)
class Entry:
    """What one manager owns, since when."""

    fields: Fields
    api_version: str
    time: str | None = None


Managed = dict[Manager, Entry]


def track_update(kind: str, old: Obj | None, new: Obj, manager: str, now: str, subresource: str = "") -> Obj:
    """`new` with managedFields that say `manager` wrote what differs from `old`; without `old` it wrote everything.

    An empty list of managedFields in `new` ends the tracking of this object until its next apply.
    """
    given = None if subresource else (new.get("metadata") or {}).get("managedFields")
    owners = decode(new if given else old) or decode(old)
    if old is not None and (not owners or given in ([], [{}])):
        return with_managers(new, {})
    known = kind_of(kind, new, old)
    written, removed = changes(known, stored(known, old), stored(known, new), subresource)
    owners = disown(owners, written | removed)
    taken = written - NEVER_OWNED
    if taken:
        me = Manager(manager, "Update", new.get("apiVersion", ""), subresource)
        mine = owners[me].fields if me in owners else frozenset()
        owners[me] = Entry(mine | taken, me.api_version, now)
    return with_managers(new, owners)


def changes(kind: Kind, old: Obj, new: Obj, subresource: str) -> tuple[Fields, Fields]:
    """The fields that `new` writes and those that it removes, as far as this endpoint stores them.

    What all objects of a kind have is on both sides, so that nobody writes it.
    """
    written, removed = fieldsets.changes(_overlay(kind.blank, old), _overlay(kind.blank, new), kind.shape)
    ignored = not_stored(kind, subresource)
    return ignored.outside(written), ignored.outside(removed)


class NotStored(tuple[Path, ...]):
    """The parts of an object that an endpoint ignores."""

    def outside(self, fields: Fields) -> Fields:
        """The fields that are not below one of the parts."""
        return frozenset(path for path in fields if not any(path[: len(root)] == root for root in self))


def not_stored(kind: Kind, subresource: str) -> NotStored:
    """Status is ignored in writes to the object, spec in writes to its status."""
    if subresource == "status":
        return NotStored((("f:spec",), ("f:metadata",)) if kind is CUSTOM else (("f:spec",),))
    return NotStored(() if kind is CUSTOM else (("f:status",),))


def disown(owners: Managed, fields: Fields) -> Managed:
    """The owners without these fields; who has none left is gone."""
    kept = {owner: replace(entry, fields=entry.fields - fields) for owner, entry in owners.items()}
    return {owner: entry for owner, entry in kept.items() if entry.fields}


def decode(obj: Obj | None) -> Managed:
    """The owners that an object names; none when its entries are malformed."""
    entries = ((obj or {}).get("metadata") or {}).get("managedFields") or []
    if not all(_well_formed(entry) for entry in entries):
        return {}
    return {_manager(entry): _entry(entry) for entry in entries}


def with_managers(obj: Obj, owners: Managed) -> Obj:
    """The object with these owners written into its metadata, in the server's order."""
    meta = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    if owners:
        order = sorted(owners, key=lambda owner: (owner.operation, owners[owner].time or "", *owner))
        meta["managedFields"] = [_encode(owner, owners[owner]) for owner in order]
    return {**obj, "metadata": meta}


def _well_formed(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("operation") in ("Apply", "Update")
        and entry.get("fieldsType") == "FieldsV1"
        and bool(entry.get("apiVersion"))
    )


def _manager(entry: Obj) -> Manager:
    version = entry["apiVersion"] if entry["operation"] == "Update" else ""
    return Manager(entry.get("manager", ""), entry["operation"], version, entry.get("subresource", ""))


def _entry(entry: Obj) -> Entry:
    return Entry(fieldsets.decode(entry.get("fieldsV1") or {}), entry["apiVersion"], entry.get("time"))


def _encode(owner: Manager, entry: Entry) -> Obj:
    written = {
        "manager": owner.name,
        "operation": owner.operation,
        "apiVersion": entry.api_version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fieldsets.encode(entry.fields),
        "subresource": owner.subresource or None,
    }
    return {name: value for name, value in written.items() if value is not None}


def stored(kind: Kind, obj: Obj | None) -> Obj:
    """The object as the server keeps it, without owners: empty lists and maps of names are as good as absent."""
    meta = (obj or {}).get("metadata")
    if obj is None or not isinstance(meta, dict):
        return {} if obj is None else obj
    kept: Obj = obj if kind is CUSTOM else _without_empty(obj)
    return {**kept, "metadata": _without_empty({name: item for name, item in meta.items() if name != "managedFields"})}


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        filled = {name: item for name, item in value.items() if item != [] and (item != {} or name not in _MAPS)}
        return {name: _without_empty(item) for name, item in filled.items()}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value


def _overlay(blank: Any, value: Any) -> Any:
    if isinstance(blank, Mapping) and isinstance(value, dict):
        return {**blank, **{name: _overlay(blank.get(name), item) for name, item in value.items()}}
    return value
