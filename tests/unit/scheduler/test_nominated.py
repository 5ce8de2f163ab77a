"""Room that is promised: a pod stays away from a node that it could not share with those who are to come."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.objects import project_node, project_pod
from kubenexus.scheduler.engine.cycle import Park, Place
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.profiles import build_cycles
from tests.builders import PodBuilder, node, pod

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def web(name: str) -> PodBuilder:
    return pod(name).label("app", "web").cpu(1)


def apart(builder: PodBuilder, app: str) -> PodBuilder:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return builder.append(f"spec.affinity.podAntiAffinity.{REQUIRED}", term)


def rather_apart(builder: PodBuilder, app: str) -> PodBuilder:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    return builder.append(f"spec.affinity.podAntiAffinity.{PREFERRED}", {"weight": 1, "podAffinityTerm": term})


def spread(builder: PodBuilder, when: str) -> PodBuilder:
    rule: dict[str, Any] = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": when}
    return builder.append("spec.topologySpreadConstraints", {**rule, "labelSelector": {"matchLabels": {"app": "web"}}})


CASES = [
    # who is to come, who asks, whether there is a place for the latter on n1, beside the former
    ("there is room for both", web("x"), web("a"), True),
    ("there is room for one", web("x").cpu(4), web("a"), False),
    ("the other wants to be alone", apart(web("x"), "web"), web("a"), False),
    ("the pod wants to be alone", web("x"), apart(web("a"), "web"), False),
    ("the other would rather be alone", rather_apart(web("x"), "web"), web("a"), True),
    ("the pod would rather be alone", web("x"), rather_apart(web("a"), "web"), True),
    ("the other keeps away from others", apart(web("x"), "db"), web("a"), True),
    ("both want a port", web("x").host_port(80), web("a").host_port(80), False),
    ("they want different ports", web("x").host_port(80), web("a").host_port(81), True),
    ("evenly spread", web("x"), spread(web("a"), "DoNotSchedule"), False),
    ("evenly if possible", web("x"), spread(web("a"), "ScheduleAnyway"), True),
]


@pytest.mark.parametrize(("other", "asking", "fits"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_place_beside_who_is_to_come(other: PodBuilder, asking: PodBuilder, fits: bool) -> None:
    state, nominations = State(), Nominations()
    state.set_node(project_node(node("n1").capacity(cpu=4, memory="4Gi").label(HOST, "n1").zone("z").build()))
    # Somewhere nobody can go, so that being spread means something.
    state.set_node(project_node(node("n2").capacity(cpu=0, memory="4Gi").label(HOST, "n2").zone("z").build()))
    nominations.nominate(project_pod(other.build()), "n1")
    (cycle,) = build_cycles(SchedulerConfiguration(), state, nominations).values()
    decision = cycle.decide(project_pod(asking.build()))
    assert isinstance(decision, Place if fits else Park), decision
    state.validate()
