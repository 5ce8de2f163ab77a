"""Preemption on random clusters: what makes it fast changes nothing, and victims are enough and none too many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubenexus.common.objects import PodView, project_node, project_pod, project_pod_disruption_budget
from kubenexus.scheduler.engine.cycle import Cycle, Place, Preempt
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.plugin import At, Plugin, Refusal
from kubenexus.scheduler.engine.preempt import DryRun, Preemption, PreemptionArgs
from kubenexus.scheduler.engine.shape import Weighted, compile_shape
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.weaker import Weaker
from kubenexus.scheduler.plugins.node_ports import NodePorts
from kubenexus.scheduler.plugins.pod_affinity import InterPodAffinity
from kubenexus.scheduler.plugins.resources import NodeResourcesFit
from kubenexus.scheduler.plugins.spread import PodTopologySpread
from tests.builders import Builder, PodBuilder, node, pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class _Slow:
    """Says nothing that would spare preemption a try."""

    def filter_without(self, _term: Any, _state: State, _at: At, _weaker: Weaker) -> Iterator[Refusal]:
        return iter(())

    def bill(self, _term: Any) -> None:
        return None

    def may_miss(self, _term: Any) -> bool:
        return True


class SlowFit(_Slow, NodeResourcesFit):
    pass


class SlowPorts(_Slow, NodePorts):
    pass


class SlowSpread(_Slow, PodTopologySpread):
    pass


class SlowAffinity(_Slow, InterPodAffinity):
    pass


FAST: Sequence[Plugin] = (NodePorts(), NodeResourcesFit({}), PodTopologySpread({}), InterPodAffinity({}))
SLOW: Sequence[Plugin] = (SlowPorts(), SlowFit({}), SlowSpread({}), SlowAffinity({}))


def term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def wish(builder: PodBuilder, kind: str, app: str, key: str) -> PodBuilder:
    match kind:
        case "near":
            builder.set(f"spec.affinity.podAffinity.{REQUIRED}", [term(app, key)])
        case "apart":
            builder.set(f"spec.affinity.podAntiAffinity.{REQUIRED}", [term(app, key)])
        case "spread":
            rule = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term(app, key)}
            builder.append("spec.topologySpreadConstraints", rule)
        case "port":
            builder.host_port(80)
    return builder


apps, keys = st.sampled_from(["a", "b"]), st.sampled_from([ZONE, HOST])
wishes = st.sampled_from(["none", "none", "none", "near", "apart", "spread", "port"])


@st.composite
def pods(draw: st.DrawFn, name: str, priorities: st.SearchStrategy[int]) -> PodBuilder:
    builder = pod(name).cpu(draw(st.integers(0, 3))).priority(draw(priorities)).label("app", draw(apps))
    started = draw(st.integers(0, 3))
    if started:
        builder.set("status.startTime", f"2026-01-01T00:00:0{started}Z")
    return wish(builder, draw(wishes), draw(apps), draw(keys))


@st.composite
def states(draw: st.DrawFn) -> State:
    state, size = State(), draw(st.integers(1, 5))
    for number in range(size):
        made = node(f"n{number}").capacity(cpu=4, pods=6).zone(f"z{number % 2}")
        state.set_node(project_node(made.build()))
    for number in range(draw(st.integers(0, 12))):
        one = draw(pods(f"p{number}", st.integers(0, 3))).node(f"n{draw(st.integers(0, size - 1))}")
        state.place(view(one), view(one).node)
    for app in draw(st.sets(apps)):
        budget = Builder("policy/v1", "PodDisruptionBudget", app, "default")
        budget.set("spec.selector", {"matchLabels": {"app": app}})
        budget.set("status", {"disruptionsAllowed": draw(st.integers(0, 1))})
        state.objects.pdbs.set(f"default/{app}", project_pod_disruption_budget(budget.build()))
    return state


def view(builder: PodBuilder) -> PodView:
    return project_pod(builder.build())


def dry_run(plugins: Sequence[Plugin], one: PodView, state: State, nominations: Nominations) -> DryRun:
    shape = compile_shape(one, [Weighted(plugin, 0) for plugin in plugins], state)
    return Preemption(state, nominations).dry_run(one, shape, list(state.live()), state.size)


preemptors = pods("me", st.integers(1, 3))
rivals = st.lists(st.tuples(pods("rival", st.integers(0, 3)), st.integers(0, 4)), max_size=1)


@settings(max_examples=300, deadline=None)
@given(state=states(), me=preemptors, rivals=rivals)
def test_shortcuts_change_nothing(state: State, me: PodBuilder, rivals: list[tuple[PodBuilder, int]]) -> None:
    nominations = Nominations()
    for rival, number in rivals:
        nominations.nominate(view(rival), f"n{number}")
    slow = dry_run(SLOW, view(me), state, nominations)
    fast = dry_run(FAST, view(me), state, nominations)
    assert fast.candidates == slow.candidates
    refused = [{number for verdict in run.verdicts for number in verdict.nodes} for run in (fast, slow)]
    assert refused[0] == refused[1]
    state.validate()


@settings(max_examples=300, deadline=None)
@given(state=states(), me=preemptors)
def test_victims_are_enough_and_none_too_many(state: State, me: PodBuilder) -> None:
    cycle = Cycle(state, [Weighted(plugin, 1) for plugin in FAST], PreemptionArgs())
    decision = cycle.decide(view(me))
    state.validate()
    if not isinstance(decision, Preempt):
        return
    assert all(victim.spec.priority < decision.pod.spec.priority for victim in decision.victims)
    for spared in decision.victims:
        with state.trial():
            for victim in decision.victims:
                if victim is not spared:
                    state.remove(victim.uid)
            place = state.index(decision.nominated_node)
            assert place is not None
            assert not cycle.board(decision.pod).feasible()[place], f"{spared.name} could have stayed"
    for victim in decision.victims:
        state.remove(victim.uid)
    assert cycle.decide(decision.pod) == Place(decision.pod, decision.nominated_node)
