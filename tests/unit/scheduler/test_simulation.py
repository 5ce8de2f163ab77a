"""A simulation's own rules: order, identity, admission, and who gives way to whom."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.vocabulary import SCHEDULER_NAME
from kubenexus.scheduler.simulation import Simulation
from tests.builders import Builder, NodeBuilder, PodBuilder, node, pod

Obj = dict[str, Any]


def run(*objects: Builder | Obj, explain: bool = False) -> Obj:
    raw = [one.build() if isinstance(one, Builder) else one for one in objects]
    return Simulation(raw, explain=explain).run()


def where(result: Obj) -> dict[str, str | None]:
    return {one["pod"].removeprefix("default/"): one["node"] for one in (*result["placements"], *result["pending"])}


def reason(result: Obj, name: str) -> str:
    (found,) = (one["reason"] for one in (*result["placements"], *result["pending"]) if one["pod"] == f"default/{name}")
    return str(found)


def small(name: str = "n1") -> NodeBuilder:
    return node(name).capacity(cpu=2, memory="4Gi")


def bare(builder: Builder, *keys: str) -> Obj:
    """Without these keys of the metadata."""
    raw = builder.build()
    for key in keys:
        del raw["metadata"][key]
    return raw


# --- Order and identity


def test_pods_come_in_the_order_of_the_files() -> None:
    younger, older = pod("younger").cpu(2).created("2026-02-01T00:00:00Z"), pod("older").cpu(2)
    assert where(run(small(), younger, older)) == {"younger": "n1", "older": None}


def test_what_pods_refer_to_may_come_later() -> None:
    high = Builder("scheduling.k8s.io/v1", "PriorityClass", "high").set("value", 7)
    first = pod("first").cpu(1).set("spec.priorityClassName", "high")
    assert where(run(first, high, small())) == {"first": "n1"}


def test_pods_without_uid_and_time_are_different_pods() -> None:
    pods = [bare(pod(name).cpu(1), "uid", "creationTimestamp") for name in ("a", "b", "c")]
    assert where(run(small(), *pods)) == {"a": "n1", "b": "n1", "c": None}


def test_running_pods_without_uid_use_room() -> None:
    running = [bare(pod(name).cpu(1).node("n1"), "uid") for name in ("a", "b")]
    assert where(run(small(), *running, pod("c").cpu(1))) == {"c": None}


def test_a_second_pod_of_a_name_stays_pending() -> None:
    twins = [bare(pod("twin").cpu(1), "uid") for _ in range(3)]
    result = run(small(), *twins)
    assert [one["node"] for one in result["placements"]] == ["n1"]
    assert {one["reason"] for one in result["pending"]} == {
        "The pod cannot be placed as it is: there is another pod of this name."
    }


def test_a_copied_uid_is_no_identity() -> None:
    assert where(run(small(), pod("a").cpu(1).uid("x"), pod("b").cpu(1).uid("x"))) == {"a": "n1", "b": "n1"}


def test_pods_of_one_name_and_two_uids_are_two() -> None:
    result = run(small(), pod("a").cpu(1).uid("x"), pod("a").cpu(1).uid("y"))
    assert result["summary"] == {"pods": 2, "placed": 2, "pending": 0}


def test_every_scheduler_name_is_taken() -> None:
    names = ("default-scheduler", SCHEDULER_NAME, "other")
    assert where(run(small(), *(pod(name).scheduler(name) for name in names))) == dict.fromkeys(names, "n1")


def test_finished_pods_are_no_more() -> None:
    done = pod("done").cpu(2).node("n1").phase("Succeeded")
    assert where(run(small(), done, pod("never").phase("Failed"), pod("a").cpu(2))) == {"a": "n1"}


# --- Admission


def test_requests_come_from_limits() -> None:
    limited = pod("limited").set("spec.containers", [{"name": "c", "resources": {"limits": {"cpu": "3"}}}])
    assert where(run(small(), limited)) == {"limited": None}


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        ({"priorityClassName": "high"}, "high"),
        ({"priorityClassName": "system-cluster-critical"}, "high"),
        ({"priority": 5}, "high"),
        ({}, "low"),
    ],
    ids=["by name", "of the system", "as a number", "none"],
)
def test_priority(named: Obj, wanted: str) -> None:
    """Who has a priority drives out who has none."""
    classes = Builder("scheduling.k8s.io/v1", "PriorityClass", "high").set("value", 7)
    high = pod("high").cpu(2)
    high.obj["spec"] |= named
    result = where(run(small(), classes, pod("low").cpu(2), high))
    assert result == {**dict.fromkeys(("low", "high")), wanted: "n1"}


def test_global_default_priority() -> None:
    usual = Builder("scheduling.k8s.io/v1", "PriorityClass", "usual").set("value", 7).set("globalDefault", True)
    assert where(run(small(), usual, pod("low").cpu(2).priority(1), pod("a").cpu(2))) == {"low": None, "a": "n1"}


def test_unknown_priority_class_is_the_reason() -> None:
    result = run(small(), pod("a").set("spec.priorityClassName", "hgih"), pod("b"))
    assert where(result) == {"a": None, "b": "n1"}
    assert "no PriorityClass with name hgih was found" in reason(result, "a")


def test_affinity_by_keys_of_its_own_labels() -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "matchLabelKeys": ["version"],
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    nodes = small("n1").set("spec.unschedulable", False), small("n2")
    old = pod("old").label("app", "x").label("version", "1").node("n1")
    new = pod("new").label("app", "x").label("version", "2").set("spec.affinity.podAntiAffinity", rule)
    result = run(*nodes, old, new.select(**{"kubernetes.io/hostname": "n1"}))
    assert where(result) == {"new": "n1"}  # pods of another version are not meant


MALFORMED: dict[str, PodBuilder] = {
    "a quantity": pod("bad").cpu("lots"),
    "a negative quantity": pod("bad").cpu("-1"),
    "spec": pod("bad").set("spec", "none"),
    "resources": pod("bad").set("spec.containers", [{"name": "c", "resources": "many"}]),
    "labels": pod("bad").set("metadata.labels", ["a"]),
    "priority": pod("bad").set("spec.priority", "high"),
    "affinity": pod("bad").set("spec.affinity", []),
    "volumes": pod("bad").set("spec.volumes", {"a": 1}),
    "a time": pod("bad").created("yesterday"),
}


@pytest.mark.parametrize("bad", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("explain", [False, True], ids=["", "explained"])
def test_a_malformed_pod_stays_pending_and_disturbs_nobody(bad: PodBuilder, explain: bool) -> None:
    result = run(small(), bad, pod("good").cpu(2), explain=explain)
    assert where(result) == {"bad": None, "good": "n1"}
    assert reason(result, "bad").startswith("The pod cannot be placed as it is: ")
    if explain:
        (entry,) = result["pending"]
        assert entry["nodes"]["n1"]["feasible"] is False
        assert entry["nodes"]["n1"]["code"] == "Unresolvable"


def test_gated_and_leaving_pods_wait() -> None:
    result = run(small(), pod("gated").gate("wait"), pod("leaving").deleting(), pod("a"), explain=True)
    assert where(result) == {"gated": None, "leaving": None, "a": "n1"}
    assert "wait" in reason(result, "gated")
    assert "being deleted" in reason(result, "leaving")
    assert [one["nodes"]["n1"]["feasible"] for one in result["pending"]] == [False, False]


# --- Who gives way to whom


def test_those_driven_out_say_by_whom() -> None:
    low = [pod("running").cpu(1).node("n1"), pod("low").cpu(1)]
    result = run(small(), *low, pod("high").cpu(2).priority(9), explain=True)
    assert where(result) == {"high": "n1", "low": None, "running": None}
    assert reason(result, "high").startswith("took the place of ")
    for name in ("low", "running"):
        assert reason(result, name).startswith("preempted by default/high on n1; 0/1 nodes are available: ")
    assert result["placements"][0]["nodes"]["n1"]["feasible"] is True
    assert result["summary"] == {"pods": 3, "placed": 1, "pending": 2}


def test_who_is_driven_out_may_find_another_place() -> None:
    high = pod("high").cpu(2).priority(9).select(**{"kubernetes.io/hostname": "n1"})
    first = pod("low").cpu(1).node("n1")
    result = run(small("n1"), small("n2"), first, high)
    assert where(result) == {"high": "n1", "low": "n2"}
    assert reason(result, "low") == "preempted by default/high on n1"


def test_a_pod_finds_company_that_comes_later() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    guest = pod("guest").set("spec.affinity.podAffinity", rule)
    assert where(run(small(), guest, pod("db").label("app", "db"))) == {"guest": "n1", "db": "n1"}


@given(
    nodes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    pods=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.booleans()), max_size=12),
)
def test_every_pod_ends_once_and_nothing_is_overcommitted(nodes: list[int], pods: list[tuple[int, int, bool]]) -> None:
    machines = [node(f"n{number}").capacity(cpu=cpu) for number, cpu in enumerate(nodes)]
    wanted = [
        pod(f"p{number}").cpu(cpu).priority(priority).set("spec.nodeName", "n0" if runs and not number else None)
        for number, (cpu, priority, runs) in enumerate(pods)
    ]
    simulation = Simulation([one.build() for one in (*machines, *wanted)], explain=True)
    result = simulation.run()
    entries = [*result["placements"], *result["pending"]]
    assert len({one["pod"] for one in entries}) == len(entries)
    assert len(pods) - 1 <= len(entries) <= len(pods) or not pods
    for one in result["placements"]:
        assert one["nodes"][one["node"]]["feasible"]
    for one in result["pending"]:
        assert one["reason"]
        assert not any(said["feasible"] for said in one["nodes"].values())
    simulation.world.state.validate()
