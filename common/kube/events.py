"""Events for people: `kubectl describe` shows them on the object they are about.

The recorder never blocks its caller and never fails it: what the queue, the rate or the API server does not take is
dropped and counted. In a flood that is the good news: a warning finds room where there is none for others, and waits.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Literal

from kubenexus.common import logs, metrics
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import micro_time, wall_clock
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import EVENTS, Resource
from kubenexus.common.kube.series import WARNING, Create, Drop, Extend, Obj, Series, Write, cut

log = logs.get(__name__)

TICK = 1.0
MORE_WARNINGS = 10  # times as many of them may be queued as of other events
LONGEST_NAME = 230  # Of 253, with room for the suffix that makes the name of an event unique.


class EventRecorder:
    """Writes events (events.k8s.io/v1) from a thread of its own, from `start` to `stop`.

    `controller` is shown as the source; `instance` says which process, at most 128 characters.
    """

    def __init__(
        self,
        client: Client,
        controller: str,
        instance: str,
        *,
        series: Series | None = None,
        size: int = 1000,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = wall_clock,
    ) -> None:
        self._client = client
        self._controller, self._instance = controller, instance[:128]
        self._series = series or Series()
        self._clock, self._wall = clock, wall
        self._size = size
        self._queue: queue.SimpleQueue[Obj | None] = queue.SimpleQueue()
        self._deadline: float | None = None
        self._serial = itertools.count()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def event(
        self,
        regarding: Obj,
        kind: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        *,
        related: Obj | None = None,
    ) -> None:
        """Say that something happened to an object. `regarding` and `related` are references, see `reference`."""
        moment = self._wall()
        namespace = regarding.get("namespace") or "default"
        obj: Obj = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"namespace": namespace, "name": self._name(regarding, moment)},
            "eventTime": micro_time(moment),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "type": kind,
            "reason": reason,
            "action": action,
            "note": cut(note),
            "regarding": regarding,
        }
        if related:
            obj["related"] = related
        if self._queue.qsize() < self._size * (MORE_WARNINGS if kind == WARNING else 1):
            self._queue.put(obj)
        else:
            metrics.EVENTS_DROPPED.labels("queue").inc()

    def _name(self, regarding: Obj, moment: datetime) -> str:
        """Unique among the events of this process, and alike to what other components write."""
        nanos = int(moment.timestamp() * 1e6) * 1000 + next(self._serial) % 1000
        return f"{regarding['name'][:LONGEST_NAME].rstrip('.-')}.{nanos:x}"

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Write what is queued and close all series, for at most `timeout` seconds."""
        self._deadline = self._clock() + timeout
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        due_at = self._clock() + TICK
        while not self._finished():
            if obj := self._next():
                self._write(self._series.record(obj, self._clock()))
            if self._clock() >= due_at:
                self._write(self._series.due(self._clock()))
                due_at = self._clock() + TICK
        self._write(self._series.close())

    def _finished(self) -> bool:
        return self._deadline is not None and (self._queue.empty() or self._clock() >= self._deadline)

    def _next(self) -> Obj | None:
        try:
            return self._queue.get(timeout=TICK)
        except queue.Empty:
            return None

    def _write(self, writes: list[Write]) -> None:
        for write in writes:
            if isinstance(write, Drop):
                metrics.EVENTS_DROPPED.labels("rate").inc()
                continue
            try:
                self._send(write)
                metrics.EVENTS_WRITTEN.inc()
            except ApiError as error:
                metrics.EVENTS_DROPPED.labels("error").inc()
                log.debug("event not written", error=error)
                self._series.forget(_event_name(write))

    def _send(self, write: Create | Extend) -> None:
        if isinstance(write, Create):
            self._client.create(EVENTS, write.obj)
            return
        patch = {"series": {"count": write.count, "lastObservedTime": write.last}}
        self._client.patch(EVENTS, write.name, patch, write.namespace, kind=PatchType.MERGE)


def reference(res: Resource, name: str, namespace: str | None = None, uid: str | None = None) -> Obj:
    """An object as an event refers to it."""
    parts = {"apiVersion": res.api_version, "kind": res.kind, "namespace": namespace, "name": name, "uid": uid}
    return {key: value for key, value in parts.items() if value}


def _event_name(write: Create | Extend) -> str:
    name: str = write.obj["metadata"]["name"] if isinstance(write, Create) else write.name
    return name
