"""The ResourceClaim controller: a claim for every template a pod names, and back when the pod is done. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from kubenexus.common.kube.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from kubenexus.common.sandbox.controllers.pods import is_active, is_terminal
from kubenexus.common.sandbox.controllers.view import View
from kubenexus.common.sandbox.controllers.writes import Create, Patch, Write, controller_reference, status

Obj = dict[str, Any]

POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"


def reconcile_pod(view: View, pod: Obj, _now: datetime) -> Iterator[Write]:
    """Create the claims that are missing; once they exist, tell the pod their names."""
    wanted = [each for each in pod["spec"].get("resourceClaims") or () if "resourceClaimTemplateName" in each]
    if not wanted or not is_active(pod):
        return
    made = {_pod_claim(claim): claim["metadata"]["name"] for claim in view.controlled(pod, RESOURCE_CLAIMS)}
    for each in wanted:
        template = view.get(RESOURCE_CLAIM_TEMPLATES, pod["metadata"]["namespace"], each["resourceClaimTemplateName"])
        if each["name"] not in made and template is not None:
            yield Create(RESOURCE_CLAIMS, _claim(pod, each["name"], template))
    names = [{"name": each["name"], "resourceClaimName": made[each["name"]]} for each in wanted if each["name"] in made]
    if names:
        yield from status(PODS, pod, {"resourceClaimStatuses": names})


def reconcile_claim(view: View, claim: Obj, _now: datetime) -> Iterator[Patch]:
    """Drop the reservations of pods that are gone or finished; without any the devices are free again."""
    present = claim.get("status") or {}
    reserved = present.get("reservedFor") or []
    kept = [each for each in reserved if each.get("resource") != PODS.plural or _runs(view, each["uid"])]
    if kept != reserved:
        yield from status(
            RESOURCE_CLAIMS, claim, {"reservedFor": kept} if kept else {"reservedFor": None, "allocation": None}
        )


def _runs(view: View, uid: str) -> bool:
    found = view.by_uid(uid)
    return found is not None and not is_terminal(found[1])


def _pod_claim(claim: Obj) -> str:
    return str(claim["metadata"].get("annotations", {}).get(POD_CLAIM_NAME, ""))


def _claim(pod: Obj, name: str, template: Obj) -> Obj:
    model = template["spec"]
    meta = model.get("metadata") or {}
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "generateName": f"{pod['metadata']['name']}-{name}-",
            "namespace": pod["metadata"]["namespace"],
            "labels": meta.get("labels") or {},
            "annotations": (meta.get("annotations") or {}) | {POD_CLAIM_NAME: name},
            "ownerReferences": [controller_reference(PODS, pod)],
        },
        "spec": model["spec"],
    }
