"""Gangs at the scheduler's desk: members whose bind failed, and room that is held for pods that are still to come."""

from __future__ import annotations

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.kube.mirror import Synced, Updated
from kubenexus.scheduler.actions import ERROR, POD, Bind, Eviction, Report, Unbound
from tests.builders import PodBuilder, node, pod
from tests.office import Office, bound, come, gang, gpus, told

# When binding fails


def test_members_whose_bind_failed_are_placed_again_and_it_is_told() -> None:
    office = Office(*gpus(4, "a", "b"))
    come(office, gang("g", 2, gpu=4))
    first, second = office.decide()
    office.bind([first])
    office.desk.finish(Unbound(second, "the node is gone"), office.now)
    [report] = office.desk.take()
    assert isinstance(report, Report)
    assert (report.pod.name, report.reason) == (second.pod.name, ERROR)
    assert "1 of 2 members of gang g have a node; it is placed again." in report.message
    assert office.decide() == []
    [again] = office.decide(after=1)
    assert isinstance(again, Bind)
    assert (again.pod.name, again.node) == (second.pod.name, second.node)
    office.desk.state.validate()


def test_half_placed_gang_says_so_while_it_waits_for_room() -> None:
    office = Office(*gpus(4, "a", "b"))
    come(office, gang("g", 2, gpu=4))
    first, second = office.decide()
    office.bind([first])
    office.remove_node(second.node)
    office.desk.finish(Unbound(second, "the node is gone"), office.now)
    office.desk.take()
    [report] = office.decide(after=1)
    assert "needs 2 members at once: 2 exist, 1 of them placed, room for 1: 0/1 nodes" in report.message


def half_bound(office: Office) -> Bind:
    """A gang of two on all there is; one member is bound, and the bind of the other, which is returned, failed."""
    come(office, gang("g", 2, gpu=4))
    first, second = office.decide()
    office.see(pod("thief").gpu(4))
    assert "Insufficient nvidia.com/gpu" in told(office.decide())["thief"]
    office.now += 60  # the thief has nothing to wait for but room
    office.bind([first])
    office.desk.finish(Unbound(second, "the server contradicts itself"), office.now)
    assert isinstance(second, Bind)
    return second


def test_nobody_takes_the_place_of_a_member_whose_bind_failed() -> None:
    office = Office(*gpus(4, "a", "b"))
    lost = half_bound(office)
    assert bound(office.decide()) == {}
    assert bound(office.decide(after=1)) == {lost.pod.name: lost.node}
    office.desk.state.validate()


@pytest.mark.parametrize("end", ["member gone", "elsewhere"])
def test_place_that_was_kept_for_a_member_is_given_back(end: str) -> None:
    office = Office(*gpus(4, "a", "b", "c"))
    office.see(pod("tenant").gpu(4).node("c"))
    lost = half_bound(office)
    if end == "member gone":
        office.gone(lost.pod)
    else:  # somebody else bound it
        office.hear(POD, Updated(lost.pod.uid, lost.pod, lost.pod._replace(node="c", phase="Running")))
    assert bound(office.decide(after=10)) == {"thief": lost.node}
    office.desk.state.validate()


def test_gang_none_of_whose_members_could_be_bound_holds_nothing() -> None:
    office = Office(*gpus(4, "a", "b"))
    come(office, gang("g", 2, gpu=4))
    for bind in office.decide():
        office.desk.finish(Unbound(bind, "the server contradicts itself"), office.now)
    assert office.nodes_in_use() == {}
    office.see(pod("other").gpu(4))
    assert set(bound(office.decide())) == {"other"}


def test_gang_that_runs_by_halves_after_a_restart_comes_before_others() -> None:
    office = Office(*gpus(4, "a", "b"))
    office.desk.expect(["Pod"])
    office.see(pod("a-thief").gpu(4))
    come(office, [*gang("a-gang", 1, gpu=4), *gang("g", 2, gpu=4)[1:]])
    office.see(gang("g", 2, gpu=4)[0].node("a"))
    office.hear("Pod", Synced())
    assert bound(office.decide()) == {"g-1": "b"}


def test_nobody_tries_to_evict_what_only_keeps_a_place() -> None:
    office = Office(*gpus(4, "a", "b"))
    come(office, gang("g", 2, gpu=4))
    first, second = office.decide()
    office.bind([first])
    office.desk.finish(Unbound(second, "chance"), office.now)
    office.desk.take()
    office.see(pod("urgent").gpu(4).priority(1000))
    evictions = [action for action in office.decide() if isinstance(action, Eviction)]
    assert {victim.uid for one in evictions for victim in one.victims} <= {first.pod.uid}


# G13: room for pods that do not exist yet


def spark(role: str, name: str, executors: int) -> PodBuilder:
    made = pod(name).label("spark-role", role).label("spark-app-selector", "app")
    made.annotation(v.EXECUTOR_COUNT, str(executors)).annotation(v.EXECUTOR_CPU, "4").annotation(
        v.EXECUTOR_MEMORY, "8Gi"
    )
    return made.cpu(2).memory("4Gi") if role == "driver" else made.cpu(4).memory("8Gi")


def cluster(*cpus: int) -> Office:
    return Office(*(node(f"n{i}").capacity(cpu=cpu, memory="512Gi") for i, cpu in enumerate(cpus)))


def test_spark_driver_waits_until_its_executors_would_fit_too() -> None:
    office = cluster(20, 20)
    office.see(spark("driver", "driver", 10))
    message = told(office.decide())["driver"]
    assert message.startswith("Spark app driver needs room for itself and 10 more at once: 11 in all, room for ")
    office.node(node("more").capacity(cpu=20, memory="512Gi"))
    assert set(bound(office.decide(after=10))) == {"driver"}


def test_executors_get_the_room_that_was_held_and_nobody_else_does() -> None:
    office = cluster(22, 20)
    office.see(spark("driver", "driver", 10))
    office.bind(office.decide())
    office.see(pod("batch").cpu(4))
    assert bound(office.decide()) == {}
    come(office, [spark("executor", f"exec-{i}", 10) for i in range(10)])
    assert len(bound(office.decide())) == 10
    assert bound(office.decide(after=30)) == {}
    office.desk.state.validate()


@pytest.mark.parametrize("end", ["driver gone", "time over"])
def test_held_room_is_given_back(end: str) -> None:
    office = cluster(22, 20)
    view = office.see(spark("driver", "driver", 10))
    office.bind(office.decide())
    office.see(pod("batch").cpu(4))
    assert bound(office.decide()) == {}
    if end == "driver gone":
        office.gone(view)
    assert set(bound(office.decide(after=10 if end == "driver gone" else 600))) == {"batch"}


def test_nobody_tries_to_evict_what_only_holds_room() -> None:
    office = cluster(22, 20)
    office.see(spark("driver", "driver", 10))
    office.bind(office.decide())
    office.see(pod("urgent").cpu(4).priority(1000))
    assert [action for action in office.decide() if isinstance(action, Eviction)] == []


def test_room_is_held_again_after_a_restart() -> None:
    office = cluster(22, 20)
    office.desk.expect(["Pod"])
    office.see(spark("driver", "driver", 10).node("n0"))
    office.hear("Pod", Synced())
    office.see(pod("batch").cpu(4))
    assert bound(office.decide()) == {}


def test_driver_that_could_not_be_bound_is_not_kept_out_by_the_room_held_for_it() -> None:
    office = cluster(10)
    office.see(spark("driver", "driver", 2))
    [bind] = office.decide()
    office.desk.finish(Unbound(bind, "chance"), office.now)
    office.see(pod("batch").cpu(8))
    assert set(bound(office.decide())) == {"batch"}  # nothing is held for who has no place
    office.gone(next(view for view, _ in office.desk.state.pods()))
    assert set(bound(office.decide(after=10))) == {"driver"}
    office.desk.state.validate()
