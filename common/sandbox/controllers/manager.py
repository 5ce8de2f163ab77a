"""Runs the controllers on a registry: takes in what changed, asks those concerned, applies what they want.

`step` does this once and `run_until_idle` until nothing is left to do at this moment of the clock; both are for tests,
where time passes only when the test says so. `start` runs the same steps in a thread.
"""

from __future__ import annotations

import hashlib
import heapq
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final

from kubenexus.common.kube.resources import (
    CORE_EVENTS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    STATEFUL_SETS,
    Resource,
)
from kubenexus.common.sandbox.controllers import (
    claims,
    deployment,
    disruption,
    garbage,
    job,
    kubelet,
    replicaset,
    statefulset,
)
from kubenexus.common.sandbox.controllers.feed import Feed, Step
from kubenexus.common.sandbox.controllers.pods import is_deleting
from kubenexus.common.sandbox.controllers.view import Ref, View, owners, reference
from kubenexus.common.sandbox.controllers.writes import Create, Delete, Patch, Reconcile, Wake, Write, stamp
from kubenexus.common.sandbox.errors import ApiError
from kubenexus.common.sandbox.registry import Registry
from kubenexus.common.sandbox.writes import Call

Obj = dict[str, Any]
_log = logging.getLogger(__name__)

CONTROLLERS: Final[dict[Resource, tuple[Reconcile, ...]]] = {
    DEPLOYMENTS: (deployment.reconcile,),
    JOBS: (job.reconcile,),
    NODES: (kubelet.reconcile_node,),
    POD_DISRUPTION_BUDGETS: (disruption.reconcile,),
    PODS: (job.release_pod, claims.reconcile_pod, kubelet.reconcile_pod),
    REPLICA_SETS: (replicaset.reconcile,),
    RESOURCE_CLAIMS: (claims.reconcile_claim,),
    STATEFUL_SETS: (statefulset.reconcile,),
}

POLL_SECONDS: Final = 0.01
_FIRST_RETRY: Final = timedelta(milliseconds=100)
_LONGEST_RETRY: Final = timedelta(seconds=60)
_USER: Final = "system:kube-controller-manager"


class ControllerManager:
    """All controllers of one sandbox. Either call `step` yourself or `start` the thread, not both."""

    def __init__(self, registry: Registry, clock: Callable[[], datetime]) -> None:
        self._registry = registry
        self._clock = clock
        self._feed = Feed(registry)
        self._queue: dict[Ref, None] = {}
        self._timers: list[tuple[datetime, int, Ref]] = []
        self._tick = count()
        self._failures: dict[Ref, int] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Run in the background until `stop`."""
        self._thread = threading.Thread(target=self._run, name="sandbox-controllers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; safe to call twice or without `start`."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def step(self) -> bool:
        """Reconcile one object that needs it; whether there was one."""
        self._take_in()
        now = self._clock()
        while self._timers and self._timers[0][0] <= now:
            self._queue[heapq.heappop(self._timers)[2]] = None
        if not self._queue:
            return False
        ref = next(iter(self._queue))
        del self._queue[ref]
        self._reconcile(ref, now)
        return True

    def run_until_idle(self, most_steps: int = 100_000) -> None:
        """Step until nothing is left to do at this moment; an error if that never comes."""
        for _ in range(most_steps):
            if not self.step():
                return
        raise RuntimeError(f"the controllers found no rest in {most_steps} steps")

    @property
    def next_wake(self) -> datetime | None:
        """When there will be something to do again, if nobody else does anything."""
        return self._timers[0][0] if self._timers else None

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                busy = self.step()
            except Exception:  # noqa: BLE001 (one object that a controller cannot digest must not stop all the others)
                _log.exception("a controller failed")
                continue
            if not busy:
                self._stopping.wait(POLL_SECONDS)

    def _take_in(self) -> None:
        for step in self._feed.take_in():
            self._queue.update(dict.fromkeys(_concerned(self._feed.view, step)))

    def _reconcile(self, ref: Ref, now: datetime) -> None:
        for reconcile in (*CONTROLLERS.get(ref[0], ()), garbage.controller(ref[0])):
            obj = self._feed.view.find(ref)
            if obj is None:
                self._failures.pop(ref, None)
                return
            for write in reconcile(self._feed.view, obj, now):
                try:
                    self._apply(ref, write)
                except ApiError as error:
                    self._failed(ref, obj, write, error, now)
                    return
            self._take_in()
        self._failures.pop(ref, None)

    def _apply(self, ref: Ref, write: Write) -> None:
        call = Call(_USER, ("system:authenticated",), "kube-controller-manager")
        match write:
            case Create(res, obj):
                self._registry.create(res, obj["metadata"].get("namespace"), obj, call=call)
            case Patch(res, seen, patch, subresource, guarded):
                _, namespace, name = reference(res, seen)
                self._registry.patch(
                    res, namespace, name, _pinned(patch, seen, guarded), subresource=subresource, call=call
                )
            case Delete(res, seen, propagation, grace):
                _, namespace, name = reference(res, seen)
                uid = seen["metadata"]["uid"]
                self._registry.delete(
                    res, namespace, name, uid=uid, propagation=propagation, grace_seconds=grace, call=call
                )
            case Wake(at):
                heapq.heappush(self._timers, (at, next(self._tick), ref))

    def _failed(self, ref: Ref, obj: Obj, write: Write, error: ApiError, now: datetime) -> None:
        """A lost race is run again; anything else is told, and tried again ever more slowly."""
        if not isinstance(write, Create) and error.reason in ("Conflict", "NotFound"):
            self._queue[ref] = None
            return
        _log.warning("%s %s/%s: %s", ref[0], ref[1], ref[2], error.message)
        if isinstance(write, Create):
            with suppress(ApiError):  # told before, or there is no namespace left to tell it in
                self._registry.create(CORE_EVENTS, ref[1] or "default", _event(ref, obj, error.message, now))
        failures = self._failures[ref] = self._failures.get(ref, 0) + 1
        wait = min(_FIRST_RETRY * 2 ** min(failures, 10), _LONGEST_RETRY)
        heapq.heappush(self._timers, (now + wait, next(self._tick), ref))


def _event(ref: Ref, obj: Obj, message: str, now: datetime) -> Obj:
    """The event that `kubectl describe` shows under the object; the same one for the same trouble."""
    mark = hashlib.sha256(message.encode()).hexdigest()[:16]
    return {
        "metadata": {"name": f"{ref[2]}.{mark}", "namespace": ref[1] or "default"},
        "involvedObject": {
            "apiVersion": ref[0].api_version,
            "kind": ref[0].kind,
            "name": ref[2],
            "namespace": ref[1],
            "uid": obj["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": "FailedCreate",
        "message": f"Error creating: {message}"[:1024],
        "source": {"component": "kube-controller-manager"},
        "firstTimestamp": stamp(now),
        "lastTimestamp": stamp(now),
        "count": 1,
    }


def _pinned(patch: Obj, seen: Obj, guarded: bool) -> Obj:
    """The patch with what it must find: the object, and in what version."""
    meta = seen["metadata"]
    pins = {"uid": meta["uid"]} | ({"resourceVersion": meta["resourceVersion"]} if guarded else {})
    return patch | {"metadata": patch.get("metadata", {}) | pins}


def _concerned(view: View, step: Step) -> Iterator[Ref]:
    """The objects that may need something after a change: itself, its owners, its dependents, and who watches it."""
    states = [obj for obj in (step.old, step.new) if obj is not None]
    yield reference(step.res, states[-1])
    for owner in (each for obj in states for each in owners(obj)):
        if found := view.by_uid(owner["uid"]):
            yield found[0]
    if step.new is None or is_deleting(step.new):
        yield from (ref for ref, _ in view.dependents(states[-1]["metadata"]["uid"]))
    if step.res == PODS:
        yield from _concerned_by_pod(view, states[-1])
    elif step.res == NODES:
        yield from (reference(PODS, pod) for pod in view.pods_on(states[-1]["metadata"]["name"]))
    elif step.res == RESOURCE_CLAIM_TEMPLATES:
        yield from (reference(PODS, pod) for pod in view.all(PODS, states[-1]["metadata"]["namespace"]))


def _concerned_by_pod(view: View, pod: Obj) -> Iterator[Ref]:
    namespace = pod["metadata"]["namespace"]
    yield from (reference(POD_DISRUPTION_BUDGETS, each) for each in view.all(POD_DISRUPTION_BUDGETS, namespace))
    named = [*(pod["spec"].get("resourceClaims") or ()), *(pod["status"].get("resourceClaimStatuses") or ())]
    yield from (
        (RESOURCE_CLAIMS, namespace, each["resourceClaimName"]) for each in named if "resourceClaimName" in each
    )
