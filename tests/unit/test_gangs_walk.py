"""The walk from a pod up to the owner that decides: identity, waiting, refusals, opting out."""

from __future__ import annotations

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import OWNER_KINDS, Gang, Invalid, OwnerRef, PodFacts, Single, Waiting, resolve
from tests.owners import INDEXED, TEAM, Known, Obj, job, job_set, kubeflow, made, pod, ray

MIN = v.GANG_MIN_AVAILABLE
LWS = "leaderworkerset.sigs.k8s.io/"
LWS_LABELS = {f"{LWS}name": "llm", f"{LWS}group-index": "1"}
MPI = kubeflow("MPIJob", "mpiReplicaSpecs", "v2beta1", replicas={"Launcher": None, "Worker": 4})


def test_an_inferred_gang_has_a_readable_name_and_knows_rule_and_owner() -> None:
    gang = resolve(pod(job()), Known(job()))
    assert isinstance(gang, Gang)
    assert (gang.name, gang.source, gang.owner_uid) == ("Job train", "Job", job()["metadata"]["uid"])


def test_two_owners_of_one_name_are_two_gangs() -> None:
    old, new = job(), job()
    new["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    gangs = [resolve(pod(one), Known(one)) for one in (old, new)]
    assert len({gang.key for gang in gangs if isinstance(gang, Gang)}) == 2


def ref(obj: Obj) -> OwnerRef:
    return OwnerRef(obj["apiVersion"], obj["kind"], obj["metadata"]["name"], obj["metadata"]["uid"])


@pytest.mark.parametrize(
    ("facts", "objects", "missing"),
    [
        pytest.param(pod(job()), [], job(), id="the Job"),
        pytest.param(pod(job(by=MPI)), [job(by=MPI)], MPI, id="what made the Job"),
        pytest.param(pod(ray({})), [], ray({}), id="the RayCluster"),
    ],
)
def test_an_owner_that_is_not_known_yet_is_waited_for(facts: PodFacts, objects: list[Obj], missing: Obj) -> None:
    answer = resolve(facts, Known(*objects))
    assert answer == Waiting(ref(missing))
    assert f"{missing['kind']} train" in answer.reason


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        ({"grove.io/podgang": "g"}, OwnerRef("scheduler.grove.io/v1alpha1", "PodGang", "g")),
        (LWS_LABELS, OwnerRef("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "llm")),
    ],
    ids=["a PodGang", "a LeaderWorkerSet of unknown size"],
)
def test_what_labels_name_is_waited_for(labels: dict[str, str], missing: OwnerRef) -> None:
    assert resolve(pod(labels=labels), Known()) == Waiting(missing)


def test_a_namesake_with_another_uid_is_not_the_owner() -> None:
    reborn = job()
    reborn["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    assert resolve(pod(job()), Known(reborn)) == Waiting(ref(job()))


def test_an_owner_that_is_not_the_controller_decides_nothing() -> None:
    facts = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}]}
    assert resolve(PodFacts.from_json({"metadata": facts}, TEAM), Known(job())) == Single("Pod")


def test_the_same_kind_of_another_group_is_another_kind() -> None:
    other = made("example.com/v1/JobSet", "train", job_set()["spec"])
    assert resolve(pod(other), Known(other)) == Single("JobSet")


def test_a_ring_of_owners_ends() -> None:
    one = made("batch/v1/Job", "one", INDEXED)
    two = made("batch/v1/Job", "two", INDEXED, by=one)
    one = made("batch/v1/Job", "one", INDEXED, by=two)
    owners = Known(one, two)
    assert isinstance(resolve(pod(one), owners), Gang)
    assert len(owners.asked) <= 8


@pytest.mark.parametrize(
    ("facts", "objects"),
    [
        pytest.param(pod(job(), notes={v.GANG_INFER: "false"}), [job()], id="on the pod"),
        pytest.param(pod(job(), labels={v.GANG_INFER: "false"}), [job()], id="on the pod as label"),
        pytest.param(pod(labels=LWS_LABELS, notes={v.GANG_INFER: "false", f"{LWS}size": "4"}), [], id="on an LWS pod"),
        pytest.param(pod(job()), [job(notes={v.GANG_INFER: "false"})], id="on the Job"),
        pytest.param(pod(job()), [job(notes={"kai.scheduler/skip-podgrouper": "true"})], id="on the Job, as for KAI"),
        pytest.param(
            pod(job(by=MPI)),
            [job(by=MPI), {**MPI, "metadata": {**MPI["metadata"], "annotations": {v.GANG_INFER: "false"}}}],
            id="on what made the Job",
        ),
    ],
)
def test_inference_can_be_declined(facts: PodFacts, objects: list[Obj]) -> None:
    assert resolve(facts, Known(*objects)) == Single("opted out")


def test_declining_inference_leaves_declared_gangs_alone() -> None:
    facts = pod(labels={v.GANG_NAME: "g", MIN: "2"}, notes={v.GANG_INFER: "false"})
    assert isinstance(resolve(facts, Known()), Gang)


@pytest.mark.parametrize(
    ("facts", "owner", "sentence"),
    [
        pytest.param(
            pod(job()),
            job(notes={MIN: "many"}),
            f"{MIN} is 'many', which is not a whole number: write one from 1 to 100000.",
            id="an annotation that is no number",
        ),
        pytest.param(
            pod(job()),
            job(notes={MIN: "9"}),
            "Job train asks for a gang of 9 but has 8 pods at once: make the gang smaller.",
            id="a gang larger than its Job",
        ),
        pytest.param(
            pod(job()),
            job({**INDEXED, "parallelism": "8"}),
            "Job train has spec.parallelism '8', which is no number of pods: correct it.",
            id="text for a number",
        ),
        pytest.param(
            pod(job()),
            job({**INDEXED, "parallelism": True}),
            "Job train has spec.parallelism True, which is no number of pods: correct it.",
            id="a truth for a number",
        ),
        pytest.param(
            pod(made("apps/v1/StatefulSet", "s")),
            made("apps/v1/StatefulSet", "s", {"replicas": 4}, notes={MIN: "4"}),
            "StatefulSet s asks for a gang of 4 but creates its pods one after the other: "
            "set podManagementPolicy to Parallel.",
            id="a StatefulSet that starts its pods in order",
        ),
        pytest.param(
            pod(made("apps/v1/ReplicaSet", "r")),
            made("apps/v1/ReplicaSet", "r", {"replicas": 4}, notes={MIN: "4"}, by=made("apps/v1/Deployment", "d")),
            "Deployment d asks for a gang of 4 but replaces its pods a few at a time: "
            "remove the annotation, or use a Job or a StatefulSet.",
            id="a Deployment",
        ),
        pytest.param(
            pod(job_set()),
            job_set(replicatedJobs=[{"replicas": 1000, "template": {"spec": {"parallelism": 1000}}}]),
            "JobSet train makes a gang of 1000000, above the limit of 100000: make it smaller.",
            id="a gang larger than any cluster",
        ),
        pytest.param(
            pod(job(), notes={v.GANG_INFER: "no"}),
            job(),
            f"{v.GANG_INFER} is 'no', which is neither true nor false: write one of these two words.",
            id="an opt-out that is no bool",
        ),
    ],
)
def test_what_an_owner_cannot_mean_is_refused_with_a_sentence(facts: PodFacts, owner: Obj, sentence: str) -> None:
    assert resolve(facts, Known(owner)) == Invalid(sentence)


def test_only_listed_kinds_are_looked_up() -> None:
    assert {("batch", "Job"), ("jobset.x-k8s.io", "JobSet"), ("scheduling.k8s.io", "PodGroup")} <= OWNER_KINDS
    owners = Known()
    resolve(pod(made("example.com/v1/Thing", "t")), owners)
    assert owners.asked == []
