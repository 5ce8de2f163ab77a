"""Admission for tests: clusters of a few facts, the reviews of an API server, and what their answers do to a pod."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from kubenexus.common import vocabulary as v
from kubenexus.common.sandbox.patch import json_patch
from kubenexus.webhook.cluster import Cluster, NamespaceFacts
from kubenexus.webhook.review import Answer, answer
from tests.builders import Builder, PodBuilder
from tests.builders import pod as scheduled_pod
from tests.owners import Known

Obj = dict[str, Any]

TEAM = "team"
OPTED_IN = {v.INJECT: "enabled"}


def cluster(
    *owners: Obj, labels: dict[str, str] | None = None, notes: dict[str, str] | None = None, **settings: Any
) -> Cluster:
    """A cluster with these owners and one namespace, which has asked for us unless `labels` says otherwise."""
    team = NamespaceFacts(TEAM, OPTED_IN if labels is None else labels, notes or {})
    return Cluster({TEAM: team}.get, Known(*owners), **settings)


def pod(name: str = "p") -> PodBuilder:
    """A pod as it arrives at admission: for a scheduler that nobody chose."""
    return scheduled_pod(name, TEAM).scheduler("default-scheduler")


def review(pod: Obj | Builder, operation: str = "CREATE", old: Obj | Builder | None = None, **request: Any) -> Obj:
    """What an API server sends about a pod."""
    objects = {"object": built(pod), "oldObject": None if old is None else built(old)}
    named = {"uid": "705ab4f5", "operation": operation, "namespace": TEAM}
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    whole = {**named, "kind": kind, **objects, **request}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole}


def built(pod: Obj | Builder) -> Obj:
    return pod.build() if isinstance(pod, Builder) else pod


def patch_of(found: Answer) -> list[Obj]:
    """The patch in an answer, decoded."""
    encoded = found.body["response"].get("patch", "")
    operations: list[Obj] = json.loads(base64.b64decode(encoded)) if encoded else []
    return operations


def mutated(pod: Obj | Builder, world: Cluster) -> Obj:
    """The pod after the mutating webhook."""
    return json_patch(built(pod), patch_of(answer(review(pod), world, mutate=True)))


def validated(pod: Obj | Builder, world: Cluster, old: Obj | Builder | None = None) -> Answer:
    """What the validating webhook says to a new pod, or to one that was `old` before."""
    return answer(review(pod, "CREATE" if old is None else "UPDATE", old), world, mutate=False)


def message(found: Answer) -> str:
    """Why a pod was denied; empty if it was not."""
    text: str = found.body["response"].get("status", {}).get("message", "")
    return text


def warnings(found: Answer) -> list[str]:
    return list(found.body["response"].get("warnings", []))


def added(before: Obj, after: Obj) -> Obj:
    """What stands in `after` and not in `before`, by path: labels and annotations by their key."""
    old, new = dict(_flat(before)), dict(_flat(after))
    return {path: value for path, value in new.items() if old.get(path) != value}


def _flat(obj: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    if not isinstance(obj, dict) or not obj:
        yield path, obj
        return
    for key, value in obj.items():
        yield from _flat(value, f"{path} {key}" if path else key)
