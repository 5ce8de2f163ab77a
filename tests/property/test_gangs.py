"""Gangs under random events: never partly placed by a decision, nothing overcommitted, nobody lost."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubenexus.common.kube.mirror import Updated
from kubenexus.common.objects import PodView
from kubenexus.scheduler.actions import POD, Bind, Bound, Unbound
from kubenexus.scheduler.engine.holds import is_placeholder
from kubenexus.scheduler.engine.queue import Where
from tests.builders import node, pod
from tests.office import Office

SIZES = {"a": 1, "b": 2, "c": 3, "d": 5}


class Traffic(RuleBasedStateMachine):
    """Members come and go, nodes come, binds succeed and fail, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.office = Office(node("n0").capacity(cpu=4))
        self.nodes = 1
        self.named = 0
        self.views: dict[str, PodView] = {}
        self.binding: list[Bind] = []

    @rule(gang=st.sampled_from(sorted(SIZES)), cpu=st.integers(1, 3), gated=st.booleans())
    def come(self, gang: str, cpu: int, gated: bool) -> None:
        self.named += 1
        member = pod(f"{gang}{self.named}").cpu(cpu).gang(gang, SIZES[gang])
        view = self.office.see(member.gate("wait") if gated and cpu == 3 else member)
        self.views[view.uid] = view

    @rule(cpu=st.integers(1, 8))
    def node_joins(self, cpu: int) -> None:
        self.office.node(node(f"n{self.nodes}").capacity(cpu=cpu))
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
        self.office.node(node("last").capacity(cpu=1000))
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


Traffic.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTraffic = Traffic.TestCase
