"""Pods that share a shape are decided about as if each had been compiled for itself."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.objects import PodView, project_node, project_pod
from kubenexus.scheduler.engine.cycle import Cycle
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.profiles import build_cycles
from kubenexus.scheduler.world import World
from tests.builders import node, pod

KEYS, VALUES = ("app", "index", "tier"), ("a", "b", "c")
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
selectors = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2)
chosen = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), min_size=1, max_size=2)
zones = st.sampled_from(("zone", "kubernetes.io/hostname"))


@st.composite
def pods(draw: st.DrawFn, number: int) -> PodView:
    """A pod with labels of its own, that may want others near, far or evenly spread."""
    made = pod(f"p{number}").cpu(1)
    for key, value in draw(labels).items():
        made.label(key, value)
    term = {"labelSelector": {"matchLabels": draw(selectors)}, "topologyKey": draw(zones)}
    match draw(st.sampled_from(("plain", "plain", "near", "far", "rather far", "spread", "spread alike"))):
        case "near":
            made.set("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution", [term])
        case "far":
            made.set("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", [term])
        case "rather far":
            wish = [{"weight": 50, "podAffinityTerm": term}]
            made.set("spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution", wish)
        case "spread" | "spread alike" as kind:
            rule: dict[str, Any] = {**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            if kind == "spread alike":
                rule["matchLabelKeys"] = [draw(st.sampled_from(KEYS))]
            made.set("spec.topologySpreadConstraints", [rule])
    return project_pod(made.build())


class _Loner:
    """Takes no two pods for alike."""

    def key(self, one: PodView) -> Hashable:
        return one.uid


def cycle_of(services: list[dict[str, str]], *, alone: bool) -> Cycle:
    world = World()
    for number in range(4):
        made = node(f"n{number}").capacity(cpu=4).label("zone", f"z{number % 2}")
        world.state.set_node(project_node(made.label("kubernetes.io/hostname", f"n{number}").build()))
    for number, selector in enumerate(services):
        meta = {"name": f"s{number}", "namespace": "default"}
        world.add({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": selector}})
    (cycle,) = build_cycles(SchedulerConfiguration(), world.state, Nominations()).values()
    if alone:
        cycle.alike = _Loner()  # type: ignore[assignment]
    return cycle


@settings(max_examples=150)
@given(st.data(), st.lists(chosen, max_size=2), st.integers(2, 14))
def test_sharing_a_shape_changes_no_decision(data: st.DataObject, services: list[dict[str, str]], count: int) -> None:
    shared, alone = (cycle_of(services, alone=flag) for flag in (False, True))
    for number in range(count):
        one = data.draw(pods(number))
        first, second = (cycle.decide(one) for cycle in (shared, alone))
        assert (type(first), getattr(first, "node", "")) == (type(second), getattr(second, "node", ""))
