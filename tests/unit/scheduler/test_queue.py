"""The queue: order, backoff, parking and waking."""

from __future__ import annotations

from datetime import datetime

import pytest

from kubenexus.common.objects import PodView, project_pod
from kubenexus.scheduler.engine.events import Event
from kubenexus.scheduler.engine.queue import Queue, Where
from tests.builders import PodBuilder, pod
from tests.scheduler_conformance import Case
from tests.shared import conformance

FIT = ["NodeResourcesFit"]


def view(builder: PodBuilder | str) -> PodView:
    return project_pod((pod(builder) if isinstance(builder, str) else builder).build())


def queue_of(*builders: PodBuilder | str, now: float = 0.0) -> Queue:
    queue = Queue()
    for builder in builders:
        queue.add(view(builder), now)
    return queue


def take(queue: Queue, now: float) -> PodView | None:
    """The next pod, of those that are tried by themselves."""
    unit = queue.pop(now)
    if unit is None:
        return None
    (one,) = unit.pods
    assert unit.name == one.uid
    return one


def names(queue: Queue, now: float = 0.0) -> list[str]:
    """Everything that is ready, in its order."""
    found = []
    while (one := take(queue, now)) is not None:
        found.append(one.name)
    return found


def parked(refused_by: list[str], *, times: int = 1) -> tuple[Queue, PodView]:
    """A queue with one pod that was refused so often, the last time at 0."""
    queue, one = Queue(), view("a")
    queue.add(one, -1000.0)
    for attempt in range(times):
        now = -100.0 * (times - 1 - attempt)
        queue.wake(Event.NODE_ADDED, now)
        assert take(queue, now) == one
        queue.park(one.uid, refused_by, now)
    return queue, one


@pytest.mark.parametrize("case", conformance("misc", "queueLess"))
def test_order_conformance(case: Case) -> None:
    queue = Queue()
    for name in ("a", "b"):
        when = datetime.fromisoformat(case[name]["timestamp"]).timestamp()
        queue.add(project_pod(case[name]["pod"])._replace(name=name, uid=name), when)
    assert (names(queue, 2e9)[0] == "a") == case["want"]["aFirst"]


@pytest.mark.parametrize("case", conformance("misc", "schedulingGates"))
def test_gates_conformance(case: Case) -> None:
    queue, one = Queue(), project_pod(case["pod"])
    queue.add(one, 0.0)
    assert (take(queue, 0.0) == one) == (case["want"]["status"]["code"] == "Success")


def test_pods_that_came_together_are_taken_by_age_then_name() -> None:
    young = pod("a").created("2026-01-02T00:00:00Z")
    assert names(queue_of(young, "c", "b")) == ["b", "c", "a"]


def test_a_gated_pod_is_queued_when_its_gates_are_gone() -> None:
    queue = queue_of(pod("a").gate("example.com/wait"))
    assert queue.where(view("a").uid) is Where.GATED
    assert queue.wake(Event.NODE_ADDED, 1.0) == 0
    queue.add(view("a"), 2.0)
    assert names(queue, 2.0) == ["a"]


@pytest.mark.parametrize(
    "gone",
    [pod("a").node("n"), pod("a").phase("Failed"), pod("a").deleting()],
    ids=["has a node", "has finished", "is being deleted"],
)
@pytest.mark.parametrize("place", ["ready", "out", "parked"])
def test_a_pod_leaves(gone: PodBuilder, place: str) -> None:
    queue = queue_of("a")
    if place != "ready":
        take(queue, 0.0)
    if place == "parked":
        queue.park(view("a").uid, FIT, 0.0)
    queue.add(view(gone), 1.0)
    queue.park(view("a").uid, FIT, 1.0)
    queue.retry(view("a").uid, 1.0)
    queue.wake(Event.NODE_ADDED, 2.0)
    assert (len(queue), names(queue, 1000.0)) == (0, [])


@pytest.mark.parametrize(("times", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (50, 10)])
def test_backoff_doubles_up_to_ten_seconds(times: int, seconds: float) -> None:
    queue, one = parked(FIT, times=times)
    queue.wake(Event.POD_DELETED, 0.5)
    assert queue.where(one.uid) is Where.BACKOFF
    assert queue.due() == seconds
    assert take(queue, seconds - 0.01) is None
    assert take(queue, seconds) == one


def test_errors_back_off_by_themselves() -> None:
    queue, one = parked(FIT, times=5)
    queue.wake(Event.POD_DELETED, 20.0)
    for seconds, now in ((1.0, 20.0), (2.0, 30.0), (4.0, 40.0)):
        assert take(queue, now) == one
        queue.retry(one.uid, now)
        assert queue.due() == now + seconds


def test_a_refusal_ends_a_series_of_errors() -> None:
    queue = queue_of("a")
    uid = view("a").uid
    for now in (0.0, 10.0, 20.0):
        take(queue, now)
        queue.retry(uid, now)
    take(queue, 30.0)
    queue.park(uid, FIT, 30.0)
    queue.wake(Event.POD_DELETED, 40.0)
    take(queue, 40.0)
    queue.retry(uid, 40.0)
    assert queue.due() == 41.0


@pytest.mark.parametrize(
    ("refused_by", "event", "cured"),
    [
        (["NodeResourcesFit"], Event.POD_DELETED, True),
        (["NodeResourcesFit"], Event.NODE_ALLOCATABLE, True),
        (["NodeResourcesFit"], Event.NODE_LABELS, False),
        (["NodeResourcesFit"], Event.POD_ADDED, False),
        (["NodeAffinity"], Event.NODE_LABELS, True),
        (["NodeAffinity"], Event.POD_DELETED, False),
        (["NodeAffinity", "NodeResourcesFit"], Event.POD_DELETED, True),
        (["TaintToleration"], Event.NODE_TAINTS, True),
        (["NodeUnschedulable"], Event.NODE_UNCORDONED, True),
        (["InterPodAffinity"], Event.POD_ADDED, True),
        (["PodTopologySpread"], Event.NODE_REMOVED, True),
        (["VolumeBinding"], Event.PV, True),
        (["VolumeBinding"], Event.PDB, False),
        (["SomethingNew"], Event.PDB, True),
        ([], Event.POD_DELETED, False),
        ([], Event.NODE_ADDED, True),
    ],
    ids=lambda value: value.name if isinstance(value, Event) else None,
)
def test_causes(refused_by: list[str], event: Event, cured: bool) -> None:
    queue, one = parked(refused_by)
    assert queue.wake(event, 100.0) == cured
    assert (take(queue, 100.0) == one) == cured


def test_a_cause_while_the_pod_was_out_counts() -> None:
    queue = queue_of("a", "b")
    first, second = take(queue, 0.0), take(queue, 0.0)
    assert first is not None
    assert second is not None
    queue.wake(Event.POD_DELETED, 0.5)
    queue.park(first.uid, FIT, 1.0)
    queue.park(second.uid, ["NodeAffinity"], 1.0)
    assert queue.where(first.uid) is Where.BACKOFF
    assert queue.where(second.uid) is Where.PARKED


def test_causes_before_it_was_taken_do_not_count() -> None:
    queue = queue_of("a")
    queue.wake(Event.POD_DELETED, 0.0)
    one = take(queue, 1.0)
    assert one is not None
    queue.park(one.uid, FIT, 1.0)
    assert queue.where(one.uid) is Where.PARKED


@pytest.mark.parametrize(
    ("update", "tried"),
    [
        (pod("a").label("app", "web"), True),
        (pod("a").tolerate("gpu"), True),
        (pod("a").condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available"), False),
        (pod("a").set("status.nominatedNodeName", "n1"), False),
    ],
    ids=["labels", "tolerations", "its condition", "its nomination"],
)
def test_an_update_that_matters_wakes_a_parked_pod(update: PodBuilder, tried: bool) -> None:
    queue, one = parked(FIT)
    queue.add(view(update), 100.0)
    assert (queue.where(one.uid) is Where.READY) == tried
    assert (take(queue, 100.0) == view(update)) == tried


def test_an_update_while_the_pod_is_out_counts() -> None:
    queue = queue_of("a")
    take(queue, 0.0)
    queue.add(view(pod("a").label("app", "web")), 0.0)
    queue.park(view("a").uid, FIT, 0.0)
    assert queue.where(view("a").uid) is Where.BACKOFF


def test_a_pod_that_was_parked_for_five_minutes_is_tried_again() -> None:
    queue, one = parked(["NodeName"])
    now = 0.0
    while take(queue, now) is None:
        due = queue.due()
        assert due is not None
        now = max(now, due)
    assert 300.0 < now <= 330.0
    assert queue.where(one.uid) is Where.OUT


def test_a_pod_in_trouble_waits_behind_others_of_its_priority() -> None:
    queue = queue_of("a", "b")
    take(queue, 0.0)
    queue.retry(view("a").uid, 0.1)
    queue.add(view("c"), 0.5)
    assert names(queue, 5.0) == ["b", "a", "c"]


def test_nobody_waits() -> None:
    queue = Queue()
    assert (queue.due(), take(queue, 0.0), len(queue)) == (None, None, 0)


def test_counts() -> None:
    queue = queue_of("a", "b", pod("c").gate("example.com/wait"))
    take(queue, 0.0)
    assert queue.counts() == {Where.READY: 1, Where.OUT: 1, Where.GATED: 1}


# Gangs


def gang_of(*builders: PodBuilder | str, now: float = 0.0, queue: Queue | None = None) -> Queue:
    queue = queue or Queue()
    for builder in builders:
        queue.add(view(builder), now, "a gang")
    return queue


def test_gang_is_one_unit_and_goes_by_its_highest_priority_and_oldest_pod() -> None:
    queue = queue_of(pod("early").priority(1))
    gang_of("a", pod("b").priority(2), queue=queue)
    unit = queue.pop(0.0)
    assert unit is not None
    assert (unit.name, [one.name for one in unit.pods]) == ("a gang", ["a", "b"])
    assert names(queue) == ["early"]


def test_gang_is_parked_and_woken_as_a_whole() -> None:
    queue = gang_of("a", "b")
    queue.pop(0.0)
    queue.park("a gang", ["NodeResourcesFit"], 0.0)
    assert queue.counts()[Where.PARKED] == 2
    assert queue.wake(Event.POD_DELETED, 5.0) == 1
    unit = queue.pop(5.0)
    assert unit is not None
    assert len(unit.pods) == 2


def test_member_that_joins_a_parked_gang_wakes_it() -> None:
    queue = gang_of("a")
    queue.pop(0.0)
    queue.park("a gang", ["NodeResourcesFit"], 0.0)
    gang_of("b", queue=queue, now=5.0)
    unit = queue.pop(5.0)
    assert unit is not None
    assert len(unit.pods) == 2


def test_pod_moves_between_units_and_is_in_one() -> None:
    queue = gang_of("a", "b")
    queue.add(view("b"), 0.0)
    assert (len(queue), sum(queue.counts().values())) == (2, 2)
    queue.remove(view("a").uid)
    assert queue.where("a gang") is None
    assert names(queue) == ["b"]
