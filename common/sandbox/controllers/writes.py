"""What a controller asks for: writes as data, and the few object parts that all controllers build. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from kubenexus.common.kube.resources import Resource

if TYPE_CHECKING:
    from kubenexus.common.sandbox.controllers.view import View

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Create:
    """A new object; its namespace is in its metadata."""

    res: Resource
    obj: Obj


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of this very object (by uid), refused when it changed since it was seen, unless not `guarded`."""

    res: Resource
    seen: Obj
    patch: Obj
    subresource: str = ""
    guarded: bool = True


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletion of this very object (by uid)."""

    res: Resource
    seen: Obj
    propagation: str = "Background"
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """Nothing to do before this moment: reconcile the object again then."""

    at: datetime


Write = Create | Patch | Delete | Wake
Reconcile = Callable[["View", Obj, datetime], Iterable[Write]]
"""What one object needs now. Pure: reads the view, never changes it; the runner applies the writes in order."""


def status(res: Resource, seen: Obj, wanted: Obj) -> Iterable[Patch]:
    """The write that makes these fields of the status so, if they are not; None removes a field."""
    present = seen.get("status") or {}
    changed = {key: value for key, value in wanted.items() if present.get(key) != value}
    if changed:
        yield Patch(res, seen, {"status": changed}, "status")


def without_finalizer(res: Resource, seen: Obj, finalizer: str) -> Patch:
    """Let go of the object. Not guarded: whoever removes a finalizer has acted already and must not act twice."""
    rest = [each for each in seen["metadata"].get("finalizers", ()) if each != finalizer]
    return Patch(res, seen, {"metadata": {"finalizers": rest or None}}, guarded=False)


def controller_reference(res: Resource, owner: Obj) -> Obj:
    meta = owner["metadata"]
    reference = {"apiVersion": res.api_version, "kind": res.kind, "name": meta["name"], "uid": meta["uid"]}
    return reference | {"controller": True, "blockOwnerDeletion": True}


def pod_from_template(res: Resource, owner: Obj, template: Obj) -> Obj:
    """A pod of the owner's template, not named yet."""
    meta = template.get("metadata") or {}
    kept = {key: meta[key] for key in ("labels", "annotations", "finalizers") if meta.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": owner["metadata"]["name"] + "-",
            "namespace": owner["metadata"]["namespace"],
            **kept,
            "ownerReferences": [controller_reference(res, owner)],
        },
        "spec": dict(template["spec"]),
    }


def set_condition(
    conditions: list[Obj], now: datetime, kind: str, value: bool, reason: str = "", message: str = ""
) -> list[Obj]:
    """The conditions with this one set; its transition time moves only when its value does."""
    old = next((each for each in conditions if each["type"] == kind), None)
    state = "True" if value else "False"
    since = old["lastTransitionTime"] if old and old["status"] == state and "lastTransitionTime" in old else stamp(now)
    new = {"type": kind, "status": state, "lastTransitionTime": since}
    new |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
    return [new if each is old else each for each in conditions] if old else [*conditions, new]


def has_condition(obj: Obj, kind: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def stamp(moment: datetime) -> str:
    """A time as Kubernetes writes it, in whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def after(text: str, seconds: float) -> datetime:
    """So many seconds after a time that Kubernetes wrote."""
    return moment(text) + timedelta(seconds=seconds)


def scaled(amount: int | str, total: int, *, round_up: bool) -> int:
    """A number, or a percentage (`25%`) of a total."""
    if isinstance(amount, int):
        return amount
    hundredths = int(amount.rstrip("%")) * total
    return -(-hundredths // 100) if round_up else hundredths // 100
