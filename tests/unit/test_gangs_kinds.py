"""Gangs that follow from owners: at least one case for each kind of owner, its sentence as id."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import Gang, PodFacts, Single, resolve
from tests.owners import INDEXED, TEAM, Known, Obj, job, job_set, kubeflow, made, pod, ray, short, volcano

KUBEFLOW = "training.kubeflow.org/"
JOBSET = "jobset.sigs.k8s.io/"
LWS = "leaderworkerset.sigs.k8s.io/"
MIN = v.GANG_MIN_AVAILABLE
AT_LEAST_5: Obj = {"runPolicy": {"schedulingPolicy": {"minAvailable": 5}}}
ELASTIC_2: Obj = {"elasticPolicy": {"minReplicas": 2}}


CRON = made("batch/v1/CronJob", "nightly")
WORKFLOW = made("argoproj.io/v1alpha1/Workflow", "flow")
WRAPPER = made("workload.codeflare.dev/v1beta2/AppWrapper", "wrap")
DEPLOYMENT = made("apps/v1/Deployment", "web")
NOTEBOOK = made("kubeflow.org/v1/Notebook", "book")
TRAIN_JOB = made("trainer.kubeflow.org/v1alpha1/TrainJob", "train")
TRAINED_SET = made("jobset.x-k8s.io/v1alpha2/JobSet", "train", job_set()["spec"], by=TRAIN_JOB)
MPI = kubeflow("MPIJob", "mpiReplicaSpecs", "v2beta1", replicas={"Launcher": None, "Worker": 4})
RAY_JOB = made("ray.io/v1/RayJob", "train")
RAY_SERVICE = made("ray.io/v1/RayService", "serve")
WORKERS = {"workerGroupSpecs": [{"groupName": "small", "replicas": 3}, {"replicas": 2, "numOfHosts": 4}]}
LWS_LABELS = {f"{LWS}name": "llm", f"{LWS}group-index": "1", f"{LWS}worker-index": "2", f"{LWS}subgroup-index": "0"}
PODGANG = made(
    "scheduler.grove.io/v1alpha1/PodGang",
    "dynamo-0",
    {"podgroups": [{"name": "prefill", "minReplicas": 2}, {"name": "decode", "minReplicas": 3}]},
)


@pytest.mark.parametrize(
    ("owner", "source"),
    [
        pytest.param(None, "Pod", id="a pod without owner"),
        pytest.param(job({"parallelism": 4}), "Job", id="a Job that is not indexed"),
        pytest.param(job({**INDEXED, "completions": 16}), "Job", id="an indexed Job that works off its indices"),
        pytest.param(job({**INDEXED, "parallelism": 1, "completions": 1}), "Job", id="an indexed Job of one"),
        pytest.param(job(notes={MIN: "1"}), "Job", id="an indexed Job whose annotation says 1"),
        pytest.param(made("apps/v1/ReplicaSet", "r", {"replicas": 4}), "ReplicaSet", id="a ReplicaSet"),
        pytest.param(
            made("apps/v1/ReplicaSet", "r", {"replicas": 4}, by=DEPLOYMENT),
            "ReplicaSet",
            id="a Deployment, also a Knative Service: each pod by itself",
        ),
        pytest.param(made("apps/v1/StatefulSet", "s", {"replicas": 4}), "StatefulSet", id="a StatefulSet"),
        pytest.param(made("apps/v1/StatefulSet", "s", by=NOTEBOOK), "StatefulSet", id="a Notebook"),
        pytest.param(made("apps/v1/DaemonSet", "d"), "DaemonSet", id="a DaemonSet"),
        pytest.param(WORKFLOW, "Workflow", id="an Argo Workflow's own pod"),
        pytest.param(WRAPPER, "AppWrapper", id="a bare pod in an AppWrapper"),
        pytest.param(made("tekton.dev/v1/TaskRun", "t"), "TaskRun", id="a Tekton TaskRun"),
        pytest.param(made("kubevirt.io/v1/VirtualMachineInstance", "v"), "VirtualMachineInstance", id="a KubeVirt VMI"),
        pytest.param(made("amlarc.azureml.com/v1alpha1/AmlJob", "a"), "AmlJob", id="an Azure ML job"),
        pytest.param(ray({**WORKERS, "suspend": True}), "RayCluster suspended", id="a suspended RayCluster"),
    ],
)
def test_alone(owner: Obj | None, source: str) -> None:
    assert resolve(pod(owner), Known(*([owner] if owner else []))) == Single(source)


def group(
    sentence: str,
    owner: Obj | None,
    *above: Obj,
    size: int,
    of: Obj | str | None = None,
    role: str | None = None,
    replica: str | None = None,
    labels: dict[str, str] | None = None,
    notes: dict[str, str] | None = None,
) -> Any:
    """A pod with these labels and annotations under `owner`, in the gang `of` it, of one above it or of that name."""
    decides = of or owner
    key = decides if isinstance(decides, str) else f"{decides['kind'].lower()}-{short(decides)}" if decides else ""
    owners = Known(*above, *([owner] if owner else []))
    return pytest.param(pod(owner, labels=labels, notes=notes), owners, key, size, (role, replica), id=sentence)


@pytest.mark.parametrize(
    ("facts", "owners", "key", "size", "part"),
    [
        group(
            "an indexed Job whose pods all run at once",
            job(),
            size=8,
            labels={"batch.kubernetes.io/job-completion-index": "3"},
            replica="3",
        ),
        group("a Job by annotation", job({"parallelism": 4}, notes={MIN: "3"}), size=3),
        group("a Job by KAI's annotation", job(notes={"kai.scheduler/batch-min-member": "5"}), size=5),
        group("a CronJob's Job, by the Job", job(by=CRON), CRON, size=8),
        group("an Argo step's Job", job(by=WORKFLOW), WORKFLOW, size=8),
        group("a Job in an AppWrapper", job(by=WRAPPER), WRAPPER, size=8),
        group(
            "a StatefulSet by annotation",
            made("apps/v1/StatefulSet", "s", {"replicas": 4, "podManagementPolicy": "Parallel"}, notes={MIN: "4"}),
            size=4,
            labels={"apps.kubernetes.io/pod-index": "2"},
            replica="2",
        ),
        group(
            "a ReplicaSet by Volcano's annotation",
            made("apps/v1/ReplicaSet", "r", {"replicas": 4}, notes={"scheduling.volcano.sh/group-min-member": "3"}),
            size=3,
        ),
        group(
            "a JobSet: replicas × min(parallelism, completions)",
            job(by=job_set()),
            job_set(),
            of=job_set(),
            size=1 + 2 * 3,
            labels={f"{JOBSET}replicatedjob-name": "worker", f"{JOBSET}job-index": "1"},
            role="worker",
            replica="1",
        ),
        group("a TrainJob, by its JobSet", job(by=TRAINED_SET), TRAINED_SET, TRAIN_JOB, of=TRAINED_SET, size=7),
        *(
            group(
                f"a {kind}: all replicas, 1 where they are not given",
                kubeflow(kind, specs, replicas={role: None, "Worker": 3}),
                size=4,
                labels={f"{KUBEFLOW}replica-type": "Worker", f"{KUBEFLOW}replica-index": "2"},
                role="worker",
                replica="2",
            )
            for kind, specs, role in (
                ("TFJob", "tfReplicaSpecs", "PS"),
                ("XGBoostJob", "xgbReplicaSpecs", "Master"),
                ("JAXJob", "jaxReplicaSpecs", "Chief"),
                ("PaddleJob", "paddleReplicaSpecs", "Master"),
                ("PyTorchJob", "pytorchReplicaSpecs", "Master"),
            )
        ),
        group(
            "a TFJob that sets minAvailable",
            kubeflow("TFJob", "tfReplicaSpecs", replicas={"Worker": 8}, **AT_LEAST_5),
            size=5,
        ),
        group(
            "an elastic PyTorchJob: minReplicas and the master",
            kubeflow("PyTorchJob", "pytorchReplicaSpecs", replicas={"Master": 1, "Worker": 8}, **ELASTIC_2),
            size=3,
        ),
        group(
            "an elastic PyTorchJob without master",
            kubeflow("PyTorchJob", "pytorchReplicaSpecs", replicas={"Worker": 8}, **ELASTIC_2),
            size=2,
        ),
        group(
            "an elastic PyTorchJob that sets minAvailable",
            kubeflow("PyTorchJob", "pytorchReplicaSpecs", replicas={"Worker": 8}, **ELASTIC_2, **AT_LEAST_5),
            size=5,
        ),
        group(
            "an MPIJob's worker: launcher and workers",
            MPI,
            size=5,
            labels={f"{KUBEFLOW}job-role": "worker", f"{KUBEFLOW}replica-index": "0"},
            role="worker",
            replica="0",
        ),
        group(
            "an MPIJob's launcher, through its Job",
            job({}, by=MPI),
            MPI,
            of=MPI,
            size=5,
            labels={f"{KUBEFLOW}job-role": "launcher"},
            role="launcher",
        ),
        group(
            "an MPIJob v1",
            kubeflow("MPIJob", "mpiReplicaSpecs", replicas={"Launcher": 1, "Worker": 2}),
            size=3,
        ),
        group(
            "a RayCluster: head and desired workers on all their hosts",
            ray(WORKERS),
            size=1 + 3 + 2 * 4,
            labels={"ray.io/group": "small"},
            role="small",
        ),
        group(
            "a RayCluster: replicas between minReplicas and maxReplicas",
            ray(
                {
                    "workerGroupSpecs": [
                        {"replicas": 9, "minReplicas": 0, "maxReplicas": 5},
                        {"replicas": 1, "minReplicas": 2, "maxReplicas": 2147483647},
                        {"minReplicas": 1},
                    ]
                }
            ),
            size=1 + 5 + 2 + 1,
        ),
        group(
            "a RayCluster with more minReplicas than maxReplicas",
            ray({"workerGroupSpecs": [{"replicas": 9, "minReplicas": 5, "maxReplicas": 2}]}),
            size=1 + 5,
        ),
        group(
            "a RayCluster with autoscaler: the minimum of each group",
            ray(
                {
                    "enableInTreeAutoscaling": True,
                    "workerGroupSpecs": [{"replicas": 9, "minReplicas": 2, "numOfHosts": 2}, {"replicas": 4}],
                }
            ),
            size=1 + 2 * 2,
        ),
        group(
            "a RayCluster with a suspended worker group",
            ray({"workerGroupSpecs": [{"replicas": 2}, {"replicas": 3, "suspend": True}]}),
            size=1 + 2,
        ),
        group("a RayJob's cluster", ray(WORKERS, by=RAY_JOB), RAY_JOB, size=12),
        group("a RayService, by RayCluster", ray(WORKERS, by=RAY_SERVICE), RAY_SERVICE, size=12),
        group(
            "a LeaderWorkerSet replica, without reading it",
            None,
            of="leaderworkerset-llm-1",
            size=4,
            labels=LWS_LABELS,
            notes={f"{LWS}size": "4"},
            role="worker",
            replica="0",
        ),
        group(
            "a LeaderWorkerSet replica whose pods lack the size",
            None,
            made("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", "llm", {"leaderWorkerTemplate": {"size": 4}}),
            of="leaderworkerset-llm-1",
            size=4,
            labels=LWS_LABELS,
            role="worker",
            replica="0",
        ),
        group(
            "a Grove PodGang: the minimum of each group",
            None,
            PODGANG,
            of="podgang-dynamo-0",
            size=5,
            labels={"grove.io/podgang": "dynamo-0", "grove.io/podclique": "decode"},
            role="decode",
        ),
        group(
            "a Volcano Job that sets minAvailable",
            volcano(minAvailable=3, tasks=[{"replicas": 8}]),
            size=3,
            notes={"volcano.sh/task-spec": "ps"},
            role="ps",
        ),
        group(
            "a Volcano Job without: the minimum of each task, else its replicas",
            volcano(minAvailable=0, tasks=[{"replicas": 8, "minAvailable": 2}, {"replicas": 4}]),
            size=6,
        ),
    ],
)
def test_together(facts: PodFacts, owners: Known, key: str, size: int, part: tuple[str | None, str | None]) -> None:
    gang = resolve(facts, owners)
    assert isinstance(gang, Gang)
    assert (str(gang.key), gang.min_available, gang.first, gang.reserve) == (f"{TEAM}/{key}", size, None, None)
    assert (gang.role, gang.replica) == part
    assert gang.label_value == key


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_service_is_not_waited_for(kind: str) -> None:
    assert resolve(pod(made(f"apps/v1/{kind}", "web")), Known()) == Single(kind)
