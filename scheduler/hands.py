"""Carries out what the owner thread decided, in other threads, and tells it what became of each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kubenexus.common import logs, metrics
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import wall_clock
from kubenexus.common.objects import PodView
from kubenexus.scheduler.actions import Action, Bind, Bound, Evicted, Eviction, Outcome, Prepare, Report, Unbound
from kubenexus.scheduler.binder import NOT_LEADING, THREADS, Attempt, Pool
from kubenexus.scheduler.evict import evict
from kubenexus.scheduler.prepare import prepare
from kubenexus.scheduler.report import Reporter

log = logs.get(__name__)


class Hands:
    """From `start` to `stop`. `may_write` is the fence: it is asked right before each write that places a pod."""

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
        self._pool = Pool("bind", threads)

    def start(self) -> None:
        self._pool.start()

    def stop(self) -> None:
        """Finish what is under way."""
        self._pool.stop()

    def carry_out(self, action: Action) -> None:
        """Never blocks."""
        if isinstance(action, Report):
            self._reporter.pending(action)
        else:
            begun = self._clock()
            self._pool.put(lambda: self._tell(self._do(action, begun)))

    def _do(self, action: Bind | Prepare | Eviction, begun: float) -> Outcome:
        """Whoever waits for an outcome gets one, even when we have a bug. What is then untrue the watch will mend."""
        try:
            if isinstance(action, Bind):
                return self._bind(action, begun)
            if not self._may_write():
                return _undone(action, NOT_LEADING)
            if isinstance(action, Prepare):
                return prepare(self._client, action)
            return evict(self._client, action, wall_clock(), lambda victim: self._preempted(victim, action))
        except Exception as error:
            log.exception("carrying out a decision failed")
            return _undone(action, f"{type(error).__name__}: {error}")

    def _bind(self, bind: Bind, begun: float) -> Outcome:
        self._reporter.withdraw(bind.pod.uid)
        outcome = Attempt(self._client, bind, self._may_write, self._pool.stopping.wait).run()
        metrics.SCHEDULER_BINDS.labels(type(outcome).__name__.lower()).inc()
        if isinstance(outcome, Bound):
            metrics.SCHEDULER_BIND_SECONDS.observe(self._clock() - begun)
            self._reporter.bound(bind.pod, bind.node)
        else:
            log.info("a pod was not bound as decided", pod=bind.pod.key, node=bind.node, why=outcome.why)
        return outcome

    def _preempted(self, victim: PodView, eviction: Eviction) -> None:
        note = f"Preempted by pod {eviction.pod.uid} on node {eviction.node}"
        self._reporter.event(victim, "Normal", "Preempted", "Preempting", note, related=eviction.pod)


def _undone(action: Bind | Prepare | Eviction, why: str) -> Outcome:
    if isinstance(action, Eviction):
        return Evicted(action, why)
    return Unbound(action.bind if isinstance(action, Prepare) else action, why)
