"""Selectors, tolerations and affinity terms, with Kubernetes' own cases where there are some."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.objects import LabelSelector, NodeSelector, PodTerm, Taint, normalized_image, project_pod
from kubenexus.common.objects.placement import read_taints, read_tolerations
from kubenexus.common.objects.reading import Fields
from kubenexus.common.objects.selectors import read_label_selector, read_node_selector
from tests.builders import pod
from tests.shared import conformance

Obj = dict[str, Any]


def label_selector(raw: object) -> LabelSelector:
    return read_label_selector(Fields({"selector": raw}, []), "selector")


def node_selector(*terms: Obj) -> NodeSelector:
    read = read_node_selector(Fields({"selector": {"nodeSelectorTerms": list(terms)}}, []), "selector")
    assert read is not None
    return read


def rule(key: str, operator: str, *values: str) -> Obj:
    return {"key": key, "operator": operator, "values": list(values)}


LABELS = {"app": "web", "tier": "gold", "cores": "8", "odd": "1_0", "empty": ""}

EXPRESSIONS: dict[str, tuple[Obj, bool]] = {
    "In, one of them": (rule("app", "In", "db", "web"), True),
    "In, none of them": (rule("app", "In", "db"), False),
    "In, key absent": (rule("nope", "In", "web"), False),
    "In, empty value": (rule("empty", "In", ""), True),
    "NotIn, another": (rule("app", "NotIn", "db"), True),
    "NotIn, the same": (rule("app", "NotIn", "web"), False),
    "NotIn, key absent": (rule("nope", "NotIn", "web"), True),
    "Exists": (rule("empty", "Exists"), True),
    "Exists, key absent": (rule("nope", "Exists"), False),
    "DoesNotExist": (rule("nope", "DoesNotExist"), True),
    "DoesNotExist, key there": (rule("app", "DoesNotExist"), False),
}
NUMBERS: dict[str, tuple[Obj, bool]] = {
    "Gt": (rule("cores", "Gt", "7"), True),
    "Gt, equal": (rule("cores", "Gt", "8"), False),
    "Lt": (rule("cores", "Lt", "9"), True),
    "Lt, equal": (rule("cores", "Lt", "8"), False),
    "Gt, key absent": (rule("nope", "Gt", "0"), False),
    "Gt, label is a word": (rule("app", "Gt", "0"), False),
    "Gt, digits with an underscore": (rule("odd", "Gt", "0"), False),
}


@pytest.mark.parametrize(("raw", "matches"), EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_label_expressions(raw: Obj, matches: bool) -> None:
    selector = label_selector({"matchExpressions": [raw]})
    assert selector.error == ""
    assert selector.matches(LABELS) is matches


@pytest.mark.parametrize(("raw", "matches"), [*EXPRESSIONS.values(), *NUMBERS.values()], ids=[*EXPRESSIONS, *NUMBERS])
def test_node_expressions(raw: Obj, matches: bool) -> None:
    selector = node_selector({"matchExpressions": [raw]})
    assert selector.errors == ()
    assert selector.matches(LABELS, "n1") is matches


def test_all_conditions_of_a_selector_must_hold() -> None:
    selector = label_selector({"matchLabels": {"app": "web"}, "matchExpressions": [rule("tier", "In", "gold")]})
    assert selector.matches(LABELS)
    assert not selector.matches({"app": "web"})
    assert not selector.matches({"tier": "gold"})


def test_nil_and_empty_selectors_differ() -> None:
    nil, empty = label_selector(None), label_selector({})
    assert (nil.nil, nil.empty, nil.matches({})) == (True, False, False)
    assert (empty.nil, empty.empty, empty.matches({})) == (False, True, True)


BROKEN: dict[str, tuple[object, str]] = {
    "not a mapping": ("app=web", "selector is not a mapping"),
    "unknown operator": ({"matchExpressions": [rule("a", "Is", "b")]}, "'Is', not one of In, NotIn"),
    "Gt is for nodes": ({"matchExpressions": [rule("a", "Gt", "1")]}, "'Gt', not one of In, NotIn"),
    "In without values": ({"matchExpressions": [rule("a", "In")]}, "must have values"),
    "Exists with values": ({"matchExpressions": [rule("a", "Exists", "b")]}, "must have no values"),
    "key with a blank": ({"matchLabels": {"a b": "c"}}, "'a b', which is not a label key"),
    "value with a comma": ({"matchLabels": {"a": "b,c"}}, "'b,c', which is not a label value"),
    "value too long": ({"matchExpressions": [rule("a", "In", "x" * 64)]}, "which is not a label value"),
    "value is a number": ({"matchLabels": {"a": 1}}, "selector.matchLabels.a is not text"),
}


@pytest.mark.parametrize(("raw", "words"), BROKEN.values(), ids=BROKEN)
def test_a_selector_that_cannot_be_read_matches_nothing_and_says_why(raw: object, words: str) -> None:
    selector = label_selector(raw)
    assert words in selector.error
    assert not selector.nil
    assert not selector.empty
    assert not selector.matches(LABELS)


def test_selectors_are_values() -> None:
    one, two = ({"matchExpressions": [rule("a", "In", *values)]} for values in ("xy", "yx"))
    assert label_selector(one) == label_selector(two)
    assert len({label_selector(one), label_selector(two), label_selector({})}) == 2


@pytest.mark.parametrize("case", conformance("nodeaffinity", "nodeSelectorMatch"))
def test_node_selectors_as_kubernetes_does(case: Obj) -> None:
    selector = node_selector(*case["nodeSelector"]["nodeSelectorTerms"])
    assert (not selector.errors) is case["want"]["valid"]
    meta = case["nodes"][0]["metadata"]
    if case["want"]["valid"]:
        assert selector.matches(meta.get("labels", {}), meta["name"]) is case["want"]["match"]


def test_a_broken_term_does_not_spoil_the_others() -> None:
    selector = node_selector(
        {"matchExpressions": [rule("a", "Gt", "x")]}, {"matchExpressions": [rule("app", "Exists")]}
    )
    assert len(selector.errors) == 1
    assert selector.matches(LABELS, "n1")


@pytest.mark.parametrize(
    "terms", [[], [{}], [{"matchExpressions": [], "matchFields": []}]], ids=["none", "{}", "empty"]
)
def test_terms_without_conditions_match_no_node(terms: list[Obj]) -> None:
    assert not node_selector(*terms).matches(LABELS, "n1")


def test_names_of_nodes_are_longer_than_labels() -> None:
    name = "n" * 100 + ".example"
    assert node_selector({"matchFields": [rule("metadata.name", "In", name)]}).matches({}, name)
    assert not node_selector({"matchFields": [rule("metadata.name", "NotIn", name)]}).matches({}, name)
    assert node_selector({"matchFields": [rule("spec.x", "NotIn", name)]}).errors


@pytest.mark.parametrize("case", conformance("tainttoleration", "tolerates"))
def test_tolerations_as_kubernetes_does(case: Obj) -> None:
    fields = Fields(case, [])
    tolerations, taints = read_tolerations(fields, "tolerations"), read_taints(fields, "taints")
    tolerated = all(any(one.tolerates(taint) for one in tolerations) for taint in taints)
    assert tolerated is case["want"]["tolerated"]


def test_a_toleration_without_key_and_effect_tolerates_everything() -> None:
    (everything,) = read_tolerations(Fields({"t": [{"operator": "Exists"}]}, []), "t")
    assert everything.tolerates(Taint("any", "value", "NoExecute"))


@pytest.mark.parametrize("case", conformance("imagelocality", "normalizedImageName"))
def test_image_names_as_kubernetes_does(case: Obj) -> None:
    assert normalized_image(case["image"]) == case["want"]["image"]


def affinity_term(**rest: object) -> PodTerm:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, **rest}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    (read,) = project_pod(
        pod("a").set("spec.affinity", {"podAntiAffinity": required}).build()
    ).spec.affinity.anti.required
    return read


GOLD = {"matchLabels": {"tier": "gold"}}

NAMESPACES: dict[str, tuple[PodTerm, str, bool]] = {
    "unset means the pod's own": (affinity_term(), "home", True),
    "unset is no other": (affinity_term(), "gold", False),
    "listed": (affinity_term(namespaces=["other"]), "other", True),
    "listed others leave out home": (affinity_term(namespaces=["other"]), "home", False),
    "selected": (affinity_term(namespaceSelector=GOLD), "gold", True),
    "not selected": (affinity_term(namespaceSelector=GOLD), "other", False),
    "an empty selector selects all": (affinity_term(namespaceSelector={}), "other", True),
    "listed or selected": (affinity_term(namespaces=["other"], namespaceSelector=GOLD), "gold", True),
}


@pytest.mark.parametrize(("term", "namespace", "matches"), NAMESPACES.values(), ids=NAMESPACES)
def test_which_namespaces_an_affinity_term_means(term: PodTerm, namespace: str, matches: bool) -> None:
    labels = {"tier": "gold"} if namespace == "gold" else {}
    assert term.matches("home", namespace, labels, {"app": "web"}) is matches
    assert not term.matches("home", namespace, labels, {"app": "db"})


def test_a_term_without_label_selector_matches_no_pod() -> None:
    assert not affinity_term(labelSelector=None).matches("home", "home", {}, {"app": "web"})


def test_preferences_keep_their_weights() -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    node = {preferred: [{"weight": 3, "preference": {"matchExpressions": [rule("a", "Exists")]}}]}
    near = {preferred: [{"weight": 5, "podAffinityTerm": {"topologyKey": "zone"}}]}
    affinity = project_pod(
        pod("a").set("spec.affinity", {"nodeAffinity": node, "podAffinity": near}).build()
    ).spec.affinity
    assert affinity.node is None
    assert [(one.weight, one.term.matches({"a": ""}, "n")) for one in affinity.node_preferred] == [(3, True)]
    assert [(one.weight, one.term.topology_key) for one in affinity.pods.preferred] == [(5, "zone")]


def test_spread_constraints_have_the_defaults_of_the_api() -> None:
    bare = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"}
    full = {
        **bare,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "minDomains": 3,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
        "matchLabelKeys": ["pod-template-hash"],
    }
    one, two = project_pod(pod("a").set("spec.topologySpreadConstraints", [bare, full]).build()).spec.spread
    assert (one.hard, one.min_domains, one.honor_affinity, one.honor_taints) == (False, 1, True, False)
    assert one.selector.nil
    assert (two.hard, two.min_domains, two.honor_affinity, two.honor_taints) == (True, 3, False, True)
    assert two.selector.empty
    assert two.match_label_keys == ("pod-template-hash",)
