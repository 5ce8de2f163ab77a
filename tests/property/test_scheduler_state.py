"""The engine's state and boards under any sequence of events: what is kept up to date is what one would recompute."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubenexus.common.config import Profile
from kubenexus.common.objects import (
    Labels,
    NodeSelectorTerm,
    NodeView,
    Op,
    PodView,
    Requirement,
    project_node,
    project_pod,
)
from kubenexus.scheduler.engine.evaluate import Board, best, feasible_at
from kubenexus.scheduler.engine.plugin import ALL, NodePlugin, Scores
from kubenexus.scheduler.engine.shape import Shape, compile_shape
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.node_ports import Occupied, conflict
from kubenexus.scheduler.plugins.registry import build_profile
from kubenexus.scheduler.plugins.taints import taints_of
from tests.builders import NodeBuilder, PodBuilder, node, pod

PLUGINS = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "NodeDeclaredFeatures",
)
PROFILE = [one for one in build_profile(Profile()) if one.plugin.name in PLUGINS]
ZONE = "topology.kubernetes.io/zone"
IMAGE = "registry.example/app:1"

NODES = st.sampled_from([f"n{number}" for number in range(6)])
UIDS = st.sampled_from([f"uid-{number}" for number in range(12)])


def preferring(zone: str) -> dict[str, object]:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": term}]}}


TEMPLATES: dict[str, PodBuilder] = {
    "plain": pod("plain").cpu("500m").memory("1Gi"),
    "nothing": pod("nothing"),
    "gpu": pod("gpu").cpu(1).gpu(2).tolerate("gpu"),
    "port": pod("port").cpu("100m").host_port(80),
    "other-port": pod("other-port").host_port(80, "UDP").host_port(81),
    "picky": pod("picky").memory("2Gi").select(**{ZONE: "a"}),
    "wishful": pod("wishful").cpu("250m").set("spec.affinity", preferring("b")),
    "elsewhere": pod("elsewhere", "other").cpu(1).label("app", "x"),
}
KINDS = st.sampled_from(sorted(TEMPLATES))


def make_pod(kind: str, uid: str) -> PodView:
    raw = TEMPLATES[kind].uid(uid).build()
    return project_pod(raw | {"metadata": raw["metadata"] | {"name": uid}})


@st.composite
def node_builders(draw: st.DrawFn, name: str) -> NodeBuilder:
    built = node(name).capacity(cpu=draw(st.integers(0, 4)), memory=f"{draw(st.integers(1, 6))}Gi")
    if draw(st.booleans()):
        built.capacity(gpu=draw(st.integers(0, 4))).taint(
            "gpu", effect=draw(st.sampled_from(["NoSchedule", "PreferNoSchedule"]))
        )
    if draw(st.booleans()):
        built.zone(draw(st.sampled_from("ab")))
    if draw(st.booleans()):
        built.image(IMAGE, 300 << 20)
    return built.cordon() if draw(st.integers(0, 4)) == 0 else built


def node_views(name: str) -> st.SearchStrategy[NodeView]:
    return node_builders(name).map(lambda built: project_node(built.build()))


def plain_scores(shape: Shape, state: State, feasible: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Scores:
    """The weighted sum of all scores, with every plugin asked about every node."""
    total = np.zeros(state.size, dtype=np.int64)
    for asked in shape.asked:
        plugin = asked.plugin
        if isinstance(plugin, NodePlugin):
            raw = plugin.score(asked.term, state, ALL)
            scores = None if raw is None else plugin.normalize(raw, feasible)
        else:
            scores = plugin.score(asked.term, state, feasible)
        total += 0 if scores is None else asked.weight * scores
    return total


def board_of(kind: str, state: State) -> Board:
    return Board(compile_shape(make_pod(kind, "asking"), PROFILE, state), state)


def check_board(board: Board, state: State) -> None:
    """It says what plugins say that are asked afresh."""
    feasible = board.feasible()
    assert np.array_equal(feasible, feasible_at(board.shape, state, ALL))
    expected = plain_scores(board.shape, state, feasible)
    assert np.array_equal(board.scores(feasible)[feasible], expected[feasible])


def overcommitted(view: NodeView, pods: Iterable[PodView]) -> list[str]:
    """What the pods of a node ask for beyond what it has, and ports that several of them want."""
    pods = list(pods)
    wanted = {"pods": len(pods)}
    for one in pods:
        for resource, amount in one.spec.requests.items():
            wanted[resource] = wanted.get(resource, 0) + amount
    ports = [(one.uid, port) for one in pods for port in one.spec.needs.host_ports]
    clashes = [str(a) for uid, a in ports for other, b in ports if uid < other and conflict(a, b)]
    return [name for name, amount in wanted.items() if amount > view.allocatable.get(name, 0)] + clashes


class StateMachine(RuleBasedStateMachine):
    """Events as a scheduler sees them. `self.homes` and `self.views` say what is true."""

    def __init__(self) -> None:
        super().__init__()
        self.state = State()
        self.views: dict[str, NodeView] = {}
        self.homes: dict[str, tuple[PodView, str]] = {}
        self.marks: list[tuple[int, dict[str, tuple[PodView, str]]]] = []
        self.often, self.seldom = ({kind: board_of(kind, self.state) for kind in TEMPLATES} for _ in range(2))

    # Nodes and namespaces change outside of trials only.

    @precondition(lambda self: not self.marks)
    @rule(data=st.data(), name=NODES)
    def node_comes_or_changes(self, data: st.DataObject, name: str) -> None:
        self.views[name] = data.draw(node_views(name))
        self.state.set_node(self.views[name])

    @precondition(lambda self: not self.marks)
    @rule(name=NODES)
    def node_goes(self, name: str) -> None:
        self.views.pop(name, None)
        self.state.remove_node(name)

    @precondition(lambda self: not self.marks and self.state.size < 256)
    @rule(count=st.integers(30, 70))
    def many_nodes_come(self, count: int) -> None:
        for number in range(count):
            view = project_node(node(f"m{number}").capacity(cpu=2, memory="4Gi").zone("ab"[number % 2]).build())
            self.views[view.name] = view
            self.state.set_node(view)

    @precondition(lambda self: not self.marks)
    @rule(name=st.sampled_from(["default", "other"]), labels=st.none() | st.just(Labels(team="x")))
    def namespace_changes(self, name: str, labels: Labels | None) -> None:
        self.state.set_namespace(name, labels)
        assert self.state.namespace_labels(name) == (labels or {})

    # Pods, also in trials.

    @rule(kind=KINDS, uid=UIDS, name=NODES)
    def pod_is_placed(self, kind: str, uid: str, name: str) -> None:
        one = make_pod(kind, uid)
        self.state.place(one, name)
        self.homes[uid] = one, name

    @rule(uid=UIDS)
    def pod_goes(self, uid: str) -> None:
        self.homes.pop(uid, None)
        self.state.remove(uid)

    @precondition(lambda self: len(self.marks) < 3)
    @rule()
    def trial_begins(self) -> None:
        self.marks.append((self.state.checkpoint(), dict(self.homes)))

    @precondition(lambda self: self.marks)
    @rule()
    def trial_is_undone(self) -> None:
        mark, self.homes = self.marks.pop()
        self.state.rollback(mark)

    @precondition(lambda self: self.marks)
    @rule()
    def trial_is_kept(self) -> None:
        self.state.keep(self.marks.pop()[0])

    # Asking.

    @rule(kind=KINDS)
    def board_is_asked_now_and_then(self, kind: str) -> None:
        check_board(self.seldom[kind], self.state)

    @invariant()
    def boards_asked_at_every_step_are_right(self) -> None:
        for board in self.often.values():
            check_board(board, self.state)

    @rule(kind=KINDS, uid=UIDS)
    def pod_is_decided(self, kind: str, uid: str) -> None:
        one, board = make_pod(kind, uid), self.seldom[kind]
        self.pod_goes(uid)
        feasible = board.feasible()
        chosen = best(board.scores(feasible), feasible, self.state, crc32(uid.encode()))
        if chosen is None:
            return
        name = self.state.name(chosen)
        self.pod_is_placed(kind, uid, name)
        here = [view for view, home in self.homes.values() if home == name]
        asked = {"pods", *(resource for resource, amount in one.spec.requests.items() if amount)}
        assert not asked & set(overcommitted(self.views[name], here))

    @rule(
        port=st.sampled_from(
            [port for t in TEMPLATES.values() for port in project_pod(t.build()).spec.needs.host_ports]
        )
    )
    def ports_are_counted(self, port: object) -> None:
        question = Occupied(port)  # type: ignore[arg-type]
        counts = self.state.count(question)
        for name in self.views:
            column = self.state.index(name)
            assert counts[column] == sum(question.weigh(one) for one, home in self.homes.values() if home == name)

    # What must always hold.

    @invariant()
    def columns_equal_what_is_recomputed(self) -> None:
        self.state.validate()

    @invariant()
    def pods_are_where_they_were_put(self) -> None:
        found = {one.uid: (one, self.state.name(column)) for one, column in self.state.pods()}
        assert found == self.homes
        assert all(self.state.home(uid) is not None for uid in self.homes)

    @invariant()
    def nodes_are_those_that_came(self) -> None:
        live = {self.state.name(column): column for column in self.state.live()}
        assert {name: self.state.node(column) for name, column in live.items()} == self.views
        in_zone = self.state.labels.term(NodeSelectorTerm((Requirement(ZONE, Op.IN, frozenset("a")),)))
        taints = self.state.facts.column(taints_of)
        images = self.state.images.nodes(IMAGE)
        for name, column in live.items():
            view = self.views[name]
            assert in_zone[column] == (view.meta.labels.get(ZONE) == "a")
            assert taints.values[taints.codes[column]] == view.taints
            assert (column in images) == bool(view.images)
        assert set(images) <= set(live.values())

    @invariant()
    def columns_are_used_again(self) -> None:
        if not self.marks:
            ghosts = {home for _, home in self.homes.values()} - set(self.views)
            assert len(self.state.slots) - len(self.views) - len(ghosts) == len(self.state._free)


TestStateMachine = pytest.mark.slow(StateMachine.TestCase)
TestStateMachine.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), kinds=st.lists(KINDS, min_size=1, max_size=40))
def test_decisions_never_overcommit_and_repeat_themselves(data: st.DataObject, kinds: list[str]) -> None:
    views = [data.draw(node_views(f"n{number}")) for number in range(data.draw(st.integers(1, 6)))]

    def run() -> dict[str, str]:
        state = State()
        boards: dict[str, Board] = {}
        for view in views:
            state.set_node(view)
        for number, kind in enumerate(kinds):
            one = make_pod(kind, f"uid-{number}")
            if kind not in boards:
                boards[kind] = board_of(kind, state)
            feasible = boards[kind].feasible()
            chosen = best(boards[kind].scores(feasible), feasible, state, crc32(one.uid.encode()))
            if chosen is not None:
                state.place(one, state.name(chosen))
        for view in views:
            assert overcommitted(view, (one for one, column in state.pods() if state.name(column) == view.name)) == []
        return {one.uid: state.name(column) for one, column in state.pods()}

    assert run() == run()
