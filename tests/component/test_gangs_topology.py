"""NUMA nodes and GPUs on the sandbox, from each of the forms that an agent publishes: what pods are bound with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.topology import Gpu, NodeTopology, NumaNode, link_row
from tests.builders import PodBuilder, pod
from tests.scenarios import ANNOTATION, LABELS, SLICES, Machine, Seat, Step, check, play
from tests.schedulers import Cluster, connected, scheduling

GIB = 1 << 30
H100, L40S, T4 = 81559 << 20, 46068 << 20, 15360 << 20
"""bytes that such cards report; an "80GB" one has less than 80Gi"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Sandbox() as box, connected(box, tmp_path) as made:
        yield made


def machine(name: str = "n", *, gpus: tuple[int, ...] = (), vram: int = H100) -> Machine:
    """2 × [16 CPUs, 64Gi]; `gpus` are the NUMA nodes of its GPUs, which are all linked."""
    numa = tuple(
        NumaNode(id=i, cpus=tuple(range(16 * i, 16 * i + 16)), memory=64 * GIB, distances=(10, 21)[:: 1 - 2 * i])
        for i in range(2)
    )
    rows = [link_row(0 if i == j else 18 for j in range(len(gpus))) for i in range(len(gpus))]
    cards = tuple(Gpu(index=i, numa=home, memory=vram, peer_links=rows[i]) for i, home in enumerate(gpus))
    return Machine(name, NodeTopology(numa=numa, gpus=cards, nics=()))


def wants(
    name: str, policy: str = "", *, cpu: int = 1, memory: str = "1Gi", gpu: int = 0, vram: str = ""
) -> PodBuilder:
    built = pod(name).guaranteed(cpu, memory)
    notes = {v.NUMA_POLICY: policy, v.VRAM_REQUEST: vram}
    for key, text in notes.items():
        if text:
            built.annotation(key, text)
    return built.gpu(gpu) if gpu else built


def sits(built: PodBuilder, on: Machine, numa: str, gpus: str) -> PodBuilder:
    """The pod is on the node already, as a scheduler before ours placed it."""
    built.annotation(v.TOPOLOGY_HASH, wire.topology_hash(on.topology))
    return built.annotation(v.NUMA_ASSIGNED, numa).annotation(v.GPU_ASSIGNED, gpus).node(on.name)


def one(built: PodBuilder, expected: Any) -> list[Step]:
    return [Step([built], then={built.obj["metadata"]["name"]: expected})]


def apart(found: Mapping[str, Seat]) -> bool:
    """Whether nobody else is on the NUMA node of the pod `alone`."""
    return all(seat.numa != found["alone"].numa for name, seat in found.items() if name != "alone")


PAIRS = (0, 0, 1, 1)
CARDS = [
    machine("h100", gpus=(0, 0), vram=H100),
    machine("l40s", gpus=(0, 0), vram=L40S),
    machine("t4", gpus=(0, 0), vram=T4),
]
TWELVE_EACH = [
    Step([wants("r0", "single-numa", cpu=12)], then={"r0": Seat("n", "0")}),
    Step([wants("r1", "single-numa", cpu=12)], then={"r1": Seat("n", "1")}),
]
BUSY = [sits(wants(f"r{i}", gpu=1), machine(gpus=PAIRS), str(i), str(2 * i)) for i in range(2)]

SCENARIOS: list[Any] = [
    pytest.param(
        [machine()], one(wants("a", "single-numa", cpu=8, memory="32Gi"), Seat("n", "0")), id="N1 fits in one"
    ),
    pytest.param(
        [machine()],
        one(
            wants("a", "single-numa", cpu=20, memory="80Gi"),
            "1 node(s) without a NUMA node that is large enough for 20 CPUs and 80Gi memory",
        ),
        id="N1 too large for one",
    ),
    pytest.param(
        [machine()], one(wants("a", "best-effort", cpu=20, memory="80Gi"), Seat("n", "0,1")), id="N1 best effort spans"
    ),
    pytest.param(
        [machine()],
        [
            *TWELVE_EACH,
            Step(
                [wants("a", "single-numa", cpu=8)],
                then={"a": "1 node(s) without a NUMA node that has room for 8 CPUs and 1Gi memory"},
            ),
            Step(go=["r0"], then={"a": Seat("n", "0")}),
        ],
        id="N2 eight CPUs are free, but four on each",
    ),
    pytest.param(
        [machine()],
        one(wants("a", "restricted", cpu=20, memory="80Gi"), Seat("n", "0,1")),
        id="N3 restricted takes two",
    ),
    pytest.param(
        [machine()],
        [
            *TWELVE_EACH,
            *one(
                wants("a", "restricted", cpu=8),
                "1 node(s) without room for 8 CPUs and 1Gi memory in as few NUMA nodes as possible",
            ),
        ],
        id="N3 restricted does not span where one would do",
    ),
    pytest.param(
        [machine()],
        [
            Step([wants("alone", "isolated", cpu=4)], then={"alone": Seat("n", "0")}),
            Step([wants(f"b{i}", "single-numa", cpu=8) for i in range(2)], then={"b0": {"n"}, "b1": {"n"}}, also=apart),
            Step([wants("late", "single-numa", cpu=8)], then={"late": "Insufficient cpu"}),
            Step([wants("also", "isolated")], then={"also": "Insufficient cpu"}),
            Step(go=["alone"], then={"late": Seat("n", "0")}),
        ],
        id="N3 isolated needs an empty NUMA node and keeps it",
    ),
    pytest.param(
        [machine(gpus=PAIRS)],
        one(wants("a", "single-numa", cpu=16, memory="64Gi", gpu=2), Seat("n", "0", "0,1")),
        id="N4 two GPUs, CPUs and memory in one",
    ),
    pytest.param(
        [machine(gpus=PAIRS)],
        one(
            wants("a", "single-numa", gpu=3),
            "1 node(s) without a NUMA node that is large enough for 1 CPU, 1Gi memory and 3 GPUs",
        ),
        id="N4 three GPUs are not in one",
    ),
    pytest.param(
        [machine(gpus=PAIRS)],
        [
            Step(BUSY),
            Step(
                [wants("a", "single-numa", gpu=2)],
                then={"a": "1 node(s) without a NUMA node that has room for 1 CPU, 1Gi memory and 2 GPUs"},
            ),
            Step(go=["r1"], then={"a": Seat("n", "1", "2,3")}),
        ],
        id="N4 one of each pair is busy",
    ),
    pytest.param(
        [machine()],
        [
            *one(wants("a", "single-numa").annotation(v.NUMA_AFFINITY, "1"), Seat("n", "1")),
            *one(wants("b", "single-numa").annotation(v.NUMA_ANTI_AFFINITY, "1"), Seat("n", "0")),
            *one(
                wants("c", "single-numa").annotation(v.NUMA_ANTI_AFFINITY, "0,1"),
                "1 node(s) without a NUMA node other than 0, 1 (to be avoided) that is large enough for 1 CPU",
            ),
        ],
        id="N6 affinity and anti-affinity",
    ),
    pytest.param(
        [machine()],
        [
            Step(
                [
                    wants(f"m{i}", "single-numa").gang("g", 2).annotation(v.GANG_NUMA_SPREAD, "isolated")
                    for i in range(2)
                ],
                then={"m0": {"n"}, "m1": {"n"}},
                also=lambda found: {found["m0"].numa, found["m1"].numa} == {"0", "1"},
            )
        ],
        id="N9 members of a gang apart from each other",
    ),
    pytest.param(
        [machine(gpus=(0, 0, 0, 0, 1, 1, 1, 1))],
        one(wants("a", gpu=16), "1 Insufficient nvidia.com/gpu"),
        id="V5 more GPUs than any node has",
    ),
    *[
        pytest.param(CARDS, one(wants("a", gpu=count, vram=vram), expected), id=f"V1 {vram} on {count}")
        for vram, count, expected in (
            ("80Gi", 1, Seat("h100", "0", "0")),
            ("40Gi", 1, Seat("l40s", "0", "0")),
            ("15Gi", 1, Seat("t4", "0", "0")),
            ("160Gi", 2, Seat("h100", "0", "0,1")),
            ("161Gi", 2, "3 node(s) without 2 GPUs with 80.5Gi or more each"),
            ("much", 1, "'much' is not a quantity"),
        )
    ],
]


@pytest.mark.parametrize(("machines", "steps"), SCENARIOS)
def test_scenario(cluster: Cluster, tmp_path: Path, machines: list[Machine], steps: list[Step]) -> None:
    run(cluster, tmp_path, [replace(each, says=SLICES) for each in machines], steps)


def run(cluster: Cluster, folder: Path, machines: list[Machine], steps: list[Step]) -> None:
    for each in machines:
        each.join(cluster)
    with scheduling(folder / "kubeconfig"):
        play(cluster, steps)
    check(cluster, machines)


FOR_ALL_FORMS = [case for case in SCENARIOS if case.id.startswith(("N2", "N4 one", "V1 160Gi"))]


@pytest.mark.parametrize("says", [ANNOTATION, LABELS])
@pytest.mark.parametrize(("machines", "steps"), FOR_ALL_FORMS)
def test_other_forms_say_the_same(
    cluster: Cluster, tmp_path: Path, machines: list[Machine], steps: list[Step], says: str
) -> None:
    run(cluster, tmp_path, [replace(each, says=says) for each in machines], steps)
