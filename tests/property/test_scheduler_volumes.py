"""VolumeBinding and NodeVolumeLimits against the same rules written plainly, node by node, and under many decisions."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.objects import (
    NodeView,
    PersistentVolumeClaimView,
    PersistentVolumeView,
    PodView,
    project_node,
    project_persistent_volume,
    project_persistent_volume_claim,
    project_pod,
)
from kubenexus.scheduler.engine.cycle import Cycle, Park, Place
from kubenexus.scheduler.engine.plugin import ALL
from kubenexus.scheduler.engine.shape import Weighted
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.volume_binding import VolumeBinding
from kubenexus.scheduler.plugins.volume_limits import NodeVolumeLimits
from tests.builders import Builder, node, pod
from tests.volumes import bound_claim, put, storage_class, volume, volume_claim

KEYS = ("zone", "rack")
VALUES = ("1", "2", "3")
DRIVERS = ("a.example", "b.example")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
expressions = st.one_of(
    st.builds(
        lambda key, values: {"key": key, "operator": "In", "values": values},
        st.sampled_from(KEYS),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True),
    ),
    st.builds(lambda key: {"key": key, "operator": "DoesNotExist"}, st.sampled_from(KEYS)),
)
terms = st.builds(lambda found: {"matchExpressions": found}, st.lists(expressions, min_size=1, max_size=2))
affinities = st.none() | st.builds(
    lambda found: {"required": {"nodeSelectorTerms": found}}, st.lists(terms, min_size=1, max_size=2)
)


def machine(name: str, found: dict[str, str]) -> NodeView:
    raw = node(name)
    for key, value in found.items():
        raw.label(key, value)
    return project_node(raw.build())


@st.composite
def volumes(draw: st.DrawFn) -> list[Builder]:
    kinds = st.tuples(st.integers(1, 3), affinities, st.sampled_from(("", "", "", "c0", "c1")))
    made = []
    for number, (size, affinity, owner) in enumerate(draw(st.lists(kinds, max_size=8))):
        spec = {"nodeAffinity": affinity} if affinity else {}
        if owner:
            spec["claimRef"] = {"namespace": "default", "name": owner}
        made.append(volume(f"v{number}", f"{size}Gi", **spec))
    return made


def expected(
    claims: Sequence[PersistentVolumeClaimView], offered: Sequence[PersistentVolumeView], view: NodeView
) -> dict[str, str]:
    """Which volume each claim gets on a node; claims that get none are left out."""
    found: dict[str, str] = {}
    for claim in sorted(claims, key=lambda one: one.request):
        fitting = [one for one in offered if one.capacity >= claim.request and one.name not in found.values()]
        meant = [one for one in fitting if one.claim and one.claim.name == claim.name]
        free = sorted((one for one in fitting if not one.claim), key=lambda one: (one.capacity, one.name))
        ordered = sorted(meant, key=lambda one: (one.capacity, one.name))[:1] or free
        usable = [
            one for one in ordered if not one.node_affinity or one.node_affinity.matches(view.meta.labels, view.name)
        ]
        if usable:
            found[claim.name] = usable[0].name
    return found


@given(
    found=st.lists(labels, min_size=1, max_size=6),
    offered=volumes(),
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
)
def test_every_claim_gets_the_volume_that_a_plain_search_finds(
    found: list[dict[str, str]], offered: list[Builder], sizes: list[int]
) -> None:
    state, raw, plugin = State(), pod("p"), VolumeBinding({})
    claims = [volume_claim(f"c{number}", size=f"{size}Gi") for number, size in enumerate(sizes)]
    put(state, storage_class(), *offered, *claims)
    for number, one in enumerate(found):
        state.set_node(machine(f"n{number}", one))
    for number in range(len(sizes)):
        raw.claim(f"c{number}")
    term = plugin.compile(project_pod(raw.build()), state)
    assert term is not None
    refused = [refusal.nodes for refusal in plugin.filter(term, state, ALL)]
    views = [project_persistent_volume_claim(claim.build()) for claim in claims]
    disks = [project_persistent_volume(disk.build()) for disk in offered]
    for number in state.live():
        wanted = expected(views, disks, state.node(number))
        taken = plugin.take(term, state, number)
        assert taken is not None
        assert {claim.name: disk.name for claim, disk in taken.bindings} == wanted
        assert {claim.name for claim in taken.provisions} == {claim.name for claim in views} - wanted.keys()
        assert any(nodes[number] for nodes in refused) == (len(wanted) < len(views))


def csi_node(name: str, limits: tuple[int, ...]) -> Builder:
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": {"count": limit}}
        for driver, limit in zip(DRIVERS, limits, strict=True)
    ]
    return Builder("storage.k8s.io/v1", "CSINode", name).set("spec.drivers", drivers)


def attached(state: State, driver: str, name: str) -> set[str]:
    """The volumes of a driver that pods on a node use."""
    number = state.index(name)
    assert number is not None
    claims = {claim.name for one in state.slots[number].pods.values() for claim in one.volume_claims}
    return {claim for claim in claims if state.objects.pvs[claim].driver == driver}


@given(
    limits=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3),
    drivers=st.lists(st.sampled_from(DRIVERS), min_size=1, max_size=6),
    wishes=st.lists(st.sets(st.integers(0, 5), min_size=1, max_size=3), max_size=12),
)
def test_no_node_has_more_volumes_than_it_can_and_no_pod_waits_without_need(
    limits: list[tuple[int, int]], drivers: list[str], wishes: list[set[int]]
) -> None:
    state = State()
    for number, driver in enumerate(drivers):
        put(state, volume(f"v{number}", csi={"driver": driver, "volumeHandle": f"{number}"}))
        put(state, bound_claim(f"v{number}", f"v{number}"))
    for number, both in enumerate(limits):
        state.set_node(machine(f"n{number}", {}))
        put(state, csi_node(f"n{number}", both))
    engine = Cycle(state, [Weighted(NodeVolumeLimits(), 0)])
    for number, wish in enumerate(wishes):
        wanted = {f"v{one % len(drivers)}" for one in wish}
        room = any(fits(state, f"n{place}", wanted, both) for place, both in enumerate(limits))
        assert isinstance(engine.decide(with_claims(f"p{number}", wanted)), Place if room else Park)
    for number, both in enumerate(limits):
        for driver, limit in zip(DRIVERS, both, strict=True):
            assert len(attached(state, driver, f"n{number}")) <= limit
    state.validate()


def with_claims(name: str, claims: set[str]) -> PodView:
    raw = pod(name)
    for claim in sorted(claims):
        raw.claim(claim)
    return project_pod(raw.build())


def fits(state: State, name: str, wanted: set[str], limits: tuple[int, ...]) -> bool:
    """Whether each driver of a node can attach what it does not have yet."""
    for driver, limit in zip(DRIVERS, limits, strict=True):
        there = attached(state, driver, name)
        more = {claim for claim in wanted if state.objects.pvs[claim].driver == driver} - there
        if more and len(there) + len(more) > limit:
            return False
    return True
