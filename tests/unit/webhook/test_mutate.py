"""What is set on a pod, for whom, and why; each case through a whole review."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.webhook.cluster import Cluster, NamespaceFacts
from kubenexus.webhook.review import answer
from tests.admission import TEAM, added, built, cluster, mutated, patch_of, pod, review, validated, warnings
from tests.builders import Builder
from tests.owners import INDEXED, Known, job, kubeflow, made, reference, short

Obj = dict[str, Any]

SCHEDULER = "spec schedulerName"
NOTE = f"metadata annotations {v.INJECTED}"
TYPE = f"metadata labels {v.WORKLOAD_TYPE}"
POLICY = f"metadata annotations {v.NUMA_POLICY}"
RESOURCES = f"metadata annotations {v.NUMA_RESOURCES}"
WHY_SCHEDULER = f"schedulerName: namespace {TEAM} has {v.INJECT}=enabled"


def owned(by: Obj) -> Builder:
    return pod().append("metadata.ownerReferences", reference(by))


def sets(builder: Builder, world: Cluster | None = None) -> Obj:
    """What is set, without the note."""
    raw = built(builder)
    changed = added(raw, mutated(raw, world or cluster()))
    changed.pop(NOTE, None)
    return changed


# --- Whom ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("builder", "labels"),
    [
        pytest.param(pod(), {}, id="a namespace that did not ask"),
        pytest.param(pod(), {v.INJECT: "disabled"}, id="a namespace that asked to be left alone"),
        pytest.param(pod(), {v.INJECT: "Enabled"}, id="a namespace that asked with another word"),
        pytest.param(pod().label(v.INJECT, "disabled"), None, id="a pod whose label says disabled"),
        pytest.param(pod().annotation(v.INJECT, "disabled"), None, id="a pod whose annotation says disabled"),
        pytest.param(pod().scheduler("volcano"), None, id="a pod for which another scheduler was chosen"),
        pytest.param(pod().node("n1"), None, id="a pod that has a node"),
    ],
)
def test_left_alone(builder: Builder, labels: dict[str, str] | None) -> None:
    found = answer(review(builder.set("spec.containers", gpu_containers())), cluster(job(), labels=labels), mutate=True)
    assert not found.patched
    assert found.body["response"] == {"uid": "705ab4f5", "allowed": True}


def gpu_containers() -> list[Obj]:
    return [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE", "CONNECT", None, 7])
def test_only_new_pods_are_completed(operation: Any) -> None:
    assert not answer(review(pod(), operation), cluster(), mutate=True).patched


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"subResource": "binding"}, id="a subresource"),
        pytest.param({"kind": {"group": "", "kind": "Node"}}, id="another kind"),
        pytest.param({"kind": {"group": "example.com", "kind": "Pod"}}, id="a Pod of another group"),
    ],
)
def test_only_pods_are_completed(request_: Obj) -> None:
    assert not answer(review(pod(), **request_), cluster(), mutate=True).patched


def test_a_namespace_that_is_not_known_yet_is_said() -> None:
    found = answer(review(pod(), namespace="new"), cluster(), mutate=True)
    assert not found.patched
    assert warnings(found) == ["namespace new is not known yet, so nothing was set on the pod."]


def test_the_request_is_right_about_the_namespace() -> None:
    """Else a pod could borrow the settings of another one."""
    other = NamespaceFacts("other", {})
    world = Cluster({"other": other, TEAM: NamespaceFacts(TEAM, {v.INJECT: "enabled"})}.get, Known())
    assert not answer(review(pod(), namespace="other"), world, mutate=True).patched


# --- Scheduler -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["default-scheduler", "", None])
def test_a_scheduler_that_nobody_chose_is_replaced(given: str | None) -> None:
    assert mutated(pod().set("spec.schedulerName", given), cluster())["spec"]["schedulerName"] == v.SCHEDULER_NAME


def test_the_schedulers_name_is_that_of_the_installation() -> None:
    world = cluster(schedulers=("second",))
    assert sets(pod(), world) == {SCHEDULER: "second"}
    assert sets(pod().scheduler("second"), world) == {}


def test_whoever_chose_another_profile_of_ours_keeps_it_and_gets_the_rest() -> None:
    world = cluster(job(), schedulers=("batch", "serving"))
    assert sets(owned(job()), world)[SCHEDULER] == "batch"
    raw = built(owned(job()).set("spec.schedulerName", "serving"))
    chosen = added(raw, mutated(raw, world))
    assert SCHEDULER not in chosen
    assert chosen[f"metadata labels {v.GANG_MIN_AVAILABLE}"] == "8"


# --- Gang ------------------------------------------------------------------------------------------------------------


def test_an_indexed_job_of_gpu_pods_gets_everything() -> None:
    """The first promise of the webhook: label a namespace, submit what you always submitted."""
    raw = built(owned(job()).set("spec.containers", gpu_containers()))
    uid = job()["metadata"]["uid"]
    assert added(raw, mutated(raw, cluster(job()))) == {
        SCHEDULER: v.SCHEDULER_NAME,
        f"metadata labels {v.GANG_NAME}": f"job-{short(job())}",
        f"metadata labels {v.GANG_MIN_AVAILABLE}": "8",
        f"metadata annotations {v.GANG_DISPLAY_NAME}": "Job train",
        f"metadata annotations {v.GANG_INFERRED_FROM}": f"Job/{uid}",
        TYPE: "training",
        POLICY: "best-effort",
        RESOURCES: "cpu,memory,nvidia.com/gpu",
        NOTE: f"{WHY_SCHEDULER}; gang: Job train starts with 8 pods or not at all; "
        "workload-type: it is a gang with GPUs; numa-policy: it asks for GPUs; "
        "numa-resources: CPU, memory and GPUs belong together",
    }


def test_a_gang_whose_owner_is_not_known_is_left_to_the_scheduler() -> None:
    found = answer(review(owned(job())), cluster(), mutate=True)
    assert {step["path"] for step in patch_of(found)} == {
        "/metadata/annotations",
        "/metadata/annotations/scheduling.kubenexus.io~1injected",
        "/spec/schedulerName",
    }
    assert warnings(found) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(v.GANG_NAME, "mine", id="by our label"),
        pytest.param("scheduling.x-k8s.io/pod-group", "mine", id="by a dialect"),
        pytest.param("pod-group.scheduling.sigs.k8s.io/name", "mine", id="by a dialect, without a size"),
    ],
)
def test_a_declared_gang_stays_as_it_is(key: str, value: str) -> None:
    changed = sets(owned(job()).label(key, value), cluster(job()))
    changed.pop(TYPE, None)
    assert changed == {SCHEDULER: v.SCHEDULER_NAME}


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        pytest.param("annotations", v.GANG_DISPLAY_NAME, "mine", id="a name in words"),
        pytest.param("labels", v.GANG_NAME, 7, id="what is not even text"),
    ],
)
def test_what_is_partly_there_is_left_as_it_is(kind: str, key: str, value: Any) -> None:
    changed = sets(owned(job()).set("metadata." + kind, {key: value}), cluster(job()))
    assert changed == {SCHEDULER: v.SCHEDULER_NAME, TYPE: "batch"}


def test_a_gang_of_one_is_not_worth_a_label() -> None:
    alone = kubeflow("PyTorchJob", "pytorchReplicaSpecs", replicas={"Master": 1})
    assert sets(owned(alone), cluster(alone)) == {SCHEDULER: v.SCHEDULER_NAME}


def test_inference_can_be_declined() -> None:
    assert sets(owned(job()).annotation(v.GANG_INFER, "false"), cluster(job())) == {
        SCHEDULER: v.SCHEDULER_NAME,
        TYPE: "batch",
    }


# --- NUMA ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("builder", "default", "policy", "resources"),
    [
        pytest.param(pod().gpu(2), None, "best-effort", "cpu,memory,nvidia.com/gpu", id="GPUs"),
        pytest.param(pod().guaranteed(4, "8Gi"), None, "best-effort", "cpu,memory", id="Guaranteed with whole CPUs"),
        pytest.param(pod().guaranteed("500m", "8Gi"), None, None, None, id="Guaranteed with a part of a CPU"),
        pytest.param(pod().cpu(4), None, None, None, id="Burstable"),
        pytest.param(pod(), "single-numa", None, None, id="nothing that could be pinned, whatever the default"),
        pytest.param(pod().gpu(2), "single-numa", "single-numa", "cpu,memory,nvidia.com/gpu", id="a default"),
        pytest.param(pod().gpu(2), "single-numa-node", "single-numa", "cpu,memory,nvidia.com/gpu", id="an alias"),
        pytest.param(pod().gpu(2), "none", "none", None, id="the default none: nothing is aligned"),
        pytest.param(pod().gpu(2), "strict", "best-effort", "cpu,memory,nvidia.com/gpu", id="an unknown default"),
        pytest.param(
            pod().gpu(2), "isolated", "best-effort", "cpu,memory,nvidia.com/gpu", id="isolated, but no CPU to isolate"
        ),
        pytest.param(pod().gpu(2).cpu(8), "isolated", "isolated", "cpu,memory,nvidia.com/gpu", id="isolated with CPUs"),
        pytest.param(
            pod().request("amd.com/gpu", 1), None, "best-effort", "cpu,memory,amd.com/gpu", id="another vendor's GPU"
        ),
        pytest.param(
            pod().append("spec.initContainers", gpu_containers()[0]),
            None,
            "best-effort",
            "cpu,memory,nvidia.com/gpu",
            id="GPUs as limits of an init container",
        ),
    ],
)
def test_numa_defaults(builder: Builder, default: str | None, policy: str | None, resources: str | None) -> None:
    notes = {} if default is None else {v.DEFAULT_NUMA_POLICY: default}
    found = mutated(builder, cluster(notes=notes))["metadata"]["annotations"]
    assert (found.get(v.NUMA_POLICY), found.get(v.NUMA_RESOURCES)) == (policy, resources)


@pytest.mark.parametrize("key", [v.NUMA_POLICY, v.NUMA_POLICY_ALIAS])
def test_a_policy_of_the_pod_is_kept_and_completed(key: str) -> None:
    changed = sets(pod().gpu(1).annotation(key, "restricted"), cluster(notes={v.DEFAULT_NUMA_POLICY: "none"}))
    assert changed == {SCHEDULER: v.SCHEDULER_NAME, RESOURCES: "cpu,memory,nvidia.com/gpu"}


@pytest.mark.parametrize("policy", ["none", "nonsense"])
def test_nothing_is_listed_for_a_policy_that_aligns_nothing(policy: str) -> None:
    assert sets(pod().gpu(1).annotation(v.NUMA_POLICY, policy)) == {SCHEDULER: v.SCHEDULER_NAME}


@pytest.mark.parametrize("text", ["x", "é"])
def test_annotations_that_are_full_stay_as_they_are(text: str) -> None:
    """An API server takes 256 KiB of them; a pod that has so much must not fail because of us."""
    most = 256 * 1024 - len("bulk")
    full = pod().gpu(1).annotation("bulk", text * (most // len(text.encode())))
    found = answer(review(full), cluster(), mutate=True)
    assert not found.patched
    assert warnings(found) == ["the annotations of the pod leave no room for ours, so nothing was set: shorten them."]
    roomy = pod().gpu(1).annotation("bulk", text * (most // len(text.encode()) - 1000))
    assert size_of(mutated(roomy, cluster())["metadata"]["annotations"]) <= 256 * 1024


def size_of(annotations: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


@pytest.mark.parametrize(
    ("notes", "builder", "warning"),
    [
        pytest.param(
            {v.DEFAULT_NUMA_POLICY: "strict"},
            pod().gpu(1),
            f"{v.DEFAULT_NUMA_POLICY} of namespace team is not known and was passed over: tell an administrator.",
            id="a NUMA policy that does not exist",
        ),
        pytest.param(
            {v.DEFAULT_WORKLOAD_TYPE: "game"},
            pod(),
            f"{v.DEFAULT_WORKLOAD_TYPE} of namespace team is not known and was passed over: tell an administrator.",
            id="a workload type that does not exist",
        ),
        pytest.param(
            {v.DEFAULT_NUMA_POLICY: "isolated"},
            pod().gpu(1),
            "NUMA policy isolated, the namespace's default, is not set: the pod requests no CPU; request some.",
            id="isolated for a pod without CPUs",
        ),
    ],
)
def test_a_default_that_cannot_be_used_is_said(notes: dict[str, str], builder: Builder, warning: str) -> None:
    found = answer(review(builder), cluster(notes=notes), mutate=True)
    assert found.patched
    assert warnings(found) == [warning]


# --- Workload type and tenant ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("builder", "default", "type_"),
    [
        pytest.param(pod(), None, None, id="nothing tells"),
        pytest.param(owned(made("apps/v1/ReplicaSet", "r")), None, "service", id="the owner tells"),
        pytest.param(owned(made("apps/v1/ReplicaSet", "r")), "inference", "inference", id="the default is stronger"),
        pytest.param(pod(), "interactive", "interactive", id="only the default tells"),
    ],
)
def test_workload_types(builder: Builder, default: str | None, type_: str | None) -> None:
    notes = {} if default is None else {v.DEFAULT_WORKLOAD_TYPE: default}
    assert sets(builder, cluster(notes=notes)).get(TYPE) == type_


@pytest.mark.parametrize("where", ["label", "annotation"])
def test_a_workload_type_of_the_pod_is_kept(where: str) -> None:
    said = getattr(pod(), where)(v.WORKLOAD_TYPE, "batch")
    assert sets(said, cluster(notes={v.DEFAULT_WORKLOAD_TYPE: "training"})) == {SCHEDULER: v.SCHEDULER_NAME}


def test_the_tenant_is_that_of_the_namespace() -> None:
    world = cluster(labels={v.INJECT: "enabled", v.TENANT_NAME: "acme"})
    assert sets(pod(), world)[f"metadata labels {v.TENANT_NAME}"] == "acme"
    assert f"metadata labels {v.TENANT_NAME}" not in sets(pod().label(v.TENANT_NAME, "acme"), world)


# --- The patch -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maps", [{}, {"labels": None, "annotations": None}, {"labels": {}, "annotations": {"a": "b"}}])
def test_parents_are_made_where_they_are_missing(maps: Obj) -> None:
    raw = built(owned(job()))
    raw["metadata"] = {key: raw["metadata"][key] for key in ("name", "ownerReferences")} | maps
    after = mutated(raw, cluster(job()))["metadata"]
    assert after["labels"][v.GANG_MIN_AVAILABLE] == "8"
    assert after["annotations"].items() >= (maps.get("annotations") or {}).items()


def test_slashes_are_escaped() -> None:
    paths = [step["path"] for step in patch_of(answer(review(owned(job())), cluster(job()), mutate=True))]
    assert "/metadata/labels/pod-group.scheduling.kubenexus.io~1min-available" in paths


def test_a_second_round_adds_to_the_note_of_the_first() -> None:
    """Another webhook may bring what tells the gang only after the first round."""
    first = mutated(pod(), cluster())
    labels = {"leaderworkerset.sigs.k8s.io/name": "llm", "leaderworkerset.sigs.k8s.io/group-index": "0"}
    first["metadata"].setdefault("labels", {}).update(labels)
    first["metadata"]["annotations"]["leaderworkerset.sigs.k8s.io/size"] = "4"
    second = mutated(first, cluster())
    assert second["metadata"]["annotations"][v.INJECTED] == (
        f"{WHY_SCHEDULER}; gang: LeaderWorkerSet llm group 0 starts with 4 pods or not at all; "
        "workload-type: it is a LeaderWorkerSet"
    )


def test_the_audit_log_hears_values_and_reasons() -> None:
    response = answer(review(owned(job()).set("spec.containers", gpu_containers())), cluster(job()), mutate=True).body[
        "response"
    ]
    assert response["auditAnnotations"] == {
        "schedulerName": f"{v.SCHEDULER_NAME} (namespace team has {v.INJECT}=enabled)",
        "gang": f"job-{short(job())} (Job train starts with 8 pods or not at all)",
        "workload-type": "training (it is a gang with GPUs)",
        "numa-policy": "best-effort (it asks for GPUs)",
        "numa-resources": "cpu,memory,nvidia.com/gpu (CPU, memory and GPUs belong together)",
    }


def test_what_was_completed_is_valid() -> None:
    world = cluster(job(INDEXED), notes={v.DEFAULT_NUMA_POLICY: "isolated"})
    after = mutated(owned(job()).set("spec.containers", gpu_containers()), world)
    assert not validated(after, world).denied
