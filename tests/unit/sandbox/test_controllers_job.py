"""The Job controller, step by step, with a clock that moves only when told to."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kubenexus.common.kube.resources import JOBS, PODS
from tests.sandbox_cluster import Cluster, job


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_job_runs_to_its_end(cluster: Cluster) -> None:
    cluster.create(JOBS, job(completions=5, parallelism=2))
    cluster.settle()
    assert cluster.phases() == ["Running"] * 2
    assert cluster.status(JOBS, "j")["active"] == 2
    assert cluster.status(JOBS, "j")["ready"] == 2
    cluster.wait(5)
    cluster.wait(5)
    assert cluster.conditions(JOBS, "j") == {}
    cluster.wait(5)
    assert cluster.conditions(JOBS, "j") == dict.fromkeys(("SuccessCriteriaMet", "Complete"), "CompletionsReached")
    status = cluster.status(JOBS, "j")
    assert (status["succeeded"], status.get("active"), status["completionTime"]) == (5, None, "2026-05-04T12:00:15Z")
    assert cluster.phases() == ["Succeeded"] * 5


def test_job_pod_is_made_as_kubernetes_makes_it(cluster: Cluster) -> None:
    uid = cluster.create(JOBS, job())["metadata"]["uid"]
    cluster.settle(bind=False)
    [pod] = cluster.registry.list(PODS)
    meta = pod["metadata"]
    assert meta["generateName"] == "j-"
    assert meta["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "j",
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert meta["labels"] == {
        "app": "a",
        "job-name": "j",
        "controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "batch.kubernetes.io/controller-uid": uid,
    }
    assert meta["finalizers"] == ["batch.kubernetes.io/job-tracking"]


def test_indexed_job_gives_every_pod_its_number(cluster: Cluster) -> None:
    cluster.create(JOBS, job(completions=3, parallelism=3, completionMode="Indexed"))
    cluster.settle(bind=False)
    pods = cluster.registry.list(PODS)
    assert [pod["metadata"]["generateName"] for pod in pods] == ["j-0-", "j-1-", "j-2-"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["j-0", "j-1", "j-2"]
    mark = "batch.kubernetes.io/job-completion-index"
    assert [(pod["metadata"]["labels"][mark], pod["metadata"]["annotations"][mark]) for pod in pods] == [
        ("0", "0"),
        ("1", "1"),
        ("2", "2"),
    ]
    [variable] = pods[1]["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{mark}']"


def test_indexed_job_repeats_only_the_index_that_failed(cluster: Cluster) -> None:
    cluster.create(JOBS, job(completions=4, parallelism=4, completionMode="Indexed"))
    cluster.settle()
    cluster.fail(cluster.names()[2])
    cluster.wait(5)
    assert cluster.status(JOBS, "j")["completedIndexes"] == "0,1,3"
    cluster.wait(5)
    assert [name[:4] for name in cluster.names()] == ["j-0-", "j-1-", "j-2-", "j-2-", "j-3-"]
    cluster.wait(5)
    assert cluster.status(JOBS, "j")["completedIndexes"] == "0-3"
    assert "Complete" in cluster.conditions(JOBS, "j")


def test_job_fails_when_too_many_pods_did(cluster: Cluster) -> None:
    cluster.create(JOBS, job(run_time=1000, backoffLimit=1, parallelism=2, completions=2))
    cluster.settle()
    cluster.fail(cluster.names()[0])
    cluster.settle()
    assert len(cluster.names()) == 2, "the next attempt waits ten seconds"
    cluster.wait(10)
    assert sorted(cluster.phases()) == ["Failed", "Running", "Running"]
    running = [pod["metadata"]["name"] for pod in cluster.registry.list(PODS, fields="status.phase=Running")]
    cluster.fail(running[0])
    cluster.settle()
    assert cluster.conditions(JOBS, "j") == dict.fromkeys(("FailureTarget", "Failed"), "BackoffLimitExceeded")
    assert cluster.phases() == ["Failed", "Failed"], "the one that still ran is gone"
    assert cluster.status(JOBS, "j")["failed"] == 3


def test_job_fails_at_its_deadline(cluster: Cluster) -> None:
    cluster.create(JOBS, job(run_time=1000, activeDeadlineSeconds=30))
    cluster.settle()
    assert cluster.manager.next_wake == cluster.now + timedelta(seconds=30)
    cluster.wait(30)
    assert cluster.conditions(JOBS, "j") == dict.fromkeys(("FailureTarget", "Failed"), "DeadlineExceeded")
    assert cluster.names() == []


def test_suspended_job_takes_its_pods_back_without_counting_them(cluster: Cluster) -> None:
    cluster.create(JOBS, job(run_time=1000, suspend=True))
    cluster.settle()
    assert (cluster.names(), cluster.conditions(JOBS, "j")) == ([], {"Suspended": "JobSuspended"})
    for suspend, pods in ((False, 1), (True, 0)):
        cluster.registry.patch(JOBS, "default", "j", {"spec": {"suspend": suspend}})
        cluster.settle()
        assert len(cluster.names()) == pods
    assert "failed" not in cluster.status(JOBS, "j")


def test_finished_job_goes_after_its_time_to_live(cluster: Cluster) -> None:
    cluster.create(JOBS, job(ttlSecondsAfterFinished=60))
    cluster.settle()
    cluster.wait(5)
    cluster.wait(59)
    assert cluster.names(JOBS) == ["j"]
    cluster.wait(1)
    assert (cluster.names(JOBS), cluster.names(PODS)) == ([], [])


def test_pod_is_counted_once_even_if_deleted(cluster: Cluster) -> None:
    cluster.create(JOBS, job(completions=2, parallelism=1))
    cluster.settle()
    [first] = cluster.names()
    cluster.wait(5)
    cluster.registry.delete(PODS, "default", first)
    cluster.wait(5)
    assert cluster.status(JOBS, "j")["succeeded"] == 2
