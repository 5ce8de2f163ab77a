"""Gangs that follow from a pod's owner: one small rule for each kind, in one table.

A rule reads the deciding owner and the pod's labels and answers a `Gang` or a `Single`. It raises `DeclarationError`
for what its author must correct.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs.model import Gang, GangKey, Phase, PodFacts, Resolution, Single, label_value
from kubenexus.common.gangs.read import DeclarationError, Owner, View, bounded

Rule = Callable[[PodFacts, Owner], Resolution]

VOLCANO_TASK: Final = "volcano.sh/task-spec"

# On an owner: the size its author wants. Ours, and those of Volcano and KAI for the same purpose.
SIZE_ANNOTATIONS: Final = (
    v.GANG_MIN_AVAILABLE,
    "scheduling.volcano.sh/group-min-member",
    "kai.scheduler/batch-min-member",
)


def gang_of(
    pod: PodFacts,
    owner: Owner,
    members: int,
    *,
    part: str = "",
    role: str | None = None,
    replica: str | None = None,
    first: Phase | None = None,
) -> Gang:
    """The gang of all pods of an owner, or of the named part of it. Its identity is the owner's uid."""
    words = [owner.ref.kind.lower(), owner.uid[:13], part]
    key = GangKey(pod.namespace, label_value("-".join(filter(None, words))))
    name = f"{owner.ref} {part}".strip()
    members = bounded(str(owner.ref), members)
    return Gang(key, name, members, owner.ref.kind, owner.uid, role, replica, first)


def _asked(owner: Owner, pods: int) -> int:
    """The gang size that an annotation asks for, 0 without one; `pods` is how many the owner has at once."""
    found = ((key, text) for key in SIZE_ANNOTATIONS if (text := owner.annotation(key)) is not None)
    size = next((v.parse_gang_size(key, text) for key, text in found), 0)
    if size > max(1, pods):
        raise DeclarationError(
            f"{owner.ref} asks for a gang of {size} but has {pods} pods at once: make the gang smaller."
        )
    return size


# --- Core kinds ------------------------------------------------------------------------------------------------------


def _job(pod: PodFacts, owner: Owner) -> Resolution:
    """A gang if every index has a pod of its own and all run at once; other Jobs are queues of independent pods."""
    parallelism = owner.count("spec.parallelism", 1)
    completions = owner.count("spec.completions", parallelism)
    together = owner.text("spec.completionMode") == "Indexed" and completions == parallelism
    size = _asked(owner, min(parallelism, completions)) or (parallelism if together else 1)
    if size <= 1:
        return Single("Job")
    return gang_of(pod, owner, size, replica=pod.labels.get("batch.kubernetes.io/job-completion-index"))


def _replica_set(pod: PodFacts, owner: Owner) -> Resolution:
    size = _asked(owner, owner.count("spec.replicas", 1))
    if size <= 1:
        return Single("ReplicaSet")
    if (parent := owner.controller) and parent.kind == "Deployment":
        raise DeclarationError(
            f"{parent} asks for a gang of {size} but replaces its pods a few at a time: "
            "remove the annotation, or use a Job or a StatefulSet."
        )
    return gang_of(pod, owner, size)


def _stateful_set(pod: PodFacts, owner: Owner) -> Resolution:
    size = _asked(owner, owner.count("spec.replicas", 1))
    if size <= 1:
        return Single("StatefulSet")
    if owner.text("spec.podManagementPolicy") != "Parallel":
        raise DeclarationError(
            f"{owner.ref} asks for a gang of {size} but creates its pods one after the other: "
            "set podManagementPolicy to Parallel."
        )
    return gang_of(pod, owner, size, replica=pod.labels.get("apps.kubernetes.io/pod-index"))


# --- Sets of jobs ----------------------------------------------------------------------------------------------------


def _job_set(pod: PodFacts, owner: Owner) -> Resolution:
    """All jobs together, unless some start only after others: then each replicatedJob is a gang of its own."""
    jobs = owner.items("spec.replicatedJobs")
    role = pod.labels.get("jobset.sigs.k8s.io/replicatedjob-name")
    replica = pod.labels.get("jobset.sigs.k8s.io/job-index")
    in_order = owner.text("spec.startupPolicy.startupPolicyOrder") == "InOrder"
    if not in_order and not any(job.at("dependsOn") for job in jobs):
        return gang_of(pod, owner, sum(map(_replicated, jobs)), role=role, replica=replica)
    mine = [job for job in jobs if role and job.text("name") == role]
    if not mine:
        raise DeclarationError(
            f"{owner.ref} starts its jobs in order, and the pod's labels name none of them: recreate it."
        )
    return gang_of(pod, owner, sum(map(_replicated, mine)), part=role or "", role=role, replica=replica)


def _replicated(job: View) -> int:
    parallelism = job.count("template.spec.parallelism", 1)
    return job.count("replicas", 1) * min(parallelism, job.count("template.spec.completions", parallelism))


def _volcano_job(pod: PodFacts, owner: Owner) -> Resolution:
    tasks = owner.items("spec.tasks")
    members = owner.count("spec.minAvailable", 0) or sum(
        task.count("minAvailable", task.count("replicas", 1)) for task in tasks
    )
    return gang_of(pod, owner, members, role=pod.text(VOLCANO_TASK))


# --- Kubeflow --------------------------------------------------------------------------------------------------------


def _kubeflow(specs: str) -> Rule:
    """The rule of a training-operator kind, whose replica types stand in `spec.<specs>`."""

    def rule(pod: PodFacts, owner: Owner) -> Resolution:
        replicas = _replicas(owner, specs)
        members = _min_available(owner) or _elastic(owner, replicas) or sum(replicas.values())
        return _training_gang(pod, owner, members)

    return rule


def _mpi_job(pod: PodFacts, owner: Owner) -> Resolution:
    """Launcher and workers; where the launcher waits for the workers, they come first without it."""
    replicas = _replicas(owner, "mpiReplicaSpecs")
    members = _min_available(owner) or sum(replicas.values())
    first = None
    if owner.text("spec.launcherCreationPolicy") == "WaitForWorkersReady":
        first = Phase("worker", max(1, min(members, replicas.get("worker", 0))))
    return _training_gang(pod, owner, members, first)


def _training_gang(pod: PodFacts, owner: Owner, members: int, first: Phase | None = None) -> Gang:
    role = pod.labels.get("training.kubeflow.org/replica-type") or pod.labels.get("training.kubeflow.org/job-role")
    index = pod.labels.get("training.kubeflow.org/replica-index")
    return gang_of(pod, owner, members, role=role.lower() if role else None, replica=index, first=first)


def _replicas(owner: Owner, specs: str) -> dict[str, int]:
    return {role.lower(): spec.count("replicas", 1) for role, spec in owner.entries(f"spec.{specs}")}


def _min_available(owner: Owner) -> int:
    return owner.count("spec.runPolicy.schedulingPolicy.minAvailable", 0)


def _elastic(owner: Owner, replicas: dict[str, int]) -> int:
    """The least that an elastic job runs with: `minReplicas` counts workers, a master comes on top."""
    workers = owner.count("spec.elasticPolicy.minReplicas", 0)
    return workers + replicas.get("master", 0) if workers else 0


# --- Ray -------------------------------------------------------------------------------------------------------------


def _ray_cluster(pod: PodFacts, owner: Owner) -> Resolution:
    """The head and the workers that exist from the start: with the autoscaler, the minimum of each group."""
    if owner.flag("spec.suspend"):
        return Single("RayCluster suspended")
    scaled = owner.flag("spec.enableInTreeAutoscaling")
    workers = sum(_ray_workers(group, scaled) for group in owner.items("spec.workerGroupSpecs"))
    return gang_of(pod, owner, 1 + workers, role=pod.labels.get("ray.io/group"))


def _ray_workers(group: View, scaled: bool) -> int:
    if group.flag("suspend"):
        return 0
    least = group.count("minReplicas", 0)
    replicas = group.count("replicas", 0)
    desired = least if scaled else max(least, min(replicas, group.count("maxReplicas", replicas)))
    return desired * group.count("numOfHosts", 1)


def _ray_submitter(_: PodFacts, __: Owner) -> Resolution:
    """The pod that leads to a RayJob past its RayCluster: it waits for the cluster, so it cannot be in its gang."""
    return Single("RayJob submitter")


# --- The table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """A kind that decides. With `climb` a kind above it may decide better; an `optional` one is not waited for."""

    rule: Rule
    climb: bool = False
    optional: bool = False


# Kinds that are not here decide nothing: a pod of theirs stands alone (Notebook, Workflow, Knative), or the kind below
# them decides (CronJob and Workflow: Job; TrainJob: JobSet; RayService: RayCluster; AppWrapper: what it wraps).
ROWS: Final[dict[tuple[str, str], Row]] = {
    ("batch", "Job"): Row(_job, climb=True),
    ("apps", "ReplicaSet"): Row(_replica_set, optional=True),
    ("apps", "StatefulSet"): Row(_stateful_set, optional=True),
    ("jobset.x-k8s.io", "JobSet"): Row(_job_set),
    ("batch.volcano.sh", "Job"): Row(_volcano_job),
    ("kubeflow.org", "TFJob"): Row(_kubeflow("tfReplicaSpecs")),
    ("kubeflow.org", "XGBoostJob"): Row(_kubeflow("xgbReplicaSpecs")),
    ("kubeflow.org", "JAXJob"): Row(_kubeflow("jaxReplicaSpecs")),
    ("kubeflow.org", "PaddleJob"): Row(_kubeflow("paddleReplicaSpecs")),
    ("kubeflow.org", "PyTorchJob"): Row(_kubeflow("pytorchReplicaSpecs")),
    ("kubeflow.org", "MPIJob"): Row(_mpi_job),
    ("ray.io", "RayCluster"): Row(_ray_cluster),
    ("ray.io", "RayJob"): Row(_ray_submitter, optional=True),
}
