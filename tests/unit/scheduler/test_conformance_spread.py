"""PodTopologySpread against kube-scheduler's cases, and what these leave out."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.config import ConfigError
from kubenexus.common.objects import LabelSelector, Op, project_node, project_pod
from kubenexus.scheduler.engine.objects import Objects, owner_key
from kubenexus.scheduler.engine.plugin import ALL, Code
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.spread import PodTopologySpread, Rule
from kubenexus.scheduler.plugins.spread_defaults import default_selector
from tests import builders
from tests.scheduler_conformance import Case, check_filter, check_score, state_of
from tests.shared import conformance

ZONE = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize("case", conformance("podtopologyspread", "filter"))
def test_filter(case: Case) -> None:
    check_filter(PodTopologySpread, case)


@pytest.mark.parametrize("case", conformance("podtopologyspread", "score"))
def test_score(case: Case) -> None:
    check_score(PodTopologySpread, case)


def _with_counts() -> list[Any]:
    cases = conformance("podtopologyspread", "filter")
    return [one for one in cases if one.values[0] is None or "constraints" in one.values[0]["want"]]


@pytest.mark.parametrize("case", _with_counts())
def test_counts_by_domain(case: Case) -> None:
    state, plugin = state_of(case), PodTopologySpread(case["args"])
    term = plugin.compile(project_pod(case["pod"]), state)
    assert term is not None
    assert [_described(rule, counts) for rule, counts in plugin.census(term, state)] == case["want"]["constraints"]


def _described(rule: Rule, counts: dict[str, int]) -> dict[str, Any]:
    policy = {True: "Honor", False: "Ignore"}
    return {
        "matchNum": counts,
        "maxSkew": rule.max_skew,
        "minDomains": rule.min_domains,
        "nodeAffinityPolicy": policy[rule.honor_affinity],
        "nodeTaintsPolicy": policy[rule.honor_taints],
        "selector": _text(rule.siblings.selector),
        "topologyKey": rule.key,
    }


def _text(selector: LabelSelector) -> str:
    """As kubectl writes it, for the operators that the cases have."""
    parts = (
        one.key if one.op is Op.EXISTS else f"{one.key}={next(iter(one.values))}" for one in selector.requirements or ()
    )
    return ",".join(sorted(parts))


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"defaultConstraints": [ZONE]}, "unless defaultingType is List"),
        ({"defaultingType": "Lists"}, "did you mean List"),
        ({"defaultingType": "List", "defaultConstraints": [ZONE, ZONE]}, "zone with DoNotSchedule more than once"),
        ({"defaultingType": "List", "defaultConstraints": [ZONE | {"maxSkew": 0}]}, "maxSkew is 0"),
        ({"defaultingType": "List", "defaultConstraints": [ZONE | {"topologyKey": ""}]}, "topologyKey is empty"),
        (
            {"defaultingType": "List", "defaultConstraints": [ZONE | {"labelSelector": {}}]},
            "labelSelector is not known",
        ),
    ],
    ids=["constraints of the system", "type", "twice", "skew", "key", "selector"],
)
def test_arguments_are_checked(args: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        PodTopologySpread(args)


def _selector(**labels: str) -> dict[str, Any]:
    return {"spec": {"selector": {"matchLabels": labels}}}


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        (None, "app=a"),
        (("ReplicaSet", "apps/v1"), "app=a,hash=1"),
        (("StatefulSet", "apps/v1"), "app=a,set=s"),
        (("ReplicationController", "v1"), "app=a,old=o"),
        (("ReplicaSet", "example.com/v1"), "app=a"),
        (("Job", "batch/v1"), "app=a"),
    ],
    ids=["no owner", "ReplicaSet", "StatefulSet", "ReplicationController", "another group", "another kind"],
)
def test_pods_belong_together_by_service_and_controller(owner: tuple[str, str] | None, expected: str) -> None:
    objects = Objects()
    objects.services.set("default/mine", {"spec": {"selector": {"app": "a"}}})
    objects.services.set("default/not-mine", {"spec": {"selector": {"app": "b"}}})
    objects.services.set("default/by-hand", {"spec": {}})
    objects.services.set("elsewhere/mine", {"spec": {"selector": {"tier": "t"}}})
    objects.owners.set(owner_key("ReplicaSet", "default", "o"), _selector(hash="1"))
    objects.owners.set(owner_key("StatefulSet", "default", "o"), _selector(set="s"))
    objects.owners.set(owner_key("ReplicationController", "default", "o"), {"spec": {"selector": {"old": "o"}}})
    pod = builders.pod("p").label("app", "a").label("tier", "t")
    if owner is not None:
        pod.owner(owner[0], "o", api_version=owner[1])
    assert _text(default_selector(project_pod(pod.build()), objects)) == expected


def test_a_selector_that_cannot_be_read_is_an_error_everywhere() -> None:
    state = State()
    state.set_node(project_node(builders.node("n").build()))
    constraint = ZONE | {"labelSelector": {"matchLabels": {"a": "{{bad}}"}}}
    pod = project_pod(builders.pod("p").append("spec.topologySpreadConstraints", constraint).build())
    plugin = PodTopologySpread({})
    term = plugin.compile(pod, state)
    assert term is not None
    (refusal,) = plugin.filter(term, state, ALL)
    assert refusal.code is Code.ERROR
    assert refusal.nodes.all()
