"""ResourceFragmentation looks ahead to what pods ask for, by what those ask for that run."""

from __future__ import annotations

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.objects import project_node, project_pod
from kubenexus.scheduler.devices.islands import Mix
from kubenexus.scheduler.engine.cycle import Cycle, Place
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.fragmentation import EVEN, OfSize, ResourceFragmentation, rough
from kubenexus.scheduler.profiles import build_cycles
from tests.builders import node, pod
from tests.machines import dgx_h100


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
    state = State()
    text = wire.encode_annotation(dgx_h100())
    for number in range(nodes):
        made = node(f"n{number}").capacity(cpu=64, memory="128Gi", gpu=8).annotation(v.TOPOLOGY_SNAPSHOT, text)
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


def test_small_pods_fill_one_machine_after_the_other() -> None:
    cycle = cluster(4)
    nodes = []
    for number in range(16):
        found = cycle.decide(project_pod(pod(f"p{number}").gpu(1).build()))
        assert isinstance(found, Place)
        nodes.append(found.node)
    assert len(set(nodes[:8])) == len(set(nodes[8:])) == 1
