"""The ReplicaSet controller: as many pods as asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from kubenexus.common.kube.resources import PODS, REPLICA_SETS
from kubenexus.common.sandbox.controllers.pods import is_active, is_deleting, is_ready, removal_rank
from kubenexus.common.sandbox.controllers.view import View
from kubenexus.common.sandbox.controllers.writes import Create, Delete, Write, pod_from_template, status

Obj = dict[str, Any]


def reconcile(view: View, replica_set: Obj, _now: datetime) -> Iterator[Write]:
    """Pods to create or delete, then the status. Finished pods are left lying, as in Kubernetes."""
    owned = view.controlled(replica_set, PODS)
    pods = [pod for pod in owned if is_active(pod)]
    spec = replica_set["spec"]
    surplus = len(pods) - spec.get("replicas", 1)
    if not is_deleting(replica_set):
        yield from (Delete(PODS, pod) for pod in sorted(pods, key=removal_rank)[: max(0, surplus)])
        for _ in range(-surplus):
            yield Create(PODS, pod_from_template(REPLICA_SETS, replica_set, spec["template"]))
    ready = sum(map(is_ready, pods))
    counts = {
        "replicas": len(pods),
        "fullyLabeledReplicas": len(pods) or None,
        "readyReplicas": ready or None,
        "availableReplicas": ready or None,
        "terminatingReplicas": sum(map(is_deleting, owned)),
        "observedGeneration": replica_set["metadata"].get("generation"),
    }
    yield from status(REPLICA_SETS, replica_set, counts)
