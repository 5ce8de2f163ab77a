"""What a deletion does to an object: which version is written first, and whether the object then goes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kubenexus.common.sandbox.errors import ApiError, bad_request, conflict
from kubenexus.common.sandbox.kinds import Kind
from kubenexus.common.sandbox.pods import grace

Obj = dict[str, Any]

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete: preconditions, grace, and what happens to dependents."""

    uid: str | None = None
    resource_version: str | None = None
    grace_seconds: int | None = None
    propagation: str | None = None  # Background, Foreground, Orphan

    @staticmethod
    def from_object(body: Obj) -> DeleteOptions:
        """From the DeleteOptions object of a request."""
        wanted = body.get("preconditions") or {}
        propagation = body.get("propagationPolicy")
        orphan = body.get("orphanDependents")
        if propagation not in (None, "Background", "Foreground", "Orphan"):
            raise _unsupported_policy(propagation)
        if orphan is not None:
            if propagation is not None:
                raise bad_request("orphanDependents and deletionPropagation cannot be both set")
            propagation = "Orphan" if orphan else "Background"
        return DeleteOptions(
            wanted.get("uid"), wanted.get("resourceVersion"), body.get("gracePeriodSeconds"), propagation
        )


def _unsupported_policy(policy: Any) -> ApiError:
    text = f'Unsupported value: "{policy}": supported values: "Background", "Foreground", "Orphan"'
    message = f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {text}'
    cause = {"reason": "FieldValueNotSupported", "message": text, "field": "propagationPolicy"}
    return ApiError(422, "Invalid", message, {"group": "meta.k8s.io", "kind": "DeleteOptions", "causes": [cause]})


@dataclass(frozen=True, slots=True)
class Deletion:
    """First write `marked`, unless None; then remove the object, if `remove`."""

    marked: Obj | None
    remove: bool


def plan(kind: Kind, obj: Obj, options: DeleteOptions, now: datetime) -> Deletion:
    """Decide one deletion; raises 409 when a precondition fails."""
    _check_preconditions(kind, obj, options)
    finalizers = _finalizers(kind, obj, options)
    if kind.name == "Pod" and not _force_due(obj):
        return _plan_pod(obj, finalizers, options, now)
    if not finalizers and not _held(kind, obj):
        return Deletion(None, True)
    marked = _marked(obj, finalizers, now, 0)
    return Deletion(marked if marked != obj else None, False)


def _check_preconditions(kind: Kind, obj: Obj, options: DeleteOptions) -> None:
    meta = obj["metadata"]
    for asked, found, word, guess in (
        (options.uid, meta["uid"], "UID", "deleted and then recreated"),
        (options.resource_version, meta["resourceVersion"], "ResourceVersion", "modified"),
    ):
        if asked is not None and asked != found:
            why = f"the {word} in the precondition ({asked}) does not match the {word} in record ({found})"
            subject = f"{kind.name}.{kind.resource.group}" if kind.resource.group else kind.name
            raise conflict(kind.resource, meta["name"], f"{why}. The object might have been {guess}", subject=subject)


def _finalizers(kind: Kind, obj: Obj, options: DeleteOptions) -> list[str]:
    """The object's own finalizers, with those of the garbage collector as the options say."""
    present = obj["metadata"].get("finalizers") or []
    own = [each for each in present if each not in (ORPHAN, FOREGROUND)]
    match options.propagation:
        case "Orphan":
            return [*own, ORPHAN]
        case "Foreground":
            return [*own, FOREGROUND]
        case "Background":
            return own
    kept = [each for each in present if each in (ORPHAN, FOREGROUND)]
    return own + (kept or ([ORPHAN] if kind.orphans else []))


def _held(kind: Kind, obj: Obj) -> bool:
    """A namespace goes when it is empty, whatever its finalizers."""
    return kind.name == "Namespace" and bool((obj.get("spec") or {}).get("finalizers"))


def _force_due(pod: Obj) -> bool:
    """Already deleting with no grace left: the second deletion removes it."""
    meta = pod["metadata"]
    return bool(meta.get("deletionTimestamp")) and not meta.get("deletionGracePeriodSeconds")


def _plan_pod(pod: Obj, finalizers: list[str], options: DeleteOptions, now: datetime) -> Deletion:
    running = pod["metadata"].get("deletionGracePeriodSeconds")
    if running:
        asked = 1 if (options.grace_seconds or 0) < 0 else options.grace_seconds
        if asked is None or asked >= running:
            return Deletion(None, False)
        marked = _marked(pod, finalizers, _shortened(pod, running, now), asked)
    else:
        asked = grace(pod, options.grace_seconds)
        marked = _marked(pod, finalizers, now + timedelta(seconds=asked), asked)
    return Deletion(marked, asked == 0 and not finalizers)


def _shortened(pod: Obj, running: int, now: datetime) -> datetime:
    started = _time(pod["metadata"]["deletionTimestamp"]) - timedelta(seconds=running)
    return max(now, started)


def _marked(obj: Obj, finalizers: list[str], when: datetime, seconds: int) -> Obj:
    meta = {key: value for key, value in obj["metadata"].items() if key != "finalizers"}
    if finalizers:
        meta["finalizers"] = finalizers
    before = meta.get("deletionTimestamp")
    if not before or _time(before) > when:
        meta["deletionTimestamp"] = when.strftime(_FORMAT)
    meta["deletionGracePeriodSeconds"] = seconds
    if not before and meta.get("generation"):
        meta["generation"] += 1
    marked = obj | {"metadata": meta}
    if obj.get("kind") == "Namespace":
        marked["status"] = (obj.get("status") or {}) | {"phase": "Terminating"}
    return marked


def _time(text: str) -> datetime:
    return datetime.strptime(text, _FORMAT).replace(tzinfo=UTC)


def finished(kind: Kind, obj: Obj) -> bool:
    """Whether an updated object is deleted with the update: its last finalizer is gone and no grace is left."""
    meta = obj["metadata"]
    held = meta.get("finalizers") or meta.get("deletionGracePeriodSeconds") or _held(kind, obj)
    return bool(meta.get("deletionTimestamp")) and not held
