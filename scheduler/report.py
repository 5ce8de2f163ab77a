"""What people read about pods that stay pending: the PodScheduled condition, and events.

The owner thread only notes what is to be said. A thread of its own writes conditions, the latest of each pod, so that
thousands of pending pods cost a steady few requests a second; events go to a recorder, which has limits of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kubenexus.common import logs
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import wall_clock
from kubenexus.common.kube.errors import (
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    ServerError,
    StatusError,
    TooManyRequests,
)
from kubenexus.common.kube.events import EventRecorder, reference
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import PODS
from kubenexus.common.kube.series import Bucket
from kubenexus.common.objects import PodView
from kubenexus.scheduler.actions import Report

log = logs.get(__name__)
Obj = dict[str, Any]

SCHEDULED = "PodScheduled"
RATE, BURST = 100.0, 200.0
PAUSE = 1.0
"""after a write that the API server was not able to take"""
LONGEST_MESSAGE = 32_768
"""the API server takes no longer message in a condition"""


def is_news(report: Report) -> bool:
    """Whether the pod's status says something else."""
    known = report.pod.condition(SCHEDULED)
    same = known is not None and known[1:] == ("False", report.reason, report.message[:LONGEST_MESSAGE])
    return not same or report.nominated not in (None, report.pod.nominated_node)


def status_patch(report: Report, now: datetime) -> Obj:
    """The strategic merge patch of a report. The uid in it keeps it off a pod that took the name since.

    The time of transition is set only when the status flips: the server does not fill it in, and keeps what it has.
    """
    pod, stamp = report.pod, now.strftime("%Y-%m-%dT%H:%M:%SZ")
    known = pod.condition(SCHEDULED)
    condition: Obj = {
        "type": SCHEDULED,
        "status": "False",
        "reason": report.reason,
        "message": report.message[:LONGEST_MESSAGE],
    }
    if known is None or known.status != "False":
        condition["lastTransitionTime"] = stamp
    status: Obj = {"conditions": [condition]}
    if report.nominated is not None:
        status["nominatedNodeName"] = report.nominated or None
    return {"metadata": {"uid": pod.uid}, "status": status}


class Reporter:
    """Writes reports from `start` to `stop`, at most one thread and `RATE` a second."""

    def __init__(
        self,
        client: Client,
        recorders: Mapping[str, EventRecorder],
        *,
        may_write: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = wall_clock,
    ) -> None:
        self._client = client
        self._recorders = recorders
        self._may_write = may_write
        self._clock, self._wall = clock, wall
        self._waiting: dict[str, Report] = {}
        self._writing = ""
        self._changed = threading.Condition()
        self._stopping = False
        self._bucket = Bucket(RATE, BURST, at=clock())
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Write no more. What was not said the next scheduler will find out."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)

    # What happened

    def pending(self, report: Report, *, tell: bool = True) -> None:
        """The pod stays pending, for this reason; with `tell` an event says so, too."""
        pod = report.pod
        if tell:
            self.event(pod, "Warning", "FailedScheduling", "Scheduling", report.message)
        if is_news(report):
            with self._changed:
                self._waiting[pod.uid] = report
                self._changed.notify_all()

    def withdraw(self, uid: str) -> None:
        """The pod is not pending any more: say nothing further. Waits for a write of it that is under way."""
        with self._changed:
            while self._writing == uid:
                self._changed.wait()
            self._waiting.pop(uid, None)

    def withdraw_now(self, uid: str) -> bool:
        """The same without waiting: False if something is being written of it."""
        with self._changed:
            self._waiting.pop(uid, None)
            return self._writing != uid

    def bound(self, pod: PodView, node: str) -> None:
        self.event(pod, "Normal", "Scheduled", "Binding", f"Successfully assigned {pod.key} to {node}")

    def event(
        self, pod: PodView, kind: Any, reason: str, action: str, note: str, related: PodView | None = None
    ) -> None:
        """An event on a pod, in the name of the scheduler that it, or `related`, asked for."""
        named = (related or pod).spec.scheduler_name
        recorder = self._recorders.get(named) or next(iter(self._recorders.values()))
        recorder.event(_reference(pod), kind, reason, action, note, related=related and _reference(related))

    # Writing

    def _run(self) -> None:
        while (report := self._next()) is not None:
            done = not self._may_write() or self._write(report)
            with self._changed:
                self._writing = ""
                if not done:
                    self._waiting.setdefault(report.pod.uid, report)
                self._changed.notify_all()
                if not done and not self._stopping:
                    self._changed.wait(PAUSE)

    def _next(self) -> Report | None:
        """The report that has waited longest; None at the end."""
        with self._changed:
            while not self._stopping:
                if not self._waiting:
                    self._changed.wait()
                elif self._bucket.take(self._clock()):
                    self._writing = next(iter(self._waiting))
                    return self._waiting.pop(self._writing)
                else:
                    self._changed.wait(1 / RATE)
        return None

    def _write(self, report: Report) -> bool:
        """Whether there is nothing more to do about this report."""
        pod = report.pod
        patch = status_patch(report, self._wall())
        try:
            self._client.patch(PODS, pod.name, patch, pod.namespace, kind=PatchType.STRATEGIC, subresource="status")
        except (NotFound, Conflict, Invalid):
            return True  # gone, or another pod of that name
        except ApiError as error:
            log.info("a pod's condition could not be written", pod=pod.key, error=error)
            return isinstance(error, StatusError) and not isinstance(error, ServerError | TooManyRequests)
        return True


def _reference(pod: PodView) -> Obj:
    return reference(PODS, pod.name, pod.namespace, pod.uid)
