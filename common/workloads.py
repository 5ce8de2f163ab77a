"""What kind of work a pod does. One function, for webhook and scheduler alike.

Who says it counts in this order: the pod itself; the operator that made it, by the labels it leaves; the gang it is in;
the role that its labels name; the kind of its owner. Images and names of programs are not looked at: a `lab` in a name
is as often GitLab as JupyterLab.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import Gang, PodFacts, Resolution, Waiting
from kubenexus.common.vocabulary import WorkloadType


class Workload(NamedTuple):
    """What kind of work it is, and how that is known."""

    type: WorkloadType
    why: str


class _Sign(NamedTuple):
    """A label that tells; with `values` only these do."""

    label: str
    type: WorkloadType
    why: str
    values: frozenset[str] = frozenset()


TYPES: Final = frozenset(WorkloadType)
_COMPONENT: Final = "app.kubernetes.io/component"

_OPERATORS: Final = (
    _Sign("notebook-name", WorkloadType.INTERACTIVE, "a Kubeflow notebook"),
    _Sign("controller.devfile.io/devworkspace_id", WorkloadType.INTERACTIVE, "a DevWorkspace"),
    _Sign(_COMPONENT, WorkloadType.INTERACTIVE, "a JupyterHub server", frozenset({"singleuser-server"})),
    _Sign("component", WorkloadType.INTERACTIVE, "a JupyterHub server", frozenset({"singleuser-server"})),
    _Sign("serving.kserve.io/inferenceservice", WorkloadType.INFERENCE, "a KServe InferenceService"),
    _Sign("serving.kubeflow.org/inferenceservice", WorkloadType.INFERENCE, "a KServe InferenceService"),
    _Sign("seldon-deployment-id", WorkloadType.INFERENCE, "a SeldonDeployment"),
    _Sign("ray.io/originated-from-crd", WorkloadType.INFERENCE, "a RayService", frozenset({"RayService"})),
    _Sign("leaderworkerset.sigs.k8s.io/name", WorkloadType.INFERENCE, "a LeaderWorkerSet"),
    _Sign("grove.io/podgang", WorkloadType.INFERENCE, "a Grove PodGang"),
    _Sign("training.kubeflow.org/job-name", WorkloadType.TRAINING, "a Kubeflow training job"),
    _Sign("spark-role", WorkloadType.BATCH, "a Spark application"),
    _Sign("serving.knative.dev/revision", WorkloadType.SERVICE, "a Knative service"),
)
_ROLES: Final = (
    _Sign(
        _COMPONENT,
        WorkloadType.INFERENCE,
        "an inference server, by its labels",
        frozenset({"predictor", "inference", "serving"}),
    ),
)
_SERVERS: Final = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet"})


def classify(pod: PodFacts, gang: Resolution, gpus: int) -> Workload | None:
    """The kind of work of a pod with this many GPUs; None where nothing tells, as a type that does not exist."""
    certain = _said(pod) or _signed(pod, _OPERATORS) or _together(gang, gpus)
    if certain or isinstance(gang, Waiting):  # an owner that is not known yet may still turn out to make a gang
        return certain
    return _signed(pod, _ROLES) or _owned(pod.owner.kind if pod.owner else "", gpus)


def _said(pod: PodFacts) -> Workload | None:
    text = pod.text(v.WORKLOAD_TYPE)
    return Workload(WorkloadType(text), "it says so") if text in TYPES else None


def _signed(pod: PodFacts, signs: Iterable[_Sign]) -> Workload | None:
    for sign in signs:
        value = pod.labels.get(sign.label)
        if value is not None and (not sign.values or value in sign.values):
            return Workload(sign.type, sign.why)
    return None


def _together(gang: Resolution, gpus: int) -> Workload | None:
    if not isinstance(gang, Gang) or gang.min_available == 1:
        return None
    return Workload(WorkloadType.TRAINING, "a gang with GPUs") if gpus else Workload(WorkloadType.BATCH, "a gang")


def _owned(kind: str, gpus: int) -> Workload | None:
    if kind == "Job":
        several = Workload(WorkloadType.TRAINING, "a Job with several GPUs")
        return several if gpus > 1 else Workload(WorkloadType.BATCH, "a Job")
    return Workload(WorkloadType.SERVICE, f"a {kind}") if kind in _SERVERS else None
