"""The whole agent but its process, on a synthetic machine and a sandbox that misbehaves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubenexus.agent.agenda import Agenda, Timing
from kubenexus.agent.discovery.nvml import NvmlAnswer, recorded_or_asked
from kubenexus.agent.loop import Event, Loop, SliceWatch
from kubenexus.agent.machine import Machine
from kubenexus.agent.publish.memory import Look
from kubenexus.agent.publish.publisher import NodeGone, Publisher
from kubenexus.agent.publish.wanted import DEFAULT_PARTS
from kubenexus.common import vocabulary as v
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.mirror import Backoff
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import NODES, RESOURCE_SLICES
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.sandbox.machine_tree import write_machine
from tests.agents import SMALL_DGX, generations, labels, slices, topology, versions
from tests.contract.objects import node as node_object
from tests.stub_server import until

FAST = Timing(poll=0.05, scan=0.3, check=0.2, settle=0, repair=0.02, backoff=Backoff(0.01, 0.05))
NODE = "n1"


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.fixture
def client(box: Sandbox, tmp_path: Path) -> Iterator[Client]:
    with Client.connect(str(box.write_kubeconfig(tmp_path / "kubeconfig"))) as made:
        made.create(NODES, node_object(NODE))
        yield made


class Agent:
    """An agent in a thread. `probe` may be set to what NVML says next; `rounds` counts its publications."""

    def __init__(self, client: Client, root: Path) -> None:
        self.probe: NvmlAnswer | None = None
        self.rounds = 0
        self.gone: NodeGone | None = None
        self.agenda = Agenda(FAST, 0.0)
        self.watch = SliceWatch(client, NODE, lambda: self.loop.tell(Event.DISTURBED))
        self._publisher = Publisher(client, NODE, DEFAULT_PARTS, 900, self.watch.slices)
        machine = Machine(root, lambda: self.probe or recorded_or_asked(root), root / "no.sock")
        self.loop = Loop(machine, self, self.agenda, on_published=self.watch.ensure)
        self.thread = threading.Thread(target=self._run)

    def publish(self, look: Look, now: float) -> int:
        written = self._publisher.publish(look, now)
        self.rounds += 1
        return written

    def _run(self) -> None:
        try:
            self.loop.run()
        except NodeGone as gone:
            self.gone = gone

    def stop(self) -> None:
        self.loop.tell(Event.STOP)
        self.thread.join(10)
        self.watch.stop()
        assert not self.thread.is_alive()

    def wait(self, rounds: int) -> None:
        """Until it has published so many times more."""
        goal = self.rounds + rounds
        until(lambda: self.rounds >= goal)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_machine(SMALL_DGX, tmp_path / "machine")
    return tmp_path / "machine"


@pytest.fixture
def agent(client: Client, root: Path) -> Iterator[Agent]:
    made = Agent(client, root)
    made.thread.start()
    made.wait(1)
    yield made
    made.stop()


def test_it_publishes_and_then_keeps_quiet(agent: Agent, client: Client) -> None:
    until(lambda: slices(client, NODE).keys() == {"numa", "gpu", "nic"})
    before = versions(client, NODE)
    agent.wait(20)
    assert versions(client, NODE) == before


def test_changed_hardware_is_published(agent: Agent, client: Client, root: Path) -> None:  # noqa: ARG001
    (root / "sys/devices/system/node/node0/meminfo").write_text("Node 0 MemTotal: 1024 kB\n")
    until(lambda: labels(client, NODE)[v.numa_node_label(0, "memory")] == str(1024**2))


def test_wiped_slices_come_back(agent: Agent, client: Client) -> None:
    agent.wait(3)
    for _ in range(3):
        for slice_ in slices(client, NODE).values():
            client.delete(RESOURCE_SLICES, slice_["metadata"]["name"])
        until(lambda: slices(client, NODE).keys() == {"numa", "gpu", "nic"})
    assert min(generations(client, NODE).values()) > 1


def test_a_foreign_label_value_is_undone(agent: Agent, client: Client) -> None:  # noqa: ARG001
    client.patch(NODES, NODE, {"metadata": {"labels": {v.GPU_COUNT: "1"}}}, kind=PatchType.MERGE)
    until(lambda: labels(client, NODE)[v.GPU_COUNT] == "8")


def test_a_hanging_probe_changes_nothing(agent: Agent, client: Client) -> None:
    until(lambda: len(slices(client, NODE)) == 3)
    before = versions(client, NODE), topology(client, NODE)
    agent.probe = NvmlAnswer("hung", "no answer")
    agent.wait(10)
    assert (versions(client, NODE), topology(client, NODE)) == before


def test_proven_absence_of_gpus_takes_them_back(agent: Agent, client: Client, root: Path) -> None:
    for function in (root / "sys/bus/pci/devices").iterdir():
        if (function / "class").read_text().startswith("0x0302"):
            function.unlink()
    agent.probe = NvmlAnswer("absent", "no driver")
    until(lambda: topology(client, NODE).gpus == ())
    assert [key for key in labels(client, NODE) if key.startswith(v.GPU_PREFIX)] == []


TROUBLES: dict[str, Callable[[Sandbox], None]] = {
    "429": lambda box: box.faults.fail(429, times=1, retry_after=1),
    "500 for writes": lambda box: box.faults.fail(500, times=6, method="PATCH"),
    "503 for everything": lambda box: box.faults.fail(503, times=10),
    "answers are lost": lambda box: box.faults.lose_answers(times=6, path="/nodes/"),
    "watches are cut": lambda box: box.faults.cut_watches(),
    "a restart": lambda box: box.faults.restart(),
    "a restart that forgets history": lambda box: box.faults.restart(new_history=True),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_it_survives(agent: Agent, client: Client, box: Sandbox, root: Path, trouble: str) -> None:
    until(lambda: len(slices(client, NODE)) == 3)
    TROUBLES[trouble](box)
    (root / "sys/devices/system/node/node0/meminfo").write_text("Node 0 MemTotal: 1024 kB\n")
    agent.wait(3)
    box.faults.clear()
    agent.wait(3)
    until(lambda: labels(client, NODE)[v.numa_node_label(0, "memory")] == str(1024**2))
    client.delete(RESOURCE_SLICES, slices(client, NODE)["gpu"]["metadata"]["name"])
    until(lambda: len(slices(client, NODE)) == 3)
    assert agent.thread.is_alive()


def test_it_ends_when_its_node_is_deleted(agent: Agent, client: Client) -> None:
    client.delete(NODES, NODE)
    agent.thread.join(10)
    assert agent.gone
    assert agent.gone.seen
