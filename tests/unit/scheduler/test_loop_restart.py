"""A scheduler that starts anew in a large cluster: it knows what the one before it knew, and decides the same."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kubenexus.scheduler.engine.state import State
from tests.builders import NodeBuilder, PodBuilder, node, pod
from tests.office import Office, bound

NODES, PODS, PROBES = 1_000, 10_000, 300
ZONE = "topology.kubernetes.io/zone"


def machine(number: int) -> NodeBuilder:
    made = node(f"n{number}").capacity(cpu=16 if number % 4 else 64, memory="64Gi").zone(f"zone-{number % 3}")
    return made.taint("only", "them") if number % 10 == 0 else made


def plain(made: PodBuilder) -> PodBuilder:
    return made.cpu("100m").memory("200Mi")


def tolerant(made: PodBuilder) -> PodBuilder:
    return made.cpu(2).tolerate("only", "them")


def urgent(made: PodBuilder) -> PodBuilder:
    return made.cpu(1).priority(1000).host_port(8080)


def spread(made: PodBuilder) -> PodBuilder:
    selector = {"matchLabels": {"app": "spread"}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return made.cpu("200m").label("app", "spread").append("spec.topologySpreadConstraints", constraint)


def apart(made: PodBuilder) -> PodBuilder:
    term = {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": "kubernetes.io/hostname"}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return made.memory("1Gi").label("app", "apart").set("spec.affinity.podAntiAffinity", rules)


KINDS: list[Callable[[PodBuilder], PodBuilder]] = [*[plain] * 12, *[tolerant] * 4, *[spread] * 2, urgent, apart]


def job(prefix: str, number: int) -> PodBuilder:
    return KINDS[number % len(KINDS)](pod(f"{prefix}{number}"))


@pytest.fixture(scope="module")
def before() -> Office:
    """A scheduler that has placed everything itself, while pods came in handfuls."""
    office = Office(*map(machine, range(NODES)))
    for first in range(0, PODS, 100):
        for number in range(first, first + 100):
            office.see(job("p", number))
        office.bind(office.decide())
    assert len(office.nodes_in_use()) == PODS
    return office


@pytest.fixture(scope="module")
def after(before: Office) -> Office:
    """Another one that finds all that in its first lists, in no particular order."""
    random, state = Random(5), before.desk.state
    machines, homes = list(range(NODES)), [(view, state.name(home)) for view, home in state.pods()]
    random.shuffle(machines)
    random.shuffle(homes)
    office = Office(*map(machine, machines))
    for view, home in homes:
        office.see(job(view.name[0], int(view.name[1:])).node(home))
    return office


def books(state: State) -> dict[str, Any]:
    """What is known of each node: its pods, and what they take."""
    resources = sorted(state.resource(row) for row in range(len(state.used)))
    return {
        state.name(number): (
            sorted(state.slots[number].pods),
            {resource: int(state.used[state.row(resource)][number]) for resource in resources},
        )
        for number in state.live()
    }


def test_rebuilt_state_is_the_same(before: Office, after: Office) -> None:
    assert books(after.desk.state) == books(before.desk.state)
    before.desk.state.validate()
    after.desk.state.validate()
    assert len(after.desk.queue) == 0


def test_rebuilt_state_gives_the_same_decisions(before: Office, after: Office) -> None:
    decided = []
    for office in (before, after):
        found: dict[str, str] = {}
        for number in range(PROBES):
            office.see(job("q", number))
            actions = office.decide()
            found |= bound(actions)
            office.bind(actions)
        decided.append(found)
    assert decided[0] == decided[1]
    assert len(decided[0]) == PROBES
