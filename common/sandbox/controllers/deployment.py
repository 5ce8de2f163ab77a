"""The Deployment controller: one ReplicaSet per pod template, the newest grows while the others shrink. Pure.

Left out: pausing, minReadySeconds, progress deadlines and the clean-up of old revisions.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from kubenexus.common.kube.resources import DEPLOYMENTS, REPLICA_SETS
from kubenexus.common.sandbox.controllers.pods import is_deleting
from kubenexus.common.sandbox.controllers.templates import template_hash
from kubenexus.common.sandbox.controllers.view import View
from kubenexus.common.sandbox.controllers.writes import (
    Create,
    Patch,
    Write,
    controller_reference,
    scaled,
    set_condition,
    status,
)

Obj = dict[str, Any]

HASH_LABEL: Final = "pod-template-hash"
_REVISION: Final = "deployment.kubernetes.io/revision"


def reconcile(view: View, deployment: Obj, now: datetime) -> Iterator[Write]:
    """One step of the rollout, then the status."""
    sets = view.controlled(deployment, REPLICA_SETS)
    mark = template_hash(deployment["spec"]["template"])
    new = next((each for each in sets if each["metadata"].get("labels", {}).get(HASH_LABEL) == mark), None)
    old = [each for each in sets if each is not new]
    if is_deleting(deployment):
        return
    if new is None:
        yield Create(REPLICA_SETS, _replica_set(deployment, mark, old))
    else:
        yield from _rollout(deployment, new, old)
    yield from status(DEPLOYMENTS, deployment, _status(deployment, new, old, now))
    if new is not None:
        yield from _revision(deployment, new)


def _rollout(deployment: Obj, new: Obj, old: list[Obj]) -> Iterator[Write]:
    """Counts what was asked of the ReplicaSets, not what they report: they may not have caught up yet."""
    wanted, _, unavailable = _limits(deployment)
    yield from _scale(new, min(wanted, max(_wanted(new), _first_size(deployment, old))))
    spare = sum(map(_wanted, [*old, new])) - (wanted - unavailable) - (_wanted(new) - _available(new))
    for each in old:
        down = _wanted(each) if _recreates(deployment) else min(_wanted(each), max(0, spare))
        yield from _scale(each, _wanted(each) - down)
        spare -= down


def _first_size(deployment: Obj, old: list[Obj]) -> int:
    """How many pods of the new template there may be beside the old ones."""
    wanted, surge, _ = _limits(deployment)
    if _recreates(deployment):
        return 0 if any(map(_pods, old)) else wanted
    return max(0, min(wanted, wanted + surge - sum(map(_wanted, old))))


def _limits(deployment: Obj) -> tuple[int, int, int]:
    """Pods wanted, pods that may be too many and pods that may be missing during a rollout."""
    spec = deployment["spec"]
    wanted = spec.get("replicas", 1)
    rolling = spec.get("strategy", {}).get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge", "25%"), wanted, round_up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), wanted, round_up=False)
    return wanted, surge, unavailable if surge or unavailable else 1


def _recreates(deployment: Obj) -> bool:
    return bool(deployment["spec"].get("strategy", {}).get("type") == "Recreate")


def _scale(replica_set: Obj, replicas: int) -> Iterator[Patch]:
    if _wanted(replica_set) != replicas:
        yield Patch(REPLICA_SETS, replica_set, {"spec": {"replicas": replicas}})


def _revision(deployment: Obj, new: Obj) -> Iterator[Patch]:
    """Clients read the revision from the Deployment."""
    present = deployment["metadata"].get("annotations", {}).get(_REVISION)
    if present != (wanted := new["metadata"]["annotations"][_REVISION]):
        yield Patch(DEPLOYMENTS, deployment, {"metadata": {"annotations": {_REVISION: wanted}}}, guarded=False)


def _replica_set(deployment: Obj, mark: str, old: list[Obj]) -> Obj:
    meta, spec = deployment["metadata"], deployment["spec"]
    template, own = spec["template"], {HASH_LABEL: mark}
    labels = (template.get("metadata", {}).get("labels") or {}) | own
    selector = spec["selector"]
    revision = 1 + max((int(each["metadata"].get("annotations", {}).get(_REVISION, 0)) for each in old), default=0)
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": f"{meta['name']}-{mark}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {_REVISION: str(revision)},
            "ownerReferences": [controller_reference(DEPLOYMENTS, deployment)],
        },
        "spec": {
            "replicas": _first_size(deployment, old),
            "selector": selector | {"matchLabels": (selector.get("matchLabels") or {}) | own},
            "template": template | {"metadata": (template.get("metadata") or {}) | {"labels": labels}},
        },
    }


def _status(deployment: Obj, new: Obj | None, old: list[Obj], now: datetime) -> Obj:
    sets = [*old, new] if new else old
    wanted, _, unavailable = _limits(deployment)
    available, updated = sum(map(_available, sets)), _pods(new) if new else 0
    done = updated == wanted == available and sum(map(_pods, old)) == 0
    return {
        "observedGeneration": deployment["metadata"].get("generation"),
        "replicas": sum(map(_pods, sets)) or None,
        "updatedReplicas": updated or None,
        "readyReplicas": available or None,
        "availableReplicas": available or None,
        "unavailableReplicas": max(0, wanted - available) or None,
        "terminatingReplicas": sum((each.get("status") or {}).get("terminatingReplicas", 0) for each in sets),
        "conditions": _conditions(deployment, new, available >= wanted - unavailable, done, now),
    }


def _conditions(deployment: Obj, new: Obj | None, enough: bool, done: bool, now: datetime) -> list[Obj]:
    conditions: list[Obj] = (deployment.get("status") or {}).get("conditions") or []
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    text = f"Deployment {'has' if enough else 'does not have'} minimum availability."
    conditions = set_condition(conditions, now, "Available", enough, reason, text)
    if new is not None:
        reason = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
        text = f'ReplicaSet "{new["metadata"]["name"]}" {"has successfully progressed" if done else "is progressing"}.'
        conditions = set_condition(conditions, now, "Progressing", True, reason, text)
    return [{"lastUpdateTime": each["lastTransitionTime"]} | each for each in conditions]


def _wanted(replica_set: Obj) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def _pods(replica_set: Obj) -> int:
    return int((replica_set.get("status") or {}).get("replicas", 0))


def _available(replica_set: Obj) -> int:
    return int((replica_set.get("status") or {}).get("availableReplicas", 0))
