"""The desk: what is assumed, confirmed, forgotten and tried again, with a clock that moves only when told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubenexus.common.kube.mirror import Added, Synced
from kubenexus.common.objects import PodView
from kubenexus.scheduler.actions import (
    ERROR,
    POD,
    REJECTED,
    UNSCHEDULABLE,
    Astray,
    Bind,
    Bound,
    Evicted,
    Eviction,
    Report,
    Unbound,
)
from kubenexus.scheduler.desk import MOST_BINDING
from kubenexus.scheduler.engine.queue import Where
from kubenexus.scheduler.rejections import FIRST, Rejection
from tests.builders import NodeBuilder, node, pod
from tests.office import Office


def one_cpu(name: str = "n") -> NodeBuilder:
    return node(name).capacity(cpu=1)


def test_decided_pod_counts_at_once() -> None:
    office = Office(one_cpu())
    office.see(pod("a").cpu(1))
    office.see(pod("b").cpu(1))
    bind, report = office.decide()
    assert isinstance(bind, Bind)
    assert (bind.pod.name, bind.node) == ("a", "n")
    assert (report.pod.name, report.reason) == ("b", UNSCHEDULABLE)
    assert report.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_nothing_is_decided_before_everything_is_listed() -> None:
    office = Office(one_cpu())
    office.desk.expect(["Node", POD])
    office.see(pod("a").cpu(1))
    office.hear("Node", Synced())
    assert office.decide() == []
    office.hear(POD, Synced())
    assert len(office.decide()) == 1


def test_confirmed_pod_stays_and_its_place_is_kept() -> None:
    office = Office(one_cpu())
    old = office.see(pod("a").cpu(1))
    [bind] = office.decide()
    office.desk.finish(Bound(bind), office.now)
    office.see(pod("a").cpu(1).node("n"), old)
    assert office.nodes_in_use() == {"a": "n"}
    assert len(office.desk.queue) == 0
    office.desk.state.validate()


@pytest.mark.parametrize("watch_first", [True, False], ids=["watch first", "answer first"])
def test_answer_and_watch_may_come_in_any_order(watch_first: bool) -> None:
    office = Office(one_cpu())
    old = office.see(pod("a").cpu(1))
    [bind] = office.decide()
    steps: list[Callable[[], object]] = [
        lambda: office.see(pod("a").cpu(1).node("n"), old),
        lambda: office.desk.finish(Bound(bind), office.now),
    ]
    for step in steps if watch_first else reversed(steps):
        step()
    assert office.nodes_in_use() == {"a": "n"}
    assert office.desk.free


def test_failed_bind_is_forgotten_told_and_tried_again_after_a_while() -> None:
    office = Office(one_cpu())
    view = office.see(pod("a").cpu(1))
    [bind] = office.decide()
    office.desk.finish(Unbound(bind, "the server is on fire"), office.now)
    assert office.nodes_in_use() == {}
    [report] = office.desk.take()
    assert isinstance(report, Report)
    assert (report.reason, "on fire" in report.message) == (ERROR, True)
    assert office.desk.queue.where(view.uid) is Where.BACKOFF
    assert office.decide() == []
    [again] = office.decide(after=1.1)
    assert isinstance(again, Bind)


def test_failed_bind_wakes_those_who_wait_for_its_room() -> None:
    office = Office(one_cpu())
    office.see(pod("a").cpu(1).priority(5))
    waiting = office.see(pod("b").cpu(1).priority(5))
    bind, _ = office.decide()
    office.desk.finish(Unbound(bind, "no"), office.now)
    assert office.desk.queue.where(waiting.uid) is Where.BACKOFF


def test_pod_that_landed_elsewhere_is_where_the_watch_says() -> None:
    office = Office(one_cpu("n"), one_cpu("m").cordon())
    old = office.see(pod("a").cpu(1))
    [bind] = office.decide()
    office.desk.finish(Astray(bind, "the pod is on m"), office.now)
    assert office.nodes_in_use() == {"a": "n"}, "until the watch tells"
    office.see(pod("a").cpu(1).node("m"), old)
    assert office.nodes_in_use() == {"a": "m"}
    office.see(pod("b").cpu(1))
    assert [action.node for action in office.decide()] == ["n"]


@pytest.mark.parametrize("how", ["deleted", "being deleted"])
def test_assumed_pod_that_is_deleted_frees_its_place(how: str) -> None:
    office = Office(one_cpu())
    old = office.see(pod("a").cpu(1))
    [bind] = office.decide()
    if how == "deleted":
        office.gone(old)
    else:
        office.see(pod("a").cpu(1).deleting(), old)
    assert office.nodes_in_use() == {}
    office.desk.finish(Astray(bind, "the pod is gone"), office.now)
    assert len(office.desk.queue) == 0
    assert office.desk.free


def test_pod_of_the_same_name_is_another_one() -> None:
    office = Office(one_cpu())
    first = office.see(pod("a").cpu(1).uid("one"))
    [bind] = office.decide()
    office.gone(first)
    office.see(pod("a").cpu(1).uid("two"))
    [again] = office.decide()
    office.desk.finish(Unbound(bind, "late news of the first"), office.now)
    assert again.pod.uid == "two"
    assert office.nodes_in_use() == {"a": "n"}


def test_pods_of_others_only_count() -> None:
    office = Office(one_cpu())
    theirs = office.see(pod("theirs").cpu(1).scheduler("default-scheduler"))
    assert office.decide() == []
    office.see(pod("theirs").cpu(1).scheduler("default-scheduler").node("n"), theirs)
    office.see(pod("ours").cpu(1))
    [report] = office.decide()
    assert isinstance(report, Report)


def test_unreadable_pod_parks_with_its_reason_and_delays_nobody() -> None:
    office = Office(one_cpu())
    office.see(pod("odd").cpu("much").priority(10))
    office.see(pod("fine").cpu(1))
    report, bind = office.decide()
    assert (report.pod.name, report.reason) == ("odd", UNSCHEDULABLE)
    assert "cpu" in report.message
    assert bind.pod.name == "fine"


def test_deciding_does_not_run_far_ahead_of_binding() -> None:
    office = Office(node("big").capacity(cpu=1000, pods=1000))
    for number in range(MOST_BINDING + 10):
        office.see(pod(f"p{number}").cpu(1))
    binds = office.decide()
    assert len(binds) == MOST_BINDING
    assert office.desk.due() is None, "only an answer helps"
    office.desk.finish(Bound(binds[0]), office.now)
    assert len(office.decide()) == 1


def test_bug_in_deciding_is_told_and_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(one_cpu())
    cycle = next(iter(office.desk._cycles.values()))
    decide = cycle.decide

    def faulty(view: PodView) -> Any:
        if view.name == "cursed":
            raise ZeroDivisionError("a bug")
        return decide(view)

    monkeypatch.setattr(cycle, "decide", faulty)
    office.see(pod("cursed").priority(9))
    office.see(pod("fine").cpu(1))
    report, bind = office.decide()
    assert (report.reason, report.pod.name) == (ERROR, "cursed")
    assert bind.pod.name == "fine"


def test_preemption_evicts_and_promises_the_node() -> None:
    office = Office(one_cpu())
    victim = office.see(pod("low").cpu(1).node("n"))
    office.see(pod("high").cpu(1).priority(100))
    eviction, report = office.decide()
    assert isinstance(eviction, Eviction)
    assert [one.name for one in eviction.victims] == ["low"]
    assert report.nominated == "n"
    office.desk.finish(Evicted(eviction), office.now)
    office.gone(victim)
    [bind] = office.decide(after=1.1)
    assert (bind.pod.name, bind.node) == ("high", "n")


def test_preemption_that_fails_breaks_its_promise() -> None:
    office = Office(one_cpu())
    office.see(pod("low").cpu(1).node("n"))
    high = office.see(pod("high").cpu(1).priority(100))
    eviction, _ = office.decide()
    office.desk.finish(Evicted(eviction, "may not delete"), office.now)
    assert office.desk.nominations.of(high.uid) is None
    assert isinstance(office.decide(after=1.1)[0], Eviction), "and it is tried again"


def test_rejecting_kubelet_gets_no_more_of_that_owner_for_a_while() -> None:
    office = Office(node("strict").capacity(cpu=4))
    rejection = Rejection("replicaset-web", "strict", "TopologyAffinityError")
    office.hear(REJECTED, Added("x", rejection))
    office.see(pod("web-1").cpu(1).owner("ReplicaSet", "web"))
    office.see(pod("other").cpu(1))
    bind, report = office.decide()
    assert (bind.pod.name, report.pod.name) == ("other", "web-1")
    assert "lately rejected this workload with TopologyAffinityError" in report.message
    [bind] = office.decide(after=FIRST + 0.1)
    assert (bind.pod.name, bind.node) == ("web-1", "strict")


def test_rejections_of_long_ago_bar_nobody() -> None:
    office = Office(node("strict").capacity(cpu=4))
    office.desk.expect([REJECTED])
    office.hear(REJECTED, Added("x", Rejection("replicaset-web", "strict", "OutOfcpu")))
    office.hear(REJECTED, Synced())
    office.see(pod("web-1").cpu(1).owner("ReplicaSet", "web"))
    assert isinstance(office.decide()[0], Bind)
