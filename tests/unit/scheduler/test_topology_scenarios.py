"""NUMA nodes, GPU memory and fragmentation: what a user sees, scenario by scenario, on whole simulations."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.config import Profile
from kubenexus.common.objects import project_pod
from kubenexus.common.topology import Gpu, Health, NodeTopology, NumaNode, link_row
from kubenexus.scheduler.devices.ask import Ask, read_ask
from kubenexus.scheduler.devices.machine import machine_of, nominal
from kubenexus.scheduler.devices.models import model_memory
from kubenexus.scheduler.devices.score import closeness, company, vram_score
from kubenexus.scheduler.plugins.registry import enabled
from kubenexus.scheduler.simulation import Simulation
from tests.builders import Builder, NodeBuilder, PodBuilder, node, pod

GIB = 1 << 30
H100, L40S, T4 = 81559 << 20, 46068 << 20, 15360 << 20


def machine(name: str, *, gpus: tuple[int, ...] = (), vram: int = H100, links: int = 18, far: int = 21) -> NodeBuilder:
    """2 × [16 CPUs, 64Gi]; `gpus` are the NUMA nodes of its GPUs, each with so many links to every other."""
    numa = tuple(
        NumaNode(id=i, cpus=tuple(range(16 * i, 16 * i + 16)), memory=64 * GIB, distances=(10, far)[:: 1 - 2 * i])
        for i in range(2)
    )
    rows = [link_row(0 if i == j else links for j in range(len(gpus))) for i in range(len(gpus))]
    cards = tuple(Gpu(index=i, numa=home, memory=vram, peer_links=rows[i]) for i, home in enumerate(gpus))
    topology = NodeTopology(numa=numa, gpus=cards)
    built = (
        node(name).capacity(cpu=32, memory="128Gi").annotation(v.TOPOLOGY_SNAPSHOT, wire.encode_annotation(topology))
    )
    return built.capacity(gpu=len(gpus)) if gpus else built


def one_numa(name: str, gpus: int, **more: Any) -> NodeBuilder:
    return machine(name, gpus=(0,) * gpus, **more)


def mixed(name: str, *sizes: int, links: int = 18) -> NodeBuilder:
    """Four GPUs of each of these sizes in GiB, each four in a NUMA node of their own."""
    count = 4 * len(sizes)
    numa = tuple(NumaNode(id=i, cpus=tuple(range(16 * i, 16 * i + 16)), memory=64 * GIB) for i in range(len(sizes)))
    rows = [link_row(0 if i == j else links for j in range(count)) for i in range(count)]
    cards = (Gpu(index=i, numa=i // 4, memory=sizes[i // 4] * GIB, peer_links=rows[i]) for i in range(count))
    topology = NodeTopology(numa=numa, gpus=tuple(cards))
    built = node(name).capacity(cpu=16 * len(sizes), memory=f"{64 * len(sizes)}Gi", gpu=count)
    return built.annotation(v.TOPOLOGY_SNAPSHOT, wire.encode_annotation(topology))


def wants(name: str, policy: str | None = None, *, cpu: int = 1, memory: str = "1Gi", gpu: int = 0) -> PodBuilder:
    built = pod(name).guaranteed(cpu, memory)
    if gpu:
        built.gpu(gpu)
    return built.annotation(v.NUMA_POLICY, policy) if policy else built


def sits(built: PodBuilder, on: str, numa: str = "", gpus: str = "") -> PodBuilder:
    """The pod runs there already, as the scheduler placed it."""
    if numa:
        built.annotation(v.NUMA_ASSIGNED, numa)
    return (built.annotation(v.GPU_ASSIGNED, gpus) if gpus else built).node(on)


def result(*objects: Builder) -> dict[str, Any]:
    """Pod → (node, NUMA ids, GPUs) if it was placed, else why not."""
    found = Simulation([one.build() for one in objects]).run()
    placed = {one["pod"]: (one["node"], one["numa"], one["gpus"]) for one in found["placements"]}
    pending = {one["pod"]: one["reason"] for one in found["pending"]}
    return {key.partition("/")[2]: what for key, what in (placed | pending).items()}


def check(found: dict[str, Any], **expected: Any) -> None:
    for name, wanted in expected.items():
        if isinstance(wanted, str):
            assert wanted in found[name], name
        else:
            assert found[name] == wanted, name


FULL_ENOUGH = [sits(wants(f"r{numa}", cpu=12), "n", str(numa)) for numa in (0, 1)]
PAIRS = (0, 0, 1, 1)
CARDS = [one_numa(name, 2, vram=size) for name, size in (("h", H100), ("l", L40S), ("t", T4))]

SCENARIOS: list[Any] = [
    pytest.param(
        [machine("n"), wants("a", "single-numa", cpu=8, memory="32Gi")], {"a": ("n", [0], [])}, id="N1 fits in one"
    ),
    pytest.param(
        [machine("n"), wants("a", "single-numa", cpu=20, memory="80Gi")],
        {"a": "without a NUMA node that is large enough for 20 CPUs and 80Gi memory"},
        id="N1 too large for one",
    ),
    pytest.param(
        [machine("n"), wants("a", "best-effort", cpu=20, memory="80Gi")], {"a": ("n", [0, 1], [])}, id="N1 best effort"
    ),
    pytest.param(
        [
            machine("split"),
            machine("whole"),
            sits(wants("r0", cpu=12), "split", "0"),
            sits(wants("r1", cpu=12), "split", "1"),
            sits(wants("r2", cpu=16), "whole", "0"),
            sits(wants("r3", cpu=8), "whole", "1"),
            wants("a", "best-effort", cpu=8),
        ],
        {"a": ("whole", [1], [])},
        id="N1 a node where it fits comes before one where it must span",
    ),
    pytest.param(
        [machine("n"), *FULL_ENOUGH, wants("a", "single-numa", cpu=8)],
        {"a": "without a NUMA node that has room for 8 CPUs"},
        id="N2 what runs there counts",
    ),
    pytest.param(
        [machine("n"), wants("a", "restricted", cpu=20, memory="80Gi")], {"a": ("n", [0, 1], [])}, id="N3 restricted: 2"
    ),
    pytest.param(
        [machine("n"), *FULL_ENOUGH, wants("a", "restricted", cpu=8)],
        {"a": "without room for 8 CPUs and 1Gi memory in as few NUMA nodes as possible"},
        id="N3 restricted does not span when one would do on an empty node",
    ),
    pytest.param(
        [
            machine("n"),
            wants("a", "isolated", cpu=4),
            pod("shared").cpu(14),
            pod("more").cpu(4),
            wants("pinned", "single-numa", cpu=2),
        ],
        {
            "a": ("n", [0], []),
            "shared": ("n", [], []),
            "more": "Insufficient cpu beside isolated pods",
            "pinned": ("n", [1], []),
        },
        id="N3 isolated: nobody else gets into its NUMA node",
    ),
    pytest.param(
        [machine("n"), *FULL_ENOUGH, wants("a", "isolated", cpu=1)],
        {"a": "without a NUMA node that no other pod uses and that has room for 1 CPU"},
        id="N3 isolated needs an empty NUMA node",
    ),
    pytest.param(
        [
            machine("n"),
            sits(wants("r", "isolated", cpu=4), "n"),
            wants("a", "single-numa"),
            wants("b", "isolated"),
            wants("c"),
        ],
        {"a": ("n", [1], []), "b": "without a NUMA node that no other pod uses", "c": ("n", [1], [])},
        id="N3 isolated: nor where one most likely is that somebody else placed",
    ),
    pytest.param(
        [machine("n"), sits(pod("r").cpu(20), "n"), wants("a", "isolated", cpu=1)],
        {"a": "without a NUMA node that no other pod uses"},
        id="N3 what pods share has to fit elsewhere",
    ),
    pytest.param(
        [machine("n", gpus=PAIRS), wants("a", "single-numa", cpu=16, memory="64Gi", gpu=2)],
        {"a": ("n", [0], [0, 1])},
        id="N4 two GPUs, CPUs and memory in one",
    ),
    pytest.param(
        [machine("n", gpus=PAIRS), wants("a", "single-numa", gpu=3)],
        {"a": "without a NUMA node that is large enough for 1 CPU, 1Gi memory and 3 GPUs"},
        id="N4 three GPUs are not in one",
    ),
    pytest.param(
        [
            machine("n", gpus=PAIRS),
            sits(wants("r0", gpu=1), "n", "0", "0"),
            sits(wants("r1", gpu=1), "n", "1", "2"),
            wants("a", "single-numa", gpu=2),
        ],
        {"a": "without a NUMA node that has room for 1 CPU, 1Gi memory and 2 GPUs"},
        id="N4 one of each is busy",
    ),
    pytest.param(
        [machine("n"), *[sits(wants(f"r{i}", cpu=5), "n", str(i % 2)) for i in range(6)], pod("a").cpu("1500m")],
        {"a": ("n", [], [])},
        id="N5 fractions of CPUs are nobody's own",
    ),
    pytest.param(
        [
            machine("n"),
            *[sits(wants(f"r{numa}", cpu=14), "n", str(numa)) for numa in (0, 1)],
            sits(pod("shared").cpu(1), "n"),
            wants("a", cpu=3),
            wants("b", cpu=2),
        ],
        {"a": ("n", [], []), "b": "Insufficient cpu"},
        id="N5 halves of CPUs make no whole one",
    ),
    pytest.param(
        [machine("n"), wants("a", "single-numa").annotation(v.NUMA_AFFINITY, "1")],
        {"a": ("n", [1], [])},
        id="N6 affinity",
    ),
    pytest.param(
        [machine("n"), wants("a", "single-numa").annotation(v.NUMA_ANTI_AFFINITY, "0,abc,7")],
        {"a": ("n", [1], [])},
        id="N6 anti-affinity; what is no id of the node says nothing",
    ),
    pytest.param(
        [machine("n"), wants("a", "single-numa").annotation(v.NUMA_ANTI_AFFINITY, "0, 1")],
        {"a": "without a NUMA node other than 0, 1 (to be avoided) that is large enough for 1 CPU"},
        id="N6 anti-affinity to all is binding for single-numa",
    ),
    pytest.param(
        [machine("n"), wants("a").annotation(v.NUMA_ANTI_AFFINITY, "0,1")], {"a": ("n", [0], [])}, id="N6 but not else"
    ),
    *[
        pytest.param(
            [machine("n"), pod("a").cpu(2).annotation(key, text)],
            {"a": ("n", [numa], [])},
            id=f"N6 a pod that says {key.partition('/')[2]} needs no policy, nor CPUs of its own",
        )
        for key, text, numa in (
            (v.NUMA_AFFINITY, "1", 1),
            (v.NUMA_ANTI_AFFINITY, "0", 1),
            (v.NUMA_RESOURCES, "cpu", 0),
            (v.MEMORY_INTENSIVE, "true", 0),
            (v.NUMA_DISTANCE_WEIGHT, "100", 0),
            (v.GANG_NUMA_SPREAD, "packed", 0),
        )
    ],
    pytest.param(
        [machine("n"), wants("a", "none", cpu=20)], {"a": ("n", [], [])}, id="none: the NUMA nodes are nothing to it"
    ),
    pytest.param(
        [node("n").capacity(cpu=32, memory="128Gi"), wants("a", "single-numa"), wants("b", "best-effort")],
        {"a": "whose NUMA nodes are not known, which policy single-numa needs", "b": ("n", [], [])},
        id="unknown topology",
    ),
    pytest.param(
        [machine("n"), wants("a", "singel-numa")],
        {"a": "use one of none, best-effort, restricted, single-numa, isolated"},
        id="a policy that there is not",
    ),
    *[
        pytest.param(
            [*CARDS, wants("a", gpu=count).annotation(v.VRAM_REQUEST, vram)], {"a": where}, id=f"V1, V3 {vram}"
        )
        for vram, count, where in (
            ("80Gi", 1, ("h", [0], [0])),
            ("76Gi", 1, ("h", [0], [0])),
            ("40Gi", 1, ("l", [0], [0])),
            ("15Gi", 1, ("t", [0], [0])),
            ("160Gi", 2, ("h", [0], [0, 1])),
            ("161Gi", 2, "without 2 GPUs with 80.5Gi or more each"),
            ("much", 1, "scheduling.kubenexus.io/vram-request: 'much' is not a quantity"),
        )
    ],
    pytest.param(
        [
            mixed("n", 80, 40),
            wants("a", gpu=2).annotation(v.VRAM_REQUEST, "80Gi"),
            wants("b", gpu=2).annotation(v.VRAM_REQUEST, "160Gi"),
            wants("c", gpu=3).annotation(v.VRAM_REQUEST, "180Gi"),
        ],
        {
            "a": ("n", [1], [4, 5]),
            "b": ("n", [0], [0, 1]),
            "c": "without 3 free GPUs with 60Gi or more each",
        },
        id="V3 the smallest cards of a node that will do",
    ),
    pytest.param(
        [one_numa("n", 8), wants("a", gpu=16)],
        {"a": "Insufficient nvidia.com/gpu"},
        id="V5 more GPUs than any node has",
    ),
    pytest.param(
        [
            one_numa("pristine", 8),
            one_numa("used", 8),
            sits(wants("r", gpu=4), "used", "0", "0,1,2,3"),
            wants("a", gpu=2),
        ],
        {"a": ("used", [0], [4, 5])},
        id="F1 a small pod keeps off a machine that nobody has touched",
    ),
    pytest.param(
        [
            one_numa("box", 2, links=0),
            one_numa("large", 8),
            sits(wants("r", gpu=2), "large", "0", "0,1"),
            wants("a", gpu=2),
        ],
        {"a": ("box", [0], [0, 1])},
        id="F2 two GPUs: exact fit before leftovers",
    ),
    pytest.param(
        [one_numa("box", 4), one_numa("large", 8), sits(wants("r", gpu=2), "large", "0", "0,1"), wants("a", gpu=4)],
        {"a": ("box", [0], [0, 1, 2, 3])},
        id="F2 four GPUs: exact fit before leftovers",
    ),
    *[
        pytest.param(
            [one_numa(name, 8, links=0 if name == apart else 18) for name in ("a", "b")] + [wants("p", gpu=count)],
            {"p": ("b" if apart == "a" else "a", [0], list(range(count)))},
            id=f"V4 {count} GPUs go where they are linked, not to {apart}",
        )
        for count in (4, 8)
        for apart in ("a", "b")
    ],
    pytest.param(
        [
            one_numa("box", 4, links=0),
            one_numa("large", 8),
            sits(wants("r", gpu=2), "large", "0", "0,1"),
            wants("a", gpu=4),
        ],
        {"a": ("box", [0], [0, 1, 2, 3])},
        id="F2 four GPUs: exact fit before leftovers, and before links",
    ),
    pytest.param(
        [one_numa("pristine", 8), one_numa("used", 8), sits(wants("r", gpu=2), "used", "0", "0,1"), wants("a", gpu=8)],
        {"a": ("pristine", [0], list(range(8)))},
        id="F3 eight GPUs",
    ),
]


@pytest.mark.parametrize(("objects", "expected"), SCENARIOS)
def test_scenario(objects: list[Builder], expected: dict[str, Any]) -> None:
    check(result(*objects), **expected)


def test_f1_small_pods_go_where_a_label_says_that_nothing_joins_gpus() -> None:
    homes = [node(name).capacity(cpu=32, memory="128Gi", gpu=8).label(v.GPU_COUNT, "8") for name in ("s", "t", "p")]
    for home, kind in zip(homes, ("nvswitch", "nvlink", "pcie"), strict=True):
        home.label(v.GPU_TOPOLOGY, kind)
        for index in range(8):
            home.label(v.gpu_numa_label(index), str(index // 4))
    assert result(*homes, wants("a", gpu=1))["a"][0] == "p"


EXPLAINED: list[Any] = [
    pytest.param(
        [machine("n"), sits(wants("r", cpu=12), "n", "0"), sits(wants("s", cpu=10), "n", "1")],
        wants("a", "single-numa", cpu=8),
        "(numa 0: 12 of 16 CPUs taken; numa 1: 10 of 16 CPUs taken)",
        id="CPUs",
    ),
    pytest.param(
        [machine("n", gpus=PAIRS), sits(wants("r", cpu=12), "n", "0"), sits(wants("s", gpu=1), "n", "1", "3")],
        wants("a", "single-numa", cpu=8, gpu=2),
        "(numa 0: 12 of 16 CPUs taken; numa 1: 1 of 2 GPUs free)",
        id="CPUs and GPUs",
    ),
    pytest.param(
        [machine("n"), sits(wants("r", memory="60Gi"), "n", "0")],
        wants("a", "single-numa", memory="66Gi"),
        "(numa 0: only 64Gi memory; numa 1: only 64Gi memory)",
        id="never",
    ),
    pytest.param(
        [machine("n"), sits(wants("r", "isolated"), "n", "0"), sits(wants("s"), "n", "1")],
        wants("a", "isolated"),
        "(numa 0: belongs to an isolated pod; numa 1: other pods have CPUs or GPUs there)",
        id="isolated",
    ),
    pytest.param(
        [machine("n"), sits(wants("r", "isolated"), "n", "0"), sits(pod("s").cpu(15), "n")],
        pod("a").cpu(2),
        "Insufficient cpu beside isolated pods (default/r isolated: the rest of the NUMA node is kept free)",
        id="room that an isolated pod keeps",
    ),
    pytest.param(
        [one_numa("n", 4), sits(wants("r", gpu=3), "n", "0", "0,1,2")],
        wants("a", gpu=1).annotation(v.VRAM_REQUEST, "100Gi"),
        "node(s) without 1 GPU with 100Gi or more each (its GPUs have 80Gi)",
        id="small GPUs",
    ),
    pytest.param(
        [machine("n", gpus=PAIRS), sits(wants("r", gpu=2), "n", "0", "0,1"), sits(wants("s", gpu=1), "n", "1", "3")],
        wants("a", gpu=2),
        "Insufficient nvidia.com/gpu (numa 0: 0 of 2 GPUs free; numa 1: 1 of 2 GPUs free)",
        id="too few GPUs in all",
    ),
    pytest.param(
        [machine("n"), sits(wants("r", cpu=12), "n", "0"), sits(wants("s", cpu=14), "n", "1")],
        wants("a", "single-numa", cpu=8),
        "Insufficient cpu (numa 0: 12 of 16 CPUs taken; numa 1: 14 of 16 CPUs taken)",
        id="too few CPUs in all",
    ),
    pytest.param(
        [node("n").capacity(cpu=8, memory="8Gi", gpu=4).label(v.GPU_COUNT, "4"), sits(wants("r", gpu=3), "n")],
        wants("a", gpu=2),
        "Insufficient nvidia.com/gpu (1 of 4 GPUs free)",
        id="GPUs of no NUMA node that anybody knows",
    ),
    pytest.param(
        [machine("n", gpus=(0, 0))],
        wants("a", "single-numa", cpu=2, gpu=2).annotation(v.NUMA_ANTI_AFFINITY, "0"),
        "(numa 0: to be avoided; numa 1: no GPUs)",
        id="a NUMA node without GPUs",
    ),
    pytest.param(
        [mixed("n", 80, 80, 40)],
        wants("a", "single-numa", gpu=5).annotation(v.VRAM_REQUEST, "400Gi"),
        "(numa 0: 4 of 4 GPUs free; numa 1: 4 of 4 GPUs free; numa 2: no GPUs with 80Gi)",
        id="a NUMA node without GPUs of that size",
    ),
    pytest.param(
        [mixed("n", 80, 80, 40)],
        wants("a", "single-numa", gpu=5).annotation(v.VRAM_REQUEST, "400Gi"),
        "without a NUMA node that is large enough for 1 CPU, 1Gi memory and 5 GPUs with 80Gi or more each",
        id="GPUs of that size in different NUMA nodes",
    ),
    pytest.param(
        [node("n").capacity(cpu=8, memory="8Gi", gpu=4).label(v.GPU_COUNT, "4")],
        wants("a", gpu=1).annotation(v.VRAM_REQUEST, "10Gi"),
        "node(s) without 1 GPU with 10Gi or more each (it does not say how much memory its GPUs have)",
        id="GPUs of a size that nobody knows",
    ),
]


TWO_HALVES = {v.NUMA_NODE_COUNT: "2"} | {
    v.numa_node_label(i, fact): text
    for i, cpus in enumerate(("0-3", "4-7"))
    for fact, text in (("cpus", cpus), ("memory", "4Gi"))
}


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        pytest.param(Gpu(index=0, memory=40 * GIB), "its GPUs have 40Gi", id="too small"),
        pytest.param(Gpu(index=0, memory=80 * GIB, mig=True), "none can be given out whole", id="cut up"),
    ],
)
def test_cards_that_cannot_be_given_out_are_of_no_size(rest: Gpu, expected: str) -> None:
    topology = NodeTopology(gpus=(rest, Gpu(index=1, memory=80 * GIB, health=Health.LOST)))
    home = node("n").capacity(cpu=8, memory="8Gi", gpu=1)
    home.annotation(v.TOPOLOGY_SNAPSHOT, wire.encode_annotation(topology))
    asking = wants("a", gpu=1).annotation(v.VRAM_REQUEST, "80Gi")
    found = Simulation([home.build(), asking.build()], explain=True).run()
    assert found["pending"][0]["nodes"]["n"]["reasons"] == [
        f"node(s) without 1 GPU with 80Gi or more each ({expected})"
    ]


@pytest.mark.parametrize(("pages", "numa"), [("1Gi", [0]), ("2Gi", [0]), ("3Gi", None)])
def test_huge_pages_of_one_numa_node_are_not_in_the_others(pages: str, numa: list[int] | None) -> None:
    """Who writes labels writes none where there are no pages."""
    home = node("n").capacity(cpu=8, memory="8Gi", **{"hugepages-2Mi": 2 * GIB})
    for key, text in (TWO_HALVES | {v.numa_node_label(0, "hugepages-2Mi"): "1024"}).items():
        home.label(key, text)
    asking = wants("a", "single-numa").request("hugepages-2Mi", pages)
    found = result(home, asking.annotation(v.NUMA_RESOURCES, "cpu,memory,hugepages-2Mi"))["a"]
    assert found == ("n", numa, []) if numa else "Insufficient hugepages-2Mi" in found


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({}, "node(s) whose NUMA nodes are not known, which policy single-numa needs", id="nothing"),
        pytest.param(
            {v.NUMA_NODE_COUNT: "1", v.numa_node_label(0, "cpus"): "0-7"},
            "node(s) whose amounts of memory by NUMA node are not known, which policy single-numa needs",
            id="no memory",
        ),
        pytest.param(
            {v.NUMA_NODE_COUNT: "1", v.numa_node_label(0, "memory"): "8Gi", v.numa_node_label(0, "cpus"): "some"},
            "node(s) whose amounts of cpu by NUMA node are not known, which policy single-numa needs",
            id="CPUs that cannot be read",
        ),
        pytest.param(
            TWO_HALVES | {"nvidia.com/gpu.count": "2"},
            "node(s) whose GPUs' NUMA nodes are not known, which policy single-numa needs",
            id="GPUs of no NUMA node in particular",
        ),
    ],
)
def test_a_node_that_says_too_little_is_told_apart_from_one_that_is_full(labels: dict[str, str], expected: str) -> None:
    home = node("n").capacity(cpu=8, memory="8Gi", gpu=2)
    for key, text in labels.items():
        home.label(key, text)
    asking = wants("a", "single-numa", gpu=1 if "nvidia.com/gpu.count" in labels else 0)
    found = Simulation([home.build(), asking.build()], explain=True).run()
    assert found["pending"][0]["nodes"]["n"]["reasons"] == [expected]


@pytest.mark.parametrize(("objects", "asking", "expected"), EXPLAINED)
def test_a_refused_node_is_explained_in_numbers(objects: list[Builder], asking: PodBuilder, expected: str) -> None:
    found = Simulation([one.build() for one in (*objects, asking)], explain=True).run()
    (pending,) = found["pending"]
    (reason,) = pending["nodes"]["n"]["reasons"]
    assert expected in reason


def ask(built: PodBuilder) -> Ask:
    found = read_ask(project_pod(built.build()), v.GPU_RESOURCES)
    assert isinstance(found, Ask)
    return found


@pytest.mark.parametrize(
    ("memory", "cpu", "note", "expected"),
    [
        pytest.param("20Gi", 4, None, True, id="5Gi per core"),
        pytest.param("8Gi", 4, None, False, id="too little in all"),
        pytest.param("20Gi", 8, None, False, id="too little per core"),
        pytest.param("8Gi", 4, "true", True, id="as the user says"),
        pytest.param("20Gi", 4, "false", False, id="or denies"),
    ],
)
def test_n7_memory_intensive(memory: str, cpu: int, note: str | None, expected: bool) -> None:
    built = wants("a", cpu=cpu, memory=memory)
    assert ask(built.annotation(v.MEMORY_INTENSIVE, note) if note else built).memory_intensive is expected


@pytest.mark.parametrize(
    ("far", "zones", "weight", "expected"),
    [
        pytest.param(20, (0, 1), 50, 50, id="20 apart"),
        pytest.param(None, (0, 1), 50, 50, id="unknown"),
        pytest.param(30, (0, 1), 100, 0, id="30 apart, and it matters"),
        pytest.param(30, (0, 1), 0, 100, id="30 apart, and it does not"),
        pytest.param(30, (1,), 100, 100, id="one alone"),
    ],
)
def test_n8_distance(far: int | None, zones: tuple[int, ...], weight: int, expected: int) -> None:
    numa = tuple(NumaNode(id=i, cpu_count=4, distances=(10, far)[:: 1 - 2 * i]) for i in range(2))
    assert closeness(machine_of(NodeTopology(numa=numa), {}), zones, weight) == expected


@pytest.mark.parametrize(
    ("spread", "members", "expected"),
    [
        ("packed", 1, 100),
        ("packed", 0, 20),
        ("balanced", 0, 100),
        ("balanced", 3, 40),
        ("isolated", 0, 100),
        ("isolated", 2, 0),
    ],
)
def test_n9_gang_spread_scores(spread: str, members: int, expected: int) -> None:
    assert company(v.GangNumaSpread(spread), members) == expected


@pytest.mark.parametrize(
    ("spread", "expected"), [("packed", [0, 0, 0]), ("isolated", [0, 1, 0]), ("balanced", [0, 1, 0])]
)
def test_n9_members_share_numa_nodes_as_asked(spread: str, expected: list[int]) -> None:
    members = [
        wants(f"m{i}", "single-numa", cpu=2).label(v.GANG_NAME, "g").annotation(v.GANG_NUMA_SPREAD, spread)
        for i in range(3)
    ]
    for one in members:
        one.label(v.GANG_MIN_AVAILABLE, "1")
    found = result(machine("n"), *members)
    assert [found[f"m{i}"][1] for i in range(3)] == [[numa] for numa in expected]


@pytest.mark.parametrize(("spread", "expected"), [("packed", 1), ("isolated", 0), ("balanced", 0)])
def test_n9_members_are_where_the_kubelet_put_them(spread: str, expected: int) -> None:
    first, second = (
        wants(name, "single-numa", cpu=2)
        .label(v.GANG_NAME, "g")
        .label(v.GANG_MIN_AVAILABLE, "1")
        .annotation(v.GANG_NUMA_SPREAD, spread)
        for name in ("first", "second")
    )
    given = wire.encode_allocations({"default/first": wire.Given((16, 17), (), (1,))})
    home = machine("n").annotation(v.ALLOCATIONS, given)
    assert result(home, sits(first, "n", "0"), second)["second"] == ("n", [expected], [])


def test_n10_the_default_is_best_effort_whatever_the_workload() -> None:
    """The vocabulary says so; a strict default would leave pods pending that nobody asked to be strict about."""
    for kind in v.WorkloadType:
        assert ask(wants("a").label(v.WORKLOAD_TYPE, kind)).policy is v.NumaPolicy.BEST_EFFORT


@pytest.mark.parametrize(
    ("share", "expected"),
    [(100, 100), (96, 100), (90, 80), (70, 80), (60, 60), (50, 60), (40, 30), (30, 30), (20, 0)],
)
def test_v2_how_well_a_card_is_used(share: int, expected: int) -> None:
    assert vram_score(share, 100) == expected


@pytest.mark.parametrize(
    ("mebibytes", "gibibytes"),
    [
        (81559, 80),
        (81920, 80),
        (46068, 48),
        (23034, 24),
        (15360, 16),
        (32480, 32),
        (143771, 141),
        (40960, 40),
        (262128, 256),
        (146831, 144),
    ],
)
def test_the_size_a_card_is_sold_as(mebibytes: int, gibibytes: int) -> None:
    assert nominal(mebibytes << 20) == gibibytes * GIB


@pytest.mark.parametrize(
    ("product", "gibibytes"),
    [
        ("H100", 80),
        ("A100", 40),
        ("NVIDIA-A100-SXM4-80GB", 80),
        ("NVIDIA-H200", 141),
        ("NVIDIA-GH200-480GB", 96),
        ("NVIDIA L4", 24),
        ("nvidia-l40s", 48),
        ("Tesla-V100-SXM2-32GB", 32),
        ("AMD Instinct MI300X OAM", 192),
        ("NVIDIA-T400", None),
        ("A100X", None),
        ("", None),
    ],
)
def test_the_memory_of_a_model(product: str, gibibytes: int | None) -> None:
    assert model_memory(product) == (None if gibibytes is None else gibibytes * GIB)


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        pytest.param({v.GPU_VRAM: "80Gi"}, True, id="memory by hand"),
        pytest.param({v.GPU_VRAM: "40Gi"}, False, id="too little by hand"),
        pytest.param({v.GPU_MODEL: "H100"}, True, id="model by hand"),
        pytest.param({v.GPU_MODEL: "A100", v.GPU_COUNT: "8"}, False, id="smaller model"),
        pytest.param(
            {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, True, id="product alone"
        ),
    ],
)
def test_v1_memory_that_only_labels_tell(labels: dict[str, str], fits: bool) -> None:
    home = node("n").capacity(cpu=32, memory="128Gi", gpu=8)
    for key, text in labels.items():
        home.label(key, text)
    found = result(home, wants("a", gpu=2).annotation(v.VRAM_REQUEST, "160Gi"))
    assert (found["a"] == ("n", [], [0, 1])) is fits


def test_slices_of_gpus_are_not_given_out_one_by_one() -> None:
    home = node("n").capacity(cpu=32, memory="128Gi", gpu=14)
    for key, text in {"count": "14", "product": "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "memory": "40192"}.items():
        home.label(f"nvidia.com/gpu.{key}", text)
    assert result(home, wants("a", gpu=2))["a"] == ("n", [], [])


def test_only_pods_that_care_are_asked_about() -> None:
    plain = project_pod(pod("a").cpu("500m", "500m").memory("1Gi", "1Gi").build())
    assert read_ask(plain, v.GPU_RESOURCES) is None
    assert {"NUMATopology", "GPUTopology", "ResourceFragmentation"} <= set(enabled(Profile()))
