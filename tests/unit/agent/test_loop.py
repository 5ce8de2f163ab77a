"""The loop does what the agenda says, whatever the API server answers, and stops when told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kubenexus.agent.agenda import Agenda, Timing
from kubenexus.agent.loop import Event, Loop
from kubenexus.agent.publish.memory import Look
from kubenexus.agent.publish.publisher import NodeGone
from kubenexus.common.kube.errors import ApiError, NotReached
from kubenexus.common.kube.mirror import Backoff
from kubenexus.common.topology import NodeTopology
from kubenexus.common.wire import Allocations, Given
from tests.machines import dgx_h100
from tests.stub_server import until

FAST = Timing(poll=0.005, scan=1000, check=1000, settle=0, repair=0, backoff=Backoff(0.001, 0.001))


class FakeMachine:
    def __init__(self) -> None:
        self.print = "1"
        self.looks = 0
        self.given: Allocations | None = None

    def fingerprint(self) -> str:
        return self.print

    def look(self) -> Look:
        self.looks += 1
        return Look(dgx_h100(), "ok", self.given)

    def allocations(self, topology: NodeTopology) -> Allocations | None:
        assert topology == dgx_h100()
        return self.given


class FakePublisher:
    def __init__(self) -> None:
        self.published: list[Look] = []
        self.answer: Exception | None = None

    def publish(self, look: Look, now: float) -> int:  # noqa: ARG002
        self.published.append(look)
        if self.answer:
            raise self.answer
        return 1


class Running:
    def __init__(self) -> None:
        self.machine, self.publisher = FakeMachine(), FakePublisher()
        self.agenda = Agenda(FAST, 0.0)
        self.loop = Loop(self.machine, self.publisher, self.agenda)
        self.end: Exception | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.loop.run()
        except NodeGone as gone:
            self.end = gone


@contextmanager
def started(running: Running) -> Iterator[None]:
    running.thread.start()
    yield
    running.loop.tell(Event.STOP)
    running.thread.join(5)
    assert not running.thread.is_alive()


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    with started(made):
        until(lambda: made.publisher.published)
        yield made


def test_it_publishes_once_and_then_only_when_something_happens(running: Running) -> None:
    running.machine.print = "2"
    until(lambda: len(running.publisher.published) == 2)
    assert running.machine.looks == 2


def test_a_hangup_scans_again(running: Running) -> None:
    running.loop.tell(Event.RESCAN)
    until(lambda: running.machine.looks == 2)


def test_a_disturbance_publishes_again_without_a_scan(running: Running) -> None:
    running.loop.tell(Event.DISTURBED)
    until(lambda: len(running.publisher.published) == 2)
    assert running.machine.looks == 1


def test_what_the_kubelet_gives_is_published_without_a_scan(running: Running) -> None:
    running.machine.given = {"uid": Given((1,), (), (0,))}
    until(lambda: len(running.publisher.published) == 2)
    assert running.publisher.published[-1].allocations == running.machine.given
    assert running.machine.looks == 1


def test_an_outage_is_survived() -> None:
    running = Running()
    running.publisher.answer = NotReached("nobody there")
    with started(running):
        until(lambda: len(running.publisher.published) > 3)
        running.publisher.answer = None
        until(lambda: running.agenda.ready(0.0) is None)


def test_any_refusal_is_survived_and_shown() -> None:
    running = Running()
    running.publisher.answer = ApiError("may not patch nodes")
    with started(running):
        until(lambda: "may not patch nodes" in str(running.agenda.ready(0.0)))


def test_it_ends_with_its_node() -> None:
    running = Running()
    running.publisher.answer = NodeGone("n1", seen=True)
    running.thread.start()
    running.thread.join(5)
    assert str(running.end) == "there is no Node n1"
