"""Carries out what the owner thread decided, in other threads, and tells it what became of each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kubenexus.common import logs, metrics
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import wall_clock
from kubenexus.common.kube.courier import Courier
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.request import Request
from kubenexus.common.kube.request import prepare as request
from kubenexus.common.kube.resources import PODS
from kubenexus.common.objects import PodView
from kubenexus.scheduler.actions import (
    Action,
    Astray,
    Bind,
    Bound,
    Evicted,
    Eviction,
    Outcome,
    Prepare,
    Release,
    Released,
    Report,
    Unbound,
    Undo,
    Undone,
    Use,
)
from kubenexus.scheduler.binder import NOT_LEADING, THREADS, Attempt, Pool, binding
from kubenexus.scheduler.evict import evict
from kubenexus.scheduler.prepare import prepare, release
from kubenexus.scheduler.report import Reporter

log = logs.get(__name__)

COURIER_SECONDS = 5.0
"""how long answers are waited for at the end; then the pool has its time to find out"""


class Hands:
    """From `start` to `stop`. `may_write` is the fence: it is asked right before each write that places a pod.

    Binds go by courier. What blocks (a bind that does not go smoothly, preparations, evictions) has a pool of threads.
    """

    def __init__(
        self,
        client: Client,
        reporter: Reporter,
        tell: Callable[[Outcome], Any],
        *,
        may_write: Callable[[], bool] = lambda: True,
        threads: int = THREADS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._reporter, self._tell = client, reporter, tell
        self._may_write, self._clock = may_write, clock
        self._courier = Courier(client.access, client.agent, threads)
        self._pool = Pool("bind", threads)

    def start(self) -> None:
        self._courier.start()
        self._pool.start()

    def stop(self) -> None:
        """Finish what is under way."""
        self._courier.stop(COURIER_SECONDS)
        self._pool.stop()

    def carry_out(self, action: Action) -> None:
        """Never blocks."""
        if isinstance(action, Report):
            self._reporter.pending(action)
        elif isinstance(action, Bind):
            self._courier.send(_Binding(self, action, self._clock()))
        else:
            self._pool.put(lambda: self._tell(self._do(action)))

    def _do(self, action: Prepare | Undo | Release | Eviction) -> Outcome:
        """Whoever waits for an outcome gets one, even when we have a bug. What is then untrue the watch will mend."""
        try:
            if not self._may_write():
                return _undone(action, NOT_LEADING)
            if isinstance(action, Prepare):
                return prepare(self._client, action)
            if isinstance(action, Undo):
                release(self._client, action.bind.pod, action.bind.claims)
                return Undone(action.bind, action.why)
            if isinstance(action, Release):
                for pod, claims in action.claims:
                    release(self._client, pod, [Use(name, given=True) for name in claims])
                return Released(action)
            return evict(self._client, action, wall_clock(), lambda victim: self._preempted(victim, action))
        except Exception as error:
            log.exception("carrying out a decision failed")
            return _undone(action, f"{type(error).__name__}: {error}")

    # Binding

    def may_bind(self, bind: Bind) -> bool:
        """Whether the bind can be sent now, and without waiting for anything else to be written of the pod."""
        return self._may_write() and self._reporter.withdraw_now(bind.pod.uid)

    def bind_slowly(self, bind: Bind, begun: float, error: ApiError | None) -> None:
        """Go on with a bind that could not be sent at once, or whose sending ended with this error."""
        self._pool.put(lambda: self.bound(self._bind(bind, error), begun))

    def _bind(self, bind: Bind, error: ApiError | None) -> Bound | Astray | Unbound:
        try:
            self._reporter.withdraw(bind.pod.uid)
            attempt = Attempt(self._client, bind, self._may_write, self._pool.stopping.wait)
            return attempt.run() if error is None else attempt.resume(error)
        except Exception as problem:
            log.exception("binding a pod failed")
            return Unbound(bind, f"{type(problem).__name__}: {problem}")

    def bound(self, outcome: Bound | Astray | Unbound, begun: float) -> None:
        """A bind has come to its end."""
        bind = outcome.bind
        metrics.SCHEDULER_BINDS.labels(type(outcome).__name__.lower()).inc()
        if isinstance(outcome, Bound):
            metrics.SCHEDULER_BIND_SECONDS.observe(self._clock() - begun)
            self._reporter.bound(bind.pod, bind.node)
        else:
            log.info("a pod was not bound as decided", pod=bind.pod.key, node=bind.node, why=outcome.why)
        self._tell(outcome)

    def _preempted(self, victim: PodView, eviction: Eviction) -> None:
        note = f"Preempted by pod {eviction.pod.uid} on node {eviction.node}"
        self._reporter.event(victim, "Normal", "Preempted", "Preempting", note, related=eviction.pod)


class _Binding:
    """A bind on its way."""

    def __init__(self, hands: Hands, bind: Bind, begun: float) -> None:
        self._hands, self._bind, self._begun = hands, bind, begun

    def request(self) -> Request | None:
        pod = self._bind.pod
        if self._hands.may_bind(self._bind):
            return request("POST", PODS, pod.namespace, pod.name, subresource="binding", body=binding(self._bind))
        self._hands.bind_slowly(self._bind, self._begun, None)
        return None

    def done(self, error: ApiError | None) -> None:
        if error is None:
            self._hands.bound(Bound(self._bind), self._begun)
        else:
            self._hands.bind_slowly(self._bind, self._begun, error)


def _undone(action: Prepare | Undo | Release | Eviction, why: str) -> Outcome:
    if isinstance(action, Release):
        return Released(action)
    if isinstance(action, Undo):
        return Undone(action.bind, action.why)
    return Evicted(action, why) if isinstance(action, Eviction) else Unbound(action.bind, why)
