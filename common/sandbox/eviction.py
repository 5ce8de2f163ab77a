"""Eviction: a deletion that asks the pod's disruption budget first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubenexus.common.kube.resources import POD_DISRUPTION_BUDGETS
from kubenexus.common.sandbox.errors import ApiError, bad_request, forbidden, too_many_requests
from kubenexus.common.sandbox.pods import is_ready
from kubenexus.common.sandbox.selectors import matches_label_selector

Obj = dict[str, Any]

DISRUPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_MOST_DISRUPTED = 2000


def check_name(eviction: Obj, name: str) -> None:
    if (eviction.get("metadata") or {}).get("name") != name:
        raise bad_request("name in URL does not match name in Eviction object")


def needs_budget(pod: Obj) -> bool:
    """Whether evicting this pod disrupts anything: not when it does not run, or is going already."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed", "Pending") and not pod["metadata"].get("deletionTimestamp")


def budget_of(pod: Obj, budgets: Iterable[Obj]) -> Obj | None:
    """The one budget that covers the pod; more than one is an error, as in the real server."""
    labels = pod["metadata"].get("labels")
    covering = [each for each in budgets if matches_label_selector((each.get("spec") or {}).get("selector"), labels)]
    if len(covering) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "", message)
    return covering[0] if covering else None


def is_free(pod: Obj, budget: Obj) -> bool:
    """An unready pod may go without being counted when the rest is healthy, or when the budget does not mind."""
    if is_ready(pod):
        return False
    status = budget.get("status") or {}
    desired, healthy = int(status.get("desiredHealthy", 0)), int(status.get("currentHealthy", 0))
    return budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0


def spend(budget: Obj, pod: str, now: str) -> Obj:
    """The status of the budget after one disruption; 429 when it allows none."""
    meta, status = budget["metadata"], budget.get("status") or {}
    name, allowed = meta["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", 10)
    if allowed < 0:
        raise forbidden(POD_DISRUPTION_BUDGETS, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(POD_DISRUPTION_BUDGETS, name, why)
    if allowed == 0:
        raise _refused(_why_not(name, status))
    disrupted = {**(status.get("disruptedPods") or {}), pod: now}
    return status | {"disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}


def _why_not(name: str, status: Obj) -> str:
    desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _refused(why: str, retry_after: int = 0) -> ApiError:
    cause = {"reason": "DisruptionBudget", "message": why}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return too_many_requests(message, retry_after, [cause])
