"""Gangs in `kubenexus simulate`: placed whole, in file order and in virtual time."""

from __future__ import annotations

from typing import Any

from kubenexus.common import vocabulary as v
from kubenexus.scheduler.simulation import Simulation
from kubenexus.scheduler.timeline import run_timeline
from tests.builders import Builder, JobBuilder, job, node, pod

Obj = dict[str, Any]


def train(name: str, workers: int, seconds: int = 10, at: str = "2026-01-01T00:00:00Z") -> JobBuilder:
    made = job(name, pod(name).cpu(4).gpu(8)).parallelism(workers).indexed()
    made.set("spec.template.metadata.annotations", {v.SIMULATED_RUN_TIME: str(seconds)})
    return made.set("metadata.creationTimestamp", at)


def dgx(*names: str) -> list[Builder]:
    return [node(name).capacity(cpu=64, memory="512Gi", gpu=8) for name in names]


def run(*builders: Builder, explain: bool = False) -> Obj:
    return Simulation([one.build() for one in builders], explain=explain).run()


def where(result: Obj) -> dict[str, str | None]:
    return {entry["pod"].partition("/")[2]: entry["node"] for entry in (*result["placements"], *result["pending"])}


def test_indexed_job_is_placed_whole() -> None:
    result = run(*dgx("a", "b"), train("train", 2))
    assert sorted(entry["node"] for entry in result["placements"]) == ["a", "b"]
    assert {entry["gang"] for entry in result["placements"]} == {"default/job-job-default-t"}


def test_gang_without_room_for_all_stays_pending_and_the_next_pod_gets_the_room() -> None:
    result = run(*dgx("a"), train("train", 2), pod("next").gpu(8))
    assert [entry["pod"] for entry in result["placements"]] == ["default/next"]
    reasons = {entry["reason"] for entry in result["pending"]}
    (reason,) = reasons
    assert reason.startswith("Gang Job train needs 2 members at once: 2 exist, room for 1: 0/1 nodes are available: ")


def test_incomplete_gang_says_who_is_missing() -> None:
    result = run(*dgx("a"), pod("p").gpu(1).gang("g", 3))
    (entry,) = result["pending"]
    assert (entry["gang"], entry["reason"]) == ("default/g", "Gang g waits for its members: 1 of 3 exist.")


def members(count: int, least: int, gpu: int = 8) -> list[Builder]:
    return [pod(f"g-{i}").gpu(gpu).gang("g", least) for i in range(count)]


def test_members_beyond_the_minimum_that_find_no_room_wait_alone() -> None:
    result = run(*dgx("a", "b", "c"), *members(5, 2), pod("small").gpu(1))
    nodes = where(result)
    assert sorted(filter(None, nodes.values())) == ["a", "b", "c"]
    assert len([name for name, home in nodes.items() if home is None]) == 3
    assert all("Insufficient nvidia.com/gpu" in entry["reason"] for entry in result["pending"])


def test_members_beyond_the_minimum_start_when_there_is_room() -> None:
    built = [one.annotation(v.SIMULATED_RUN_TIME, str(10 * (i + 1))) for i, one in enumerate(members(3, 2))]
    result = run_timeline(Simulation([one.build() for one in (*dgx("a", "b"), *built)]))
    assert sorted(entry["start"] for entry in result["placements"]) == [0, 0, 10]


def test_every_node_is_explained_to_members_of_an_incomplete_gang() -> None:
    result = run(*dgx("a"), pod("p").gpu(1).gang("g", 3), pod("q").label(v.GANG_NAME, "h"), explain=True)
    told = {entry["pod"]: list(entry["nodes"]) for entry in result["pending"]}
    assert told == {"default/p": ["a"], "default/q": ["a"]}


def test_members_of_a_gang_without_room_are_told_what_nodes_say_once_the_others_are_there() -> None:
    """Only those like the one that found no room: a driver by itself would find some."""
    numa = {v.NUMA_NODE_COUNT: "2", **{v.numa_node_label(i, "cpus"): f"{8 * i}-{8 * i + 7}" for i in range(2)}}
    home = node("a").capacity(cpu=16, memory="64Gi")
    for key, text in {**numa, **{v.numa_node_label(i, "memory"): "32Gi" for i in range(2)}}.items():
        home.label(key, text)
    workers = [
        pod(f"w{i}").guaranteed(5, "1Gi").gang("g", 4).annotation(v.NUMA_POLICY, "single-numa") for i in range(3)
    ]
    result = run(home, *workers, pod("driver").gang("g", 4), explain=True)
    told = {entry["pod"]: entry["nodes"]["a"] for entry in result["pending"]}
    assert told["default/driver"]["feasible"] is True
    for number in range(3):
        (reason,) = told[f"default/w{number}"]["reasons"]
        assert reason.endswith("(numa 0: 5 of 8 CPUs taken; numa 1: 5 of 8 CPUs taken)")


def test_members_of_a_gang_that_is_too_large_are_told_how_many_fit_on_each_node() -> None:
    result = run(*dgx("a"), *members(3, 3, gpu=4), explain=True)
    for entry in result["pending"]:
        assert entry["nodes"]["a"]["reasons"] == ["Insufficient nvidia.com/gpu (room for 2 of the gang's members)"]


def test_members_that_disagree_on_the_size_are_told_when_they_are_placed() -> None:
    result = run(*dgx("a"), pod("p").gang("g", 1), pod("q").gang("g", 2))
    assert [entry["node"] for entry in result["placements"]] == ["a", "a"]
    assert all("disagree on its size (1 and 2): 2 counts" in entry["reason"] for entry in result["placements"])


def test_room_is_held_for_what_a_driver_that_runs_will_make() -> None:
    driver = pod("driver").cpu(2).label("spark-role", "driver").label("spark-app-selector", "s").node("a")
    driver.annotation(v.EXECUTOR_COUNT, "10").annotation(v.EXECUTOR_CPU, "4").annotation(v.EXECUTOR_MEMORY, "1Gi")
    result = run(*dgx("a"), driver, pod("large").cpu(30), pod("small").cpu(20))
    assert where(result) == {"small": "a", "large": None}


def test_in_virtual_time_a_gang_starts_as_a_whole_once_there_is_room() -> None:
    objects = [*dgx("a", "b"), train("first", 1, seconds=30), train("second", 2, at="2026-01-01T00:00:10Z")]
    result = run_timeline(Simulation([one.build() for one in objects]))
    starts = {entry["pod"]: entry["start"] for entry in result["placements"]}
    assert starts == {"default/first-0": 0, "default/second-0": 30, "default/second-1": 30}
    assert result["summary"]["makespan"] == 40


NEAR_THE_CACHE: Obj = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def test_gang_that_wants_a_pod_near_is_tried_again_when_that_is_there() -> None:
    result = run(*dgx("a", "b"), *(one.set("spec.affinity", NEAR_THE_CACHE) for one in members(2, 2, gpu=1)))
    assert len(result["pending"]) == 2
    wanting = [one.set("spec.affinity", NEAR_THE_CACHE) for one in members(2, 2, gpu=1)]
    nodes = where(run(*dgx("a", "b"), *wanting, pod("cache").cpu(1).label("app", "cache")))
    assert nodes["g-0"] == nodes["g-1"] == nodes["cache"]


def mpi(*roles: str) -> list[Builder]:
    """A job whose launcher waits for two workers, and its pods in this order."""
    made = Builder("kubeflow.org/v2beta1", "MPIJob", "m", "default")
    replicas = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}
    made.set("spec", {"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": replicas})
    pods = (pod(f"{role}-{i}").cpu(1).gpu(8 if role == "worker" else 0) for i, role in enumerate(roles))
    owned = (one.owner("MPIJob", "m", made.obj["metadata"]["uid"], "kubeflow.org/v2beta1") for one in pods)
    return [
        made,
        *(one.label("training.kubeflow.org/job-role", role) for one, role in zip(owned, roles, strict=True)),
    ]


def test_who_comes_after_others_is_tried_again_when_they_have_their_places() -> None:
    pods = mpi("launcher", "worker", "worker")
    assert None not in where(run(*dgx("a", "b"), *pods)).values()
    assert not run_timeline(Simulation([one.build() for one in (*dgx("a", "b"), *pods)]))["pending"]


def test_who_comes_after_others_is_told_so() -> None:
    reasons = {
        entry["pod"]: entry["reason"] for entry in run(*dgx("a"), *mpi("launcher", "worker", "worker"))["pending"]
    }
    assert reasons["default/launcher-0"] == (
        "The pod waits until the worker pods of gang MPIJob m have a node: 0 of 2 have."
    )


def spark(name: str, role: str, cpu: int, second: int) -> Builder:
    made = pod(name).cpu(cpu).memory("1Gi").label("spark-role", role).label("spark-app-selector", "app")
    made.annotation(v.EXECUTOR_COUNT, "2").annotation(v.EXECUTOR_CPU, "2").annotation(v.EXECUTOR_MEMORY, "1Gi")
    return made.annotation(v.SIMULATED_RUN_TIME, "50").created(f"2026-01-01T00:00:{second:02}Z")


def test_in_virtual_time_executors_start_in_the_room_held_for_them_though_somebody_else_ends_just_then() -> None:
    executors = [spark("e-1", "executor", 2, 1), spark("e-2", "executor", 2, 2)]
    brief = pod("brief").cpu(1).annotation(v.SIMULATED_RUN_TIME, "2")
    machine = node("a").capacity(cpu=6, memory="64Gi")
    objects = [one.build() for one in (machine, spark("d", "driver", 1, 0), *executors, brief)]
    result = run_timeline(Simulation(objects))
    starts = {entry["pod"]: entry["start"] for entry in result["placements"]}
    assert starts == {"default/d": 0, "default/brief": 0, "default/e-1": 2, "default/e-2": 2}
