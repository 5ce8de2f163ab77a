"""What the API server itself knows about pods: first status, quality of service, binding, grace. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubenexus.common import quantity
from kubenexus.common.kube.resources import PODS
from kubenexus.common.sandbox.errors import ApiError, bad_request, conflict

Obj = dict[str, Any]

TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def first_status(pod: Obj) -> Obj:
    """The status of a pod nobody has looked at yet."""
    status: Obj = {"phase": "Pending", "qosClass": quality(pod)}
    if (pod.get("spec") or {}).get("schedulingGates"):
        status["conditions"] = [dict(_GATED)]
    return status


def quality(pod: Obj) -> str:
    """Guaranteed, Burstable or BestEffort, by cpu and memory alone."""
    spec = pod.get("spec") or {}
    claims = [spec] if spec.get("resources") else (spec.get("containers") or []) + (spec.get("initContainers") or [])
    asked = [_compute(claim, "requests") for claim in claims]
    capped = [_compute(claim, "limits") for claim in claims]
    if not any(asked) and not any(capped):
        return "BestEffort"
    if all(len(limits) == 2 and needs == limits for needs, limits in zip(asked, capped, strict=True)):
        return "Guaranteed"
    return "Burstable"


def _compute(claim: Obj, side: str) -> dict[str, int]:
    given = (claim.get("resources") or {}).get(side) or {}
    try:
        amounts = {name: quantity.milli(given[name]) for name in ("cpu", "memory") if name in given}
    except quantity.QuantityError:
        return {}  # validation refuses the pod with the right sentence
    return {name: amount for name, amount in amounts.items() if amount}


def with_condition(pod: Obj, condition: Obj, now: str) -> Obj:
    """The pod with this condition set; the transition time moves only when the status does."""
    status = pod.get("status") or {}
    others = [each for each in status.get("conditions") or [] if each["type"] != condition["type"]]
    before = [each for each in status.get("conditions") or [] if each["type"] == condition["type"]]
    flipped = not before or before[0].get("status") != condition["status"]
    since = now if flipped else before[0].get("lastTransitionTime")
    entry = {"lastTransitionTime": since} | condition
    return pod | {"status": status | {"conditions": [*others, entry]}}


def check_binding(binding: Obj, name: str) -> str:
    """The node a Binding asks for; refuses one that is badly formed."""
    meta, target = binding.get("metadata") or {}, binding.get("target") or {}
    if meta.get("name") != name:
        raise bad_request("name in URL does not match name in Binding object")
    if target.get("kind", "") not in ("", "Node"):
        kind = target["kind"]
        raise _unstructured(f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        raise _unstructured("target.name: Required value")
    return str(target["name"])


def _unstructured(message: str) -> ApiError:
    """The real server forgets to say which kind of error a bad target is, hence 500."""
    return ApiError(500, "", message)


def bound(pod: Obj, binding: Obj, node: str, node_labels: Mapping[str, str], now: str) -> Obj:
    """The pod assigned to the node, or the refusal. Annotations and labels of the Binding are merged in."""
    asked, meta, spec = binding.get("metadata") or {}, pod["metadata"], pod["spec"]
    name = meta["name"]
    _check_preconditions(asked, meta)
    for refused, why in (
        (meta.get("deletionTimestamp"), f"pod {name} is being deleted, cannot be assigned to a host"),
        (spec.get("nodeName"), f'pod {name} is already assigned to node "{spec.get("nodeName")}"'),
        (spec.get("schedulingGates"), f"pod {name} has non-empty .spec.schedulingGates"),
    ):
        if refused:
            raise conflict(PODS, name, why, subject="pods/binding")
    status = {key: value for key, value in (pod.get("status") or {}).items() if key != "nominatedNodeName"}
    topology = {key: node_labels[key] for key in TOPOLOGY_LABELS if key in node_labels}
    merged = dict(meta)
    for field, extra in (("annotations", {}), ("labels", topology)):
        if together := {**(meta.get(field) or {}), **(asked.get(field) or {}), **extra}:
            merged[field] = together
    assigned = pod | {"metadata": merged, "spec": spec | {"nodeName": node}, "status": status}
    return with_condition(assigned, {"type": "PodScheduled", "status": "True"}, now)


def _check_preconditions(asked: Obj, meta: Obj) -> None:
    for field, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if asked.get(field) and asked[field] != meta[field]:
            why = f"Precondition failed: {word} in precondition: {asked[field]}, {word} in object meta: {meta[field]}"
            raise conflict(PODS, meta["name"], why)


def grace(pod: Obj, asked: int | None) -> int:
    """Seconds a pod gets to end: none when no kubelet runs it."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    seconds = spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked
    return int(seconds) if seconds >= 0 else 1


def is_ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
