"""Workloads become the pods that their controllers would make."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.objects import ProjectionError
from kubenexus.scheduler.expand import expand, expand_all
from kubenexus.scheduler.simulation import Simulation
from tests.builders import job, node, pod

Obj = dict[str, Any]

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}


def workload(kind: str, group: str = "apps", /, *, metadata: Obj | None = None, **spec: Any) -> Obj:
    meta = {"name": "web", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z", **(metadata or {})}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": meta, "spec": {"template": TEMPLATE, **spec}}


def pods(obj: Obj) -> list[Obj]:
    return [one for one in expand(obj) if one["kind"] == "Pod"]


def names(obj: Obj) -> list[str]:
    return [one["metadata"]["name"] for one in pods(obj)]


def labels(one: Obj) -> Obj:
    found: Obj = one["metadata"]["labels"]
    return found


COUNTS: dict[str, tuple[Obj, int]] = {
    "Job": (workload("Job", "batch"), 1),
    "Job, side by side": (workload("Job", "batch", parallelism=3), 3),
    "Job, fewer to do than side by side": (workload("Job", "batch", parallelism=3, completions=2), 2),
    "Job, more to do than side by side": (workload("Job", "batch", parallelism=3, completions=9), 3),
    "Job, one at a time": (workload("Job", "batch", completions=9), 1),
    "Job, none": (workload("Job", "batch", parallelism=0), 0),
    "Job, suspended": (workload("Job", "batch", parallelism=3, suspend=True), 0),
    "Job, without containers": (workload("Job", "batch", template={"spec": {}}), 0),
    "Deployment": (workload("Deployment"), 1),
    "Deployment, several": (workload("Deployment", replicas=4), 4),
    "ReplicaSet": (workload("ReplicaSet", replicas=2), 2),
    "ReplicationController": (workload("ReplicationController", replicas=2) | {"apiVersion": "v1"}, 2),
    "StatefulSet": (workload("StatefulSet", replicas=3), 3),
    "Job of another kind": (workload("Job", "batch.volcano.sh", parallelism=3), 0),
    "CronJob": (workload("CronJob", "batch", schedule="* * * * *"), 0),
    "DaemonSet": (workload("DaemonSet"), 0),
}


@pytest.mark.parametrize(("obj", "count"), COUNTS.values(), ids=COUNTS)
def test_how_many(obj: Obj, count: int) -> None:
    assert len(pods(obj)) == count


def test_finished_job_makes_no_more() -> None:
    done = {**workload("Job", "batch"), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert not pods(done)


def test_a_kind_without_a_version_is_the_usual_one() -> None:
    obj = workload("Deployment", replicas=2)
    del obj["apiVersion"]
    assert len(pods(obj)) == 2


def test_pods_of_a_job() -> None:
    first, second = pods(workload("Job", "batch", parallelism=2, completions=2, completionMode="Indexed"))
    index = "batch.kubernetes.io/job-completion-index"
    assert (first["metadata"]["name"], first["metadata"]["namespace"]) == ("web-0", "shop")
    assert labels(second) == {"app": "web", "job-name": "web", "batch.kubernetes.io/job-name": "web", index: "1"}
    assert second["metadata"]["annotations"] == {index: "1"}
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert first["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    (owner,) = first["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "web", True)


def test_pods_of_a_deployment_belong_to_a_replica_set() -> None:
    selector = {"matchLabels": {"app": "web"}}
    replica_set, one, other = expand(workload("Deployment", replicas=2, selector=selector))
    mark = labels(one)["pod-template-hash"]
    assert replica_set["kind"] == "ReplicaSet"
    assert replica_set["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": mark}}
    (owner,) = one["metadata"]["ownerReferences"]
    assert (
        (owner["kind"], owner["name"])
        == ("ReplicaSet", replica_set["metadata"]["name"])
        == ("ReplicaSet", f"web-{mark}")
    )
    assert labels(one) == labels(other)


def test_pods_of_a_stateful_set_have_claims_of_their_own() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}
    made = expand(workload("StatefulSet", replicas=2, volumeClaimTemplates=[claim], ordinals={"start": 5}))
    claims = [one["metadata"]["name"] for one in made if one["kind"] == "PersistentVolumeClaim"]
    first, second = (one for one in made if one["kind"] == "Pod")
    assert claims == ["data-web-5", "data-web-6"]
    assert second["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-6"}}]
    assert labels(first)["apps.kubernetes.io/pod-index"] == "5"
    assert labels(first)["statefulset.kubernetes.io/pod-name"] == "web-5"


def test_pods_of_a_job_set() -> None:
    replicated = [
        {"name": "driver", "template": {"spec": {"template": TEMPLATE}}},
        {"name": "worker", "replicas": 2, "template": {"spec": {"template": TEMPLATE, "parallelism": 2}}},
    ]
    job_set = workload("JobSet", "jobset.x-k8s.io", replicatedJobs=replicated)
    assert names(job_set) == ["web-driver-0-0", "web-worker-0-0", "web-worker-0-1", "web-worker-1-0", "web-worker-1-1"]
    last = pods(job_set)[-1]
    assert labels(last)["jobset.sigs.k8s.io/replicatedjob-name"] == "worker"
    assert labels(last)["jobset.sigs.k8s.io/job-index"] == "1"
    assert last["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert not names(workload("JobSet", "jobset.x-k8s.io", replicatedJobs=replicated, suspend=True))


def test_the_same_manifest_gives_the_same_pods() -> None:
    obj = workload("Deployment", replicas=3)
    assert expand(obj) == expand(obj)


def test_what_has_made_its_pods_makes_no_more() -> None:
    replica_set = workload("ReplicaSet", replicas=2, metadata={"uid": "rs"})
    running = pod("web-x", "shop").owner("ReplicaSet", "web", "rs").node("n1").build()
    found = expand_all([replica_set, running])
    assert [one["kind"] for one in found] == ["ReplicaSet", "Pod"]


def test_a_claim_that_is_listed_is_the_one() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "made"}}
    listed = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data-web-0", "namespace": "shop"}, "spec": {}}
    found = expand_all([listed, workload("StatefulSet", volumeClaimTemplates=[claim])])
    claims = [one["spec"].get("storageClassName") for one in found if one["kind"] == "PersistentVolumeClaim"]
    assert claims == ["made", None]  # the later counts


def test_ephemeral_volumes_have_claims_of_the_pod() -> None:
    volume = {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}
    claim, itself = expand(pod("a").append("spec.volumes", volume).build())
    assert claim["metadata"]["name"] == "a-tmp"
    assert claim["metadata"]["ownerReferences"][0]["uid"] == itself["metadata"]["uid"]


BAD: dict[str, tuple[Obj, str]] = {
    "replicas": (workload("Deployment", replicas="three"), "Deployment shop/web: spec.replicas is not a whole number"),
    "negative": (workload("StatefulSet", replicas=-1), "StatefulSet shop/web: spec.replicas is -1"),
    "template": (workload("Job", "batch", template=[]), "Job shop/web: spec.template is not a mapping"),
    "labels": (
        workload("Job", "batch", template={"metadata": {"labels": 1}, "spec": {}}),
        "Job shop/web: spec.template.metadata.labels is not a mapping",
    ),
    "spec": ({**workload("ReplicaSet"), "spec": 7}, "ReplicaSet shop/web: spec is not a mapping"),
    "name": (workload("Job", "batch", metadata={"name": ""}), "Job: metadata.name is not a name"),
    "inner Job": (
        workload(
            "JobSet", "jobset.x-k8s.io", replicatedJobs=[{"name": "a", "template": {"spec": {"parallelism": []}}}]
        ),
        "JobSet shop/web: spec.parallelism is not a whole number",
    ),
}


@pytest.mark.parametrize(("obj", "complaint"), BAD.values(), ids=BAD)
def test_what_cannot_be_read_is_said(obj: Obj, complaint: str) -> None:
    with pytest.raises(ProjectionError) as refused:
        expand(obj)
    assert complaint in str(refused.value)


def test_expanded_pods_are_placed() -> None:
    machine = node("n1").capacity(cpu=4)
    train = job("train", pod("x").cpu(2)).parallelism(3)
    result = Simulation([machine.build(), train.build()]).run()
    assert [one["pod"] for one in result["placements"]] == ["default/train-0", "default/train-1"]
    assert [one["pod"] for one in result["pending"]] == ["default/train-2"]


def test_pods_of_a_deployment_spread_by_themselves() -> None:
    machines = [node(f"n{number}").capacity(cpu=64).zone(f"z{number}").build() for number in range(3)]
    selector = {"matchLabels": {"app": "web"}}
    result = Simulation([*machines, workload("Deployment", replicas=3, selector=selector)]).run()
    assert {one["node"] for one in result["placements"]} == {"n0", "n1", "n2"}
