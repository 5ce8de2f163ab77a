"""What the controllers make of Jobs, ReplicaSets, Deployments and StatefulSets: names, owners, labels, order."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from kubenexus.common.kube.resources import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS
from tests.contract.api import Api, Obj, eventually
from tests.contract.objects import meta, pod

LABELS = {"app": "x"}
READY = {"type": "Ready", "status": "True"}


def workload(name: str = "w", restart: str = "Always", **spec: Any) -> Obj:
    template = {"metadata": {"labels": LABELS}, "spec": {**pod()["spec"], "restartPolicy": restart}}
    return {**meta(name), "spec": {"template": template, **spec}}


def replicated(replicas: int, **spec: Any) -> Obj:
    return workload(replicas=replicas, selector={"matchLabels": LABELS}, **spec)


def job(**spec: Any) -> Obj:
    return workload(restart="Never", **spec)


def pods(api: Api) -> list[Obj]:
    items: list[Obj] = api.list(PODS).expect(200)["items"]
    return [item for item in items if "deletionTimestamp" not in item["metadata"]]


def await_pods(api: Api, count: int) -> list[Obj]:
    made: list[Obj] = eventually(lambda: len(found := pods(api)) == count and found)
    return made


def report(api: Api, name: str, phase: str) -> None:
    """Say about a pod what its kubelet would."""
    ready = [READY] if phase == "Running" else []
    state = {"terminated": {"exitCode": 0 if phase == "Succeeded" else 1}}
    containers = [] if phase == "Running" else [{"name": "main", "image": "i", "imageID": "i", "ready": False,
                                                 "restartCount": 0, "state": state}]  # fmt: skip
    status = {"phase": phase, "conditions": ready, "containerStatuses": containers}
    api.patch(PODS, name, {"status": status}, "strategic", "status").expect(200)


def conditions(obj: Obj) -> dict[str, str]:
    return {entry["type"]: entry["status"] for entry in obj["status"].get("conditions", [])}


def succeeded(api: Api, count: int) -> bool:
    return bool(api.get(JOBS, "w").body["status"].get("succeeded") == count)


def owner(obj: Obj) -> tuple[str, str, bool]:
    [reference] = obj["metadata"]["ownerReferences"]
    return reference["kind"], reference["name"], reference["controller"]


def test_job_makes_its_pods(api: Api) -> None:
    api.create(JOBS, job(parallelism=2, completions=3)).expect(201)
    made = await_pods(api, 2)
    assert {owner(item) for item in made} == {("Job", "w", True)}
    for item in made:
        assert re.fullmatch(r"w-[a-z0-9]{5}", item["metadata"]["name"])
        labels = item["metadata"]["labels"]
        assert (labels["app"], labels["batch.kubernetes.io/job-name"], labels["job-name"]) == ("x", "w", "w")
        assert labels["batch.kubernetes.io/controller-uid"] == item["metadata"]["ownerReferences"][0]["uid"]


def test_job_of_one_is_the_default(api: Api) -> None:
    spec = api.create(JOBS, job()).expect(201)["spec"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert (spec["completionMode"], spec["suspend"]) == ("NonIndexed", False)


def test_indexed_job_numbers_its_pods(api: Api) -> None:
    api.create(JOBS, job(parallelism=2, completions=2, completionMode="Indexed")).expect(201)
    made = await_pods(api, 2)
    indices = set()
    for item in made:
        index = item["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]
        assert item["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == index
        assert item["spec"]["hostname"] == f"w-{index}"
        assert re.fullmatch(rf"w-{index}-[a-z0-9]{{5}}", item["metadata"]["name"])
        environment = {entry["name"] for entry in item["spec"]["containers"][0]["env"]}
        assert "JOB_COMPLETION_INDEX" in environment
        indices.add(index)
    assert indices == {"0", "1"}


def test_job_is_complete_when_its_pods_succeeded(api: Api) -> None:
    api.create(JOBS, job(parallelism=1, completions=2)).expect(201)
    for done in range(2):
        [current] = eventually(
            lambda: len(found := [p for p in pods(api) if p["status"]["phase"] == "Pending"]) == 1 and found
        )
        report(api, current["metadata"]["name"], "Succeeded")
        eventually(partial(succeeded, api, done + 1))
    finished = eventually(lambda: conditions(found := api.get(JOBS, "w").body).get("Complete") == "True" and found)
    assert finished["status"]["completionTime"]
    assert len(pods(api)) == 2


def test_failed_pod_of_a_job_is_replaced_until_the_limit(api: Api) -> None:
    api.create(JOBS, job(backoffLimit=0)).expect(201)
    [only] = await_pods(api, 1)
    report(api, only["metadata"]["name"], "Failed")
    failed = eventually(lambda: conditions(found := api.get(JOBS, "w").body).get("Failed") == "True" and found)
    assert {entry.get("reason") for entry in failed["status"]["conditions"] if entry["type"] == "Failed"} == {
        "BackoffLimitExceeded"
    }


def test_suspended_job_makes_no_pods_until_it_is_resumed(api: Api) -> None:
    api.create(JOBS, job(suspend=True)).expect(201)
    eventually(lambda: conditions(api.get(JOBS, "w").body).get("Suspended") == "True")
    assert pods(api) == []
    api.patch(JOBS, "w", {"spec": {"suspend": False}}).expect(200)
    await_pods(api, 1)


def test_replica_set_keeps_its_number(api: Api) -> None:
    api.create(REPLICA_SETS, replicated(2)).expect(201)
    first, _ = await_pods(api, 2)
    assert owner(first) == ("ReplicaSet", "w", True)
    api.delete(PODS, first["metadata"]["name"]).expect(200)
    eventually(
        lambda: first["metadata"]["name"] not in {p["metadata"]["name"] for p in pods(api)} and len(pods(api)) == 2
    )


@pytest.mark.parametrize("replicas", [0, 1, 3])
def test_replica_set_is_scaled(api: Api, replicas: int) -> None:
    api.create(REPLICA_SETS, replicated(2)).expect(201)
    await_pods(api, 2)
    api.patch(REPLICA_SETS, "w", {"spec": {"replicas": replicas}}).expect(200)
    eventually(lambda: len(pods(api)) == replicas)


def test_deployment_makes_a_replica_set_with_a_hash(api: Api) -> None:
    api.create(DEPLOYMENTS, replicated(1)).expect(201)
    [made] = await_pods(api, 1)
    [middle] = api.list(REPLICA_SETS).expect(200)["items"]
    assert owner(middle) == ("Deployment", "w", True)
    assert owner(made) == ("ReplicaSet", middle["metadata"]["name"], True)
    code = made["metadata"]["labels"]["pod-template-hash"]
    assert middle["metadata"]["name"] == f"w-{code}"
    assert middle["spec"]["selector"]["matchLabels"] == {**LABELS, "pod-template-hash": code}


def test_deployment_tells_when_it_is_available(api: Api) -> None:
    api.create(DEPLOYMENTS, replicated(2)).expect(201)
    for item in await_pods(api, 2):
        report(api, item["metadata"]["name"], "Running")
    ready = eventually(
        lambda: (found := api.get(DEPLOYMENTS, "w").body)["status"].get("availableReplicas") == 2 and found
    )
    assert (ready["status"]["replicas"], ready["status"]["readyReplicas"]) == (2, 2)
    eventually(lambda: conditions(api.get(DEPLOYMENTS, "w").body).get("Available") == "True")


def test_stateful_set_makes_its_pods_in_order(api: Api) -> None:
    api.create(STATEFUL_SETS, replicated(2, serviceName="w")).expect(201)
    [first] = await_pods(api, 1)
    assert (first["metadata"]["name"], owner(first)) == ("w-0", ("StatefulSet", "w", True))
    labels = first["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "w-0"
    assert labels["apps.kubernetes.io/pod-index"] == "0"
    report(api, "w-0", "Running")
    assert [item["metadata"]["name"] for item in await_pods(api, 2)] == ["w-0", "w-1"]


def test_parallel_stateful_set_makes_its_pods_at_once(api: Api) -> None:
    api.create(STATEFUL_SETS, replicated(3, serviceName="w", podManagementPolicy="Parallel")).expect(201)
    assert [item["metadata"]["name"] for item in await_pods(api, 3)] == ["w-0", "w-1", "w-2"]


def test_deleted_deployment_takes_everything_along(api: Api) -> None:
    api.create(DEPLOYMENTS, replicated(2)).expect(201)
    await_pods(api, 2)
    api.delete(DEPLOYMENTS, "w", propagationPolicy="Background").expect(200)
    eventually(lambda: not pods(api) and not api.list(REPLICA_SETS).expect(200)["items"])
