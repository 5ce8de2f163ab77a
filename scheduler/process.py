"""A whole scheduler: its threads, in the order in which they start and stop."""

from __future__ import annotations

import contextlib
import queue
from typing import Protocol

from kubenexus.common import logs
from kubenexus.common.config import LeaderElection, SchedulerConfiguration
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.election import Timing
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.events import EventRecorder
from kubenexus.common.kube.leader import Leader
from kubenexus.scheduler.actions import OWNERS
from kubenexus.scheduler.binder import THREADS
from kubenexus.scheduler.desk import Desk
from kubenexus.scheduler.hands import Hands
from kubenexus.scheduler.intake import Intake, served
from kubenexus.scheduler.loop import Loop, Signal
from kubenexus.scheduler.owners import GangOwners
from kubenexus.scheduler.report import Reporter

log = logs.get(__name__)

RETRY = 2.0


class Part(Protocol):
    """What has threads of its own."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class Scheduler:
    """Schedules in the thread that calls `run`, until `stop` or until another replica leads.

    A replica that does not lead watches all the same, so that it can take over at once.
    """

    def __init__(
        self,
        client: Client,
        config: SchedulerConfiguration,
        identity: str,
        *,
        elect: bool = True,
        bind_threads: int = THREADS,
    ) -> None:
        self.deposed = False
        self.desk = Desk(config)
        self._client = client
        self._stopping = False
        # Not an Event: a signal handler must not wait for a lock that the code it interrupts may hold.
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._leader = self._candidate(config.leader_election, identity) if elect else None
        self._loop = Loop(self.desk, may_decide=self._leads)
        names = [profile.scheduler_name for profile in config.profiles]
        self._recorders = {name: EventRecorder(client, name, f"{name}-{identity}") for name in names}
        self._reporter = Reporter(client, self._recorders, may_write=self._leads)
        self._hands = Hands(client, self._reporter, self._loop.tell, may_write=self._leads, threads=bind_threads)
        self._intake: Intake | None = None

    def run(self) -> None:
        intake = self._watch()
        if intake is None:
            return
        owners = GangOwners(self._client, self._loop.tell, intake.watched)
        parts: list[Part] = [*self._recorders.values(), self._reporter, self._hands, intake, owners]
        for part in parts:
            part.start()
        if self._leader:
            self._leader.start()
        try:
            self._loop.run(self._hands.carry_out)
        finally:
            for part in reversed(parts):
                part.stop()
            if self._leader:  # last, for what was still being written needs a leader
                self._leader.stop()

    def stop(self) -> None:
        """For any thread and for signal handlers: finish the binds under way, then return from `run`."""
        self._stopping = True
        self._bell.put(None)
        self._loop.stop()

    def ready(self) -> str | None:
        """For /readyz."""
        return self._intake.ready() if self._intake else "the API server has not said yet what it serves"

    def alive(self) -> str | None:
        """For /healthz."""
        return self._loop.alive() or (self._intake.alive() if self._intake else None)

    def _leads(self) -> bool:
        return self._leader is None or self._leader.is_leader()

    def _candidate(self, election: LeaderElection, identity: str) -> Leader:
        seconds = (election.lease_duration, election.renew_deadline, election.retry_period)
        return Leader(
            self._client,
            election.resource_namespace,
            election.resource_name,
            identity,
            on_started=lambda: self._loop.tell(Signal.LOOK),
            on_stopped=self._end_of_term,
            timing=Timing(*(one.total_seconds() for one in seconds)),
        )

    def _end_of_term(self) -> None:
        """Somebody else may lead now. What is in memory may be out of step with what they do: end."""
        self.deposed = not self._stopping
        self._loop.stop()

    def _watch(self) -> Intake | None:
        """The reflectors for what the server serves; None if we are stopped before it says so."""
        while not self._stopping:
            try:
                resources = served(self._client)
            except ApiError as error:
                log.warning("the API server does not say what it serves, trying again", error=error)
                with contextlib.suppress(queue.Empty):
                    self._bell.get(timeout=RETRY)
            else:
                self._intake = Intake(self._client, resources, self._loop.tell)
                self.desk.expect(self._intake.kinds | {OWNERS})
                return self._intake
        return None
