"""InterPodAffinity against kube-scheduler's cases, and what these leave out."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.config import ConfigError
from kubenexus.common.objects import project_namespace, project_node, project_pod
from kubenexus.scheduler.engine.plugin import ALL, Code
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.pod_affinity import REPELLED, InterPodAffinity
from tests import builders
from tests.scheduler_conformance import Case, check_filter, check_score, run_filter
from tests.shared import conformance

REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))

# The code is kube-scheduler's; the sentence about what is wrong with a selector is ours.
OWN_WORDS = {
    "PodAffinity fails PreFilter with an invalid affinity label syntax",
    "PodAntiAffinity fails PreFilter with an invalid antiaffinity label syntax",
}
# Scored alone, these are errors. kube-scheduler never scores them: its filter refuses such a pod, as ours does.
REFUSED_BEFORE = {"invalid Affinity fails PreScore", "invalid AntiAffinity fails PreScore"}


@pytest.mark.parametrize("case", conformance("interpodaffinity", "filter"))
def test_filter(case: Case) -> None:
    check_filter(InterPodAffinity, case, reasons=case["name"] not in OWN_WORDS)


@pytest.mark.parametrize("case", conformance("interpodaffinity", "score"))
def test_score(case: Case) -> None:
    if case["name"] in REFUSED_BEFORE:
        assert {code for code, _ in run_filter(InterPodAffinity, case).values()} == {Code.UNRESOLVABLE}
    else:
        check_score(InterPodAffinity, case)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"hardPodAffinityWeight": 101}, "hardPodAffinityWeight is 101"),
        ({"hardPodAffinityWeight": -1}, "hardPodAffinityWeight is -1"),
        ({"hardPodAffinityWeigth": 1}, "did you mean hardPodAffinityWeight?"),
    ],
    ids=["too much", "too little", "misspelt"],
)
def test_arguments_are_checked(args: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why.replace("?", r"\?")):
        InterPodAffinity(args)


def _term(selector: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector or {}, **more}


def _refused(state: State, pod: builders.PodBuilder) -> dict[str, str]:
    plugin = InterPodAffinity({})
    term = plugin.compile(project_pod(pod.build()), state)
    return {
        state.name(node): refusal.reason
        for refusal in plugin.filter(term, state, ALL)
        for node in state.live()
        if refusal.nodes[node]
    }


def _state(*names: str) -> State:
    state = State()
    for name in names:
        state.set_node(project_node(builders.node(name).build()))
    return state


def _loner(name: str, *terms: dict[str, Any]) -> builders.PodBuilder:
    return builders.pod(name).set(f"spec.affinity.podAntiAffinity.{REQUIRED}", list(terms))


def test_a_namespace_that_gets_other_labels_is_seen_by_those_that_avoid_it() -> None:
    state = _state("n")
    state.place(project_pod(_loner("a", _term(namespaceSelector={"matchLabels": {"team": "x"}})).build()), "n")
    plugin = InterPodAffinity({})
    stranger = plugin.compile(project_pod(builders.pod("b", "other").build()), state)
    assert not list(plugin.filter(stranger, state, ALL))
    state.set_namespace("other", project_namespace(builders.namespace("other").label("team", "x").build()).meta.labels)
    assert [one.reason for one in plugin.filter(stranger, state, ALL)] == [REPELLED]


def test_one_unreadable_term_of_a_placed_pod_disables_its_list() -> None:
    state = _state("n")
    bad = _term({"matchLabels": {"a": "{{bad}}"}})
    state.place(project_pod(_loner("a", _term(), bad).build()), "n")
    assert _refused(state, builders.pod("b")) == {}


def test_a_pod_that_has_gone_repels_nobody() -> None:
    state = _state("n", "m")
    loner = project_pod(_loner("a", _term()).build())
    plugin = InterPodAffinity({})
    term = plugin.compile(project_pod(builders.pod("b").build()), state)
    seen = []
    for node in ("n", "m", None):
        state.remove(loner.uid)
        if node:
            state.place(loner, node)
        seen.append([one.nodes[state.alive].tolist() for one in plugin.filter(term, state, ALL)])
    assert seen == [[[True, False]], [[False, True]], []]
