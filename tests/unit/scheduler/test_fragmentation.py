"""ResourceFragmentation looks ahead to what pods ask for, by what those ask for that run and those that wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.objects import project_node, project_pod
from kubenexus.common.topology import NodeTopology
from kubenexus.scheduler.devices.islands import Mix
from kubenexus.scheduler.engine.cycle import Cycle, Place
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.queue import Queue
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.muster import Muster
from kubenexus.scheduler.plugins.fragmentation import EVEN, OfSize, ResourceFragmentation, rough
from kubenexus.scheduler.profiles import build_cycles
from tests.builders import node, pod
from tests.machines import dgx_h100, gb200


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param((3, 0, 0, 1), EVEN, id="too few to tell"),
        pytest.param((40, 0, 0, 0), (10, 1, 1, 1), id="all ask for one"),
        pytest.param((50, 0, 0, 50), (5, 1, 1, 5), id="one or eight"),
        pytest.param((60, 0, 0, 40), (6, 1, 1, 5), id="more of one"),
    ],
)
def test_the_mix_is_rough(counts: Mix, expected: Mix) -> None:
    assert rough(counts) == expected


@pytest.mark.parametrize(("gpus", "size"), [(0, None), (1, 1), (2, 2), (3, 4), (8, 8), (16, 8)])
def test_pods_count_for_the_size_they_need(gpus: int, size: int | None) -> None:
    one = project_pod((pod("a").gpu(gpus) if gpus else pod("a")).build())
    found = [wanted for wanted in (1, 2, 4, 8) if OfSize(wanted, v.GPU_RESOURCES).weigh(one)]
    assert found == ([] if size is None else [size])


def cluster(nodes: int) -> Cycle:
    return cycle_of({f"n{number}": dgx_h100() for number in range(nodes)})


def cycle_of(machines: dict[str, NodeTopology]) -> Cycle:
    state = State()
    for name, topology in machines.items():
        room = node(name).capacity(cpu=64, memory="128Gi", gpu=len(topology.gpus or ()))
        made = room.annotation(v.TOPOLOGY_SNAPSHOT, wire.encode_annotation(topology))
        state.set_node(project_node(made.build()))
    (cycle,) = build_cycles(SchedulerConfiguration(), state, Nominations()).values()
    return cycle


def test_what_pods_ask_for_is_noticed() -> None:
    """Also when every pod is seen twice, as when its binding is confirmed with other labels."""
    cycle = cluster(12)
    for number in range(90):
        found = cycle.decide(project_pod(pod(f"p{number}").gpu(1).build()))
        assert isinstance(found, Place)
        cycle.state.place(found.pod._replace(labels=cycle.state.node(0).meta.labels), found.node)
    assert cycle.state.objects.gpu_mixes[ResourceFragmentation.name] == (10, 1, 1, 1)


def test_pods_that_wait_count_too() -> None:
    cycle = cluster(12)
    muster = Muster(Queue(), cycle.state)
    waiting = [project_pod(pod(f"w{number}").gpu(8).build()) for number in range(120)]
    for one in waiting:
        muster.waits(one, 0.0)
        muster.waits(one, 1.0)
    muster.waits(project_pod(pod("held").gpu(4).gate("not-yet").build()), 0.0)
    for one in waiting[80:]:
        muster.gone(one.uid, 2.0)
    for number in range(90):
        assert isinstance(cycle.decide(project_pod(pod(f"p{number}").gpu(1).build())), Place)
    (ones, twos, fours, eights) = cycle.state.objects.gpu_mixes[ResourceFragmentation.name]
    assert ones > 1
    assert eights > 3, "nobody with eight GPUs has a place"
    assert twos == fours == 1


def test_large_cards_are_left_to_those_that_need_them() -> None:
    """Cards of 80 GB before those of 186 GB, wherever nobody is yet; but no island is broken for that."""
    machines = {"large": with_memory(gb200(), 186), "small": with_memory(dgx_h100(), 80)}
    cycle = cycle_of(machines)
    assert place(cycle, "a", "60Gi") == "small"
    assert place(cycle, "b", "120Gi") == "large"
    assert place(cycle, "c", "60Gi") == "small"
    pristine = cycle_of(machines)
    assert place(pristine, "a", "120Gi") == "large"
    assert place(pristine, "b", "60Gi") == "large", "somebody is there already"


def with_memory(machine: NodeTopology, gibibytes: int) -> NodeTopology:
    gpus = tuple(replace(gpu, memory=gibibytes << 30) for gpu in machine.gpus or ())
    return replace(machine, gpus=gpus)


def place(cycle: Cycle, name: str, vram: str) -> str:
    found = cycle.decide(project_pod(pod(name).gpu(1).annotation(v.VRAM_REQUEST, vram).build()))
    assert isinstance(found, Place)
    return found.node


def test_small_pods_fill_one_machine_after_the_other() -> None:
    cycle = cluster(4)
    nodes = []
    for number in range(16):
        found = cycle.decide(project_pod(pod(f"p{number}").gpu(1).build()))
        assert isinstance(found, Place)
        nodes.append(found.node)
    assert len(set(nodes[:8])) == len(set(nodes[8:])) == 1
