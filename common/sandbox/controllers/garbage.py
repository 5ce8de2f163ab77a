"""The garbage collector: an object goes when its last owner has gone. Owners are known by uid, not by name. Pure.

Foreground: the owner waits, deleted but present, until no dependent blocks it. Orphan: the dependents forget the owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from kubenexus.common.kube.resources import Resource
from kubenexus.common.sandbox.controllers.pods import is_deleting
from kubenexus.common.sandbox.controllers.view import View, owners
from kubenexus.common.sandbox.controllers.writes import Delete, Patch, Reconcile, Write, without_finalizer

Obj = dict[str, Any]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


def controller(res: Resource) -> Reconcile:
    """The collector for objects of one kind: as owners on their way out, or as dependents."""

    def reconcile(view: View, obj: Obj, _now: datetime) -> Iterator[Write]:
        if is_deleting(obj):
            yield from _release(view, res, obj)
        elif owners(obj):
            yield from _collect(view, res, obj)

    return reconcile


def _release(view: View, res: Resource, owner: Obj) -> Iterator[Write]:
    finalizers, uid = owner["metadata"].get("finalizers") or (), owner["metadata"]["uid"]
    if ORPHAN in finalizers:
        for ref, dependent in view.dependents(uid):
            yield _without_owners(ref[0], dependent, {uid})
        yield without_finalizer(res, owner, ORPHAN)
    elif FOREGROUND in finalizers and not _blocked(view, uid):
        yield without_finalizer(res, owner, FOREGROUND)


def _blocked(view: View, uid: str) -> bool:
    return any(
        reference["uid"] == uid and reference.get("blockOwnerDeletion")
        for _, dependent in view.dependents(uid)
        for reference in owners(dependent)
    )


def _collect(view: View, res: Resource, obj: Obj) -> Iterator[Write]:
    gone = {each["uid"] for each in owners(obj) if _is_gone(view, obj, each)}
    waiting = {each["uid"] for each in owners(obj) if each["uid"] not in gone and _waits_for(view, each)}
    if not gone and not waiting:
        return
    if len(gone | waiting) < len({each["uid"] for each in owners(obj)}):
        yield _without_owners(res, obj, gone | waiting)
    elif waiting and view.dependents(obj["metadata"]["uid"]):
        yield Delete(res, obj, "Foreground")
    else:
        yield Delete(res, obj, "Background")


def _is_gone(view: View, obj: Obj, reference: Obj) -> bool:
    """Whether no such owner exists within reach; of a kind that nobody serves nothing is known."""
    found = view.by_uid(reference["uid"])
    if found is None:
        return (reference["apiVersion"], reference["kind"]) in view.served
    namespace = found[0][1]
    return namespace not in ("", obj["metadata"].get("namespace", ""))


def _waits_for(view: View, reference: Obj) -> bool:
    found = view.by_uid(reference["uid"])
    owner = found[1] if found else None
    return owner is not None and is_deleting(owner) and FOREGROUND in (owner["metadata"].get("finalizers") or ())


def _without_owners(res: Resource, obj: Obj, uids: set[str]) -> Patch:
    rest = [each for each in owners(obj) if each["uid"] not in uids]
    return Patch(res, obj, {"metadata": {"ownerReferences": rest or None}})
