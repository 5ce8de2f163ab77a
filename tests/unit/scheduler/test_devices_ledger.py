"""Who has what of a machine: as the kubelet says, as the scheduler assigned it, or as it must be guessed."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.config import PluginConfig, Profile, SchedulerConfiguration
from kubenexus.common.objects import project_pod
from kubenexus.common.topology import Gpu, Health, NodeTopology, NumaNode
from kubenexus.common.wire import Given
from kubenexus.scheduler.engine.cycle import Cycle, Park, Place, Preempt
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.profiles import build_cycles
from kubenexus.scheduler.world import World
from tests.builders import Builder, NodeBuilder, PodBuilder, node, pod

GIB = 1 << 30
POLICY = v.NUMA_POLICY
LOST = Gpu(index=3, numa=0, health=Health.LOST)


def topology(gpus: tuple[Gpu, ...] = (), memory: int | None = 64) -> NodeTopology:
    """2 × [16 CPUs, 64Gi], and four GPUs unless told otherwise."""
    size = None if memory is None else memory * GIB
    numa = tuple(NumaNode(id=i, cpus=tuple(range(16 * i, 16 * i + 16)), memory=size) for i in range(2))
    return NodeTopology(numa=numa, gpus=gpus or tuple(Gpu(index=i, numa=i // 2) for i in range(4)))


def machine(found: NodeTopology | None = None, *, cpu: int = 32, memory: str = "128Gi", gpu: int = 4) -> NodeBuilder:
    text = wire.encode_annotation(found or topology())
    return node("n").capacity(cpu=cpu, memory=memory, gpu=gpu).annotation(v.TOPOLOGY_SNAPSHOT, text)


def placed(name: str, numa: str = "", gpus: str = "", **more: Any) -> PodBuilder:
    built = guaranteed(name, **more).node("n")
    if numa:
        built.annotation(v.NUMA_ASSIGNED, numa)
    return built.annotation(v.GPU_ASSIGNED, gpus) if gpus else built


def guaranteed(name: str, *, cpu: str | int = 1, memory: str = "1Gi", gpu: int = 0) -> PodBuilder:
    built = pod(name).guaranteed(cpu, memory)
    return built.gpu(gpu) if gpu else built


def world(*objects: Builder) -> World:
    made = World()
    for one in objects:
        assert made.add(one.build())
    return made


def free(state: State) -> tuple[list[float], set[int] | None]:
    """The free CPUs of each NUMA node, and the free GPUs."""
    column = state.index("n")
    assert column is not None
    spot = state.devices.spot(column).occupancy
    gpus = None if spot.gpus is None else {index for index in range(16) if spot.gpus >> index & 1}
    return [left[0] / 1000 for left in spot.free], gpus


def allocations(**given: Given) -> str:
    return wire.encode_allocations(given)


COUNTED: list[Any] = [
    pytest.param([machine()], ([16, 16], {0, 1, 2, 3}), id="empty"),
    pytest.param([machine(cpu=30)], ([14, 16], {0, 1, 2, 3}), id="the system keeps the lowest CPUs"),
    pytest.param([machine(), placed("a", "1", cpu=6)], ([16, 10], {0, 1, 2, 3}), id="assigned"),
    pytest.param(
        [machine(), placed("a", "0,1", cpu=20)], ([0, 12], {0, 1, 2, 3}), id="over two, the lower filled first"
    ),
    pytest.param(
        [machine(), placed("a", "1", "2", cpu=6, gpu=1)], ([16, 10], {0, 1, 3}), id="with a GPU of the same NUMA node"
    ),
    pytest.param(
        [machine(), placed("a", cpu=12), placed("b", cpu=6), placed("c", gpu=2)],
        ([3, 10], {2, 3}),
        id="unknown pods: the first NUMA node with room, the lowest GPUs",
    ),
    pytest.param(
        [machine(), placed("a", gpu=1), placed("b", "0", "0", gpu=1)],
        ([14, 16], {2, 3}),
        id="those who are known to have something come first",
    ),
    pytest.param(
        [machine(), placed("a", "0", "0", gpu=1), placed("b", "0", "0", gpu=1)],
        ([14, 16], {2, 3}),
        id="a GPU that two claim is one pod's, and the other has another",
    ),
    pytest.param(
        [machine(), placed("a", "1", gpu=1), placed("b", "1", gpu=2)],
        ([16, 14], {1}),
        id="unknown GPUs are the lowest of a known NUMA node, then others",
    ),
    pytest.param(
        [machine(), placed("a", "0", "0", gpu=1), placed("b", "0,1", "0,3", gpu=2)],
        ([14, 16], {2}),
        id="whoever lacks one of those that it claims still has the others",
    ),
    pytest.param(
        [machine(), placed("a", "7", "9,9", cpu=2, gpu=1)], ([14, 16], {1, 2, 3}), id="what cannot be is not believed"
    ),
    pytest.param([machine(), pod("a").cpu(8).node("n")], ([12, 12], {0, 1, 2, 3}), id="shared: in proportion"),
    pytest.param(
        [machine(), placed("a", "0", cpu=14), pod("b").cpu(10).node("n")],
        ([0, 8], {0, 1, 2, 3}),
        id="shared: as far as there is room",
    ),
    pytest.param(
        [
            machine().annotation(v.ALLOCATIONS, allocations(**{"pod-default-a": Given((16, 17), (3,), (1,))})),
            placed("a", "0", "0", cpu=2, gpu=1),
        ],
        ([16, 14], {0, 1, 2}),
        id="the kubelet is right",
    ),
    pytest.param(
        [
            machine().annotation(v.ALLOCATIONS, allocations(**{"default/a": Given((0, 16), (), (0, 1))})),
            placed("a", cpu=2),
        ],
        ([15, 15], {0, 1, 2, 3}),
        id="the kubelet knows by name and by CPU",
    ),
    pytest.param(
        [machine().annotation(v.ALLOCATIONS, '{"pod-default-a": 7}'), placed("a", "1", cpu=2)],
        ([16, 14], {0, 1, 2, 3}),
        id="allocations that cannot be read are none",
    ),
    pytest.param([machine(gpu=16)], ([16, 16], None), id="GPUs shared in time cannot be told apart"),
    pytest.param(
        [machine(topology(tuple(Gpu(index=i, numa=0, mig=True) for i in range(2))), gpu=2)],
        ([16, 16], None),
        id="nor can slices of GPUs",
    ),
    pytest.param(
        [machine(topology((Gpu(index=0, numa=0, mig=True), *(Gpu(index=i, numa=0) for i in (1, 2)))), gpu=2)],
        ([16, 16], {1, 2}),
        id="a GPU that is cut up is not given out whole",
    ),
    pytest.param(
        [machine(topology((Gpu(index=0, numa=0, health=Health.LOST), Gpu(index=1, numa=0))), gpu=2)],
        ([16, 16], {1}),
        id="nor is a lost one",
    ),
    pytest.param(
        [machine(topology((*(Gpu(index=i, numa=0) for i in range(3)), LOST)), gpu=3), placed("a", "0", "2,3", gpu=2)],
        ([15, 16], {0, 1}),
        id="whoever had a lost one has its other ones, and no more",
    ),
]


@pytest.mark.parametrize(("objects", "expected"), COUNTED)
def test_what_is_free(objects: list[Builder], expected: tuple[list[float], set[int]]) -> None:
    state = world(*objects).state
    assert free(state) == expected
    state.validate()


@pytest.mark.parametrize(
    ("given", "misses"),
    [
        pytest.param(Given((0, 1), (0,), (0,)), 0, id="as assigned"),
        pytest.param(Given((0, 1), (1,), (0,)), 1, id="another GPU"),
        pytest.param(Given((16,), (0,), (0, 1)), 1, id="another NUMA node"),
    ],
)
def test_misses_are_counted_once(given: Given, misses: int) -> None:
    told = machine().annotation(v.ALLOCATIONS, allocations(**{"pod-default-a": given}))
    made = world(told, placed("a", "0", "0", cpu=2, gpu=1))
    for cpu in (1, 2):
        free(made.state)
        made.add(pod("b").cpu(cpu).node("n").build())
    assert made.state.devices.misses == misses


def test_seats_that_change_are_counted_again() -> None:
    made = world(machine(), placed("a", "0", "0", cpu=2, gpu=1))
    assert free(made.state) == ([14, 16], {1, 2, 3})
    made.add(placed("a", "1", "3", cpu=2, gpu=1).build())
    assert free(made.state) == ([16, 14], {0, 1, 2})
    made.state.validate()


def used_cpu(state: State) -> int:
    return int(state.used[state.row("cpu"), state.index("n")])


def test_slices_tell_of_a_machine_and_may_come_late() -> None:
    made = world(
        node("n").capacity(cpu=32, memory="128Gi", gpu=4), placed("a", "0", cpu=4).annotation(POLICY, "isolated")
    )
    state = made.state
    assert used_cpu(state) == 4000
    slices = wire.encode_slices(topology(), "n", "uid")[0]
    for raw in slices:
        assert made.add({"kind": "ResourceSlice", **raw})
    assert free(state) == ([0, 16], {2, 3})
    assert used_cpu(state) == 16000
    state.validate()
    for raw in slices:
        made.remove("ResourceSlice", raw["metadata"]["name"])
    assert used_cpu(state) == 4000
    state.validate()


def cycle_on(made: World, **args: Any) -> Cycle:
    names = ("NUMATopology", "GPUTopology", "ResourceFragmentation")
    config = tuple(PluginConfig(name=name, args=args) for name in names) if args else ()
    profiles = SchedulerConfiguration(profiles=(Profile(plugin_config=config),))
    (cycle,) = build_cycles(profiles, made.state, Nominations()).values()
    return cycle


def decide(made: World, built: PodBuilder, **args: Any) -> Place | Park:
    return cycle_on(made, **args).decide(project_pod(built.build()))


def test_gpus_by_another_name() -> None:
    made = world(machine(gpu=0).capacity(**{"example.com/gpu": 4}))
    asking = pod("a").request("example.com/gpu", 2)
    first = decide(made, asking, gpuResources=["example.com/gpu"])
    assert isinstance(first, Place)
    assert first.annotations[v.GPU_ASSIGNED] == "0,1"
    assert free(made.state)[1] == {2, 3}


def test_an_isolated_pod_can_be_driven_out_with_all_it_keeps() -> None:
    weak = guaranteed("weak", cpu=2).annotation(POLICY, "isolated")
    made = world(machine())
    assert isinstance(decide(made, weak), Place)
    assert isinstance(decide(made, pod("fills").cpu(15).priority(9)), Place)
    strong = decide(made, pod("strong").cpu(8).priority(5))
    assert isinstance(strong, Preempt)
    assert [one.name for one in strong.victims] == ["weak"]


def test_a_pod_that_only_its_neighbour_keeps_out_waits_for_it() -> None:
    made = world(machine(), placed("a", "0", cpu=10), placed("b", "1", cpu=10))
    found = decide(made, guaranteed("c", cpu=8).annotation(POLICY, "single-numa"))
    assert isinstance(found, Park)
    assert found.refused_by == {"NUMATopology"}
    made.state.remove("pod-default-b")
    assert isinstance(decide(made, guaranteed("c", cpu=8).annotation(POLICY, "single-numa")), Place)


def test_unknown_memory_is_not_zero() -> None:
    found = decide(world(machine(topology(memory=None))), guaranteed("c").annotation(POLICY, "single-numa"))
    assert isinstance(found, Park)
    assert "whose amounts of memory by NUMA node are not known" in found.message


def test_a_choice_names_the_topology_that_it_was_made_on() -> None:
    found = decide(world(machine()), guaranteed("c", gpu=2))
    assert isinstance(found, Place)
    assert found.annotations == {
        v.NUMA_ASSIGNED: "0",
        v.GPU_ASSIGNED: "0,1",
        v.TOPOLOGY_HASH: wire.topology_hash(topology()),
    }
