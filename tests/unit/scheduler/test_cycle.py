"""The cycle: decisions, nominated pods, preemption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kubenexus.common.config import ConfigError, Profile, load
from kubenexus.common.objects import PodView, project_node, project_pod, project_pod_disruption_budget
from kubenexus.scheduler.engine.cycle import Cycle, Decision, Park, Place, Preempt
from kubenexus.scheduler.engine.preempt import PreemptionArgs
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.registry import build_profile, preemption
from tests.builders import Builder, NodeBuilder, PodBuilder, node, pod


def view(builder: PodBuilder) -> PodView:
    return project_pod(builder.build())


def small(name: str) -> NodeBuilder:
    """A node with room for one CPU."""
    return node(name).capacity(cpu=1, memory="1Gi")


class Cluster:
    """A cycle with kube-scheduler's default profile."""

    def __init__(self, nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder] = (), *, preempts: bool = True) -> None:
        self.state = State()
        for one in nodes:
            self.state.set_node(project_node(one.build()))
        for running in pods:
            self.state.place(view(running), view(running).node)
        self.cycle = Cycle(self.state, build_profile(Profile()), PreemptionArgs() if preempts else None)

    def decide(self, builder: PodBuilder) -> Decision:
        decision = self.cycle.decide(view(builder))
        self.state.validate()
        return decision

    def nominate(self, builder: PodBuilder, name: str) -> PodBuilder:
        nominated = builder.set("status.nominatedNodeName", name)
        self.cycle.nominations.see(view(nominated))
        return nominated

    def remove(self, builder: PodBuilder) -> None:
        self.state.remove(view(builder).uid)


def big(name: str, priority: int = 100) -> PodBuilder:
    return pod(name).cpu(1).priority(priority)


def running(name: str, on: str, priority: int = 0) -> PodBuilder:
    return big(name, priority).node(on)


def placed(decision: Decision) -> str:
    assert isinstance(decision, Place), decision
    return decision.node


def test_a_pod_is_placed_and_booked() -> None:
    cluster = Cluster([small("n1")])
    assert placed(cluster.decide(big("a"))) == "n1"
    assert isinstance(cluster.decide(big("b")), Park)


@pytest.mark.parametrize(
    ("builder", "message"),
    [
        (pod("a").cpu("much"), "The pod cannot be placed as it is: "),
        (pod("a").gate("x").gate("y"), "waiting for scheduling gates: [x y]"),
    ],
    ids=["unreadable", "gated"],
)
def test_what_cannot_be_placed_yet_is_parked(builder: PodBuilder, message: str) -> None:
    decision = Cluster([small("n1")]).decide(builder)
    assert isinstance(decision, Park)
    assert decision.message.startswith(message)
    assert not decision.refused_by


def test_a_refusal_says_who_and_why() -> None:
    cluster = Cluster([small("n1"), small("n2").taint("gpu"), small("n3").cordon()], [running("x", "n1")])
    decision = cluster.decide(big("a", 0))
    assert isinstance(decision, Park)
    assert decision.message == (
        "0/3 nodes are available: "
        "1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. "
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
    assert decision.refused_by == {"NodeResourcesFit", "TaintToleration", "NodeUnschedulable"}
    assert not decision.failed


def test_a_refusal_holds_until_something_changes() -> None:
    cluster = Cluster([small("n1")], [running("x", "n1")])
    first, second = cluster.decide(big("a", 0)), cluster.decide(big("b", 0))
    assert isinstance(first, Park)
    assert isinstance(second, Park)
    assert (first.message, first.verdicts) == (second.message, second.verdicts)
    assert second.pod.name == "b"
    cluster.remove(running("x", "n1"))
    assert placed(cluster.decide(big("c", 0))) == "n1"


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({}, PreemptionArgs(10, 100)),
        ({"plugins": {"disabled": [{"name": "DefaultPreemption"}]}}, None),
        ({"plugins": {"disabled": [{"name": "*"}]}}, None),
        (
            {"pluginConfig": [{"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 50}}]},
            PreemptionArgs(50, 100),
        ),
    ],
    ids=["by default", "disabled", "all disabled", "arguments"],
)
def test_profiles_say_whether_pods_preempt(profile: dict[str, Any], expected: PreemptionArgs | None) -> None:
    assert preemption(load(Profile, profile)) == expected


@pytest.mark.parametrize(
    ("percentage", "absolute"), [(-1, 1), (101, 1), (10, -1), (0, 0)], ids=["low", "high", "negative", "nothing"]
)
def test_wrong_arguments_are_refused(percentage: int, absolute: int) -> None:
    args = {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}
    profile = load(Profile, {"pluginConfig": [{"name": "DefaultPreemption", "args": args}]})
    with pytest.raises(ConfigError, match=r"^the arguments of DefaultPreemption cannot be used: .*minCandidateNodes"):
        preemption(profile)


def test_no_nodes() -> None:
    decision = Cluster([]).decide(big("a"))
    assert isinstance(decision, Park)
    assert decision.message.startswith("0/0 nodes are available.")


# Nominated pods


def test_room_that_is_promised_to_others_is_taken() -> None:
    cluster = Cluster([small("n1"), small("n2")])
    cluster.nominate(big("vip"), "n1")
    assert placed(cluster.decide(big("a"))) == "n2"
    decision = cluster.decide(big("b"))
    assert isinstance(decision, Park)
    assert decision.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_promises_do_not_bind_pods_of_higher_priority() -> None:
    cluster = Cluster([small("n1")])
    cluster.nominate(big("vip", 100), "n1")
    assert placed(cluster.decide(big("a", 101))) == "n1"


def test_a_pod_may_not_count_on_promised_pods_either() -> None:
    """Its affinity would be fulfilled if the nominated pod were there, which is not sure."""
    web = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    friend = pod("a").set("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution", [web])
    cluster = Cluster([small("n1")])
    cluster.nominate(pod("vip").label("app", "web").priority(100), "n1")
    assert isinstance(cluster.decide(friend), Park)


def test_promised_pods_repel() -> None:
    web = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    loner = pod("a").set("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", [web])
    cluster = Cluster([small("n1"), small("n2")])
    cluster.nominate(pod("vip").label("app", "web").priority(100), "n1")
    assert placed(cluster.decide(loner)) == "n2"


def test_its_own_nomination_comes_first() -> None:
    for name in ("n1", "n2", "n3"):
        cluster = Cluster([small("n1"), small("n2"), small("n3")])
        assert placed(cluster.decide(cluster.nominate(big("a"), name))) == name
        assert cluster.cycle.nominations.of(view(big("a")).uid) is None


def test_a_nomination_that_does_not_work_is_no_obstacle() -> None:
    cluster = Cluster([small("n1"), small("n2")], [running("x", "n1", 100)])
    assert placed(cluster.decide(cluster.nominate(big("a"), "n1"))) == "n2"
    assert placed(Cluster([small("n1")]).decide(big("a").set("status.nominatedNodeName", "gone"))) == "n1"


def test_a_nomination_is_void_when_nothing_can_be_done() -> None:
    cluster = Cluster([small("n1")], [running("x", "n1", 100)])
    decision = cluster.decide(cluster.nominate(big("a"), "n1"))
    assert isinstance(decision, Park)
    assert decision.nominated_node == ""
    assert len(cluster.cycle.nominations) == 0


def test_what_the_api_says_counts_when_it_is_new() -> None:
    nominations, one = Cluster([]).cycle.nominations, view(big("a"))
    nominations.nominate(one, "n1")
    nominations.see(one._replace(phase="Pending"))  # an update from before our own was written
    assert nominations.of(one.uid) is not None
    nominations.see(one._replace(nominated_node="n1"))
    nominations.see(one)  # somebody took it back
    assert nominations.of(one.uid) is None
    nominations.see(one._replace(nominated_node="n2"))
    found = nominations.of(one.uid)
    assert found is not None
    assert found.node == "n2"
    nominations.forget(one.uid)
    assert len(nominations) == 0


# Preemption


def test_without_preemption_nobody_is_driven_out() -> None:
    decision = Cluster([small("n1")], [running("x", "n1")], preempts=False).decide(big("a"))
    assert type(decision) is Park
    assert decision.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_victims_are_named_and_the_node_is_promised() -> None:
    cluster = Cluster([small("n1")], [running("x", "n1")])
    decision = cluster.decide(big("a"))
    assert isinstance(decision, Preempt)
    assert (decision.nominated_node, [one.name for one in decision.victims]) == ("n1", ["x"])
    assert decision.message == "0/1 nodes are available: 1 Insufficient cpu."
    cluster.remove(running("x", "n1"))
    assert isinstance(cluster.decide(big("b")), Park)
    assert placed(cluster.decide(big("a"))) == "n1"


def test_victims_that_have_not_left_are_waited_for() -> None:
    cluster = Cluster([small("n1"), small("n2")], [running("x", "n1"), running("y", "n2")])
    first = cluster.decide(big("a"))
    assert isinstance(first, Preempt)
    again = cluster.decide(big("a"))
    assert type(again) is Park
    assert again.message.endswith(" preemption: not eligible due to a terminating pod on the nominated node.")
    assert again.nominated_node == first.nominated_node
    cluster.cycle.nominations.withdraw(first.pod.uid)
    assert isinstance(cluster.decide(big("a")), Preempt)


def test_each_gets_its_own_victims() -> None:
    cluster = Cluster([small("n1"), small("n2")], [running("x", "n1"), running("y", "n2")])
    found = [cluster.decide(big(name)) for name in ("a", "b", "c")]
    assert [type(one) for one in found] == [Preempt, Preempt, Park]
    assert {victim.name for one in found if isinstance(one, Preempt) for victim in one.victims} == {"x", "y"}


def test_weaker_pods_lose_their_promise() -> None:
    cluster = Cluster([small("n1")], [running("x", "n1")])
    assert isinstance(cluster.decide(big("a", 50)), Preempt)
    decision = cluster.decide(big("b", 100))
    assert isinstance(decision, Preempt)
    assert [one.name for one in decision.displaced] == ["a"]
    assert cluster.cycle.nominations.of(view(big("a")).uid) is None


def test_a_pod_that_never_preempts_waits() -> None:
    cluster = Cluster([small("n1")], [running("x", "n1")])
    decision = cluster.decide(big("a").set("spec.preemptionPolicy", "Never"))
    assert type(decision) is Park
    assert decision.message.endswith(" preemption: not eligible due to preemptionPolicy=Never.")


def budget(app: str) -> Builder:
    made = Builder("policy/v1", "PodDisruptionBudget", app, "default")
    return made.set("spec.selector", {"matchLabels": {"app": app}}).set("status", {"disruptionsAllowed": 0})


def test_budgets_are_respected_where_possible() -> None:
    cluster = Cluster([small("n1"), small("n2")], [running("x", "n1").label("app", "web"), running("y", "n2", 50)])
    cluster.state.objects.pdbs.set("default/web", project_pod_disruption_budget(budget("web").build()))
    decision = cluster.decide(big("a"))
    assert isinstance(decision, Preempt)
    assert [one.name for one in decision.victims] == ["y"]
    cluster.cycle.nominations.withdraw(decision.pod.uid)
    cluster.remove(running("y", "n2", 50))
    cluster.state.place(view(running("z", "n2", 100)), "n2")
    decision = cluster.decide(big("a"))
    assert isinstance(decision, Preempt)
    assert [one.name for one in decision.victims] == ["x"]


@pytest.mark.parametrize("port", [80, 81])
def test_hopeless_nodes_are_told_by_port(port: int) -> None:
    cluster = Cluster([small("n1")], [pod("x").priority(200).host_port(80).node("n1"), running("y", "n1")])
    decision = cluster.decide(big("a").host_port(port))
    assert isinstance(decision, Preempt) == (port == 81)


def test_only_the_pods_that_must_go_go() -> None:
    tenth = [pod(f"x{number}").cpu("100m").priority(number).node("n1") for number in range(10)]
    decision = Cluster([small("n1")], tenth).decide(pod("a").cpu("300m").priority(100))
    assert isinstance(decision, Preempt)
    assert [one.name for one in decision.victims] == ["x2", "x1", "x0"]
