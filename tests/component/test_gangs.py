"""Gangs on the sandbox, scenario by scenario: who is bound where, when, and what those who wait are told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.kube.resources import NAMESPACES, PODS
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.topology import NodeTopology
from tests.builders import PodBuilder, pod
from tests.machines import dgx_h100, numa_nodes
from tests.scenarios import Machine, Seat, Step, check, play, seats, submit
from tests.schedulers import Cluster, connected, scheduling
from tests.stub_server import until

SIGS = "pod-group.scheduling.sigs.k8s.io/"
JOB_SET = "jobset.x-k8s.io/v1alpha2"
ALL_GPUS = ",".join(map(str, range(8)))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Sandbox() as box, connected(box, tmp_path) as made:
        yield made


def plain(name: str, cpus: int) -> Machine:
    """One NUMA node, no GPUs."""
    return Machine(name, NodeTopology(numa=numa_nodes(range(cpus)), gpus=(), nics=()))


def dgx(name: str, clique: str = "", **labels: str) -> Machine:
    """Eight GPUs, four to a NUMA node, all linked; a clique is what its driver says that it is part of."""
    base = dgx_h100()
    topology = replace(base, gpus=tuple(replace(gpu, fabric_clique=clique or None) for gpu in base.gpus or ()))
    return Machine(name, topology, {**({v.GPU_CLIQUE: clique} if clique else {}), **labels})


def gang(
    name: str, size: int, *, gpu: int = 0, first: int = 0, last: int | None = None, **notes: str
) -> list[PodBuilder]:
    """Members `name-0`, `name-1`, …, from `first` to before `last`; an incomplete gang says so after a second."""
    made = [pod(f"{name}-{i}").cpu("100m").memory("128Mi").gang(name, size) for i in range(first, last or size)]
    for one in made:
        one.annotation(v.GANG_TIMEOUT, "1s")
        for key, text in notes.items():
            one.annotation({"clique": v.REQUIRE_CLIQUE, "locate": v.CO_LOCATE}[key], text)
    return [one.gpu(gpu) for one in made] if gpu else made


def members(name: str, count: int, where: Any) -> dict[str, Any]:
    return {f"{name}-{i}": where for i in range(count)}


def spoken_elsewhere(number: int, put: Callable[[PodBuilder], Callable[[str, str], PodBuilder]]) -> PodBuilder:
    """A member of a gang of three in the words of another scheduler."""
    made = pod(f"g-{number}").cpu("100m").memory("128Mi").annotation(v.GANG_TIMEOUT, "1s")
    put(made)(SIGS + "name", "g")
    put(made)(SIGS + "min-available", "3")
    return made


def one_by_one(pods: list[PodBuilder]) -> list[Step]:
    """G1: nobody before the third is there."""
    first, second, third = pods
    return [
        Step([first], then={"g-0": None}),
        Step([second], then=members("g", 2, "Gang g waits for its members: 2 of 3 exist.")),
        Step([third], then=members("g", 3, {"n"})),
    ]


def spark(role: str, name: str) -> PodBuilder:
    made = pod(name).label("spark-role", role).label("spark-app-selector", "app").annotation(v.EXECUTOR_COUNT, "10")
    made.annotation(v.EXECUTOR_CPU, "4").annotation(v.EXECUTOR_MEMORY, "8Gi")
    return made.cpu(2).memory("4Gi") if role == "driver" else made.cpu(4).memory("5Gi")


def in_one_of(*groups: set[str]) -> Callable[[Mapping[str, Seat]], bool]:
    """Whether all members of gang g are in one of these sets of nodes."""

    def holds(found: Mapping[str, Seat]) -> bool:
        nodes = {seat.node for name, seat in found.items() if name.startswith("g-")}
        return any(nodes <= group for group in groups)

    return holds


CLIQUES = [dgx("n01", "uuid.0"), dgx("n02", "uuid.0"), dgx("n03", "uuid.1"), dgx("n04", "uuid.1"), dgx("n05")]
GPU_SHORT = "Insufficient nvidia.com/gpu"

SCENARIOS: list[Any] = [
    pytest.param([plain("n", 4)], one_by_one(gang("g", 3)), id="G1 our labels"),
    pytest.param(
        [plain("n", 4)], one_by_one([spoken_elsewhere(i, lambda one: one.label) for i in range(3)]), id="G1 sigs labels"
    ),
    pytest.param(
        [plain("n", 4)],
        one_by_one([spoken_elsewhere(i, lambda one: one.annotation) for i in range(3)]),
        id="G1 sigs annotations",
    ),
    pytest.param(
        [dgx("a"), dgx("b"), dgx("c"), dgx("d")],
        [
            Step([pod("busy-c").gpu(8).node("c"), pod("busy-d").gpu(8).node("d")]),
            Step(
                gang("g", 4, gpu=8),
                then=members(
                    "g",
                    4,
                    f"Gang g needs 4 members at once: 4 exist, room for 2: 0/4 nodes are available: 4 {GPU_SHORT}.",
                ),
            ),
            Step([pod("x").gpu(8), pod("y").gpu(8)], then={"x": {"a", "b"}, "y": {"a", "b"}}),
            Step(go=["x", "y", "busy-c"], then={**members("g", 4, "room for 3"), "busy-d": {"d"}}),
            Step(
                go=["busy-d"],
                then=members("g", 4, {"a", "b", "c", "d"}),
                also=lambda found: {seat.gpus for seat in found.values()} == {ALL_GPUS},
            ),
        ],
        id="G2 four of eight GPUs each hold nothing until there are four nodes",
    ),
    pytest.param(
        [plain("n", 8)],
        [
            Step(
                [
                    *gang("half", 2, last=1),
                    *(one.set("metadata.namespace", "elsewhere") for one in gang("half", 2, first=1)),
                    *gang("whole", 2),
                ],
                then={**members("whole", 2, {"n"}), **members("half", 2, None)},
            )
        ],
        id="G3 gangs of one name in two namespaces are two gangs",
    ),
    pytest.param(
        [plain("n", 8)],
        [Step([*gang("half", 2, last=1), pod("alone").cpu(1), *gang("one", 1)], then={"alone": {"n"}, "one-0": {"n"}})],
        id="G5 who needs nobody waits for nobody",
    ),
    pytest.param(
        [plain("n", 8)],
        [Step([pod("a").cpu(1).owner("JobSet", "train", api_version=JOB_SET)], then={"a": {"n"}})],
        id="G5 nor does a pod whose owner the cluster does not serve",
    ),
    pytest.param(
        [dgx("n")],
        [
            Step(gang("w", 8, gpu=1), then=members("w", 8, {"n"})),
            Step([pod("late").gpu(1)], then={"late": GPU_SHORT}),
            Step(go=["late", "w-3"], come=gang("w", 8, gpu=1, first=8, last=9), then={"w-8": {"n"}}),
        ],
        id="G11 a worker that comes again is bound alone",
    ),
    pytest.param(
        [plain("a", 20), plain("b", 20)],
        [
            Step(
                [spark("driver", "driver")],
                then={"driver": "Spark app driver needs room for itself and 10 more at once: 11 in all, room for 10: "},
            ),
            Step(join=[plain("c", 2)], then={"driver": {"c"}}),
            Step([pod("batch").cpu(4)], then={"batch": "Insufficient cpu"}),
            Step([spark("executor", f"e-{i}") for i in range(10)], then=members("e", 10, {"a", "b"})),
            Step(go=["e-9"], then={"batch": {"a", "b"}}),
        ],
        id="G13 a Spark driver starts with room for its executors",
    ),
    pytest.param(
        CLIQUES,
        [
            Step(
                [
                    pod("full").gpu(8).node("n02"),
                    gang("g", 2, gpu=4, clique="true")[0].node("n01"),
                    pod("x").gpu(4).node("n01"),
                ]
            ),
            Step(
                gang("g", 2, gpu=4, first=1, clique="true"),
                then={"g-1": "3 node(s) outside NVLink clique uuid.0, where other members of the gang are"},
            ),
            Step(go=["full"], then={"g-1": {"n02"}}),
        ],
        id="X1 a member follows the others into their clique, and nowhere else",
    ),
    pytest.param(
        CLIQUES,
        [
            Step(gang("g", 2, gpu=8, clique="true"), then=members("g", 2, {"n01", "n02"})),
            Step(
                gang("g", 2, gpu=8, first=2, last=3, clique="true"),
                then={"g-2": "3 node(s) outside NVLink clique uuid.0, where other members of the gang are"},
            ),
            Step(go=["g-1"], then={"g-2": {"n01", "n02"}}),
        ],
        id="X1 so does one beyond the minimum",
    ),
    pytest.param(
        CLIQUES,
        [
            Step(
                gang("g", 4, gpu=2, clique="true"),
                then=members("g", 4, {"n01", "n02", "n03", "n04"}),
                also=in_one_of({"n01", "n02"}, {"n03", "n04"}),
            ),
        ],
        id="X2 a gang lands in one clique",
    ),
    pytest.param(
        CLIQUES,
        [
            Step([pod("x").gpu(4).node("n01")]),
            Step(gang("g", 4, gpu=4, clique="true"), then=members("g", 4, {"n03", "n04"})),
        ],
        id="X2 a gang lands in the only clique with room for all of it, though others fit some better",
    ),
    pytest.param(
        CLIQUES,
        [
            Step(
                gang("g", 4, gpu=8, clique="true"),
                then=members(
                    "g",
                    4,
                    "Gang g needs 4 members at once: 4 exist, room for 2 in NVLink clique uuid.0, which has the most: ",
                ),
            ),
            Step(gang("easy", 4, gpu=8), then=members("easy", 4, {one.name for one in CLIQUES})),
        ],
        id="X3 no clique is large enough for a gang that requires one",
    ),
]


@pytest.mark.parametrize(("machines", "steps"), SCENARIOS)
def test_scenario(cluster: Cluster, tmp_path: Path, machines: list[Machine], steps: list[Step]) -> None:
    cluster.client.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    for machine in machines:
        machine.join(cluster)
    with scheduling(tmp_path / "kubeconfig"):
        play(cluster, steps)
    check(cluster, [*machines, *(one for step in steps for one in step.join)])


def test_of_two_gangs_that_fit_only_one_at_a_time_one_runs_and_then_the_other(cluster: Cluster, tmp_path: Path) -> None:
    """G10: their members come in turn, so that a scheduler that held places one by one would deadlock."""
    dgx("n").join(cluster)
    with scheduling(tmp_path / "kubeconfig"):
        for pair in zip(gang("a", 2, gpu=4), gang("b", 2, gpu=4), strict=True):
            for one in pair:
                submit(cluster, one)
        until(lambda: len(seats(cluster)) == 2, 20)
        winners = sorted(seats(cluster))
        losers = sorted({"a-0", "a-1", "b-0", "b-1"} - set(winners))
        assert len({name[0] for name in winners}) == 1, winners
        for name in losers:
            message = cluster.await_pending(name)
            assert re.match(
                r"Gang [ab] needs 2 members at once: 2 exist, room for 0: 0/1 nodes are available: 1 ", message
            )
        for name in winners:
            cluster.client.delete(PODS, name, "default", grace_seconds=0)
        until(lambda: sorted(seats(cluster)) == losers, 20)
    check(cluster, [dgx("n")])
