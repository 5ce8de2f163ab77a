"""The StatefulSet controller: numbered pods with their own claims, in order or all at once. Pure.

Left out: minReadySeconds, maxUnavailable, claim retention and the history of revisions.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from kubenexus.common.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from kubenexus.common.sandbox.controllers.pods import is_active, is_deleting, is_ready, is_terminal
from kubenexus.common.sandbox.controllers.templates import template_hash
from kubenexus.common.sandbox.controllers.view import View
from kubenexus.common.sandbox.controllers.writes import Create, Delete, Write, pod_from_template, status

Obj = dict[str, Any]

INDEX: Final = "apps.kubernetes.io/pod-index"
REVISION: Final = "controller-revision-hash"


def reconcile(view: View, stateful_set: Obj, _now: datetime) -> Iterator[Write]:
    """The next pods to create or delete (one at a time when ordered), then the status."""
    spec = stateful_set["spec"]
    pods = {_ordinal(pod): pod for pod in view.controlled(stateful_set, PODS)}
    start = (spec.get("ordinals") or {}).get("start", 0)
    wanted = range(start, start + spec.get("replicas", 1))
    revision = f"{stateful_set['metadata']['name']}-{template_hash(spec['template'])}"
    if not is_deleting(stateful_set):
        steps = list(_steps(view, stateful_set, pods, wanted, revision))
        steps = steps or list(_update(stateful_set, pods, wanted, revision))
        ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        for step in steps[:1] if ordered else steps:
            yield from step
    yield from status(STATEFUL_SETS, stateful_set, _status(stateful_set, list(pods.values()), revision))


def _steps(view: View, stateful_set: Obj, pods: dict[int, Obj], wanted: range, revision: str) -> Iterator[list[Write]]:
    """What is to be done, in order: first up, then down. An empty step waits for a pod to come or go."""
    for ordinal in wanted:
        pod = pods.get(ordinal)
        if pod is None:
            claims = _missing_claims(view, stateful_set, ordinal)
            yield [*claims, Create(PODS, _pod(stateful_set, ordinal, revision))]
        elif is_terminal(pod) and not is_deleting(pod):
            yield [Delete(PODS, pod)]
        elif is_deleting(pod) or not is_ready(pod):
            yield []
    for ordinal in sorted(set(pods) - set(wanted), reverse=True):
        yield [] if is_deleting(pods[ordinal]) else [Delete(PODS, pods[ordinal])]


def _update(stateful_set: Obj, pods: dict[int, Obj], wanted: range, revision: str) -> Iterator[list[Write]]:
    """Replace the last pod of another revision; the partition keeps the lower numbers as they are."""
    strategy = stateful_set["spec"].get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    stale = [pods[each] for each in wanted if each >= partition and _revision(pods[each]) != revision]
    if stale and strategy.get("type", "RollingUpdate") == "RollingUpdate":
        yield [Delete(PODS, stale[-1])]


def _pod(stateful_set: Obj, ordinal: int, revision: str) -> Obj:
    spec = stateful_set["spec"]
    pod = pod_from_template(STATEFUL_SETS, stateful_set, spec["template"])
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    meta = pod["metadata"]
    meta["name"] = name
    own = {"statefulset.kubernetes.io/pod-name": name, INDEX: str(ordinal), REVISION: revision}
    meta["labels"] = meta.get("labels", {}) | own
    claims = [each["metadata"]["name"] for each in spec.get("volumeClaimTemplates") or ()]
    others = [each for each in pod["spec"].get("volumes") or () if each["name"] not in claims]
    mine = [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}} for each in claims]
    pod["spec"] |= {"hostname": name} | ({"subdomain": spec["serviceName"]} if spec.get("serviceName") else {})
    pod["spec"] |= {"volumes": [*others, *mine]} if mine else {}
    return pod


def _missing_claims(view: View, stateful_set: Obj, ordinal: int) -> Iterator[Create]:
    """The claims of one pod; nobody deletes them with it, and in the sandbox nobody binds them to volumes."""
    meta, spec = stateful_set["metadata"], stateful_set["spec"]
    for template in spec.get("volumeClaimTemplates") or ():
        name = f"{template['metadata']['name']}-{meta['name']}-{ordinal}"
        if view.get(PERSISTENT_VOLUME_CLAIMS, meta["namespace"], name) is None:
            labels = (template["metadata"].get("labels") or {}) | (spec["selector"].get("matchLabels") or {})
            claim = {
                "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
                "kind": PERSISTENT_VOLUME_CLAIMS.kind,
                "metadata": {"name": name, "namespace": meta["namespace"], "labels": labels},
                "spec": template["spec"],
            }
            yield Create(PERSISTENT_VOLUME_CLAIMS, claim)


def _status(stateful_set: Obj, pods: list[Obj], revision: str) -> Obj:
    active = [pod for pod in pods if is_active(pod)]
    updated = sum(_revision(pod) == revision for pod in active)
    ready = sum(map(is_ready, active))
    finished = updated == len(active)
    current = revision if finished else (stateful_set.get("status") or {}).get("currentRevision", revision)
    return {
        "observedGeneration": stateful_set["metadata"].get("generation"),
        "replicas": len(active),
        "readyReplicas": ready or None,
        "availableReplicas": ready,
        "currentReplicas": sum(_revision(pod) == current for pod in active) or None,
        "updatedReplicas": updated or None,
        "currentRevision": current,
        "updateRevision": revision,
        "collisionCount": 0,
    }


def _ordinal(pod: Obj) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _revision(pod: Obj) -> str:
    return str(pod["metadata"].get("labels", {}).get(REVISION, ""))
