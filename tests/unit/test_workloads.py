"""What kind of work a pod does, and who is believed."""

from __future__ import annotations

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import Gang, GangKey, OwnerRef, PodFacts, Resolution, Single, Waiting
from kubenexus.common.workloads import classify

ALONE = Single("Pod")
JUPYTERHUB = {"component": "singleuser-server"}


def gang(size: int) -> Gang:
    return Gang(GangKey("team", "g"), "g", size, "kubenexus")


def owner(kind: str) -> OwnerRef:
    return OwnerRef("any/v1", kind, "o", "u")


@pytest.mark.parametrize(
    ("labels", "kind", "resolution", "gpus", "type_"),
    [
        pytest.param({}, "", ALONE, 0, None, id="nothing tells"),
        pytest.param({}, "", ALONE, 8, None, id="GPUs alone tell nothing: a notebook has them, too"),
        pytest.param({v.WORKLOAD_TYPE: "inference"}, "Job", gang(8), 8, "inference", id="the pod is believed first"),
        pytest.param({v.WORKLOAD_TYPE: "gaming"}, "Job", ALONE, 0, "batch", id="unless it says what does not exist"),
        pytest.param({"notebook-name": "n"}, "StatefulSet", ALONE, 1, "interactive", id="a notebook"),
        pytest.param(JUPYTERHUB, "", ALONE, 0, "interactive", id="a JupyterHub server"),
        pytest.param({"component": "api"}, "", ALONE, 0, None, id="another component"),
        pytest.param({"serving.kserve.io/inferenceservice": "m"}, "ReplicaSet", ALONE, 1, "inference", id="KServe"),
        pytest.param(
            {"app.kubernetes.io/component": "predictor"}, "ReplicaSet", ALONE, 1, "inference", id="a predictor"
        ),
        pytest.param({"app.kubernetes.io/component": "serving"}, "Job", gang(4), 1, "training", id="but not in a gang"),
        pytest.param({"leaderworkerset.sigs.k8s.io/name": "m"}, "", gang(4), 8, "inference", id="a LeaderWorkerSet"),
        pytest.param({"ray.io/originated-from-crd": "RayService"}, "", gang(4), 8, "inference", id="a RayService"),
        pytest.param({"ray.io/originated-from-crd": "RayJob"}, "", gang(4), 8, "training", id="a RayJob"),
        pytest.param({"training.kubeflow.org/job-name": "t"}, "PyTorchJob", ALONE, 0, "training", id="a PyTorchJob"),
        pytest.param({"spark-role": "driver"}, "", gang(4), 8, "batch", id="Spark in a gang"),
        pytest.param({"serving.knative.dev/revision": "r"}, "ReplicaSet", ALONE, 0, "service", id="Knative"),
        pytest.param({}, "", gang(4), 1, "training", id="a gang with GPUs"),
        pytest.param({}, "", gang(4), 0, "batch", id="a gang without"),
        pytest.param({}, "", gang(1), 1, None, id="a gang of one is none"),
        pytest.param({}, "Job", ALONE, 0, "batch", id="a Job"),
        pytest.param({}, "Job", ALONE, 1, "batch", id="a Job with a GPU"),
        pytest.param({}, "Job", ALONE, 2, "training", id="a Job with several"),
        pytest.param({}, "Job", Waiting(owner("Job")), 1, None, id="a Job that is not known yet: it may make a gang"),
        pytest.param({}, "ReplicaSet", ALONE, 0, "service", id="a Deployment"),
        pytest.param({}, "StatefulSet", ALONE, 8, "service", id="a StatefulSet"),
        pytest.param({}, "DaemonSet", ALONE, 0, "service", id="a DaemonSet"),
        pytest.param({}, "Workflow", ALONE, 0, None, id="an owner that tells nothing"),
        pytest.param({"app": "gitlab-video-encoder"}, "", ALONE, 0, None, id="names of programs are not looked at"),
    ],
)
def test_kinds_of_work(labels: dict[str, str], kind: str, resolution: Resolution, gpus: int, type_: str | None) -> None:
    pod = PodFacts("team", labels, {}, owner(kind) if kind else None)
    found = classify(pod, resolution, gpus)
    assert (found.type if found else None) == type_
    assert found is None or found.why


def test_an_annotation_says_it_as_well_as_a_label() -> None:
    found = classify(PodFacts("team", {}, {v.WORKLOAD_TYPE: "batch"}), ALONE, 0)
    assert found is not None
    assert found.type == "batch"
