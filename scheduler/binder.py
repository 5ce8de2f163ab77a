"""Carrying decisions out: a bounded pool of threads that write to the API server, and what became of each write.

A bind is tried until its outcome is known. Where an answer is lost or odd, the pod is looked up before anything is
repeated, and repeated is only the same bind: the pod's place stays booked for as long as it may yet arrive there.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from kubenexus.common import logs, metrics
from kubenexus.common.kube.errors import ApiError, Conflict, NotFound, NotReached
from kubenexus.common.kube.resources import PODS, Resource
from kubenexus.scheduler.actions import Astray, Bind, Bound, Unbound

log = logs.get(__name__)
Obj = dict[str, Any]
End = Bound | Astray | Unbound

NOT_LEADING = "this scheduler does not lead any more"
THREADS = 32
TRIES = 4
"""of one bind, each after a look at the pod"""
PATIENCE = (0.1, 0.3, 1.0, 2.0, 5.0)
"""seconds between looks while the API server does not answer; the last one again and again"""


class Api(Protocol):
    """What binding needs of a `Client`."""

    def create(self, res: Resource, obj: Obj, namespace: str, /, *, subresource: str) -> Obj: ...
    def get(self, res: Resource, name: str, namespace: str, /) -> Obj: ...


def binding(bind: Bind) -> Obj:
    """The Binding object. With the uid it cannot hit another pod that took the name since."""
    meta: Obj = {"name": bind.pod.name, "namespace": bind.pod.namespace, "uid": bind.pod.uid}
    if bind.annotations:
        meta["annotations"] = dict(bind.annotations)
    target = {"apiVersion": "v1", "kind": "Node", "name": bind.node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}


def judge(bind: Bind, obj: Obj | None) -> End | None:
    """What the pod on the server (None: there is none) says about a bind; None if it may be tried again."""
    meta, spec = (obj or {}).get("metadata") or {}, (obj or {}).get("spec") or {}
    node = spec.get("nodeName") or ""
    if meta.get("uid") != bind.pod.uid:
        return Astray(bind, "the pod is gone")
    if node:
        return Bound(bind) if node == bind.node else Astray(bind, f"the pod is on {node}")
    if meta.get("deletionTimestamp"):
        return Astray(bind, "the pod is being deleted")
    if spec.get("schedulingGates"):
        return Unbound(bind, "the pod has scheduling gates")
    return None


class Attempt:
    """One bind, to its end."""

    def __init__(self, api: Api, bind: Bind, may_write: Callable[[], bool], wait: Callable[[float], bool]) -> None:
        """`wait` waits so many seconds and says whether it is time to give up altogether."""
        self._api, self._bind = api, bind
        self._may_write, self._wait = may_write, wait

    def run(self) -> End:
        why = ""
        for pause in PATIENCE[:TRIES]:
            if not self._may_write():
                return Unbound(self._bind, NOT_LEADING)
            try:
                self._api.create(PODS, binding(self._bind), self._bind.pod.namespace, subresource="binding")
            except ApiError as error:
                why = str(error)
                known = self._after(error)
                if known is not None:
                    return known
            else:
                return Bound(self._bind)
            if self._wait(pause):
                break
        return Unbound(self._bind, why)

    def resume(self, error: ApiError) -> End:
        """The same when a first try, made by somebody else, has failed."""
        if error.maybe_applied or isinstance(error, Conflict | NotFound):
            known = self._after(error)
            if known is not None:
                return known
        return self.run()

    def _after(self, error: ApiError) -> End | None:
        """What a failed write means; None: the pod is as before, and the bind may be tried again."""
        if error.maybe_applied:
            return self._look()
        if isinstance(error, Conflict):
            return self._look() or Unbound(self._bind, str(error))
        if isinstance(error, NotFound):
            return Astray(self._bind, "the pod is gone")
        return None if isinstance(error, NotReached) else Unbound(self._bind, str(error))

    def _look(self) -> End | None:
        """Find out where the pod is, however long the API server takes to answer."""
        metrics.SCHEDULER_LOOKUPS.inc()
        pauses = iter(PATIENCE)
        while True:
            try:
                return judge(self._bind, self._api.get(PODS, self._bind.pod.name, self._bind.pod.namespace))
            except NotFound:
                return judge(self._bind, None)
            except ApiError as error:
                log.debug("a bind without an answer cannot be looked up yet", pod=self._bind.pod.key, error=error)
            if self._wait(next(pauses, PATIENCE[-1])):
                return Astray(self._bind, "it is not known whether the pod was bound")


class Pool:
    """Threads that run tasks, in the order they came."""

    def __init__(self, name: str, threads: int = THREADS) -> None:
        self.stopping = threading.Event()
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True) for number in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def put(self, task: Callable[[], None]) -> None:
        self._tasks.put(task)

    def stop(self, timeout: float = 10.0) -> None:
        """Let the tasks that are queued end, for so many seconds; those that wait for an answer give up."""
        deadline = time.monotonic() + timeout
        self.stopping.set()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(deadline - time.monotonic(), 0))

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:
                log.exception("a task of the bind pool failed")
