"""Admission that is built into an API server and that we depend on: Priority and DefaultTolerationSeconds. Pure.

Taints by node condition are left out: nodes of the sandbox are tainted by nobody but their owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubenexus.common.sandbox.errors import ApiError

Obj = dict[str, Any]

TOLERATION_SECONDS: Final = 300
_NODE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _system_class(name: str, value: int, description: str) -> Obj:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": description,
        "preemptionPolicy": "PreemptLowerPriority",
    }


SYSTEM_PRIORITY_CLASSES: Final = (
    _system_class("system-cluster-critical", 2_000_000_000, "Pods that must run in the cluster, on any node."),
    _system_class("system-node-critical", 2_000_001_000, "Pods that must not be moved from their node."),
)


def admit_new_pod(pod: Obj, classes: Iterable[Obj]) -> Obj:
    """The pod with its priority and default tolerations filled in; 403 when its class is unknown or contradicted."""
    spec = pod["spec"] | _priority_fields(pod, [*SYSTEM_PRIORITY_CLASSES, *classes])
    return pod | {"spec": spec | {"tolerations": _tolerations(spec)}}


def admit_pod_update(pod: Obj, old: Obj) -> Obj:
    """The pod with the priority it already had, where the update left it out, and with default tolerations."""
    kept = {key: old["spec"][key] for key in ("priority", "preemptionPolicy") if key in old.get("spec", {})}
    spec = kept | pod["spec"]
    return pod | {"spec": spec | {"tolerations": _tolerations(spec)}}


def check_priority_class(obj: Obj, classes: Iterable[Obj], *, creating: bool) -> None:
    """Refuse a second global default."""
    name = obj["metadata"]["name"]
    default = _default_class(classes)
    if obj.get("globalDefault") and default and (creating or _name(default) != name):
        text = f"PriorityClass {_name(default)} is already marked as default. Only one default can exist"
        raise _forbidden("scheduling.k8s.io", "priorityclasses", name, text)


def _priority_fields(pod: Obj, classes: list[Obj]) -> Obj:
    spec = pod["spec"]
    chosen = _chosen_class(pod, classes)
    fields: Obj = {"priority": chosen.get("value", 0)}
    if policy := chosen.get("preemptionPolicy"):
        fields["preemptionPolicy"] = policy
    if name := _name(chosen):
        fields["priorityClassName"] = name
    for key, kind, field in (("priority", "integer", "priority"), ("preemptionPolicy", "string", "PreemptionPolicy")):
        if key in fields and spec.get(key) not in (None, fields[key]):
            raise _forbidden_pod(
                pod,
                f"the {kind} value of {field} ({spec[key]}) must not be provided in pod spec; "
                f"priority admission controller computed {fields[key]} from the given PriorityClass name",
            )
    return fields


def _chosen_class(pod: Obj, classes: list[Obj]) -> Obj:
    wanted = pod["spec"].get("priorityClassName")
    if not wanted:
        return _default_class(classes) or {"preemptionPolicy": "PreemptLowerPriority"}
    named = [each for each in classes if _name(each) == wanted]
    if not named:
        raise _forbidden_pod(pod, f"no PriorityClass with name {wanted} was found")
    return named[-1]


def _default_class(classes: Iterable[Obj]) -> Obj | None:
    defaults = [each for each in classes if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each.get("value", 0)), default=None)


def _tolerations(spec: Obj) -> list[Obj]:
    given: list[Obj] = spec.get("tolerations") or []
    return given + [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}
        for key in _NODE_TAINTS
        if not any(_tolerates(each, key) for each in given)
    ]


def _tolerates(toleration: Obj, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def _name(obj: Obj) -> str:
    return str(obj.get("metadata", {}).get("name", ""))


def _forbidden_pod(pod: Obj, text: str) -> ApiError:
    meta = pod["metadata"]
    return _forbidden("", "pods", meta.get("name") or meta.get("generateName") or "Unknown", text)


def _forbidden(group: str, plural: str, name: str, text: str) -> ApiError:
    details = {"name": name, "kind": plural} | ({"group": group} if group else {})
    resource = f"{plural}.{group}" if group else plural
    return ApiError(403, "Forbidden", f'{resource} "{name}" is forbidden: {text}', details)
