"""What a kubelet checks before it accepts a pod, and the words in which it refuses. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from kubenexus.common import quantity
from kubenexus.common.objects import pod_requests
from kubenexus.common.objects.reading import Fields
from kubenexus.common.objects.selectors import read_node_selector

Obj = dict[str, Any]

_CHECKED_FIRST: Final = ("pods", "cpu", "memory", "ephemeral-storage")


class Rejection(NamedTuple):
    """Why the pod may not run here: a word for `status.reason` and a sentence."""

    reason: str
    message: str


def rejection(node: Obj, pod: Obj, others: Iterable[Obj]) -> Rejection | None:
    """The first reason against running the pod beside the others; a resource the node does not know is not checked."""
    for name, requested, used, capacity in _shortages(node, pod, others):
        numbers = f"requested: {requested}, used: {used}, capacity: {capacity}"
        return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {name}, {numbers}")
    if not _affinity_matches(node, pod["spec"]):
        return _failed_predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if any(_evicts(taint, pod["spec"]) for taint in node.get("spec", {}).get("taints") or ()):
        return _failed_predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def allocatable(node: Obj) -> dict[str, int]:
    """What pods may use: cpu in milli, everything else in units."""
    amounts = (node.get("status") or {}).get("allocatable") or (node.get("status") or {}).get("capacity") or {}
    return {name: quantity.milli(text) if name == "cpu" else quantity.value(text) for name, text in amounts.items()}


def _shortages(node: Obj, pod: Obj, others: Iterable[Obj]) -> Iterator[tuple[str, int, int, int]]:
    room = allocatable(node)
    used: Counter[str] = Counter()
    for other in others:
        used.update(pod_requests(other) | {"pods": 1})
    wanted = pod_requests(pod) | {"pods": 1}
    order = [*_CHECKED_FIRST, *sorted(set(wanted) - set(_CHECKED_FIRST))]
    for name in order:
        known = name in room or name in _CHECKED_FIRST
        if known and wanted.get(name) and wanted[name] > room.get(name, 0) - used[name]:
            yield name, wanted[name], used[name], room.get(name, 0)


def _affinity_matches(node: Obj, spec: Obj) -> bool:
    labels, name = node["metadata"].get("labels") or {}, node["metadata"]["name"]
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = read_node_selector(Fields(affinity, []), "requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or required.matches(labels, name)


def _evicts(taint: Obj, spec: Obj) -> bool:
    tolerations = spec.get("tolerations") or ()
    return taint["effect"] == "NoExecute" and not any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Obj, taint: Obj) -> bool:
    key, operator = toleration.get("key", ""), toleration.get("operator", "Equal")
    return (
        toleration.get("effect", "") in ("", taint["effect"])
        and (key == taint["key"] or (not key and operator == "Exists"))
        and (operator == "Exists" or toleration.get("value", "") == taint.get("value", ""))
    )


def _failed_predicate(name: str, why: str) -> Rejection:
    return Rejection(name, f"Predicate {name} failed: {why}")
