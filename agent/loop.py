"""The loop of the agent: does what the agenda says, in one thread, and hears of signals and of changed slices."""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from typing import Any, Protocol

from kubenexus.agent.agenda import Agenda, Do
from kubenexus.agent.publish.memory import Look
from kubenexus.agent.publish.targets import own_slices
from kubenexus.common import logs, metrics
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import AlreadyExists, ApiError, Conflict
from kubenexus.common.kube.mirror import Change, Synced, by_name
from kubenexus.common.kube.reflector import Reflector
from kubenexus.common.kube.resources import RESOURCE_SLICES
from kubenexus.common.topology import NodeTopology
from kubenexus.common.wire import Allocations

log = logs.get(__name__)

Obj = dict[str, Any]


class Event(Enum):
    """What can wake the loop."""

    STOP = "stop"
    RESCAN = "rescan"
    DISTURBED = "disturbed"


class LocalMachine(Protocol):
    """What the loop needs of a `Machine`."""

    def fingerprint(self) -> str: ...
    def look(self) -> Look: ...
    def allocations(self, topology: NodeTopology) -> Allocations | None: ...


class Publishes(Protocol):
    """What the loop needs of a `Publisher`."""

    def publish(self, look: Look, now: float) -> int: ...


class SliceWatch:
    """A copy of the node's own slices that is kept true; `wake` is called whenever it changes."""

    def __init__(self, client: Client, node_name: str, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._started = False
        self._reflector: Reflector[Obj] = Reflector(
            client, RESOURCE_SLICES, lambda obj: obj, self._heard, field_selector=own_slices(node_name), key=by_name
        )

    def slices(self) -> Iterable[Obj] | None:
        """The slices, or None before the first list is complete."""
        return self._reflector.snapshot().values() if self._reflector.synced else None

    def ensure(self) -> None:
        """Start, unless that is done. Not before the first success: what is forbidden would be told twice."""
        if not self._started:
            self._started = True
            self._reflector.start()

    def stop(self) -> None:
        if self._started:
            self._reflector.stop()

    def _heard(self, change: Change[Obj]) -> None:
        if not isinstance(change, Synced):
            self._wake()


class Loop:
    """Runs in the thread that calls `run`, until `tell(Event.STOP)` or until the Node is gone. `tell` is for any thread
    and for signal handlers."""

    def __init__(
        self,
        machine: LocalMachine,
        publisher: Publishes,
        agenda: Agenda,
        *,
        on_published: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._machine = machine
        self._publisher = publisher
        self._agenda = agenda
        self._on_published = on_published
        self._clock = clock
        self._chance = chance
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._look: Look | None = None

    def tell(self, event: Event) -> None:
        self._events.put(event)

    def run(self) -> None:
        """Raises NodeGone."""
        while True:
            delay, todo = self._agenda.next(self._clock())
            try:
                event = self._events.get(timeout=delay) if delay else self._events.get_nowait()
            except queue.Empty:
                self._do(todo)
                continue
            if event is Event.STOP:
                return
            if event is Event.RESCAN:
                self._agenda.rescan(self._clock())
            else:
                self._agenda.disturbed(self._clock())

    def _do(self, todo: Do) -> None:
        if todo is Do.SCAN or self._look is None:
            self._scan()
        elif todo is Do.PUBLISH:
            self._publish(self._look)
        else:
            self._poll(self._look)

    def _scan(self) -> None:
        fingerprint = self._machine.fingerprint()
        self._look = self._machine.look()
        self._agenda.scanned(fingerprint, self._clock(), self._chance())

    def _poll(self, look: Look) -> None:
        given = self._machine.allocations(look.topology)
        if given != look.allocations:
            self._look = replace(look, allocations=given)
            self._agenda.disturbed(self._clock())
        self._agenda.polled(self._machine.fingerprint(), self._clock())

    def _publish(self, look: Look) -> None:
        try:
            written = self._publisher.publish(look, self._clock())
        except ApiError as error:
            pause = getattr(error, "retry_after", None) or 0.0
            if self._agenda.failed(str(error), self._clock(), self._chance(), pause):
                tell = log.info if isinstance(error, Conflict | AlreadyExists) else log.warning
                tell("publishing failed, trying again", error=error)
            return
        self._agenda.published(self._clock(), self._chance())
        metrics.AGENT_LAST_SUCCESS.set_to_current_time()
        if written:
            log.info("published", writes=written)
        self._on_published()
