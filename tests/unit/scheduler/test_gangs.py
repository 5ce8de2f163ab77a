"""Gangs at the scheduler's desk: whole or not at all, whatever comes, goes and fails."""

from __future__ import annotations

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.kube.mirror import Added, Synced
from kubenexus.scheduler.actions import OWNERS, POD, Eviction
from kubenexus.scheduler.muster import PATIENCE
from tests.builders import Builder, PodBuilder, job, node, pod
from tests.office import Office, bound, come, gang, gpus, told

SIGS = "pod-group.scheduling.sigs.k8s.io/"


# G1, G3, G5, G8: who waits for whom


@pytest.mark.parametrize("family", ["our labels", "sigs labels", "sigs annotations"])
def test_nobody_is_bound_before_the_last_member_exists(family: str) -> None:
    office = Office(*gpus(0, "n"))
    for number in range(3):
        assert bound(office.decide()) == {}
        member = pod(f"p{number}").cpu("100m").memory("128Mi")
        if family == "our labels":
            member.gang("g", 3)
        else:
            put = member.label if family == "sigs labels" else member.annotation
            put(SIGS + "name", "g")
            put(SIGS + "min-available", "3")
        office.see(member)
    assert set(bound(office.decide())) == {"p0", "p1", "p2"}


def test_gangs_are_told_apart_by_name_and_namespace() -> None:
    office = Office(*gpus(0, "n"))
    come(office, [*gang("whole", 2), *gang("half", 2, members=1), *gang("half", 2, members=1, namespace="elsewhere")])
    assert set(bound(office.decide())) == {"whole-0", "whole-1"}


@pytest.mark.parametrize("one", [pod("p").cpu(1), pod("p").cpu(1).gang("g", 1)], ids=["no gang", "gang of one"])
def test_pod_that_needs_nobody_does_not_wait(one: PodBuilder) -> None:
    office = Office(*gpus(0, "n"))
    office.see(one)
    assert bound(office.decide()) == {"p": "n"}


def test_gang_of_one_drives_others_out_like_any_pod() -> None:
    office = Office(*gpus(8, "n"))
    office.see(pod("low").gpu(8).node("n"))
    office.see(pod("high").gpu(8).priority(1000).gang("g", 1))
    evictions = [one for one in office.decide() if isinstance(one, Eviction)]
    assert [victim.name for one in evictions for victim in one.victims] == ["low"]


def test_gang_of_256_is_bound_at_once() -> None:
    office = Office(*(node(f"n{i}").capacity(cpu=64, pods=110) for i in range(4)))
    come(office, gang("g", 256))
    assert len(bound(office.decide())) == 256
    office.desk.state.validate()


# G2, G10: all or nothing


def test_gang_that_does_not_fit_holds_nothing_and_starts_when_room_appears() -> None:
    office = Office(*gpus(8, "a", "b"))
    come(office, gang("g", 4, gpu=8))
    actions = office.decide()
    assert bound(actions) == {}
    refusal = "Gang g needs 4 members at once: 4 exist, room for 2: 0/2 nodes are available: "
    assert told(actions)["g-0"].startswith(f"{refusal}2 Insufficient nvidia.com/gpu.")
    assert office.nodes_in_use() == {}
    office.see(pod("other").gpu(8))
    assert bound(office.decide()) == {"other": "a"} or office.nodes_in_use() == {"other": "b"}
    for extra in gpus(8, "c", "d", "e"):
        office.node(extra)
    assert len(bound(office.decide(after=10))) == 4
    office.desk.state.validate()


def test_of_two_gangs_that_fit_only_one_at_a_time_exactly_one_runs() -> None:
    office = Office(*gpus(8, "n"))
    come(office, [pod for pair in zip(gang("a", 2, gpu=4), gang("b", 2, gpu=4), strict=True) for pod in pair])
    first = office.decide()
    running = {name.partition("-")[0] for name in bound(first)}
    assert len(running) == 1
    office.bind(first)
    for _ in range(60):
        assert bound(office.decide(after=1.0)) == {}
    for name in running:
        for view, _ in list(office.desk.state.pods()):
            assert view.name.startswith(name)
            office.gone(view)
    assert len(bound(office.decide(after=10.0))) == 2


@pytest.mark.parametrize(("urgency", "winner"), [(0, "old"), (2_000_000_000, "new")])
def test_gang_that_waits_long_comes_before_a_fresh_one_however_often_it_was_tried(urgency: int, winner: str) -> None:
    office = Office(*gpus(8, "n"))
    tenants = [office.see(pod(f"tenant-{i}").gpu(gpu).node("n")) for i, gpu in enumerate((1, 7))]
    come(office, gang("old", 2, gpu=4))
    office.decide()
    office.now += 61
    come(office, [one.priority(urgency) for one in gang("new", 2, gpu=4)])
    office.decide()
    office.gone(tenants[0])  # the old one is tried again, in vain, while the new one still backs off
    office.decide()
    office.now += 20
    office.gone(tenants[1])
    assert set(bound(office.decide())) == {f"{winner}-0", f"{winner}-1"}


def test_gang_waits_from_the_time_of_its_oldest_member() -> None:
    office = Office(*gpus(8, "n"))
    come(office, gang("g", 2, members=1, gpu=8))
    office.now += 5
    office.see(pod("later").gpu(8))
    office.now += 5
    office.see(gang("g", 2, gpu=0)[1])
    assert set(bound(office.decide())) == {"g-0", "g-1"}


def test_heterogeneous_members_are_placed_together() -> None:
    office = Office(*gpus(8, "big"), node("small").capacity(cpu=2))
    come(office, [pod("launcher").cpu(2).gang("g", 3), *(pod(f"w{i}").cpu(8).gpu(4).gang("g", 3) for i in range(2))])
    placed = bound(office.decide())
    assert (placed["w0"], placed["w1"]) == ("big", "big")
    assert "launcher" in placed


@pytest.mark.parametrize("home", ["a", "b"])
def test_member_that_only_one_node_takes_finds_its_place_there(home: str) -> None:
    """Whichever node the other one, which is larger, would have taken."""
    office = Office(*gpus(8, "a", "b"))
    pinned = pod("pinned").gpu(4).gang("g", 2).set("spec.nodeSelector", {"kubernetes.io/hostname": home})
    come(office, [pod("free").gpu(8).gang("g", 2), pinned])
    assert bound(office.decide()) == {"pinned": home, "free": "b" if home == "a" else "a"}


def test_member_that_needs_large_cards_finds_them_though_others_would_do_with_them() -> None:
    homes = [one.label(v.GPU_VRAM, size) for one, size in zip(gpus(1, "h", "t"), ("80Gi", "16Gi"), strict=True)]
    office = Office(*homes)
    come(
        office,
        [pod("any").cpu(4).gpu(1).gang("g", 2), pod("large").gpu(1).gang("g", 2).annotation(v.VRAM_REQUEST, "80Gi")],
    )
    assert bound(office.decide()) == {"any": "t", "large": "h"}


def test_members_that_want_each_other_near_are_asked_again_when_the_others_are_there() -> None:
    office = Office(*(node(f"n{i}").capacity(cpu=4).label("kubernetes.io/hostname", f"n{i}") for i in range(2)))
    near = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"role": "lead"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    come(office, [pod("a-follower").cpu(2).gang("g", 2).set("spec.affinity", near)])
    come(office, [pod("lead").cpu(1).label("role", "lead").gang("g", 2)])
    placed = bound(office.decide())
    assert placed["a-follower"] == placed["lead"]


def test_members_beyond_the_minimum_come_after_and_by_themselves() -> None:
    office = Office(*gpus(8, "n"))
    come(office, gang("g", 2, members=4, gpu=4))
    actions = office.decide()
    assert len(bound(actions)) == 2
    left = {f"g-{i}" for i in range(4)} - set(bound(actions))
    assert set(told(actions)) == left
    assert all(
        text.startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.") for text in told(actions).values()
    )


# G4, G6, G7: what people are told


def test_incomplete_gang_is_reported_after_a_while_and_again_when_it_changed() -> None:
    office = Office(*gpus(0, "n"))
    come(office, gang("g", 10, members=1))
    assert office.decide(after=PATIENCE - 1) == []
    text = "Gang g waits for its members: 1 of 10 exist."
    assert told(office.decide(after=1)) == {"g-0": text}
    assert office.decide(after=PATIENCE) == []
    come(office, gang("g", 10, members=2)[1:])
    assert told(office.decide(after=PATIENCE)) == {f"g-{i}": text.replace("1 of", "2 of") for i in range(2)}


def test_patience_is_as_long_as_a_member_says() -> None:
    office = Office(*gpus(0, "n"))
    come(office, [one.annotation(v.GANG_TIMEOUT, "1m") for one in gang("g", 3, members=2)])
    assert office.decide(after=59) == []
    assert len(told(office.decide(after=1))) == 2


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        pytest.param({v.GANG_NAME: "g", v.GANG_MIN_AVAILABLE: "abc"}, "not a whole number", id="no number"),
        pytest.param({v.GANG_NAME: "g", v.GANG_MIN_AVAILABLE: "0"}, "from 1 to", id="zero"),
        pytest.param({v.GANG_MIN_AVAILABLE: "3"}, v.GANG_NAME, id="size without a name"),
    ],
)
def test_gang_that_cannot_be_meant_waits_with_the_reason(labels: dict[str, str], text: str) -> None:
    office = Office(*gpus(0, "n"))
    wrong = pod("p").cpu(1)
    for key, value in labels.items():
        wrong.label(key, value)
    old = office.see(wrong)
    office.see(pod("other").cpu(1))
    actions = office.decide()
    assert bound(actions) == {"other": "n"}
    assert text in told(actions)["p"]
    office.see(pod("p").cpu(1), old)
    assert bound(office.decide()) == {"p": "n"}


def test_members_that_disagree_on_the_size_go_by_the_largest_and_are_told() -> None:
    office = Office(*gpus(0, "n"))
    come(office, [pod("a").gang("g", 2), pod("b").gang("g", 3)])
    message = told(office.decide(after=PATIENCE))["a"]
    assert "2 of 3 exist" in message
    assert "Members of gang default/g disagree on its size (2 and 3): 3 counts" in message
    office.see(pod("c").gpu(1).gang("g", 3))
    assert "Insufficient nvidia.com/gpu. Members of gang default/g disagree" in told(office.decide())["a"]


# G11: who counts


def test_recreated_worker_rejoins_alone() -> None:
    office = Office(*gpus(8, "n"))
    come(office, gang("g", 8, gpu=1))
    office.bind(office.decide())
    lost = next(view for view, _ in office.desk.state.pods() if view.name == "g-3")
    office.gone(lost)
    office.see(pod("g-3b").cpu("100m").gpu(1).gang("g", 8))
    assert bound(office.decide()) == {"g-3b": "n"}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("b").gang("g", 2).gate("wait"), id="gated"),
        pytest.param(
            pod("b").gang("g", 2).node("n").set("metadata.deletionTimestamp", "2026-01-01T00:00:00Z"), id="leaving"
        ),
        pytest.param(pod("b").gang("g", 2).set("spec.containers", "oops"), id="unreadable"),
    ],
)
def test_member_that_cannot_take_part_does_not_count(other: PodBuilder) -> None:
    office = Office(*gpus(0, "n"))
    come(office, [pod("a").gang("g", 2), other])
    assert bound(office.decide()) == {}


def test_gate_that_opens_completes_the_gang() -> None:
    office = Office(*gpus(0, "n"))
    come(office, [pod("a").gang("g", 2)])
    old = office.see(pod("b").gang("g", 2).gate("wait"))
    office.decide()
    office.see(pod("b").gang("g", 2), old)
    assert set(bound(office.decide())) == {"a", "b"}


def test_member_that_is_deleted_while_the_gang_waits_makes_it_incomplete_again() -> None:
    office = Office(*gpus(4, "n"))
    come(office, gang("g", 2, gpu=4)[:1])
    view = office.see(gang("g", 2, gpu=4)[1])
    office.decide()
    office.gone(view)
    for extra in gpus(4, "m"):
        office.node(extra)
    assert bound(office.decide(after=10)) == {}
    come(office, [pod("g-2").gpu(4).gang("g", 2)])
    assert set(bound(office.decide(after=10))) == {"g-0", "g-2"}


# Owners


def indexed(name: str, size: int) -> Builder:
    return job(name, pod(name).cpu(1)).parallelism(size).indexed()


def worker(name: str, of: Builder) -> PodBuilder:
    meta = of.obj["metadata"]
    reference = {"apiVersion": of.obj["apiVersion"], "kind": of.obj["kind"], "name": meta["name"], "uid": meta["uid"]}
    return pod(name).cpu(1).append("metadata.ownerReferences", {**reference, "controller": True})


def test_gang_follows_from_an_indexed_job_once_that_is_known() -> None:
    office = Office(*gpus(0, "n"))
    office.desk.muster.watch([("batch", "Job")], office.now)
    train = indexed("train", 2)
    come(office, [worker("w0", train), worker("w1", train)])
    assert office.decide() == []
    assert "its gang is described by Job train, which is not known (yet)" in told(office.decide(after=PATIENCE))["w0"]
    office.owner(train)
    assert set(bound(office.decide())) == {"w0", "w1"}


def test_pod_whose_owner_became_known_is_not_reported_as_waiting_for_it() -> None:
    office, train = Office(*gpus(0, "n")), indexed("train", 2)
    office.hear(OWNERS, Added(OWNERS, frozenset({("batch", "Job")})))
    come(office, [worker("w0", train)])
    assert office.decide() == []
    office.owner(train)
    assert told(office.decide(after=PATIENCE)) == {"w0": "Gang Job train waits for its members: 1 of 2 exist."}


@pytest.mark.parametrize("late", ["kinds", "owner"])
def test_gang_that_runs_by_halves_is_known_after_a_restart_whatever_is_listed_first(late: str) -> None:
    office, train = Office(*gpus(0, "n", "m")), indexed("train", 3)
    office.desk.expect(["Pod", OWNERS])
    kinds = Added(OWNERS, frozenset({("batch", "Job")}))
    if late == "owner":
        office.hear(OWNERS, kinds)
    come(office, [worker("w0", train).node("n"), worker("w1", train)])
    if late == "kinds":
        office.hear(OWNERS, kinds)
    office.owner(train)
    office.hear(POD, Synced())
    office.hear(OWNERS, Synced())
    assert bound(office.decide()) == {}
    come(office, [worker("w2", train)])
    assert set(bound(office.decide())) == {"w1", "w2"}


def test_pod_that_was_placed_before_its_owner_was_known_is_not_placed_again() -> None:
    office, train = Office(*gpus(0, "n")), indexed("train", 2)
    come(office, [worker("w0", train)])
    [bind] = office.decide()
    office.hear(OWNERS, Added(OWNERS, frozenset({("batch", "Job")})))
    office.owner(train)
    assert office.decide() == []
    office.bind([bind])
    come(office, [worker("w1", train)])
    assert bound(office.decide()) == {"w1": "n"}


def test_owner_that_nobody_watches_is_not_waited_for() -> None:
    office = Office(*gpus(0, "n"))
    come(office, [worker("w0", indexed("train", 2))])
    assert bound(office.decide()) == {"w0": "n"}


def test_kind_that_is_watched_no_more_is_not_waited_for_any_longer() -> None:
    office = Office(*gpus(0, "n"))
    office.desk.muster.watch([("batch", "Job")], office.now)
    come(office, [worker("w0", indexed("train", 2))])
    assert office.decide() == []
    office.hear(OWNERS, Added(OWNERS, frozenset()))
    assert bound(office.decide()) == {"w0": "n"}


def test_gang_grows_with_its_owner() -> None:
    office = Office(*gpus(0, "n"))
    office.desk.muster.watch([("batch", "Job")], office.now)
    office.owner(indexed("train", 3))
    come(office, [worker(f"w{i}", indexed("train", 3)) for i in range(2)])
    assert office.decide() == []
    office.owner(indexed("train", 2))
    assert len(bound(office.decide())) == 2


def test_members_that_have_finished_well_count() -> None:
    office = Office(*gpus(0, "n"))
    office.desk.muster.watch([("batch", "Job")], office.now)
    office.owner(indexed("train", 3))
    views = [office.see(worker(f"w{i}", indexed("train", 3))) for i in range(3)]
    office.bind(office.decide())
    office.owner(indexed("train", 3).set("status.succeeded", 1))
    for view in views[:2]:  # one has finished, the other was deleted and comes again
        office.gone(view)
    come(office, [worker("again", indexed("train", 3))])
    assert bound(office.decide()) == {"again": "n"}


def test_members_that_finished_do_not_count_when_their_job_was_made_anew_under_its_name() -> None:
    office = Office(*gpus(8, "n"))
    office.desk.muster.watch([("batch", "Job"), ("jobset.x-k8s.io", "JobSet")], office.now)
    job_set = Builder("jobset.x-k8s.io/v1alpha2", "JobSet", "set", "default")
    template = {"spec": {"parallelism": 1, "completions": 1}}
    office.owner(job_set.set("spec.replicatedJobs", [{"name": "w", "replicas": 2, "template": template}]))

    def jobs(restart: str, succeeded: int) -> list[Builder]:
        made = [indexed(f"set-w-{i}", 1).uid(f"{restart}-{i}") for i in range(2)]
        owned = [one.owner("JobSet", "set", job_set.obj["metadata"]["uid"], "jobset.x-k8s.io/v1alpha2") for one in made]
        return [owned[0].set("status.succeeded", succeeded), owned[1]]

    for one in (*jobs("first", 1), *jobs("second", 0)):  # a list told of those made anew, no event of the others' end
        office.owner(one)
    come(office, [pod(f"p{i}").gpu(8).owner("Job", f"set-w-{i}", f"second-{i}", "batch/v1") for i in range(2)])
    assert bound(office.decide()) == {}
