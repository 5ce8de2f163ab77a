"""Every kind that makes gangs, through a whole review: what is written on its pods, and that the scheduler agrees."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import OWNER_KINDS, Gang, PodFacts, resolve
from tests.admission import cluster, mutated, validated
from tests.owners import Known, Obj, job, job_set, kubeflow, made, raw_pod, ray, volcano

MIN = v.GANG_MIN_AVAILABLE
LWS = "leaderworkerset.sigs.k8s.io/"
SPARK = {"spark-role": "executor", "spark-app-selector": "spark-1", "sparkoperator.k8s.io/app-name": "pi"}
POD_GROUP = {"scheduling.x-k8s.io/pod-group": "g"}

MPI = kubeflow("MPIJob", "mpiReplicaSpecs", "v2beta1", replicas={"Launcher": 1, "Worker": 4})
PARALLEL = {"replicas": 4, "podManagementPolicy": "Parallel"}
KUBEFLOW = {"TFJob": "tf", "XGBoostJob": "xgb", "JAXJob": "jax", "PaddleJob": "paddle", "PyTorchJob": "pytorch"}
RAY_JOB = made("ray.io/v1/RayJob", "train")
WORKERS = {"workerGroupSpecs": [{"replicas": 3}]}
LEADERS = made("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", "llm", {"leaderWorkerTemplate": {"size": 4}})
PODGANG = made("scheduler.grove.io/v1alpha1/PodGang", "d", {"podgroups": [{"minReplicas": 2}, {"minReplicas": 3}]})
SPARK_APP = made("sparkoperator.k8s.io/v1beta2/SparkApplication", "pi", {"executor": {"instances": 6}})


def owned(by: Obj, *above: Obj, labels: dict[str, str] | None = None, size: int, type_: str) -> Any:
    return pytest.param(raw_pod(by, labels=labels), (by, *above), size, type_, id=f"{by['apiVersion']} {by['kind']}")


def labelled(labels: dict[str, str], *known: Obj, size: int, type_: str) -> Any:
    return pytest.param(raw_pod(labels=labels), known, size, type_, id=f"labels of {known[0]['kind']}")


CASES = [
    owned(job(), size=8, type_="batch"),
    owned(made("apps/v1/StatefulSet", "s", PARALLEL, notes={MIN: "4"}), size=4, type_="batch"),
    owned(made("apps/v1/ReplicaSet", "r", {"replicas": 3}, notes={MIN: "3"}), size=3, type_="batch"),
    owned(job(by=job_set()), job_set(), size=7, type_="batch"),
    owned(job({}, by=MPI), MPI, size=5, type_="batch"),
    owned(MPI, size=5, type_="batch"),
    owned(volcano(minAvailable=3), size=3, type_="batch"),
    *(
        owned(kubeflow(kind, f"{spec}ReplicaSpecs", replicas={"Worker": 4}), size=4, type_="batch")
        for kind, spec in KUBEFLOW.items()
    ),
    owned(ray(WORKERS, by=RAY_JOB), RAY_JOB, size=4, type_="batch"),
    labelled({f"{LWS}name": "llm", f"{LWS}group-index": "0"}, LEADERS, size=4, type_="inference"),
    labelled({"grove.io/podgang": "d"}, PODGANG, size=5, type_="inference"),
    labelled(SPARK, SPARK_APP, size=6, type_="batch"),
]


@pytest.mark.parametrize(("raw", "known", "size", "type_"), CASES)
def test_a_gang_is_written_down(raw: Obj, known: tuple[Obj, ...], size: int, type_: str) -> None:
    before = resolve(PodFacts.from_json(raw), Known(*known))
    after = mutated(raw, cluster(*known))
    labels, notes = after["metadata"]["labels"], after["metadata"]["annotations"]
    assert isinstance(before, Gang)
    assert (labels[v.GANG_NAME], labels[MIN]) == (before.label_value, str(size))
    assert notes[v.GANG_DISPLAY_NAME] == before.name
    assert notes[v.GANG_INFERRED_FROM] == f"{before.source}/{before.owner_uid}"
    assert labels[v.WORKLOAD_TYPE] == type_
    assert resolve(PodFacts.from_json(after), Known(*known)) == before
    assert not validated(after, cluster(*known)).denied


@pytest.mark.parametrize(("raw", "known", "size", "type_"), CASES)
def test_without_the_owner_the_pod_is_admitted_unlabelled(raw: Obj, known: Any, size: int, type_: str) -> None:  # noqa: ARG001
    after = mutated(raw, cluster())
    assert v.GANG_NAME not in after["metadata"]["labels"]
    assert after["spec"]["schedulerName"] == v.SCHEDULER_NAME
    assert not validated(after, cluster()).denied


@pytest.mark.parametrize(
    ("api_version", "spec"),
    [
        ("scheduling.x-k8s.io/v1alpha1", {"minMember": 4}),
        ("scheduling.volcano.sh/v1beta1", {"minMember": 4}),
        ("scheduling.run.ai/v2alpha2", {"minMember": 4}),
        ("scheduling.k8s.io/v1alpha2", {"schedulingPolicy": {"gang": {"minCount": 4}}}),
    ],
)
def test_members_of_a_podgroup_declare_their_gang_themselves(api_version: str, spec: Obj) -> None:
    group = made(f"{api_version}/PodGroup", "g", spec)
    notes = {"scheduling.k8s.io/group-name": "g"} if "volcano" in api_version else {}
    notes |= {"pod-group-name": "g"} if "run.ai" in api_version else {}
    labels = POD_GROUP if "x-k8s" in api_version else {}
    raw = raw_pod(labels=labels, notes=notes, group="g" if api_version.startswith("scheduling.k8s.io") else "")
    gang = resolve(PodFacts.from_json(raw), Known(group))
    assert isinstance(gang, Gang)
    assert gang.min_available == 4
    assert v.GANG_NAME not in mutated(raw, cluster(group))["metadata"]["labels"]


def test_every_kind_is_here() -> None:
    used = {obj["apiVersion"].rpartition("/")[0] + "/" + obj["kind"] for case in CASES for obj in case.values[1]}
    assert {f"{group}/{kind}" for group, kind in OWNER_KINDS if kind != "PodGroup"} <= used
