"""Gangs under random events: never partly placed by a decision, nothing overcommitted, nobody lost."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubenexus.common import vocabulary as v
from kubenexus.common.kube.mirror import Updated
from kubenexus.common.objects import PodView
from kubenexus.scheduler.actions import POD, Bind, Bound, Unbound
from kubenexus.scheduler.engine.holds import is_placeholder
from kubenexus.scheduler.engine.queue import Where
from kubenexus.scheduler.simulation import Simulation
from tests.builders import PodBuilder, node, pod
from tests.office import Office

SIZES = {"a": 1, "b": 2, "c": 3, "d": 5, "e": 2}
STRICT = "e"
"""the gang that must be in one clique"""


class Traffic(RuleBasedStateMachine):
    """Members come and go, nodes come, binds succeed and fail, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.office = Office(node("n0").capacity(cpu=4).label(v.NVIDIA_CLIQUE, "x"))
        self.nodes = 1
        self.named = 0
        self.views: dict[str, PodView] = {}
        self.binding: list[Bind] = []

    @rule(gang=st.sampled_from(sorted(SIZES)), cpu=st.integers(1, 3), gated=st.booleans())
    def come(self, gang: str, cpu: int, gated: bool) -> None:
        self.named += 1
        member = pod(f"{gang}{self.named}").cpu(cpu).gang(gang, SIZES[gang])
        if gang == STRICT:
            member.annotation(v.REQUIRE_CLIQUE, "true")
        view = self.office.see(member.gate("wait") if gated and cpu == 3 else member)
        self.views[view.uid] = view

    @rule(cpu=st.integers(1, 8), clique=st.sampled_from(["", "x", "y"]))
    def node_joins(self, cpu: int, clique: str) -> None:
        self.office.node(node(f"n{self.nodes}").capacity(cpu=cpu).label(v.NVIDIA_CLIQUE, clique))
        self.nodes += 1

    @precondition(lambda self: self.views)
    @rule(data=st.data())
    def member_goes(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.views)))
        self.office.gone(self.views.pop(uid))

    @rule(seconds=st.sampled_from([0.0, 1.0, 10.0, 400.0]))
    def decide(self, seconds: float) -> None:
        before = self.placed()
        binds = [action for action in self.office.decide(after=seconds) if isinstance(action, Bind)]
        for gang, size in SIZES.items():
            new = sum(bind.pod.name.startswith(gang) for bind in binds)
            assert new == 0 or before[gang] + new >= size, f"{gang}: {new} placed beside {before[gang]}, {size} needed"
        self.binding += binds

    @precondition(lambda self: self.binding)
    @rule(data=st.data(), well=st.booleans())
    def bind_ends(self, data: st.DataObject, well: bool) -> None:
        bind = self.binding.pop(data.draw(st.integers(0, len(self.binding) - 1)))
        outcome = Bound(bind) if well else Unbound(bind, "chance")
        self.office.desk.finish(outcome, self.office.now)
        old = self.views.get(bind.pod.uid)
        if well and old is not None:
            self.views[bind.pod.uid] = new = bind.pod._replace(node=bind.node, phase="Running")
            self.office.hear(POD, Updated(new.uid, old, new))

    def placed(self) -> dict[str, int]:
        names = [view.name for view, _ in self.office.desk.state.pods() if not is_placeholder(view)]
        return {gang: sum(name.startswith(gang) for name in names) for gang in SIZES}

    @invariant()
    def one_gang_is_in_one_clique(self) -> None:
        state = self.office.desk.state
        homes = [home for view, home in state.pods() if view.name.startswith(STRICT)]
        cliques = {state.node(home).meta.labels[v.NVIDIA_CLIQUE] for home in homes}
        assert len(cliques) < 2
        assert "" not in cliques

    @invariant()
    def nothing_is_overcommitted(self) -> None:
        state = self.office.desk.state
        row = state.row("cpu")
        assert (state.used[row] <= state.alloc[row]).all()
        state.validate()

    @invariant()
    def everybody_is_somewhere(self) -> None:
        """Each pod has a node, waits in the queue or waits for its gang; in one place each."""
        desk = self.office.desk
        for uid in self.views:
            places: list[Any] = [
                desk.state.home(uid) is not None,
                desk.queue.unit(uid) is not None,
                bool(desk.muster.why(uid)),
            ]
            assert any(places), uid
            assert not places[0] or desk.queue.where(uid) in (None, Where.OUT), "placed, and to be placed"

    def teardown(self) -> None:
        """With room for all, every gang that is whole runs in the end."""
        for clique in ("x", "y"):
            self.office.node(node(f"last-{clique}").capacity(cpu=1000).label(v.NVIDIA_CLIQUE, clique))
        for _ in range(3):
            self.decide(400.0)
            while self.binding:
                bind = self.binding.pop()
                self.office.desk.finish(Bound(bind), self.office.now)
                if bind.pod.uid in self.views:
                    new = bind.pod._replace(node=bind.node, phase="Running")
                    self.office.hear(POD, Updated(new.uid, bind.pod, new))
        placed = self.placed()
        for gang, size in SIZES.items():
            members = [view for view in self.views.values() if view.name.startswith(gang) and not view.gates]
            assert placed[gang] == (len(members) if len(members) >= size else placed[gang])
            assert len(members) >= size or placed[gang] <= len(members)


class Members(NamedTuple):
    """A gang of so many pods, of which so many must be together, perhaps all in one clique."""

    size: int
    least: int
    gpu: int
    strict: bool

    def pods(self, name: str) -> list[PodBuilder]:
        made = [pod(f"{name}{i}").gpu(self.gpu).gang(name, self.least) for i in range(self.size)]
        return [one.annotation(v.REQUIRE_CLIQUE, "true") for one in made] if self.strict else made


HOMES = st.lists(st.tuples(st.sampled_from([0, 2, 8]), st.sampled_from(["", "x", "y"])), max_size=5)
"""nodes with so many GPUs, in a clique or in none"""
GANGS = st.builds(Members, st.integers(1, 6), st.integers(1, 4), st.sampled_from([1, 2, 4, 8]), st.booleans())


@given(homes=HOMES, gangs=st.dictionaries(st.sampled_from("abcd"), GANGS, min_size=1))
def test_offline_gangs_are_whole_and_in_one_clique(homes: list[tuple[int, str]], gangs: dict[str, Members]) -> None:
    """Also where more members exist than must be together, and there is not room for all."""
    nodes = [
        node(f"n{i}").capacity(cpu=64, gpu=home[0]).label(v.NVIDIA_CLIQUE, home[1]) for i, home in enumerate(homes)
    ]
    pods = [one for name, gang in gangs.items() for one in gang.pods(name)]
    result = Simulation([one.build() for one in (*nodes, *pods)]).run()
    assert len(result["placements"]) + len(result["pending"]) == len(pods)
    taken = Counter[str]()
    for name, gang in gangs.items():
        there = [entry["node"] for entry in result["placements"] if entry["gang"] == f"default/{name}"]
        cliques = {homes[int(home[1:])][1] for home in there}
        assert not there or len(there) >= gang.least
        assert not gang.strict or (len(cliques) < 2 and "" not in cliques)
        taken.update({home: gang.gpu * there.count(home) for home in set(there)})
    assert all(taken[f"n{i}"] <= gpus for i, (gpus, _) in enumerate(homes))


Traffic.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTraffic = Traffic.TestCase
