"""Server-side apply: one manager's configuration merged into an object, by who owns which field."""

from __future__ import annotations

from typing import Any

from kubenexus.common.sandbox.patch import fieldsets
from kubenexus.common.sandbox.patch.errors import ApplyConflict, Conflict, PatchError
from kubenexus.common.sandbox.patch.fieldsets import Fields
from kubenexus.common.sandbox.patch.managers import (
    NEVER_OWNED,
    SERVER_SET,
    Entry,
    Managed,
    Manager,
    changes,
    decode,
    disown,
    not_stored,
    stored,
    with_managers,
)
from kubenexus.common.sandbox.patch.schema import Kind, Shape, kind_of

Obj = dict[str, Any]

_BEFORE_APPLY = "before-first-apply"


def apply_patch(
    kind: str, live: Obj | None, applied: Obj, manager: str, force: bool, now: str, subresource: str = ""
) -> Obj:
    """The object after `manager` applied its configuration; without `live` a new one.

    Fields that the manager applied before, leaves out now and shares with nobody are removed. Changing a field that
    others own is an ApplyConflict unless forced; owning the same value together is none. When nothing changes the
    result equals `live`. What only the server sets is taken from `live`; a uid or resourceVersion in `applied` stays in
    the result, for the caller to compare.
    """
    meta = applied.get("metadata") or {}
    if not isinstance(meta, dict):
        raise PatchError("metadata is not an object", 400)
    if meta.get("managedFields") is not None:
        raise PatchError("metadata.managedFields must be nil", 400)
    known = kind_of(kind, applied, live)
    me = Manager(manager, "Apply", "", subresource)
    owners = decode(live) or _first_owners(known, live, now)
    last = owners.pop(me, Entry(frozenset(), ""))
    said = fieldsets.fields_of(applied, known.shape, strict=True)
    configured = not_stored(known, subresource).outside(said - NEVER_OWNED)

    owned = said.union(*(entry.fields for entry in owners.values()))
    before = stored(known, live)
    result = fieldsets.merged(before, applied, known.shape)
    result = _keep_server_set(_pruned(result, last.fields, owned, known.shape), before)
    written, removed = changes(known, before, result, subresource)
    if not force:
        _refuse_conflicts(owners, written)
    owners = disown(owners, written | removed)
    new = stored(known, fieldsets.without_nulls(result, known.shape))
    if configured:
        # As the server has it: a manager that only joins gets no time, one that writes an empty map does.
        idle = result == before or (last.fields == configured and new == before)
        time = last.time if idle else now
        owners[me] = Entry(configured, applied.get("apiVersion", ""), time)
    return with_managers(new, owners)


def _pruned(result: Obj, last: Fields, owned: Fields, shape: Shape) -> Obj:
    """`result` without what the manager had applied last time and nobody owns any more."""
    everything, mine = fieldsets.named(fieldsets.fields_of(result, shape)), fieldsets.named(last)
    untouched = fieldsets.named(fieldsets.fields_of(fieldsets.without(result, mine, shape), shape))
    kept = fieldsets.without(result, everything - untouched - fieldsets.named(owned), shape)
    gone = everything - fieldsets.named(fieldsets.fields_of(kept, shape))
    pruned: Obj = fieldsets.without(result, gone & mine, shape) or {}
    return pruned


def _keep_server_set(result: Obj, before: Obj) -> Obj:
    kept = {name: value for name, value in (before.get("metadata") or {}).items() if name in SERVER_SET}
    return {**result, "metadata": (result.get("metadata") or {}) | kept}


def _refuse_conflicts(others: Managed, written: Fields) -> None:
    conflicts = [
        Conflict(str(owner), fieldsets.show(path))
        for owner, entry in others.items()
        for path in fieldsets.in_order(entry.fields & written)
    ]
    if conflicts:
        raise ApplyConflict(conflicts)


def _first_owners(kind: Kind, live: Obj | None, now: str) -> Managed:
    """Who owns the fields of an object that was not tracked until this, its first apply."""
    if live is None:
        return {}
    version = live.get("apiVersion", "")
    written, _ = changes(kind, {}, stored(kind, live), "")
    return {Manager(_BEFORE_APPLY, "Update", version, ""): Entry(written - NEVER_OWNED, version, now)}
