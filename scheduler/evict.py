"""Carrying a preemption out: the victims are marked and deleted, weaker pods lose the promise of the node.

PodDisruptionBudgets were counted in the choice; a deletion is no eviction and is not refused because of them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from kubenexus.common import logs, metrics
from kubenexus.common.kube.errors import ApiError, Conflict, Invalid, NotFound
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import PODS, Resource
from kubenexus.common.objects import PodView
from kubenexus.scheduler.actions import Evicted, Eviction

log = logs.get(__name__)
Obj = dict[str, Any]
GONE = (NotFound, Conflict, Invalid)
"""what the server says of a pod that is no more, or whose name another one has"""
TRIES = 3


class Api(Protocol):
    """What evicting needs of a `Client`."""

    def patch(
        self, res: Resource, name: str, patch: Obj, namespace: str, /, *, kind: PatchType, subresource: str
    ) -> Obj: ...
    def delete(self, res: Resource, name: str, namespace: str, /, *, uid: str) -> Obj: ...


def disruption(scheduler: str, victim: PodView, now: datetime) -> Obj:
    """The patch that says why a pod is about to be deleted."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{scheduler}: preempting to accommodate a higher priority pod",
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}


def evict(api: Api, eviction: Eviction, now: datetime, told: Callable[[PodView], None]) -> Evicted:
    """Delete the victims; `told` is called for each that was asked to leave."""
    for other in eviction.displaced:
        _persist(partial(_patch, api, other, _no_promise(other)))
    leaving = [victim for victim in eviction.victims if victim.deleted is None]
    problems = []
    for victim in leaving:
        _persist(partial(_patch, api, victim, disruption(eviction.pod.spec.scheduler_name, victim, now)))
        why = _persist(partial(api.delete, PODS, victim.name, victim.namespace, uid=victim.uid))
        if why:
            problems.append(f"{victim.key} cannot be deleted: {why}")
        else:
            metrics.SCHEDULER_VICTIMS.inc()
            told(victim)
    return Evicted(eviction, "; ".join(problems))


def _no_promise(pod: PodView) -> Obj:
    return {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": None}}


def _patch(api: Api, pod: PodView, patch: Obj) -> None:
    api.patch(PODS, pod.name, patch, pod.namespace, kind=PatchType.STRATEGIC, subresource="status")


def _persist(write: Callable[[], object]) -> str:
    """Do it, again where no answer came: all writes here may be repeated. Why it failed, or nothing."""
    why = ""
    for _ in range(TRIES):
        try:
            write()
        except GONE:
            return ""
        except ApiError as error:
            why = str(error)
            if not error.maybe_applied:
                break
        else:
            return ""
    log.warning("preemption could not be carried out as decided", error=why)
    return why
