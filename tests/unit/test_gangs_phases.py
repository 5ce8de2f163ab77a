"""Workloads that create a part of their pods only once another part runs: counted together, they would never start."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import (
    Gang,
    GangKey,
    Invalid,
    OwnerRef,
    Phase,
    PodFacts,
    Reservation,
    Single,
    Waiting,
    combine,
    resolve,
)
from tests.owners import TEAM, Known, Obj, job, job_set, kubeflow, made, pod, short

GI = 2**30
JOBSET_ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
LWS = "leaderworkerset.sigs.k8s.io/"


def gang_of(facts: PodFacts, *objects: Obj) -> Gang:
    gang = resolve(facts, Known(*objects))
    assert isinstance(gang, Gang), gang
    return gang


# --- JobSet: one gang for each replicatedJob -------------------------------------------------------------------------

IN_ORDER = job_set(startupPolicy={"startupPolicyOrder": "InOrder"})
DEPENDENT = job_set()
DEPENDENT["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]


@pytest.mark.parametrize("owner", [IN_ORDER, DEPENDENT], ids=["startupPolicy InOrder", "dependsOn"])
def test_a_jobset_that_starts_in_order_is_one_gang_for_each_replicated_job(owner: Obj) -> None:
    gangs = [
        gang_of(pod(job(by=owner), labels={JOBSET_ROLE: role}), job(by=owner), owner) for role in ("driver", "worker")
    ]
    assert [(gang.key.id, gang.min_available, gang.role) for gang in gangs] == [
        (f"jobset-{short(owner)}-driver", 1, "driver"),
        (f"jobset-{short(owner)}-worker", 6, "worker"),
    ]
    assert gangs[0].name == "JobSet train driver"


def test_a_jobset_in_any_order_is_one_gang() -> None:
    owner = job_set(startupPolicy={"startupPolicyOrder": "AnyOrder"})
    keys = {
        gang_of(pod(job(by=owner), labels={JOBSET_ROLE: role}), job(by=owner), owner).key
        for role in ("driver", "worker")
    }
    assert keys == {GangKey(TEAM, f"jobset-{short(owner)}")}


def test_a_long_replicated_job_name_still_makes_a_label_value() -> None:
    owner = job_set(
        startupPolicy={"startupPolicyOrder": "InOrder"}, replicatedJobs=[{"name": f"{'x' * 62}{end}"} for end in "ab"]
    )
    keys = {gang_of(pod(owner, labels={JOBSET_ROLE: f"{'x' * 62}{end}"}), owner).key.id for end in "ab"}
    assert len(keys) == 2
    assert all(len(key) <= 63 for key in keys)


def test_a_pod_of_no_known_replicated_job_is_refused() -> None:
    answer = resolve(pod(IN_ORDER, labels={JOBSET_ROLE: "other"}), Known(IN_ORDER))
    assert isinstance(answer, Invalid)
    assert answer.reason.startswith("JobSet train starts its jobs in order")


# --- MPIJob: workers first -------------------------------------------------------------------------------------------


def mpi(**spec: Any) -> Obj:
    spec["launcherCreationPolicy"] = "WaitForWorkersReady"
    return kubeflow("MPIJob", "mpiReplicaSpecs", "v2beta1", replicas={"Launcher": 1, "Worker": 4}, **spec)


@pytest.mark.parametrize(
    ("owner", "size", "workers"),
    [
        pytest.param(mpi(), 5, 4, id="all workers, then the launcher too"),
        pytest.param(
            mpi(runPolicy={"schedulingPolicy": {"minAvailable": 3}}), 3, 3, id="minAvailable below the workers"
        ),
        pytest.param(
            mpi(runPolicy={"schedulingPolicy": {"minAvailable": 5}}), 5, 4, id="minAvailable with the launcher"
        ),
    ],
)
def test_an_mpijob_whose_launcher_waits_starts_with_its_workers(owner: Obj, size: int, workers: int) -> None:
    gang = gang_of(pod(owner, labels={"training.kubeflow.org/job-role": "worker"}), owner)
    assert (gang.min_available, gang.first, gang.role) == (size, Phase("worker", workers), "worker")
    quorum = combine([gang])
    assert [quorum.needed({}), quorum.needed({"worker": workers - 1}), quorum.needed({"worker": 4})] == [
        workers,
        workers,
        size,
    ]


# --- LeaderWorkerSet: leader first -----------------------------------------------------------------------------------


def lws(policy: str) -> Obj:
    return made("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", "llm", {"startupPolicy": policy})


def lws_pod(index: int) -> PodFacts:
    labels = {f"{LWS}name": "llm", f"{LWS}group-index": "0", f"{LWS}worker-index": str(index)}
    return pod(labels=labels, notes={f"{LWS}size": "4"})


def test_a_leaderworkerset_with_leaderready_needs_one_until_the_leader_has_a_node_then_all() -> None:
    leader, worker = (gang_of(lws_pod(index), lws("LeaderReady")) for index in (0, 1))
    assert (leader.role, worker.role) == ("leader", "worker")
    assert leader.key == worker.key
    assert combine([leader]).needed({}) == 1
    assert combine([leader, worker]).needed({"leader": 1}) == 4


def test_a_leaderworkerset_with_leadercreated_needs_all_at_once() -> None:
    assert combine([gang_of(lws_pod(0), lws("LeaderCreated"))]).needed({}) == 4


# --- RayJob: the submitter by itself ---------------------------------------------------------------------------------


def test_a_rayjobs_submitter_is_not_in_the_gang_of_its_cluster() -> None:
    ray_job = made("ray.io/v1/RayJob", "train")
    submitter = job({"parallelism": 1, "completions": 1}, by=ray_job)
    assert resolve(pod(submitter), Known(submitter, ray_job)) == Single("RayJob submitter")
    assert resolve(pod(submitter), Known(submitter)) == Single("Job")


# --- Spark: driver, then executors -----------------------------------------------------------------------------------

SELECTOR = "spark-0123456789abcdef0123456789abcdef"
EXECUTORS = GangKey(TEAM, SELECTOR)


def spark_pod(
    role: str, *, by: Obj | None = None, labels: dict[str, str] | None = None, notes: dict[str, str] | None = None
) -> PodFacts:
    return pod(by, labels={"spark-role": role, "spark-app-selector": SELECTOR, **(labels or {})}, notes=notes)


def application(**spec: Any) -> Obj:
    return made("sparkoperator.k8s.io/v1beta2/SparkApplication", "pi", {"type": "Scala", **spec})


def operated(role: str, owner: Obj) -> PodFacts:
    """A pod of the Spark operator; executors belong to the driver, which belongs to the application."""
    by = owner if role == "driver" else made("v1/Pod", "pi-driver")
    return spark_pod(role, by=by, labels={"sparkoperator.k8s.io/app-name": "pi"})


ANNOTATED = {v.EXECUTOR_COUNT: "10", v.EXECUTOR_CPU: "4", v.EXECUTOR_MEMORY: "8Gi"}


def test_a_spark_driver_is_one_pod_with_room_held_for_its_executors() -> None:
    driver = gang_of(spark_pod("driver", notes=ANNOTATED))
    assert (driver.min_available, driver.role) == (1, "driver")
    assert driver.reserve == Reservation(EXECUTORS, 10, {"cpu": 4000, "memory": 8 * GI})


def test_spark_executors_are_a_second_gang_by_their_selector() -> None:
    executors = gang_of(spark_pod("executor", notes=ANNOTATED))
    assert (executors.key, executors.min_available, executors.role, executors.reserve) == (
        EXECUTORS,
        10,
        "executor",
        None,
    )


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        pytest.param({"executor": {"instances": 3}}, 3, id="instances"),
        pytest.param({}, 2, id="2 by default"),
        pytest.param(
            {
                "executor": {"instances": 3},
                "dynamicAllocation": {"enabled": True, "initialExecutors": 5, "minExecutors": 4},
            },
            5,
            id="dynamic: the largest of instances, initialExecutors and minExecutors",
        ),
        pytest.param({"dynamicAllocation": {"enabled": False, "minExecutors": 9}}, 2, id="dynamic, but not enabled"),
    ],
)
@pytest.mark.parametrize("role", ["driver", "executor"])
def test_a_sparkapplication_tells_how_many_executors(spec: Obj, count: int, role: str) -> None:
    owner = application(**spec)
    gang = gang_of(operated(role, owner), owner)
    assert gang.owner_uid == owner["metadata"]["uid"]
    assert (gang.reserve.count if gang.reserve else gang.min_available) == count


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param({}, {"cpu": 1000, "memory": GI + 384 * 2**20}, id="defaults: one core, 1g and the least overhead"),
        pytest.param(
            {"executor": {"cores": 4, "memory": "8g"}},
            {"cpu": 4000, "memory": 8 * GI + 8 * GI // 10},
            id="a tenth on top for the JVM",
        ),
        pytest.param(
            {"type": "Python", "executor": {"memory": "10g"}},
            {"cpu": 1000, "memory": 14 * GI},
            id="four tenths on top for Python",
        ),
        pytest.param(
            {"memoryOverheadFactor": "0.5", "executor": {"coreRequest": "500m", "cores": 4, "memory": "2g"}},
            {"cpu": 500, "memory": 3 * GI},
            id="a factor and a core request",
        ),
        pytest.param(
            {
                "executor": {
                    "memory": "512m",
                    "memoryOverhead": "512m",
                    "gpu": {"name": "nvidia.com/gpu", "quantity": 2},
                }
            },
            {"cpu": 1000, "memory": GI, "nvidia.com/gpu": 2},
            id="an overhead and GPUs",
        ),
    ],
)
def test_a_sparkapplication_tells_how_large_executors_are(spec: Obj, requests: dict[str, int]) -> None:
    gang = gang_of(operated("driver", application(**spec)), application(**spec))
    assert gang.reserve is not None
    assert gang.reserve.requests == requests


@pytest.mark.parametrize(
    "spec",
    [
        {"executor": {"instances": "3"}},
        {"executor": {"instances": 10**6}},
        {"executor": {"memory": "lots"}},
        {"executor": {"coreRequest": "x"}},
        {"memoryOverheadFactor": "-1"},
    ],
    ids=str,
)
def test_a_sparkapplication_that_makes_no_sense_is_refused(spec: Obj) -> None:
    assert isinstance(resolve(operated("driver", application(**spec)), Known(application(**spec))), Invalid)


def test_a_sparkapplication_that_is_not_known_yet_is_waited_for() -> None:
    owner = application()
    by_uid = OwnerRef("sparkoperator.k8s.io/v1beta2", "SparkApplication", "pi", owner["metadata"]["uid"])
    assert resolve(operated("driver", owner), Known()) == Waiting(by_uid)
    assert resolve(operated("executor", owner), Known()) == Waiting(by_uid._replace(uid=""))


def test_spark_under_yunikorn_reserves_what_the_other_task_groups_ask_for() -> None:
    groups = [
        {"name": "spark-driver", "minMember": 1, "minResource": {"cpu": "1", "memory": "2G"}},
        {"name": "spark-executor", "minMember": 4, "minResource": {"cpu": "2", "memory": "4G"}},
    ]
    notes = {"yunikorn.apache.org/task-groups": json.dumps(groups)}
    group_name = "yunikorn.apache.org/task-group-name"
    driver = gang_of(spark_pod("driver", notes={**notes, group_name: "spark-driver"}, labels={"applicationId": "app"}))
    executor = gang_of(
        spark_pod("executor", notes={**notes, group_name: "spark-executor"}, labels={"applicationId": "app"})
    )
    assert driver.reserve == Reservation(EXECUTORS, 4, {"cpu": 2000, "memory": 4 * 10**9})
    assert (executor.key, executor.min_available) == (EXECUTORS, 4)


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_spark_pods_of_which_nothing_more_is_known_stand_alone(role: str) -> None:
    assert resolve(spark_pod(role), Known()) == Single(f"Spark {role}")


def test_a_declared_gang_that_includes_its_spark_driver_starts_with_the_driver() -> None:
    labels = {v.GANG_NAME: "etl", v.GANG_MIN_AVAILABLE: "11"}
    driver = gang_of(spark_pod("driver", notes=ANNOTATED, labels=labels))
    executor = gang_of(spark_pod("executor", labels=labels))
    assert driver.key == executor.key
    assert driver.reserve == Reservation(driver.key, 10, {"cpu": 4000, "memory": 8 * GI})
    assert combine([driver]).needed({}) == 1
    assert combine([driver, executor]).needed({"driver": 1}) == 11


def test_a_declared_gang_of_executors_alone_needs_them_all() -> None:
    executor = gang_of(spark_pod("executor", labels={v.GANG_NAME: "etl", v.GANG_MIN_AVAILABLE: "10"}))
    assert combine([executor]).needed({}) == 10
