"""The disruption controller: how many pods of a PodDisruptionBudget may be evicted now. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from kubenexus.common.kube.resources import POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS
from kubenexus.common.sandbox.controllers.pods import is_deleting, is_ready
from kubenexus.common.sandbox.controllers.view import View, controller_uid
from kubenexus.common.sandbox.controllers.writes import Wake, Write, after, moment, scaled, set_condition, status
from kubenexus.common.sandbox.selectors import matches_label_selector

Obj = dict[str, Any]

EVICTION_SECONDS: Final = 120
"""How long an eviction that was granted may take to become a deletion."""


def reconcile(view: View, budget: Obj, now: datetime) -> Iterator[Write]:
    """The status that evictions are decided on."""
    pods = {
        pod["metadata"]["name"]: pod for pod in view.all(PODS, budget["metadata"]["namespace"]) if _covers(budget, pod)
    }
    granted: dict[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
    pending = {
        name: since
        for name, since in granted.items()
        if name in pods and not is_deleting(pods[name]) and now < after(since, EVICTION_SECONDS)
    }
    healthy = sum(is_ready(pod) and not is_deleting(pod) and name not in pending for name, pod in pods.items())
    expected, desired = _expected(view, budget["spec"], list(pods.values()))
    allowed = max(0, healthy - desired) if expected > 0 else 0
    wanted = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": budget["metadata"].get("generation"),
        "conditions": _conditions(budget, allowed, now),
    }
    if pending != granted:
        wanted["disruptedPods"] = dict.fromkeys(granted) | pending
    yield from status(POD_DISRUPTION_BUDGETS, budget, wanted)
    if pending:
        yield Wake(after(min(pending.values(), key=moment), EVICTION_SECONDS))


def _covers(budget: Obj, pod: Obj) -> bool:
    return matches_label_selector(budget["spec"].get("selector"), pod["metadata"].get("labels"))


def _expected(view: View, spec: Obj, pods: list[Obj]) -> tuple[int, int]:
    """How many pods there should be, and how many of them healthy."""
    if (spare := spec.get("maxUnavailable")) is not None:
        total = _scale(view, pods)
        return total, max(0, total - scaled(spare, total, round_up=True))
    least = spec.get("minAvailable", 1)
    total = len(pods) if isinstance(least, int) else _scale(view, pods)
    return total, scaled(least, total, round_up=True)


def _scale(view: View, pods: list[Obj]) -> int:
    """The replicas that the controllers of these pods want; a pod without a known one does not count."""
    found = (view.by_uid(uid) for uid in {controller_uid(pod) for pod in pods})
    return sum(
        int(_root(view, each[1])["spec"].get("replicas", 1)) for each in found if each and "replicas" in each[1]["spec"]
    )


def _root(view: View, owner: Obj) -> Obj:
    """A ReplicaSet's Deployment, which knows how many pods are wanted during a rollout."""
    above = view.by_uid(controller_uid(owner)) if owner["kind"] == REPLICA_SETS.kind else None
    return above[1] if above else owner


def _conditions(budget: Obj, allowed: int, now: datetime) -> list[Obj]:
    conditions = (budget.get("status") or {}).get("conditions") or []
    reason = "SufficientPods" if allowed else "InsufficientPods"
    changed = set_condition(conditions, now, "DisruptionAllowed", allowed > 0, reason)
    generation = budget["metadata"].get("generation")
    return [each | {"message": "", "observedGeneration": generation} for each in changed]
