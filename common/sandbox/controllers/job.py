"""The Job controller: creates pods until enough have succeeded or too many have failed. Pure.

As in Kubernetes a finished pod is counted once: it carries a finalizer from its creation until the status of the Job
includes it. Left out: podFailurePolicy, successPolicy, backoffLimitPerIndex, podReplacementPolicy and managedBy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from kubenexus.common import cpulist
from kubenexus.common.kube.resources import JOBS, PODS
from kubenexus.common.sandbox.controllers.pods import is_active, is_deleting, is_ready, is_terminal, phase, removal_rank
from kubenexus.common.sandbox.controllers.view import View, controller_uid
from kubenexus.common.sandbox.controllers.writes import (
    Create,
    Delete,
    Patch,
    Wake,
    Write,
    after,
    has_condition,
    moment,
    pod_from_template,
    set_condition,
    stamp,
    status,
    without_finalizer,
)

Obj = dict[str, Any]

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
_FIRST_RETRY: Final = timedelta(seconds=10)
_LONGEST_RETRY: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """How the Job ends: the condition that says so first, and the one it becomes when its last pod is gone."""

    interim: str
    final: str
    reason: str
    message: str


_COMPLETE = _Verdict(
    "SuccessCriteriaMet", "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
)
_TOO_MANY_FAILURES = _Verdict(
    "FailureTarget", "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
)
_TOO_LATE = _Verdict("FailureTarget", "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")


class _Tally:
    """The Job and its pods, counted."""

    def __init__(self, job: Obj, pods: list[Obj]) -> None:
        self.spec: Obj = job["spec"]
        old: Obj = job.get("status") or {}
        self.indexed = self.spec.get("completionMode") == "Indexed"
        self.suspended = bool(self.spec.get("suspend"))
        self.completions: int | None = self.spec.get("completions")
        self.active = [pod for pod in pods if is_active(pod)]
        self.terminating = [pod for pod in pods if is_deleting(pod) and not is_terminal(pod)]
        tracked = [pod for pod in pods if FINALIZER in pod["metadata"].get("finalizers", ())]
        self.counted_now = [pod for pod in tracked if not is_active(pod)]
        won = [pod for pod in self.counted_now if phase(pod) == "Succeeded"]
        self.failed = old.get("failed", 0) + len(self.counted_now) - len(won)
        self.indexes = set(cpulist.parse(old.get("completedIndexes", ""))) | {
            _index(pod) for pod in won if self.indexed
        }
        self.succeeded = len(self.indexes) if self.indexed else old.get("succeeded", 0) + len(won)
        self.failures = [pod for pod in pods if phase(pod) == "Failed"]

    @property
    def wanted(self) -> int:
        """How many pods should be active."""
        parallelism: int = self.spec.get("parallelism", 1)
        if self.completions is None:
            return len(self.active) if self.succeeded else parallelism
        return max(0, min(parallelism, self.completions - self.succeeded))

    def verdict(self, started: str, now: datetime) -> _Verdict | None:
        deadline = self.spec.get("activeDeadlineSeconds")
        if self.failed > self.spec.get("backoffLimit", 6):
            return _TOO_MANY_FAILURES
        if deadline is not None and started and now >= after(started, deadline):
            return _TOO_LATE
        done = self.succeeded and not self.active if self.completions is None else self.succeeded >= self.completions
        return _COMPLETE if done and not self.suspended else None

    def missing_indexes(self, count: int) -> list[int]:
        taken = self.indexes | {_index(pod) for pod in self.active}
        return [index for index in range(self.completions or 0) if index not in taken][:count]


def reconcile(view: View, job: Obj, now: datetime) -> Iterator[Write]:
    """Pods to create or delete, then the status, then the pods that it now includes are let go."""
    if _is_over(job):
        yield from _expire(job, now)
        return
    tally = _Tally(job, view.controlled(job, PODS))
    started = "" if tally.suspended else (job.get("status") or {}).get("startTime") or stamp(now)
    verdict = _decided(job) or tally.verdict(started, now)
    planned = 0
    for write in _pod_writes(job, tally, verdict, now):
        planned += isinstance(write, Create) - isinstance(write, Delete)
        yield write
    yield from status(JOBS, job, _status(job, tally, verdict, started, len(tally.active) + planned, now))
    for pod in tally.counted_now:
        yield without_finalizer(PODS, pod, FINALIZER)
    if started and not verdict and (deadline := tally.spec.get("activeDeadlineSeconds")) is not None:
        yield Wake(after(started, deadline))


def release_pod(view: View, pod: Obj, _now: datetime) -> Iterator[Patch]:
    """Nobody counts a pod whose Job is gone or over: let it go."""
    if FINALIZER in pod["metadata"].get("finalizers", ()):
        owner = view.by_uid(controller_uid(pod))
        if owner is None or _is_over(owner[1]):
            yield without_finalizer(PODS, pod, FINALIZER)


def _pod_writes(job: Obj, tally: _Tally, verdict: _Verdict | None, now: datetime) -> Iterator[Write]:
    if is_deleting(job):
        return
    wanted = 0 if verdict or tally.suspended else tally.wanted
    surplus = len(tally.active) - wanted
    if surplus > 0:
        for pod in sorted(tally.active, key=removal_rank)[:surplus]:
            if not verdict:  # taken back, which is no failure; pods that end with the Job count as failed
                yield without_finalizer(PODS, pod, FINALIZER)
            yield Delete(PODS, pod)
    elif surplus < 0 and (retry := _retry_at(tally)) and retry > now:
        yield Wake(retry)
    elif tally.indexed:
        yield from (Create(PODS, _indexed_pod(job, index)) for index in tally.missing_indexes(-surplus))
    else:
        yield from (Create(PODS, _pod(job)) for _ in range(-surplus))


def _retry_at(tally: _Tally) -> datetime | None:
    """Ten seconds after the last failure, twice as long after each further one."""
    if not tally.failures:
        return None
    wait: timedelta = _FIRST_RETRY * 2 ** min(len(tally.failures) - 1, 10)
    return max(moment(_failure_time(pod)) for pod in tally.failures) + min(wait, _LONGEST_RETRY)


def _failure_time(pod: Obj) -> str:
    states = [each.get("state", {}).get("terminated", {}) for each in pod["status"].get("containerStatuses") or ()]
    finished = [state["finishedAt"] for state in states if "finishedAt" in state]
    return str(max(finished, default=pod["status"].get("startTime") or pod["metadata"]["creationTimestamp"]))


def _decided(job: Obj) -> _Verdict | None:
    """The verdict of an earlier round, which stands."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        for interim, final in (("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")):
            if condition["type"] == interim:
                return _Verdict(interim, final, condition.get("reason", ""), condition.get("message", ""))
    return None


def _status(job: Obj, tally: _Tally, verdict: _Verdict | None, started: str, active: int, now: datetime) -> Obj:
    conditions = _conditions(job, tally, verdict, now)
    complete = any(each["type"] == "Complete" for each in conditions)
    return {
        "startTime": started or None,
        "completionTime": stamp(now) if complete else None,
        "active": active or None,
        "ready": sum(map(is_ready, tally.active)),
        "terminating": len(tally.terminating),
        "succeeded": tally.succeeded or None,
        "failed": tally.failed or None,
        "completedIndexes": _intervals(tally.indexes) or None,
        "uncountedTerminatedPods": {},
        "conditions": conditions or None,
    }


def _conditions(job: Obj, tally: _Tally, verdict: _Verdict | None, now: datetime) -> list[Obj]:
    conditions: list[Obj] = (job.get("status") or {}).get("conditions") or []
    if verdict:
        conditions = set_condition(conditions, now, verdict.interim, True, verdict.reason, verdict.message)
        if not tally.active and not tally.terminating:
            conditions = set_condition(conditions, now, verdict.final, True, verdict.reason, verdict.message)
    elif tally.suspended:
        conditions = set_condition(conditions, now, "Suspended", True, "JobSuspended", "Job suspended")
    elif has_condition(job, "Suspended"):
        conditions = set_condition(conditions, now, "Suspended", False, "JobResumed", "Job resumed")
    return [{"lastProbeTime": each["lastTransitionTime"]} | each for each in conditions]


def _is_over(job: Obj) -> bool:
    return has_condition(job, "Complete") or has_condition(job, "Failed")


def _expire(job: Obj, now: datetime) -> Iterator[Write]:
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    if seconds is None or is_deleting(job):
        return
    ends = [
        each["lastTransitionTime"] for each in job["status"]["conditions"] if each["type"] in ("Complete", "Failed")
    ]
    end = after(ends[0], seconds)
    yield Delete(JOBS, job, "Foreground") if now >= end else Wake(end)


def _index(pod: Obj) -> int:
    return int(pod["metadata"].get("annotations", {}).get(INDEX, "-1"))


def _intervals(indexes: set[int]) -> str:
    """`0,1,3-5`: Kubernetes writes a range from three numbers on."""
    runs = (part.split("-") for part in cpulist.format_list(sorted(indexes)).split(","))
    return ",".join(("-" if int(run[-1]) - int(run[0]) > 1 else ",").join(run) for run in runs if run != [""])


def _pod(job: Obj) -> Obj:
    pod = pod_from_template(JOBS, job, job["spec"]["template"])
    meta = job["metadata"]
    names = {"job-name": meta["name"], "controller-uid": meta["uid"]}
    labels = {prefix + key: value for prefix in ("", "batch.kubernetes.io/") for key, value in names.items()}
    pod["metadata"]["labels"] = pod["metadata"].get("labels", {}) | labels
    pod["metadata"]["finalizers"] = [*pod["metadata"].get("finalizers", ()), FINALIZER]
    return pod


def _indexed_pod(job: Obj, index: int) -> Obj:
    pod, name, mark = _pod(job), job["metadata"]["name"], {INDEX: str(index)}
    meta, spec = pod["metadata"], pod["spec"]
    meta["generateName"] = f"{name}-{index}-"
    meta["labels"] |= mark
    meta["annotations"] = meta.get("annotations", {}) | mark
    spec.setdefault("hostname", f"{name}-{index}")
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [_with_index_variable(container) for container in spec[kind]]
    return pod


def _with_index_variable(container: Obj) -> Obj:
    name = "JOB_COMPLETION_INDEX"
    variables: list[Obj] = container.get("env") or []
    if any(each["name"] == name for each in variables):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return container | {"env": [*variables, {"name": name, "valueFrom": source}]}
