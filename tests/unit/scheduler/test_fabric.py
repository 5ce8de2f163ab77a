"""Fabric: the tier that a pod asks for, and the domain that a whole gang lands in."""

from __future__ import annotations

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.kube.mirror import Added, Updated
from kubenexus.common.topology import Gpu, NodeTopology
from kubenexus.scheduler.actions import Eviction
from kubenexus.scheduler.world import read
from tests.builders import NodeBuilder, PodBuilder, node, pod
from tests.office import Office, bound, come, told
from tests.scenarios import ANNOTATION, LABELS, SLICES


def fleet() -> list[NodeBuilder]:
    """The acceptance fleet: two NVLink cliques of two nodes on one fabric, InfiniBand, and Ethernet."""
    rows = [
        ("n01", 8, "nvswitch", "fabric-01", "A", "az-a", "uuid.0"),
        ("n02", 8, "nvswitch", "fabric-01", "A", "az-a", "uuid.0"),
        ("n03", 8, "nvswitch", "fabric-01", "A", "az-a", "uuid.1"),
        ("n04", 8, "nvswitch", "fabric-01", "A", "az-a", "uuid.1"),
        ("n05", 4, "infiniband", "fabric-02", "B", "az-a", ""),
        ("n06", 4, "infiniband", "fabric-02", "B", "az-a", ""),
        ("n07", 2, "ethernet", "fabric-03", "C", "az-b", ""),
        ("n08", 2, "ethernet", "fabric-03", "C", "az-b", ""),
    ]
    return [_row(*row) for row in rows]


def _row(name: str, gpus: int, kind: str, fabric: str, rack: str, zone: str, clique: str) -> NodeBuilder:
    made = node(name).capacity(cpu=128, memory="1Ti", gpu=gpus).zone(zone)
    labels = {v.FABRIC_TYPE: kind, v.FABRIC_ID: fabric, v.RACK_ID: rack, v.NVIDIA_CLIQUE: clique}
    for key, value in labels.items():
        if value:
            made.label(key, value)
    return made


def gang(size: int, gpu: int, **notes: str) -> list[PodBuilder]:
    made = [pod(f"p{i}").gpu(gpu).gang("g", size) for i in range(size)]
    for one in made:
        for key, value in notes.items():
            one.annotation({"clique": v.REQUIRE_CLIQUE, "locate": v.CO_LOCATE, "tier": v.MIN_FABRIC_TIER}[key], value)
    return made


def place(pods: list[PodBuilder], *, without: tuple[str, ...] = (), running: list[PodBuilder] | None = None) -> Office:
    office = Office(*(one for one in fleet() if one.obj["metadata"]["name"] not in without))
    for one in [*(running or []), *pods]:
        office.see(one)
    return office


CLIQUES = [{"n01", "n02"}, {"n03", "n04"}]


@pytest.mark.parametrize(
    "notes", [{}, {"clique": "true"}, {"locate": "strict"}], ids=["said nothing", "clique", "strict"]
)
def test_gang_lands_in_one_clique(notes: dict[str, str]) -> None:
    nodes = set(bound(place(gang(4, 2, **notes)).decide()).values())
    assert any(nodes <= clique for clique in CLIQUES)


def test_gang_too_large_for_a_clique_lands_on_one_fabric() -> None:
    placed = bound(place(gang(4, 8)).decide())
    assert set(placed.values()) == {"n01", "n02", "n03", "n04"}


def test_gang_that_requires_a_clique_and_fits_none_waits_as_a_whole() -> None:
    office = place(gang(4, 8, clique="true"))
    actions = office.decide()
    assert bound(actions) == {}
    assert told(actions)["p0"].startswith("Gang g needs 4 members at once: 4 exist, room for 2 in NVLink clique uuid.0")


def test_of_domains_of_one_level_the_smallest_with_room_wins() -> None:
    """Cliques of one node have no room for both; of the fabrics the smaller one is enough."""
    pods = [one.set("spec.affinity", apart()).label("app", "x") for one in gang(2, 4)]
    assert set(bound(place(pods, without=("n01", "n03")).decide()).values()) == {"n05", "n06"}


def apart() -> dict[str, object]:
    """Not two on one node."""
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_later_members_follow_the_first_into_their_clique() -> None:
    running = [pod("first").gpu(2).gang("g", 2).annotation(v.REQUIRE_CLIQUE, "true").node("n03")]
    office = place(gang(2, 2, clique="true")[:1], running=running)
    assert set(bound(office.decide()).values()) <= {"n03", "n04"}


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        pytest.param({"clique": "true"}, "node(s) outside NVLink clique uuid.1, where other members", id="clique"),
        pytest.param({"locate": "strict"}, "node(s) outside fabric fabric-02, where other members", id="fabric"),
    ],
)
def test_members_beyond_the_minimum_stay_with_their_gang(notes: dict[str, str], words: str) -> None:
    homes = ("n03", "n04") if "clique" in notes else ("n05", "n06")
    running = [one.gpu(4).node(home) for one, home in zip(gang(2, 8, **notes), homes, strict=True)]
    late = pod("late").gpu(8).gang("g", 2)
    office = place([late], running=running)
    actions = office.decide()
    assert bound(actions) == {}
    assert words in told(actions)["late"]


def test_member_that_comes_back_is_told_where_its_gang_is() -> None:
    """Of the two that must be together one is on a node that is full."""
    running = [pod("first").gpu(8).gang("g", 2).annotation(v.REQUIRE_CLIQUE, "true").node("n03")]
    office = place([], running=[*running, pod("other").gpu(8).node("n04")])
    office.see(pod("p0").gpu(8).gang("g", 2).annotation(v.REQUIRE_CLIQUE, "true"))
    message = told(office.decide())["p0"]
    assert "1 of them placed, room for 1 in NVLink clique uuid.1, where its others are" in message
    assert "6 node(s) outside NVLink clique uuid.1, where other members of the gang are" in message


@pytest.mark.parametrize(("there", "victims"), [(0, {"low-n04"}), (2000, set())], ids=["weaker", "stronger"])
def test_member_drives_out_nobody_outside_its_clique(there: int, victims: set[str]) -> None:
    first = pod("first").gpu(8).gang("g", 1).annotation(v.REQUIRE_CLIQUE, "true").priority(1000).node("n03")
    others = [
        pod(f"low-{home}").gpu(8).priority(there if home == "n04" else 0).node(home) for home in ("n01", "n02", "n04")
    ]
    office = place([], running=[first, *others])
    office.see(pod("late").gpu(8).gang("g", 1).annotation(v.REQUIRE_CLIQUE, "true").priority(1000))
    evictions = [action for action in office.decide() if isinstance(action, Eviction)]
    assert {victim.name for one in evictions for victim in one.victims} == victims


def test_members_in_different_cliques_leave_no_clique_to_the_next() -> None:
    running = [one.node(home) for one, home in zip(gang(2, 2, clique="true"), ("n01", "n03"), strict=True)]
    office = place([pod("late").gpu(2).gang("g", 2).annotation(v.REQUIRE_CLIQUE, "true")], running=running)
    assert "because the gang's members are in no common NVLink clique" in told(office.decide())["late"]


@pytest.mark.parametrize("lost", [True, False], ids=["its node is gone", "it is leaving"])
def test_member_that_is_not_to_stay_binds_nobody_to_its_clique(lost: bool) -> None:
    first = pod("first").gpu(8).gang("g", 2).annotation(v.REQUIRE_CLIQUE, "true").node("n03")
    office = place([], running=[first if lost else first.deleting()])
    if lost:
        office.remove_node("n03")
    else:
        office.see(pod("other").gpu(8).node("n04"))
    for one in gang(2, 8, clique="true"):
        office.see(one)
    assert set(bound(office.decide()).values()) == {"n01", "n02"}


NEAR = {
    "clique": ("u.0", "f0", "r0", "z0"),
    "fabric": ("u.1", "f0", "r1", "z0"),
    "rack": ("u.2", "f1", "r0", "z0"),
    "zone": ("u.3", "f2", "r2", "z0"),
    "far": ("u.4", "f3", "r3", "z1"),
}
"""what a node has in common with one of the first row, by name"""


def neighbour(name: str, clique: str, fabric: str, rack: str, zone: str) -> NodeBuilder:
    return _row(name, 8, "infiniband", fabric, rack, zone, clique)


@pytest.mark.parametrize("nearest", NEAR)
@pytest.mark.parametrize("alone", [True, False], ids=["a member by itself", "two that must be together"])
def test_x4_members_go_as_near_to_the_others_as_there_is_room(nearest: str, alone: bool) -> None:
    """Whatever a tie would be broken by. Nobody has room on the node where the first one is."""
    names = list(NEAR)[list(NEAR).index(nearest) :]
    office = Office(neighbour("home", *NEAR["clique"]), *(neighbour(name, *NEAR[name]) for name in names))
    office.see(pod("first").gpu(8).gang("g", 1 if alone else 3).node("home"))
    for one in ("a",) if alone else ("a", "b"):
        office.see(pod(one).gpu(4).gang("g", 1 if alone else 3))
    assert set(bound(office.decide()).values()) == {nearest}


def test_x4_nobody_goes_near_who_does_not_want_to() -> None:
    """Somewhere else is a better place for it."""
    office = Office(neighbour("home", *NEAR["clique"]), neighbour("far", *NEAR["far"]))
    office.see(pod("first").gpu(1).gang("g", 1).annotation(v.CO_LOCATE, "none").node("home"))
    office.see(pod("large").gpu(2).node("far"))
    office.see(pod("a").gpu(6).gang("g", 1).annotation(v.CO_LOCATE, "none"))
    assert bound(office.decide()) == {"a": "far"}


def cliques(*sizes: int, cpu: int = 64) -> list[NodeBuilder]:
    """Cliques of so many nodes of eight GPUs."""
    return [
        node(f"c{clique}-{i}").capacity(cpu=cpu, gpu=8).label(v.NVIDIA_CLIQUE, f"u.{clique}")
        for clique, size in enumerate(sizes)
        for i in range(size)
    ]


def test_every_clique_that_looks_large_enough_is_tried() -> None:
    """Not two on one node: cliques of one node only look as if they had room."""
    office = Office(*cliques(*[1] * 9, 2))
    for one in gang(2, 2, clique="true"):
        office.see(one.set("spec.affinity", apart()).label("app", "x"))
    assert set(bound(office.decide()).values()) == {"c9-0", "c9-1"}


def test_room_is_counted_for_each_kind_of_member() -> None:
    """Four workers of eight GPUs do not fit on two nodes, however many helpers do."""
    office = Office(*cliques(2, 2, 2, 2, 2, 4))
    workers = [pod(f"w{i}").cpu(1).gpu(8).gang("g", 8).annotation(v.REQUIRE_CLIQUE, "true") for i in range(4)]
    for one in (*workers, *(pod(f"h{i}").cpu(1).gang("g", 8) for i in range(4))):
        office.see(one)
    assert {home.partition("-")[0] for home in bound(office.decide()).values()} == {"c5"}


def test_room_for_each_kind_of_member_is_told() -> None:
    office = Office(*cliques(2, 2))
    workers = [pod(f"w{i}").cpu(1).gpu(8).gang("g", 8).annotation(v.REQUIRE_CLIQUE, "true") for i in range(4)]
    for one in (*workers, *(pod(f"h{i}").cpu(1).gang("g", 8) for i in range(4))):
        office.see(one)
    assert "8 exist, room for 6 in NVLink clique u.0, which has the most" in told(office.decide())["w0"]


def test_clique_with_room_for_all_members_comes_before_one_for_the_least() -> None:
    office = Office(*cliques(2, 4))
    for i in range(4):
        office.see(pod(f"p{i}").gpu(8).gang("g", 2).annotation(v.REQUIRE_CLIQUE, "true"))
    assert {home.partition("-")[0] for home in bound(office.decide()).values()} == {"c1"}


def test_what_one_member_wants_holds_for_those_that_come_later() -> None:
    """Also for two that must be together."""
    running = [pod("first").gpu(2).gang("g", 3).annotation(v.REQUIRE_CLIQUE, "true").node("n03")]
    office = place([pod(f"p{i}").gpu(8).gang("g", 3) for i in range(2)], running=running)
    assert "room for 2 in NVLink clique uuid.1, where its others are" in told(office.decide())["p0"]


def test_pod_without_a_gang_ignores_cliques() -> None:
    assert set(bound(place([pod("p").gpu(2).annotation(v.REQUIRE_CLIQUE, "true")]).decide())) == {"p"}


def test_gang_of_cpus_is_not_drawn_to_cliques() -> None:
    pods = [pod(f"p{i}").cpu(100).gang("g", 2) for i in range(2)]
    assert len(bound(place(pods).decide())) == 2


@pytest.mark.parametrize(
    ("tier", "nodes"),
    [
        ("nvswitch", {"n01", "n02", "n03", "n04"}),
        ("infiniband", {"n01", "n02", "n03", "n04", "n05", "n06"}),
        ("roce", {"n01", "n02", "n03", "n04", "n05", "n06"}),
        ("ethernet", {f"n0{i}" for i in range(1, 9)}),
    ],
)
def test_least_tier_is_a_filter(tier: str, nodes: set[str]) -> None:
    pods = [pod(f"p{i}").cpu(100).annotation(v.MIN_FABRIC_TIER, tier) for i in range(8)]
    assert set(bound(place(pods).decide()).values()) == nodes


def test_unknown_fabric_is_refused_with_the_reason() -> None:
    office = Office(node("n").capacity(cpu=4))
    office.see(pod("p").cpu(1).annotation(v.MIN_FABRIC_TIER, "roce"))
    messages = told(office.decide())
    assert "whose fabric is not known" in messages["p"]


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        (v.MIN_FABRIC_TIER, "token-ring", "use one of nvswitch, nvlink, infiniband, roce, ethernet"),
        (v.CO_LOCATE, "Strict", "use one of strict, preferred, none"),
        (v.REQUIRE_CLIQUE, "yes", "neither true nor false"),
        (v.NETWORK_SENSITIVE, "1", "neither true nor false"),
    ],
)
def test_wish_that_cannot_be_read_is_refused_and_not_ignored(key: str, text: str, words: str) -> None:
    office = place([one.annotation(key, text) for one in gang(2, 2)])
    actions = office.decide()
    assert bound(actions) == {}
    assert f"{key} is {text!r}" in told(actions)["p0"]
    assert words in told(actions)["p0"]


@pytest.mark.parametrize("says", [ANNOTATION, LABELS, SLICES])
def test_clique_is_known_whoever_tells_it(says: str) -> None:
    """Three machines, of which two are in one clique; a slice comes after its node."""
    office = Office()
    for name, clique in (("a", "u.0"), ("b", "u.1"), ("c", "u.1")):
        cards = tuple(Gpu(index=i, fabric_clique=clique) for i in range(8))
        topology, made = NodeTopology(gpus=cards), node(name).capacity(cpu=8, gpu=8)
        for key, label in wire.encode_labels(topology)[0].items() if says == LABELS else ():
            made.label(key, label)
        if says == ANNOTATION:
            made.annotation(v.TOPOLOGY_SNAPSHOT, wire.encode_annotation(topology))
        office.node(made)
        for one in wire.encode_slices(topology, name, "uid")[0] if says == SLICES else ():
            office.hear("ResourceSlice", Added(one["metadata"]["name"], read("ResourceSlice", one)))
    for member in gang(2, 8, clique="true", tier="nvswitch"):
        office.see(member)
    assert set(bound(office.decide()).values()) == {"b", "c"}


def test_gpu_work_prefers_the_faster_fabric_and_services_do_not_care() -> None:
    slow = node("slow").capacity(cpu=64, gpu=4).label(v.FABRIC_TYPE, "eth")
    fast = node("fast").capacity(cpu=64, gpu=4).label(v.FABRIC_TYPE, "IB")
    for name in ("a", "b", "c", "d"):
        office = Office(slow, fast)
        office.see(pod(name).gpu(4))
        assert bound(office.decide()) == {name: "fast"}


def test_cliques_that_are_full_are_not_said_to_be_missing() -> None:
    office = Office(*cliques(2), *(node(f"free-{i}").capacity(cpu=64, memory="512Gi", gpu=8) for i in range(2)))
    for number in range(2):
        office.see(pod(f"tenant-{number}").gpu(8).node(f"c0-{number}"))
    come(office, [pod(f"g-{i}").gpu(8).gang("g", 2).annotation(v.REQUIRE_CLIQUE, "true") for i in range(2)])
    assert "2 exist, room for 0 in any NVLink clique: 0/4 nodes" in told(office.decide())["g-0"]


def test_strict_gang_starts_when_a_node_of_its_clique_may_be_used_again() -> None:
    first, second = cliques(2)
    office = Office(first, *(node(f"free-{i}").capacity(cpu=64, memory="512Gi", gpu=8) for i in range(2)))
    office.node(second.set("spec.unschedulable", True))
    come(office, gang(2, 8, clique="true"))
    assert bound(office.decide()) == {}
    number = office.desk.state.index("c0-1")
    assert number is not None
    fresh = read("Node", second.set("spec.unschedulable", False).build())
    office.hear("Node", Updated("c0-1", office.desk.state.node(number), fresh))
    assert set(bound(office.decide(after=10)).values()) == {"c0-0", "c0-1"}


def test_late_member_of_a_strict_gang_is_free_when_the_node_of_the_others_is_gone() -> None:
    office = Office(*cliques(1, 1))
    come(office, [pod(f"p{i}").gpu(8).gang("g", 1).annotation(v.REQUIRE_CLIQUE, "true") for i in range(2)])
    actions = office.decide()
    [home] = bound(actions).values()
    office.bind(actions)
    assert bound(office.decide(after=10)) == {}
    office.remove_node(home)
    assert len(bound(office.decide(after=10))) == 1
