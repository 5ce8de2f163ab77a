"""Job, Deployment, ReplicaSet and StatefulSet."""

from __future__ import annotations

import copy
from typing import Any

from kubenexus.common.sandbox.selectors import matches_label_selector
from kubenexus.common.sandbox.validation.field import Field, same
from kubenexus.common.sandbox.validation.filling import at, drop, items
from kubenexus.common.sandbox.validation.grammar import dns_label
from kubenexus.common.sandbox.validation.meta import label_selector
from kubenexus.common.sandbox.validation.pods import pod_template
from kubenexus.common.sandbox.validation.policy import int_or_percent, whole_at_most

INDEXED_PARALLELISM = 100_000
_MISMATCH = "`selector` does not match template `labels`"
_STATEFUL_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def deployment(new: Field, old: Field) -> None:
    """A Deployment; its selector never changes."""
    _replicas(new, old, "deployment", "ReplicaSet")
    spec = new["spec"]
    _strategy(spec["strategy"])
    spec["revisionHistoryLimit"].at_least(0)
    deadline = spec["progressDeadlineSeconds"]
    deadline.at_least(0)
    if deadline.present and deadline.integer() <= spec["minReadySeconds"].integer():
        deadline.invalid("must be greater than minReadySeconds")


def replica_set(new: Field, old: Field) -> None:
    """A ReplicaSet; its selector never changes."""
    _replicas(new, old, "deployment", "ReplicaSet")


def stateful_set(new: Field, old: Field) -> None:
    """A StatefulSet, of which little may change but its template and its size."""
    spec = new["spec"]
    if spec["podManagementPolicy"].text() not in ("OrderedReady", "Parallel"):
        spec["podManagementPolicy"].invalid("must be 'OrderedReady' or 'Parallel'")
    if spec["updateStrategy"]["type"].text() not in ("RollingUpdate", "OnDelete"):
        spec["updateStrategy"].invalid("must be 'RollingUpdate' or 'OnDelete'")
    if spec["serviceName"].text() and not old.present:
        spec["serviceName"].follow(dns_label)
    _replicas(new, Field(None), "statefulset", "StatefulSet")
    if old.present and not same(_fixed(spec.value), _fixed(old["spec"].value)):
        names = [f"'{name}'" for name in _STATEFUL_CHANGEABLE]
        allowed = ", ".join(names[:-1]) + f" and {names[-1]}"
        spec.forbidden(f"updates to statefulset spec for fields other than {allowed} are forbidden")


def job(new: Field, old: Field) -> None:
    """A Job with its selector generated; template, selector and completion mode never change."""
    spec = new["spec"]
    _numbers(spec)
    _completion(new, spec)
    _selector(spec, None)
    pod_template(spec["template"])
    _job_restarts(spec["template"]["spec"]["restartPolicy"], spec)
    if old.present:
        _job_update(spec, old["spec"])


def _replicas(new: Field, old: Field, name: str, kind: str) -> None:
    spec = new["spec"]
    spec["replicas"].at_least(0)
    spec["minReadySeconds"].at_least(0)
    _selector(spec, name)
    template = spec["template"]
    pod_template(template)
    restarts = template["spec"]["restartPolicy"]
    if restarts.text() != "Always":
        restarts.unsupported(("Always",))
    if template["spec"]["activeDeadlineSeconds"].present:
        template["spec"]["activeDeadlineSeconds"].forbidden(f"activeDeadlineSeconds in {kind} is not Supported")
    if old.present:
        spec["selector"].keep(old["spec"]["selector"])


def _selector(spec: Field, empty_is_invalid_for: str | None) -> None:
    """The selector is there, is well formed and selects the template's pods."""
    selector, labels = spec["selector"], spec["template"]["metadata"]["labels"]
    found = {key: value.text() for key, value in labels.entries()}
    if not selector.present:
        selector.required()
        return
    before = len(selector.errors)
    label_selector(selector)
    if empty_is_invalid_for and not selector["matchLabels"].value and not selector["matchExpressions"].value:
        selector.invalid(f"empty selector is invalid for {empty_is_invalid_for}")
    if len(selector.errors) == before and not matches_label_selector(selector.value, found):
        labels.invalid(_MISMATCH)


def _strategy(strategy: Field) -> None:
    rolling = strategy["rollingUpdate"]
    match strategy["type"].text():
        case "Recreate":
            if rolling.present:
                rolling.forbidden("may not be specified when strategy `type` is 'Recreate'")
        case "RollingUpdate":
            for name in ("maxUnavailable", "maxSurge"):
                int_or_percent(rolling[name])
            if all(rolling[name].value in (0, "0%") for name in ("maxUnavailable", "maxSurge")):
                rolling["maxUnavailable"].invalid("may not be 0 when `maxSurge` is 0")
            whole_at_most(rolling["maxUnavailable"])
        case _:
            strategy.unsupported(("Recreate", "RollingUpdate"))


def _fixed(spec: Any) -> Any:
    fixed = copy.copy(spec)
    drop(fixed, *_STATEFUL_CHANGEABLE)
    return fixed


def _numbers(spec: Field) -> None:
    for name in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        spec[name].at_least(0)


def _completion(new: Field, spec: Field) -> None:
    mode = spec["completionMode"].text()
    if mode == "Indexed":
        _indexed(new, spec)
    elif mode in ("", "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if spec[name].present:
                spec[name].invalid("requires indexed completion mode")
    else:
        spec["completionMode"].unsupported(("NonIndexed", "Indexed"))


def _indexed(new: Field, spec: Field) -> None:
    if not spec["completions"].present:
        spec["completions"].required("when completion mode is Indexed")
    if spec["parallelism"].integer() > INDEXED_PARALLELISM:
        why = f"must be less than or equal to {INDEXED_PARALLELISM} when completion mode is Indexed"
        spec["parallelism"].invalid(why)
    name, completions = new["metadata"]["name"], spec["completions"].integer()
    longest = f"{name.text()}-{completions - 1}"
    if completions > 0 and dns_label(longest):
        name.invalid(f"will not able to create pod with invalid DNS label: {longest}")


def _job_restarts(policy: Field, spec: Field) -> None:
    match policy.text():
        case "Always" | "":
            policy.required('valid values: "OnFailure", "Never"')
        case "OnFailure":
            if spec["podFailurePolicy"].present:
                policy.invalid('only "Never" is supported when podFailurePolicy is specified')
        case "Never":
            pass
        case _:
            policy.unsupported(("OnFailure", "Never"))


def _job_update(spec: Field, old: Field) -> None:
    if spec["completionMode"].text() != "Indexed":
        spec["completions"].keep(old["completions"])
    elif spec["completions"].value not in (old["completions"].value, spec["parallelism"].value):
        spec["completions"].invalid("can only be modified in tandem with spec.parallelism")
    spec["selector"].keep(old["selector"])
    suspended = old["suspend"].flag()
    if not same(_job_template(spec["template"].value, suspended), _job_template(old["template"].value, suspended)):
        spec["template"].invalid("field is immutable")
    for name in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        spec[name].keep(old[name])


def _job_template(template: Any, suspended: bool) -> Any:
    """What must stay of a Job's template: while it is suspended, where its pods run may still be decided."""
    fixed = copy.deepcopy(template)
    if suspended:
        drop(at(fixed, "metadata"), "labels", "annotations")
        drop(at(fixed, "spec"), "nodeSelector", "tolerations", "schedulingGates")
        drop(at(fixed, "spec", "affinity"), "nodeAffinity")
        for container in items(fixed, "spec", "containers") + items(fixed, "spec", "initContainers"):
            drop(container, "resources")
    return fixed
