"""The thread that owns engine and queue: takes in what happened, decides, and hands out what is to be written.

Whatever comes from other threads comes through one queue, so that the engine needs no lock.
"""

from __future__ import annotations

import gc
import queue
import threading
import time
from collections.abc import Callable
from enum import Enum

from kubenexus.common import logs, metrics
from kubenexus.common.kube.mirror import Added
from kubenexus.scheduler.actions import REJECTED, Action, Heard, Outcome
from kubenexus.scheduler.desk import Desk
from kubenexus.scheduler.engine.cycle import Decision, Place, Preempt
from kubenexus.scheduler.engine.gang import Placed, Refused

log = logs.get(__name__)

MOST_AT_ONCE = 4096
"""news taken in before the next decision: a flood of them must not keep us from deciding"""
LONGEST_WAIT = 5.0
HUNG = 60.0
COUNT_EVERY = 1.0
PLACES = ("ready", "backoff", "parked", "gated", "forming", "binding")


class Signal(Enum):
    """What else the loop can be told."""

    STOP = "stop"
    LOOK = "look"
    """whether it may decide has changed"""


Item = Heard | Outcome | Signal


class Loop:
    """Runs in the thread that calls `run`, until it is told to stop. `tell` is for any thread."""

    def __init__(
        self,
        desk: Desk,
        *,
        may_decide: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk
        self._may_decide = may_decide
        self._clock = clock
        self._inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._beat = clock()
        self._frozen = False
        self._counted = self._beat
        self._missed = 0
        self._stopping = threading.Event()
        self.tell = self._inbox.put

    def stop(self) -> None:
        self._stopping.set()
        self._inbox.put(Signal.STOP)

    def alive(self) -> str | None:
        """For /healthz: None while the loop moves."""
        silent = self._clock() - self._beat
        return f"the loop has not moved for {silent:.0f} seconds" if silent > HUNG else None

    def run(self, carry_out: Callable[[Action], None]) -> None:
        """`carry_out` is called with everything that is to be written, and must not block."""
        while not self._stopping.is_set():
            self._take_in(self._patience())
            self._beat = now = self._clock()
            self._desk.tick(now)
            if self._may_decide():
                self._decide(now)
            for action in self._desk.take():
                carry_out(action)
            self._freeze()
            self._count(now)

    def _patience(self) -> float:
        """Seconds to wait for news."""
        due = self._desk.due() if self._may_decide() else None
        return LONGEST_WAIT if due is None else min(max(due - self._clock(), 0.0), LONGEST_WAIT)

    def _take_in(self, patience: float) -> None:
        try:
            item = self._inbox.get(timeout=patience) if patience else self._inbox.get_nowait()
            for _ in range(MOST_AT_ONCE):
                self._take(item)
                item = self._inbox.get_nowait()
            self._take(item)
        except queue.Empty:
            return

    def _take(self, item: Item) -> None:
        """Take one piece of news in. One that we stumble over must not keep the others from their places."""
        try:
            self._hear(item, self._clock())
        except Exception:
            log.exception("a piece of news could not be taken in", kind=getattr(item, "kind", type(item).__name__))

    def _hear(self, item: Item, now: float) -> None:
        if isinstance(item, Heard):
            self._desk.hear(item, now)
            if item.kind == REJECTED and self._frozen and isinstance(item.change, Added):
                metrics.SCHEDULER_REJECTIONS.labels(item.change.value.reason).inc()
        elif not isinstance(item, Signal):
            self._desk.finish(item, now)

    def _decide(self, now: float) -> None:
        decision = self._desk.decide(now)
        if decision is not None:
            metrics.SCHEDULER_DECISION_SECONDS.observe(self._clock() - now)
            metrics.SCHEDULER_DECISIONS.labels(_name(decision)).inc()

    def _count(self, now: float) -> None:
        if now - self._counted >= COUNT_EVERY:
            self._counted = now
            counts = self._desk.counts()
            for place in PLACES:
                metrics.SCHEDULER_PENDING.labels(place).set(counts[place])
            missed, self._missed = self._missed, self._desk.state.devices.misses
            metrics.SCHEDULER_SEAT_MISSES.inc(self._missed - missed)

    def _freeze(self) -> None:
        """What the first lists brought stays: it need not be looked at by every garbage collection."""
        if not self._frozen and self._desk.synced:
            self._frozen = True
            gc.collect()
            gc.freeze()
            log.info("synchronised", pods=len(self._desk.queue), nodes=int(self._desk.state.alive.sum()))


def _name(decision: Decision | Placed | Refused) -> str:
    if isinstance(decision, Placed | Refused):
        return "place-gang" if isinstance(decision, Placed) else "park-gang"
    if isinstance(decision, Place):
        return "place"
    return "preempt" if isinstance(decision, Preempt) else "park"
