"""The resolver takes whatever JSON there is, and webhook and scheduler agree whichever of them saw a pod first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import event, example, given
from hypothesis import strategies as st

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import (
    ANNOTATIONS,
    OWNER_KINDS,
    Gang,
    GangKey,
    Invalid,
    PodFacts,
    Resolution,
    Single,
    Waiting,
    combine,
    controller_of,
    marks,
    resolve,
)
from tests.owners import TEAM, Known, Obj, made, pod, reference

LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

# Every key that means something somewhere, so that wild objects are not merely noise.
LABELS = (
    *("spark-role", "spark-app-selector", "sparkoperator.k8s.io/app-name", "grove.io/podgang", "applicationId"),
    *("leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"),
    *("jobset.sigs.k8s.io/replicatedjob-name", "training.kubeflow.org/replica-type", "ray.io/group"),
)
FIELDS = (
    *("spec", "metadata", "annotations", "uid", "name", "replicas", "parallelism", "completions", "completionMode"),
    *(
        "replicatedJobs",
        "startupPolicy",
        "startupPolicyOrder",
        "dependsOn",
        "template",
        "runPolicy",
        "schedulingPolicy",
    ),
    *("minAvailable", "gang", "minCount", "minMember", "tfReplicaSpecs", "pytorchReplicaSpecs", "mpiReplicaSpecs"),
    *("Worker", "Launcher", "Master", "elasticPolicy", "minReplicas", "maxReplicas", "numOfHosts", "workerGroupSpecs"),
    *("enableInTreeAutoscaling", "suspend", "tasks", "podgroups", "leaderWorkerTemplate", "size", "executor"),
    *("instances", "memory", "cores", "gpu", "quantity", "dynamicAllocation", "enabled", "launcherCreationPolicy"),
)

texts = st.one_of(
    st.sampled_from(["driver", "executor", "worker", "4", "1", "0", "true", "false", "g", "Indexed", "InOrder", "8g"]),
    st.sampled_from(['[{"name":"g","minMember":3,"minResource":{"cpu":"1"}}]', "WaitForWorkersReady", "LeaderReady"]),
    st.text(max_size=80),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.integers(-1, 9), st.floats(), texts)
wild = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=25,
)
some_labels = st.fixed_dictionaries({}, optional=dict.fromkeys(LABELS, texts))
keys = st.sampled_from([*LABELS, *sorted(ANNOTATIONS)])
pods = st.fixed_dictionaries(
    {
        "metadata": st.one_of(
            wild,
            st.fixed_dictionaries(
                {},
                optional={
                    "labels": some_labels | st.dictionaries(keys, texts, max_size=6) | wild,
                    "annotations": st.dictionaries(keys, texts, max_size=6) | wild,
                    "ownerReferences": st.just([reference(made("batch/v1/Job", "train"))]) | wild,
                    "namespace": st.just(TEAM) | wild,
                },
            ),
        )
    },
    optional={"spec": wild | st.just({"schedulingGroup": {"podGroupName": "g"}})},
)


class Anything:
    """Knows every object: each is `spec` with the identity that was asked for, or something that is no object."""

    def __init__(self, answer: Any, by: Obj | None) -> None:
        self._answer, self._by = answer, by

    def get(self, api_version: str, kind: str, namespace: str, name: str, uid: str) -> Any:
        assert (api_version.rpartition("/")[0], kind) in OWNER_KINDS
        assert isinstance(namespace, str)
        assert name
        if not isinstance(self._answer, dict):
            return self._answer
        references = [reference(self._by)] if self._by else []
        metadata = {"uid": uid, "annotations": self._answer.get("annotations"), "ownerReferences": references}
        return {**self._answer, "metadata": metadata}


OWNERS = [made(f"{group}/v1/{kind}", "above") for group, kind in sorted(OWNER_KINDS)]


def is_sound(answer: Resolution) -> bool:
    if isinstance(answer, Gang):
        bounds = [answer.min_available, answer.first.members if answer.first else 1]
        bounds.append(answer.reserve.count if answer.reserve else 1)
        return all(1 <= bound <= v.MAX_GANG_SIZE for bound in bounds) and bool(LABEL_VALUE.fullmatch(answer.key.id))
    if isinstance(answer, Invalid):
        return answer.reason.endswith(".") and len(answer.reason) < 400
    return isinstance(answer, Single | Waiting)


@given(pods | wild, wild, st.none() | st.sampled_from(OWNERS))
@example({"metadata": {"annotations": {"yunikorn.apache.org/task-groups": "[" * 5000}}}, None, None)
@example({"metadata": {"labels": {v.GANG_NAME: "\ud800", v.GANG_MIN_AVAILABLE: "3"}}}, None, None)
def test_no_pod_and_no_owner_makes_it_raise(raw: Any, answer: Any, above: Obj | None) -> None:
    owner = {**answer, "spec": answer} if isinstance(answer, dict) else answer
    found = resolve(PodFacts.from_json(raw, TEAM), Anything(owner, above))
    event(type(found).__name__)
    assert is_sound(found)


# One healthy spec of each kind that decides, with all the fields its rule reads.
SPECS: list[tuple[str, Obj]] = [
    ("batch/v1/Job", {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}),
    ("apps/v1/ReplicaSet", {"replicas": 4}),
    ("apps/v1/StatefulSet", {"replicas": 4, "podManagementPolicy": "Parallel"}),
    (
        "jobset.x-k8s.io/v1alpha2/JobSet",
        {
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
            "replicatedJobs": [
                {
                    "name": "w",
                    "replicas": 2,
                    "dependsOn": [],
                    "template": {"spec": {"parallelism": 4, "completions": 3}},
                }
            ],
        },
    ),
    ("batch.volcano.sh/v1alpha1/Job", {"minAvailable": 0, "tasks": [{"replicas": 8, "minAvailable": 2}]}),
    *(
        (
            f"kubeflow.org/v1/{kind}",
            {
                f"{prefix}ReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}, "Launcher": {}},
                "runPolicy": {"schedulingPolicy": {"minAvailable": 0}},
                "elasticPolicy": {"minReplicas": 2},
                "launcherCreationPolicy": "WaitForWorkersReady",
            },
        )
        for kind, prefix in (("PyTorchJob", "pytorch"), ("MPIJob", "mpi"))
    ),
    (
        "ray.io/v1/RayCluster",
        {
            "suspend": False,
            "enableInTreeAutoscaling": False,
            "workerGroupSpecs": [
                {"replicas": 2, "minReplicas": 1, "maxReplicas": 3, "numOfHosts": 2, "suspend": False}
            ],
        },
    ),
    (
        "sparkoperator.k8s.io/v1beta2/SparkApplication",
        {
            "type": "Scala",
            "memoryOverheadFactor": "0.2",
            "dynamicAllocation": {"enabled": True, "initialExecutors": 3, "minExecutors": 2},
            "executor": {"instances": 2, "cores": 2, "memory": "4g", "gpu": {"name": "nvidia.com/gpu", "quantity": 1}},
        },
    ),
]
SPARK = {"spark-role": "driver", "spark-app-selector": "s", "sparkoperator.k8s.io/app-name": "x"}
SIZE = {v.GANG_MIN_AVAILABLE: "3"}


def paths(value: Any, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a JSON value below its root."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, one in inner for path in ((*above, key), *paths(one, (*above, key)))]


def changed(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """A copy of a JSON value with another one at a place in it."""
    if not path:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@given(st.sampled_from(SPECS), st.randoms(use_true_random=False), scalars | wild, st.booleans())
def test_no_single_field_of_an_owner_makes_it_raise(spec: tuple[str, Obj], random: Any, new: Any, sized: bool) -> None:
    kind, healthy = spec
    owner = made(kind, "x", changed(healthy, random.choice(paths(healthy)), new), notes=SIZE if sized else None)
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "w", **(SPARK if "Spark" in kind else {})}
    assert is_sound(resolve(pod(owner, labels=labels), Known(owner)))


class Recorded(dict[str, str]):
    """Annotations that remember what they were asked for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__(texts)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)


@given(some_labels, st.dictionaries(keys, texts, max_size=2), st.sampled_from(SPECS))
def test_no_annotation_is_read_that_the_list_leaves_out(
    labels: dict[str, str], notes: dict[str, str], spec: tuple[str, Obj]
) -> None:
    recorded = Recorded(notes)
    facts = pod(made(spec[0], "x"), labels=labels)
    resolve(replace(facts, annotations=recorded), Anything({"spec": spec[1]}, None))
    assert recorded.asked <= ANNOTATIONS


@given(some_labels, wild, st.sampled_from(OWNERS))
def test_what_the_webhook_writes_changes_no_gang(labels: dict[str, str], answer: Any, owner: Obj) -> None:
    facts = PodFacts(TEAM, labels, owner=controller_of({"metadata": {"ownerReferences": [reference(owner)]}}))
    owners = Anything({"spec": answer}, None)
    gang = resolve(facts, owners)
    event(type(gang).__name__)
    if isinstance(gang, Gang):
        written = marks(gang)
        marked = replace(facts, labels={**labels, **written.labels}, annotations=written.annotations)
        assert resolve(marked, owners) == gang
        stored = resolve(marked, Known())
        assert isinstance(stored, Gang)
        assert (stored.key, stored.min_available) == (gang.key, gang.min_available)


@given(st.lists(st.integers(1, v.MAX_GANG_SIZE), min_size=1, max_size=20))
def test_the_largest_size_counts_and_only_a_disagreement_warns(sizes: list[int]) -> None:
    quorum = combine(Gang(GangKey(TEAM, "g"), "g", size, "kubenexus") for size in sizes)
    assert quorum.min_available == quorum.needed({}) == max(sizes)
    assert len(quorum.warnings) == (len(set(sizes)) > 1)
