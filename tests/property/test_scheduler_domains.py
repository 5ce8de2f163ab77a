"""InterPodAffinity and PodTopologySpread against the same rules written plainly: node by node, pod by pod.

Terms are compiled once and asked again after every event, so that whatever is kept between decisions is tested too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kubenexus.common.objects import Labels, NodeView, PodTerm, PodView, SpreadConstraint, project_node, project_pod
from kubenexus.scheduler.engine.plugin import ALL, ClusterPlugin, Code
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.pod_affinity import InterPodAffinity
from kubenexus.scheduler.plugins.spread import PodTopologySpread
from tests import builders

Obj = dict[str, Any]
Codes = dict[str, Code]
Scores = dict[str, int]

HOST = "kubernetes.io/hostname"
KEYS = (HOST, "zone", "rack")
NAMESPACES = ("red", "blue", "none")
NODES = tuple(f"n{number}" for number in range(5))
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))

# --- Random clusters -------------------------------------------------------------------------------------------------


def labels_of(keys: tuple[str, ...], values: tuple[str, ...]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key in keys})


zones = st.fixed_dictionaries({"zone": st.sampled_from("12")}, optional={"rack": st.sampled_from("12")})
node_labels = zones | zones | labels_of(("zone", "rack"), ("1", "2", "3"))
pod_labels = st.just({"app": "a"}) | labels_of(("app", "tier"), ("a", "b"))
expressions: st.SearchStrategy[Obj] = st.one_of(
    st.builds(lambda key, op: {"key": key, "operator": op}, st.sampled_from(("app", "tier", "team")),
              st.sampled_from(("Exists", "DoesNotExist"))),
    st.builds(lambda key, op, value: {"key": key, "operator": op, "values": [value]},
              st.sampled_from(("app", "tier", "team")), st.sampled_from(("In", "NotIn")), st.sampled_from(("a", "b"))),
)  # fmt: skip
selectors: st.SearchStrategy[Obj | None] = st.one_of(
    st.none(),
    st.just({}),
    st.just({"matchLabels": {"app": "a"}}),
    st.builds(lambda one: {"matchExpressions": [one]}, expressions),
)


@st.composite
def terms(draw: st.DrawFn) -> Obj:
    term: Obj = {"topologyKey": draw(st.sampled_from(KEYS))}
    if (selector := draw(selectors)) is not None:
        term["labelSelector"] = selector
    match draw(st.sampled_from(("own", "own", "named", "selected", "both"))):
        case "named" | "both" as how:
            term["namespaces"] = draw(st.lists(st.sampled_from(NAMESPACES), max_size=2))
            if how == "both":
                term["namespaceSelector"] = draw(selectors)
        case "selected":
            term["namespaceSelector"] = draw(selectors)
    return term


def some(one: st.SearchStrategy[Obj], most: int = 2) -> st.SearchStrategy[list[Obj]]:
    return st.just([]) | st.lists(one, min_size=1, max_size=most)


weighted = st.builds(lambda weight, term: {"weight": weight, "podAffinityTerm": term}, st.integers(1, 100), terms())
affinities: st.SearchStrategy[Obj] = st.fixed_dictionaries(
    {
        kind: st.fixed_dictionaries({REQUIRED: some(terms()), PREFERRED: some(weighted)})
        for kind in ("podAffinity", "podAntiAffinity")
    }
)
policies = st.sampled_from(("Honor", "Ignore"))


@st.composite
def constraints(draw: st.DrawFn) -> Obj:
    made: Obj = {
        "topologyKey": draw(st.sampled_from(KEYS)),
        "maxSkew": draw(st.integers(1, 3)),
        "whenUnsatisfiable": draw(st.sampled_from(("DoNotSchedule", "ScheduleAnyway"))),
        "matchLabelKeys": draw(st.lists(st.sampled_from(("app", "tier")), max_size=1)),
        "nodeAffinityPolicy": draw(policies),
        "nodeTaintsPolicy": draw(policies),
    }
    if (selector := draw(selectors)) is not None:
        made["labelSelector"] = selector
    if draw(st.booleans()):
        made["minDomains"] = draw(st.integers(1, 4))
    return made


@st.composite
def pods(draw: st.DrawFn, *, affinity: bool = False, spread: bool = False) -> builders.PodBuilder:
    made = builders.pod("p", draw(st.sampled_from(("red", "red", "red", "blue", "none"))))
    made.set("metadata.labels", draw(pod_labels))
    if affinity:
        made.set("spec.affinity", draw(affinities))
    if spread:
        made.set("spec.topologySpreadConstraints", draw(st.lists(constraints(), min_size=1, max_size=3)))
        made.set("spec.nodeSelector", draw(st.sampled_from(({}, {"zone": "1"}, {"rack": "1"}))))
        if draw(st.booleans()):
            made.tolerate("t")
    return made


@st.composite
def nodes(draw: st.DrawFn, names: tuple[str, ...] = NODES) -> Obj:
    name = draw(st.sampled_from(names))
    host = draw(st.sampled_from(({HOST: name}, {HOST: name}, {HOST: "shared"}, {})))
    made = builders.node(name).set("metadata.labels", draw(node_labels) | host)
    if draw(st.integers(0, 3)) == 0:
        made.taint("t")
    return made.build()


@dataclass(frozen=True)
class Event:
    """Something that happens to a node, a pod or a namespace; `trial` places and removes pods, and undoes it."""

    kind: str
    node: Obj
    pod: int
    template: int
    labels: dict[str, str]
    deleting: bool


events = st.builds(
    Event,
    kind=st.sampled_from(("place",) * 6 + ("node", "gone", "remove", "namespace", "trial")),
    node=nodes(),
    pod=st.integers(0, 7),
    template=st.integers(0, 2),
    labels=labels_of(("team", "app"), ("a", "b")),
    deleting=st.integers(0, 4).map(lambda number: number == 0),
)


def apply(event: Event, state: State, templates: list[builders.PodBuilder]) -> None:
    name, uid = event.node["metadata"]["name"], f"uid-{event.pod}"
    match event.kind:
        case "node":
            state.set_node(project_node(event.node))
        case "gone":
            state.remove_node(name)
        case "remove":
            state.remove(uid)
        case "namespace":
            state.set_namespace("blue", Labels(event.labels))
        case "place":
            state.place(placed(templates[event.template], uid, event.deleting), name)
        case "trial":
            mark = state.checkpoint()
            state.remove(uid)
            state.place(placed(templates[event.template], "uid-trial", event.deleting), name)
            state.rollback(mark)


def placed(template: builders.PodBuilder, uid: str, deleting: bool) -> PodView:
    made = template.build()
    made["metadata"] |= {"name": uid, "uid": uid}
    if deleting:
        made["metadata"]["deletionTimestamp"] = builders.CREATED
    return project_pod(made)


# --- The rules, written plainly --------------------------------------------------------------------------------------


class Plain:
    """A cluster as lists of nodes and (pod, node) pairs. Pods on nodes that are not there do not count."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.nodes: dict[str, NodeView] = {one.name: one.view for one in state.slots if one.view is not None}
        self.pods = [(pod, slot.view) for slot in state.slots if slot.view is not None for pod in slot.pods.values()]

    def means(self, term: PodTerm, owner: PodView, other: PodView) -> bool:
        labels: dict[str, str] = self.state.namespaces.get(other.namespace, Labels())
        if not term.namespaces and term.namespace_selector.nil:
            covered = other.namespace == owner.namespace
        else:
            covered = other.namespace in term.namespaces or term.namespace_selector.matches(labels)
        return covered and term.selector.matches(other.labels)

    def near(self, node: NodeView, key: str) -> Iterator[PodView]:
        """The pods in the node's domain; none if it is in none."""
        for pod, home in self.pods:
            if key in node.meta.labels and home.meta.labels.get(key) == node.meta.labels[key]:
                yield pod

    # InterPodAffinity

    def affinity_code(self, me: PodView, node: NodeView) -> Code:
        near, apart = me.spec.affinity.pods.required, me.spec.affinity.anti.required
        if not self._has_company(me, near, node):
            return Code.UNRESOLVABLE
        if any(self.means(term, me, other) for term in apart for other in self.near(node, term.topology_key)):
            return Code.UNSCHEDULABLE
        for key in KEYS:
            for other in self.near(node, key):
                theirs = other.spec.affinity.anti.required
                if any(term.topology_key == key and self.means(term, other, me) for term in theirs):
                    return Code.UNSCHEDULABLE
        return Code.SUCCESS

    def _has_company(self, me: PodView, terms: tuple[PodTerm, ...], node: NodeView) -> bool:
        if any(term.topology_key not in node.meta.labels for term in terms):
            return False

        def meant(other: PodView) -> bool:
            return all(self.means(term, me, other) for term in terms)

        if all(any(meant(other) for other in self.near(node, term.topology_key)) for term in terms):
            return True
        somewhere = any(
            meant(other) for other, home in self.pods for term in terms if term.topology_key in home.meta.labels
        )
        return not somewhere and meant(me)

    def affinity_scores(self, me: PodView, among: list[str]) -> Scores:
        raw = {name: self._affinity_score(me, self.nodes[name]) for name in among}
        lowest, width = min(raw.values()), max(raw.values()) - min(raw.values())
        return {name: int(100 * ((score - lowest) / width)) if width else 0 for name, score in raw.items()}

    def _affinity_score(self, me: PodView, node: NodeView) -> int:
        score = 0
        for sign, mine in ((1, me.spec.affinity.pods), (-1, me.spec.affinity.anti)):
            for weight, term in mine.preferred:
                score += sign * weight * sum(self.means(term, me, one) for one in self.near(node, term.topology_key))
        for key in KEYS:
            for other in self.near(node, key):
                affinity = other.spec.affinity
                wishes = [(1, term) for term in affinity.pods.required]
                wishes += [(weight, term) for weight, term in affinity.pods.preferred]
                wishes += [(-weight, term) for weight, term in affinity.anti.preferred]
                score += sum(w for w, term in wishes if term.topology_key == key and self.means(term, other, me))
        return score

    # PodTopologySpread

    def counts(self, me: PodView, constraint: SpreadConstraint, pod: PodView) -> bool:
        """Whether the constraint's selector, narrowed by matchLabelKeys, means the pod."""
        same = {key: me.labels[key] for key in constraint.match_label_keys if key in me.labels}
        if not all(pod.labels.get(key) == value for key, value in same.items()):
            return False
        if constraint.selector.nil:
            return bool(same)
        return constraint.selector.matches(pod.labels)

    def siblings(self, me: PodView, constraint: SpreadConstraint, node: NodeView) -> int:
        if constraint.selector.empty and not any(key in me.labels for key in constraint.match_label_keys):
            return 0
        here = [pod for pod, home in self.pods if home.name == node.name]
        return sum(
            pod.deleted is None and pod.namespace == me.namespace and self.counts(me, constraint, pod) for pod in here
        )

    def eligible(self, me: PodView, group: list[SpreadConstraint], one: SpreadConstraint) -> list[NodeView]:
        return [
            node
            for node in self.nodes.values()
            if all(other.topology_key in node.meta.labels for other in group)
            and (not one.honor_affinity or me.spec.node_selector.items() <= node.meta.labels.items())
            and (not one.honor_taints or not node.taints or bool(me.spec.tolerations))
        ]

    def spread_code(self, me: PodView, node: NodeView) -> Code:
        for one in (hard := [one for one in me.spec.spread if one.hard]):
            if one.topology_key not in node.meta.labels:
                return Code.UNRESOLVABLE
            domains: dict[str, int] = {}
            for other in self.eligible(me, hard, one):
                value = other.meta.labels[one.topology_key]
                domains[value] = domains.get(value, 0) + self.siblings(me, one, other)
            fewest = 0 if len(domains) < one.min_domains else min(domains.values())
            skew = domains.get(node.meta.labels[one.topology_key], 0) + self.counts(me, one, me) - fewest
            if skew > one.max_skew:
                return Code.UNSCHEDULABLE
        return Code.SUCCESS

    def spread_scores(self, me: PodView, among: list[str]) -> Scores:
        soft = [one for one in me.spec.spread if not one.hard]
        scored = [name for name in among if all(one.topology_key in self.nodes[name].meta.labels for one in soft)]
        if not soft or not scored:
            return dict.fromkeys(among, 0)
        raw = {name: math.floor(self._crowding(me, soft, name, scored) + 0.5) for name in scored}
        lowest, highest = min(raw.values()), max(raw.values())
        room = {name: 100 * (highest + lowest - s) // highest if highest else 100 for name, s in raw.items()}
        return dict.fromkeys(among, 0) | room

    def _crowding(self, me: PodView, soft: list[SpreadConstraint], name: str, scored: list[str]) -> float:
        total, node = 0.0, self.nodes[name]
        for one in soft:
            key = one.topology_key
            if key == HOST:
                number, domains = self.siblings(me, one, node), len(scored)
            else:
                around = [
                    other for other in self.eligible(me, soft, one) if other.meta.labels[key] == node.meta.labels[key]
                ]
                number = sum(self.siblings(me, one, other) for other in around)
                domains = len({self.nodes[other].meta.labels[key] for other in scored})
            total += number * math.log(domains + 2) + (one.max_skew - 1)
        return total


# --- The comparison --------------------------------------------------------------------------------------------------

CodeOf = Callable[[Plain, PodView, NodeView], Code]
ScoresOf = Callable[[Plain, PodView, list[str]], Scores]


@dataclass
class Asked:
    plugin: ClusterPlugin[Any]
    pod: PodView
    term: Any

    def codes(self, state: State, at: Any = ALL) -> Codes:
        """The code of each node that is there. A node is told one reason only."""
        names = [slot.name for slot in state.slots] + [""] * (state.size - len(state.slots))
        found: Codes = {str(name): Code.SUCCESS for name in np.array(names)[at] if state.index(str(name)) is not None}
        for refusal in () if self.term is None else self.plugin.filter(self.term, state, at):
            for name in np.array(names)[at][refusal.nodes]:
                if str(name) in found:
                    assert found[str(name)] is Code.SUCCESS, "told twice"
                    found[str(name)] = refusal.code
        return found

    def scores(self, state: State, among: list[str]) -> Scores:
        feasible = np.zeros(state.size, dtype=np.bool_)
        indices = {name: index for name in among if (index := state.index(name)) is not None}
        feasible[list(indices.values())] = True
        scores = None if self.term is None else self.plugin.score(self.term, state, feasible)
        return {name: 0 if scores is None else int(scores[index]) for name, index in indices.items()}


@dataclass(frozen=True)
class Story:
    """A pod to place, templates of others, the nodes at first, and what happens then; `feasible` for the scores."""

    pod: builders.PodBuilder
    templates: list[builders.PodBuilder]
    nodes: list[Obj]
    events: list[Event]
    feasible: set[str]


def stories(*, affinity: bool = False, spread: bool = False) -> st.SearchStrategy[Story]:
    return st.builds(
        Story,
        pod=pods(affinity=affinity, spread=spread),
        templates=st.lists(pods(affinity=affinity), min_size=3, max_size=3),
        nodes=st.tuples(*(nodes((name,)) for name in NODES[:4])).map(list),
        events=st.lists(events, min_size=4, max_size=16),
        feasible=st.sets(st.sampled_from(NODES), min_size=1),
    )


def follow(story: Story, plugin: ClusterPlugin[Any], code: CodeOf, scores: ScoresOf) -> None:
    """Compares after every event."""
    state, me = State(), project_pod(story.pod.build())
    for node in story.nodes:
        state.set_node(project_node(node))
    asked = Asked(plugin, me, plugin.compile(me, state))
    for event in story.events:
        apply(event, state, story.templates)
        plain = Plain(state)
        assert asked.codes(state) == {node.name: code(plain, me, node) for node in plain.nodes.values()}
        for among in (sorted(plain.nodes), sorted(story.feasible & plain.nodes.keys())):
            at = np.array([state.index(name) for name in among], dtype=np.intp)
            assert asked.codes(state, at) == {name: code(plain, me, plain.nodes[name]) for name in among}
            assert not among or asked.scores(state, among) == scores(plain, me, among)
    state.validate()


@settings(deadline=None, max_examples=100)
@given(stories(affinity=True))
def test_pod_affinity_is_as_written_plainly(story: Story) -> None:
    follow(story, InterPodAffinity({}), Plain.affinity_code, Plain.affinity_scores)


@settings(deadline=None, max_examples=100)
@given(stories(spread=True))
def test_spreading_is_as_written_plainly(story: Story) -> None:
    follow(story, PodTopologySpread({}), Plain.spread_code, Plain.spread_scores)
