"""Leader election among threads, on both API servers and where answers fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes.client import Configuration

from kubenexus.common.kube.auth import Access
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.election import Timing
from kubenexus.common.kube.leader import Leader
from kubenexus.common.kube.resources import LEASES
from tests.servers import Server
from tests.stub_server import Handler, serving, until

FAST = Timing(lease=1.0, renew=0.7, retry=0.05)


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client.connect(str(server.kubeconfig)) as made:
        yield made


class Candidate:
    """A process that stands for election, and what it went through."""

    def __init__(self, client: Client, namespace: str, name: str, **more: Any) -> None:
        self.story: list[str] = []
        self.leader = Leader(
            client,
            namespace,
            "main",
            name,
            on_started=lambda: self.story.append("started"),
            on_stopped=lambda: self.story.append("stopped"),
            **{"timing": FAST, **more},
        )
        self.leader.start()


def test_one_leads_and_hands_over(client: Client, server: Server) -> None:
    first = Candidate(client, server.namespace, "first")
    until(first.leader.is_leader)
    second = Candidate(client, server.namespace, "second")
    wait_for_renewals(client, server.namespace, 5)
    assert (first.story, second.story, second.leader.is_leader()) == (["started"], [], False)
    first.leader.stop()
    assert not first.leader.is_leader()
    assert first.story == ["started", "stopped"]
    until(second.leader.is_leader)
    spec = client.get(LEASES, "main", server.namespace)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("second", 1, 1)
    second.leader.stop()
    assert not client.get(LEASES, "main", server.namespace)["spec"].get("holderIdentity")


def wait_for_renewals(client: Client, namespace: str, count: int) -> None:
    seen: set[str] = set()

    def enough() -> bool:
        seen.add(client.get(LEASES, "main", namespace)["spec"]["renewTime"])
        return len(seen) > count

    until(enough)


def test_a_leader_that_dies_is_followed_when_its_lease_runs_out(client: Client, server: Server) -> None:
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 1, "renewTime": "2099-01-01T00:00:00.000000Z"}
    lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": "main"}, "spec": spec}
    client.create(LEASES, lease, server.namespace)
    follower = Candidate(client, server.namespace, "follower")
    until(follower.leader.is_leader)
    follower.leader.stop()


def test_one_of_many_leads(client: Client, server: Server) -> None:
    candidates = [Candidate(client, server.namespace, str(number)) for number in range(5)]
    until(lambda: any(candidate.leader.is_leader() for candidate in candidates))
    assert sum(candidate.leader.is_leader() for candidate in candidates) == 1
    for candidate in candidates:
        candidate.leader.stop()
    assert sum("started" in candidate.story for candidate in candidates) >= 1


class LeaseServer:
    """Keeps one Lease; then does what it is told."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.trouble: Callable[[Handler], None] | None = None

    def __call__(self, handler: Handler) -> None:
        seen = handler.server.seen[-1]
        if self.trouble:
            self.trouble(handler)
        elif seen.method == "GET" and self.lease is None:
            handler.reply(404, {"kind": "Status", "reason": "NotFound"})
        else:
            self.lease = seen.body or self.lease
            handler.reply(200, self.lease)


@pytest.mark.parametrize(
    "trouble",
    [
        lambda handler: handler.reply(500, {}),
        lambda handler: handler.cut(),
        lambda handler: handler.hang(),
        lambda handler: handler.reply(409, {"kind": "Status", "reason": "Conflict"}),
    ],
    ids=["500", "cut", "hang", "conflict"],
)
def test_who_cannot_renew_stops_in_time(trouble: Callable[[Handler], None]) -> None:
    keeper = LeaseServer()
    with serving(keeper) as server, Client(Access(lambda: Configuration(host=server.url))) as client:
        candidate = Candidate(client, "ns", "me")
        until(candidate.leader.is_leader)
        keeper.trouble = trouble
        until(lambda: not candidate.leader.is_leader(), timeout=FAST.renew + 0.5)
        until(lambda: candidate.story == ["started", "stopped"], timeout=0.5)
        keeper.trouble = None
        asked = len(server.seen)
        candidate.leader.stop()
        assert len(server.seen) <= asked + 1, "who has lost the Lease does not touch it again"
        assert keeper.lease
        assert keeper.lease["spec"]["holderIdentity"] == "me"


def test_a_lease_taken_by_another_ends_the_leading_at_once() -> None:
    keeper = LeaseServer()
    with serving(keeper) as server, Client(Access(lambda: Configuration(host=server.url))) as client:
        candidate = Candidate(client, "ns", "me", timing=Timing(60.0, 50.0, 0.02))
        until(candidate.leader.is_leader)

        def taken(handler: Handler) -> None:
            handler.reply(200, {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}})

        keeper.trouble = taken
        until(lambda: candidate.story == ["started", "stopped"], timeout=5)
        assert not candidate.leader.is_leader()
        candidate.leader.stop()


def test_the_fence_falls_by_the_clock_alone() -> None:
    """The election's thread is stuck in a call; the clock goes on; nobody may think that we lead."""
    now = [100.0]
    asked = threading.Event()

    def stuck(handler: Handler) -> None:
        asked.set()
        handler.hang()

    keeper = LeaseServer()
    with serving(keeper) as server, Client(Access(lambda: Configuration(host=server.url))) as client:
        timing = Timing(15.0, 10.0, 0.02)
        candidate = Candidate(client, "ns", "me", timing=timing, clock=lambda: now[0])
        until(candidate.leader.is_leader)
        keeper.trouble = stuck
        assert asked.wait(5)
        now[0] = 109.9
        assert candidate.leader.is_leader()
        now[0] = 110.1
        assert not candidate.leader.is_leader()
        assert candidate.story == ["started"]
        server.stopping.set()
        until(lambda: candidate.story == ["started", "stopped"])
        keeper.trouble = None
        candidate.leader.stop()
