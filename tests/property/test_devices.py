"""NUMA nodes and GPUs: nothing is given twice, policies are kept, and what is kept is what one would recount."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.objects import NodeView, PodView, project_node, project_pod
from kubenexus.common.topology import Gpu, Health, NodeTopology, NumaNode, link_row
from kubenexus.common.vocabulary import NumaPolicy
from kubenexus.scheduler.devices.ask import Ask, read_ask
from kubenexus.scheduler.devices.fit import Fit, fit
from kubenexus.scheduler.devices.links import bits, mask_of
from kubenexus.scheduler.devices.machine import Machine, cards, machine_of
from kubenexus.scheduler.devices.occupancy import Occupancy, occupy
from kubenexus.scheduler.devices.residents import Resident, assigned
from kubenexus.scheduler.devices.sources import read_node_slice
from kubenexus.scheduler.engine.cycle import Cycle, Place
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.profiles import build_cycles
from tests.builders import PodBuilder, node, pod

GIB = 1 << 30
POLICIES = [policy.value for policy in NumaPolicy]


@st.composite
def topologies(draw: st.DrawFn, least: int = 1) -> NodeTopology:
    """One to four NUMA nodes with a few CPUs and GPUs each, some of them lost or cut up."""
    count = draw(st.integers(least, 4))
    far = draw(st.sampled_from([None, 12, 21, 32]))
    numa, first = [], 0
    for i in range(count):
        cpus = draw(st.integers(2, 6))
        row = tuple(10 if i == j else far for j in range(count))
        memory = draw(st.integers(4, 8)) * GIB
        numa.append(NumaNode(id=2 * i, cpus=tuple(range(first, first + cpus)), memory=memory, distances=row))
        first += cpus
    homes = draw(st.lists(st.sampled_from([one.id for one in numa]), max_size=6))
    links = draw(st.sampled_from([0, 4, 18]))
    health = st.sampled_from([Health.OK, Health.OK, Health.OK, Health.LOST])
    gpus = tuple(
        Gpu(
            index=i,
            numa=home,
            memory=80 * GIB,
            mig=draw(st.sampled_from([False, False, False, True])),
            health=draw(health),
            peer_links=link_row(0 if i == j or (i // 2 != j // 2 and links == 4) else links for j in range(len(homes))),
        )
        for i, home in enumerate(homes)
    )
    return NodeTopology(numa=tuple(numa), gpus=gpus)


def node_view(
    name: str, topology: NodeTopology, gpus: int | None = None, labels: Mapping[str, str] | None = None
) -> NodeView:
    cpus = sum(len(one.cpus or ()) for one in topology.numa or ())
    memory = sum(one.memory or 0 for one in topology.numa or ())
    whole = sum(gpu.usable and not gpu.mig for gpu in topology.gpus or ())
    built = node(name).capacity(cpu=cpus, memory=memory, gpu=whole if gpus is None else gpus)
    for key, text in (labels or {}).items():
        built.label(key, text)
    return project_node(built.annotation(v.TOPOLOGY_SNAPSHOT, wire.encode_annotation(topology)).build())


@st.composite
def pods(draw: st.DrawFn, name: str = "p") -> PodBuilder:
    """A pod with or without a policy, GPUs and CPUs of its own."""
    built = pod(name).uid(name)
    cpu, memory = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    if draw(st.booleans()):
        built.guaranteed(cpu, f"{memory}Gi")
    else:
        built.cpu(f"{cpu * 300}m").memory(f"{memory}Gi")
    gpus = draw(st.sampled_from([0, 0, 1, 2, 3]))
    if gpus:
        built.gpu(gpus)
    policy = draw(st.sampled_from([None, *POLICIES]))
    return built.annotation(v.NUMA_POLICY, policy) if policy else built


def numa_of(one: PodView) -> tuple[int, ...]:
    return assigned(one.annotations.get(v.NUMA_ASSIGNED, ""))


def gpus_of(one: PodView) -> tuple[int, ...]:
    return assigned(one.annotations.get(v.GPU_ASSIGNED, ""))


def policy_of(one: PodView) -> str:
    return one.annotations.get(v.NUMA_POLICY, "")


def check_node(topology: NodeTopology, residents: list[PodView]) -> None:
    """Nobody has what another has, and everybody has what was promised."""
    whole = {gpu.index: gpu.numa for gpu in topology.gpus or () if gpu.usable and not gpu.mig}
    given_gpus = [index for one in residents for index in gpus_of(one)]
    assert len(given_gpus) == len(set(given_gpus))
    assert set(given_gpus) <= set(whole)
    for one in residents:
        gpus = one.spec.requests.get("nvidia.com/gpu", 0)
        assert len(gpus_of(one)) == gpus
        if policy_of(one) in ("single-numa", "isolated"):
            assert len(numa_of(one)) == 1
            assert {whole[index] for index in gpus_of(one)} <= set(numa_of(one))
        if policy_of(one) == "isolated":
            others = [other for other in residents if other is not one]
            assert all(set(numa_of(one)).isdisjoint(numa_of(other)) for other in others)
            assert all(whole[index] not in numa_of(one) for other in others for index in gpus_of(other))
    for zone in topology.cpu_nodes:
        inside = [one for one in residents if numa_of(one) == (zone.id,)]
        assert sum(one.spec.requests.get("cpu", 0) for one in inside) <= 1000 * len(zone.cpus or ())
        assert sum(one.spec.requests.get("memory", 0) for one in inside) <= (zone.memory or 0)
    closed = {numa for one in residents if policy_of(one) == "isolated" for numa in numa_of(one)}
    open_cpus = sum(1000 * len(zone.cpus or ()) for zone in topology.cpu_nodes if zone.id not in closed)
    assert sum(one.spec.requests.get("cpu", 0) for one in residents if policy_of(one) != "isolated") <= open_cpus


def cycle_on(*views: NodeView) -> Cycle:
    state = State()
    for view in views:
        state.set_node(view)
    (cycle,) = build_cycles(SchedulerConfiguration(), state, Nominations()).values()
    return cycle


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), machines=st.lists(topologies(), min_size=1, max_size=2))
def test_nothing_is_given_twice_and_policies_are_kept(data: st.DataObject, machines: list[NodeTopology]) -> None:
    known = {f"n{number}": topology for number, topology in enumerate(machines)}
    cycle = cycle_on(*(node_view(name, topology) for name, topology in known.items()))
    state, placed = cycle.state, list[str]()
    for number in range(data.draw(st.integers(1, 12))):
        if placed and data.draw(st.integers(0, 3)) == 0:
            state.remove(placed.pop(data.draw(st.integers(0, len(placed) - 1))))
        one = project_pod(data.draw(pods(f"p{number}")).build())
        if isinstance(cycle.decide(one), Place):
            placed.append(one.uid)
        for name, topology in known.items():
            column = state.index(name)
            assert column is not None
            check_node(topology, list(state.slots[column].pods.values()))
    state.validate()


class LedgerMachine(RuleBasedStateMachine):
    """Pods come, go and are tried out in any order, machines change: the ledger says what a recount says."""

    def __init__(self) -> None:
        super().__init__()
        self.state = State()
        self.marks: list[int] = []

    @precondition(lambda self: not self.marks)
    @rule(name=st.sampled_from("ab"), topology=topologies())
    def node_changes(self, name: str, topology: NodeTopology) -> None:
        self.state.set_node(node_view(name, topology))

    @precondition(lambda self: not self.marks)
    @rule(name=st.sampled_from("ab"))
    def node_goes(self, name: str) -> None:
        self.state.remove_node(name)

    @precondition(lambda self: not self.marks)
    @rule(name=st.sampled_from("ab"), topology=st.none() | topologies())
    def slices_change(self, name: str, topology: NodeTopology | None) -> None:
        slices = wire.encode_slices(topology, name, "uid")[0] if topology else []
        found = {
            kind: next((one for one in slices if kind in one["metadata"]["name"]), None) for kind in ("numa", "gpu")
        }
        for kind, raw in found.items():
            self.state.set_slice(f"{name}-{kind}", None if raw is None else read_node_slice(raw))

    @rule(
        built=pods(),
        uid=st.sampled_from("pqrstu"),
        name=st.sampled_from("ab"),
        numa=st.sampled_from(["", "", "0", "2", "0,2", "9", "x"]),
        gpus=st.sampled_from(["", "0", "1,2", "0,1,2"]),
    )
    def pod_is_placed(self, built: PodBuilder, uid: str, name: str, numa: str, gpus: str) -> None:
        built.uid(uid).annotation(v.NUMA_ASSIGNED, numa).annotation(v.GPU_ASSIGNED, gpus)
        self.state.place(project_pod(built.build()), name)

    @rule(uid=st.sampled_from("pqrstu"))
    def pod_goes(self, uid: str) -> None:
        self.state.remove(uid)

    @precondition(lambda self: len(self.marks) < 2)
    @rule()
    def trial_begins(self) -> None:
        self.marks.append(self.state.checkpoint())

    @precondition(lambda self: self.marks)
    @rule(keep=st.booleans())
    def trial_ends(self, keep: bool) -> None:
        (self.state.keep if keep else self.state.rollback)(self.marks.pop())

    @rule(built=pods("asking"))
    def somebody_asks(self, built: PodBuilder) -> None:
        asked = read_ask(project_pod(built.build()), v.GPU_RESOURCES)
        if isinstance(asked, Ask):
            for column in self.state.live():
                self.state.devices.place(asked, column)

    @invariant()
    def everything_is_as_recounted(self) -> None:
        self.state.validate()


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


@st.composite
def residents(draw: st.DrawFn, machine: Machine, uid: str) -> Resident:
    numa = draw(st.sampled_from([(), *((zone.id,) for zone in machine.zones), machine.ids(range(len(machine.zones)))]))
    exclusive = draw(st.integers(0, 3))
    return Resident(
        rank=0 if len(numa) == 1 else 1 if numa else 2,
        presumed=True,
        created=0.0,
        uid=uid,
        amounts=(exclusive * 1000 + draw(st.sampled_from([0, 300])), draw(st.integers(0, 3)) * GIB, 0, 0),
        exclusive=exclusive,
        gpus=draw(st.integers(0, 2)),
        numa=numa,
        mask=0,
        cpus=(),
        isolated=False,
        guaranteed=draw(st.booleans()),
    )


def able(machine: Machine, occupancy: Occupancy, ask: Ask, zones: tuple[int, ...]) -> bool:
    """Whether these zones have room, said as plainly as possible."""
    cpus = [occupancy.free[place][0] // 1000 * 1000 if ask.exclusive else occupancy.free[place][0] for place in zones]
    gpus = sum((occupancy.gpus or 0) & machine.zones[place].gpus for place in zones) & cards(machine, ask.vram)
    memory = sum(occupancy.free[place][1] for place in zones)
    return sum(cpus) >= ask.amounts[0] and memory >= ask.amounts[1] and gpus.bit_count() >= ask.gpus


def smallest(machine: Machine, occupancy: Occupancy, ask: Ask) -> int | None:
    places = range(len(machine.zones))
    sizes = (
        size
        for size in range(1, len(machine.zones) + 1)
        if any(able(machine, occupancy, ask, one) for one in combinations(places, size))
    )
    return next(sizes, None)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), topology=topologies())
def test_the_place_is_the_best_there_is(data: st.DataObject, topology: NodeTopology) -> None:
    """Against trying every set of NUMA nodes: found if there is one, never larger than need be, and with room."""
    machine = machine_of(topology, {})
    count = data.draw(st.integers(0, 4))
    pods_there = [data.draw(residents(machine, f"r{number}")) for number in range(count)]
    taken = occupy(machine, pods_there, (0, 0, 0, 0), whole_gpus=True)
    empty = occupy(machine, (), (0, 0, 0, 0), whole_gpus=True)
    ask = read_ask(project_pod(data.draw(pods()).build()), v.GPU_RESOURCES)
    if not isinstance(ask, Ask) or ask.policy in (NumaPolicy.NONE, NumaPolicy.ISOLATED):
        return
    found, least, ideal = fit(machine, taken, ask), smallest(machine, taken, ask), smallest(machine, empty, ask)
    zones = machine.positions(found.numa) if isinstance(found, Fit) else ()
    if zones:
        assert isinstance(found, Fit)
        assert able(machine, taken, ask, zones)
        assert found.gpus.bit_count() == ask.gpus
        assert not found.gpus & ~(taken.gpus or 0)
        assert set(bits(found.gpus)) <= {index for place in zones for index in bits(machine.zones[place].gpus)}
    match ask.policy:
        case NumaPolicy.SINGLE_NUMA:
            assert bool(zones) == (least == 1)
        case NumaPolicy.RESTRICTED:
            assert bool(zones) == (least is not None and least == ideal)
        case NumaPolicy.BEST_EFFORT:
            assert bool(zones) == (least is not None)
            islands = machine.layout.islands
            torn = bool(zones) and isinstance(found, Fit) and all(found.gpus & ~island for island in islands)
            assert not zones or len(zones) == least or (ask.gpus > 1 and not torn)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), topology=topologies())
def test_counting_does_not_depend_on_the_order(data: st.DataObject, topology: NodeTopology) -> None:
    machine = machine_of(topology, {})
    count = data.draw(st.integers(0, 5))
    found = [data.draw(residents(machine, f"r{number}")) for number in range(count)]
    shared = (data.draw(st.integers(0, 9000)), data.draw(st.integers(0, 9)) * GIB, 0, 0)
    one = occupy(machine, found, shared, whole_gpus=True)
    assert one == occupy(machine, data.draw(st.permutations(found)), shared, whole_gpus=True)
    taken = mask_of(machine.layout.gpus) & ~(one.gpus or 0)
    assert taken.bit_count() == min(sum(r.gpus for r in found), len(machine.layout.gpus))
    for place, zone in enumerate(machine.zones):
        assert all(
            0 <= free <= left <= room
            for free, left, room in zip(one.free[place], one.unheld[place], zone.room, strict=True)
        )
    cpus = sum(zone.room[0] for zone in machine.zones)
    free = sum(left[0] for left in one.free)
    assert free >= cpus - shared[0] - sum(r.amounts[0] for r in found)
