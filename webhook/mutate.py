"""What the webhook completes on a pod, as JSON Patch. Pure.

Only what is absent is set, only in namespaces that asked for it, and never what validation would then refuse. Doing it
again changes nothing. A pod that is left alone is no great loss: the scheduler concludes the same by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import Gang, marks
from kubenexus.common.workloads import TYPES
from kubenexus.webhook.cluster import NamespaceFacts
from kubenexus.webhook.subject import Subject, known_policy, mapping

Obj = dict[str, Any]
Path = tuple[str, ...]

LABELS: Final = ("metadata", "labels")
ANNOTATIONS: Final = ("metadata", "annotations")
SCHEDULER: Final = ("spec", "schedulerName")
MOST_ANNOTATIONS: Final = 256 * 1024
"""bytes of names and values together; API servers refuse pods with more"""
_NO_ROOM: Final = "the annotations of the pod leave no room for ours, so nothing was set: shorten them."


class Step(NamedTuple):
    """One thing that is set: its name for notes and audit logs, the fields with their values, and the reason."""

    what: str
    fields: dict[Path, str]
    why: str


class Mutation(NamedTuple):
    """What is to be set, in order, and what the user should know about it."""

    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()


def mutation(pod: Subject) -> Mutation:
    """What the pod lacks. Nothing for pods that are placed already or that another scheduler was chosen for."""
    if pod.is_for_others or pod.is_placed or not _is_whole(pod):
        return Mutation()
    namespace = pod.namespace
    if namespace is None:
        return Mutation(warnings=(f"namespace {pod.facts.namespace} is not known yet, so nothing was set on the pod.",))
    if not pod.opted_in:
        return Mutation()
    warnings: list[str] = []
    steps = (
        _scheduler(pod, namespace),
        _gang(pod),
        _workload_type(pod, namespace, warnings),
        *_numa(pod, namespace, warnings),
        _tenant(pod, namespace),
    )
    missing = tuple(step for step in steps if step and _is_absent(step, pod.pod))
    if missing and not _has_room(pod.pod, missing):
        return Mutation(warnings=(*warnings, _NO_ROOM))
    return Mutation(missing, tuple(warnings))


def _is_whole(pod: Subject) -> bool:
    """Shaped so that a patch applies. A real API server sends nothing else."""
    metadata, spec = pod.pod.get("metadata"), pod.pod.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        return False
    maps = (metadata.get("labels"), metadata.get("annotations"))
    return all(isinstance(one, dict | None) for one in maps) and isinstance(spec.get("schedulerName"), str | None)


def _is_absent(step: Step, pod: Obj) -> bool:
    """Whether nothing of it is there, of whatever type; a scheduler that nobody chose counts as absent."""
    metadata = mapping(pod.get("metadata"))
    return not any(path != SCHEDULER and path[2] in mapping(metadata.get(path[1])) for path in step.fields)


def _has_room(pod: Obj, steps: tuple[Step, ...]) -> bool:
    """Whether the pod is not too large with all this: it must not fail because of us."""
    added = {path[2]: value for path, value in _fields(pod, steps).items() if path[:2] == ANNOTATIONS}
    whole = mapping(mapping(pod.get("metadata")).get("annotations")) | added
    return sum(len(f"{key}{value}".encode("utf-8", "replace")) for key, value in whole.items()) <= MOST_ANNOTATIONS


# --- Each thing that is set ------------------------------------------------------------------------------------------


def _scheduler(pod: Subject, namespace: NamespaceFacts) -> Step | None:
    ours = pod.cluster.schedulers
    if pod.scheduler in ours:
        return None
    why = f"namespace {namespace.name} has {v.INJECT}={v.Inject.ENABLED}"
    return Step("schedulerName", {SCHEDULER: ours[0]}, why)


def _gang(pod: Subject) -> Step | None:
    """The gang that follows from the owner; one that is declared, or written down already, stays as it is."""
    gang = pod.gang
    if not isinstance(gang, Gang) or gang.min_available == 1 or pod.declared:
        return None
    labels, annotations = marks(gang)
    fields: dict[Path, str] = {(*LABELS, key): value for key, value in labels.items()}
    fields |= {(*ANNOTATIONS, key): value for key, value in annotations.items()}
    return Step("gang", fields, f"{gang.name} starts with {gang.min_available} pods or not at all")


def _workload_type(pod: Subject, namespace: NamespaceFacts, warnings: list[str]) -> Step | None:
    """The namespace's default, which an administrator wrote, before what can only be concluded."""
    if pod.facts.text(v.WORKLOAD_TYPE) is not None:
        return None
    text = namespace.annotations.get(v.DEFAULT_WORKLOAD_TYPE)
    if text in TYPES:
        return Step("workload-type", {(*LABELS, v.WORKLOAD_TYPE): text}, f"default of namespace {namespace.name}")
    if text is not None:
        warnings.append(_unknown_default(namespace, v.DEFAULT_WORKLOAD_TYPE))
    found = pod.workload
    return Step("workload-type", {(*LABELS, v.WORKLOAD_TYPE): found.type}, f"it is {found.why}") if found else None


def _numa(pod: Subject, namespace: NamespaceFacts, warnings: list[str]) -> Iterator[Step]:
    """For pods of which a kubelet can pin something: GPUs, or CPUs of their own."""
    if not pod.gpus and not pod.resources.exclusive_cpus():
        return
    policy = pod.policy
    if v.NUMA_POLICY not in pod.facts.annotations and v.NUMA_POLICY_ALIAS not in pod.facts.annotations:
        policy, why = _default_policy(pod, namespace, warnings)
        yield Step("numa-policy", {(*ANNOTATIONS, v.NUMA_POLICY): policy}, why)
    if policy not in (None, v.NumaPolicy.NONE) and v.NUMA_RESOURCES not in pod.facts.annotations:
        names = ",".join(("cpu", "memory", *pod.gpu_resources))
        yield Step("numa-resources", {(*ANNOTATIONS, v.NUMA_RESOURCES): names}, "CPU, memory and GPUs belong together")


def _default_policy(pod: Subject, namespace: NamespaceFacts, warnings: list[str]) -> tuple[v.NumaPolicy, str]:
    """The namespace's default, else what never keeps a pod from running: nobody asked for more."""
    text = namespace.annotations.get(v.DEFAULT_NUMA_POLICY)
    policy = known_policy(text) if text is not None else None
    if text is not None and policy is None:
        warnings.append(_unknown_default(namespace, v.DEFAULT_NUMA_POLICY))
    if policy is v.NumaPolicy.ISOLATED and not pod.requests.get("cpu"):
        warnings.append(
            "NUMA policy isolated, the namespace's default, is not set: the pod requests no CPU; request some."
        )
    elif policy is not None:
        return policy, f"default of namespace {namespace.name}"
    return v.NumaPolicy.BEST_EFFORT, "it asks for GPUs" if pod.gpus else "it has CPUs of its own"


def _unknown_default(namespace: NamespaceFacts, key: str) -> str:
    return f"{key} of namespace {namespace.name} is not known and was passed over: tell an administrator."


def _tenant(pod: Subject, namespace: NamespaceFacts) -> Step | None:
    """Only a name that says more than the namespace's."""
    name = namespace.labels.get(v.TENANT_NAME)
    if not name or v.TENANT_NAME in pod.facts.labels:
        return None
    return Step("tenant", {(*LABELS, v.TENANT_NAME): name}, f"owner of namespace {namespace.name}")


# --- As JSON Patch ---------------------------------------------------------------------------------------------------


def operations(pod: Obj, steps: Iterable[Step]) -> list[Obj]:
    """The JSON Patch that sets all this, and writes on the pod what was set and why."""
    steps = tuple(steps)
    if not steps:
        return []
    metadata = mapping(pod.get("metadata"))
    fields = _fields(pod, steps)
    absent = [path for path in (LABELS, ANNOTATIONS) if metadata.get(path[1]) is None]
    needed = [path for path in absent if any(field[:2] == path for field in fields)]
    return [*(_add(path, {}) for path in needed), *(_add(path, value) for path, value in fields.items())]


def _fields(pod: Obj, steps: tuple[Step, ...]) -> dict[Path, str]:
    """All fields with their values, and the note."""
    notes = mapping(mapping(pod.get("metadata")).get("annotations"))
    fields = {path: value for step in steps for path, value in step.fields.items()}
    fields[(*ANNOTATIONS, v.INJECTED)] = _noted(notes.get(v.INJECTED), steps)
    return fields


def _noted(before: object, steps: tuple[Step, ...]) -> str:
    """The note, after what an earlier round of admission wrote there."""
    said = [before] if isinstance(before, str) and before else []
    return "; ".join([*said, *(f"{step.what}: {step.why}" for step in steps)])


def _add(path: Path, value: object) -> Obj:
    return {"op": "add", "path": _pointer(path), "value": value}


@lru_cache(maxsize=256)  # all of them are names of ours
def _pointer(path: Path) -> str:
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)
