"""A small world of owners for gang tests: objects with uids, the pods they make, a look-up over them, and CRDs."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from kubenexus.common.gangs import PodFacts
from kubenexus.common.kube.resources import Resource

Obj = dict[str, Any]
TEAM = "team"
BUILT_IN = frozenset(("apps", "batch", "scheduling.k8s.io"))
"""API groups of owners that belong to Kubernetes itself"""


def definition(res: Resource) -> Obj:
    """A CRD that takes everything."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {
            "name": f"{res.plural}.{res.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": res.group,
            "scope": "Namespaced" if res.namespaced else "Cluster",
            "names": {"plural": res.plural, "singular": res.kind.lower(), "kind": res.kind},
            "versions": [{"name": res.version, "served": True, "storage": True, "schema": schema}],
        },
    }


class Known:
    """The `Owners` of a test: these objects and no others."""

    def __init__(self, *objects: Obj) -> None:
        self._objects = objects
        self.asked: list[str] = []

    def get(self, api_version: str, kind: str, namespace: str, name: str, uid: str) -> Obj | None:
        """By name only, as a careless cache would: telling a namesake by its uid is the resolver's duty."""
        self.asked.append(uid)
        wanted = (api_version, kind, namespace, name)
        return next((obj for obj in self._objects if _identity(obj) == wanted), None)


def _identity(obj: Obj) -> tuple[str, str, str, str]:
    return obj["apiVersion"], obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"]


def made(
    kind: str, name: str, spec: Obj | None = None, *, by: Obj | None = None, notes: dict[str, str] | None = None
) -> Obj:
    """An object of `group/version/Kind`, controlled by another."""
    api_version, _, kind = kind.rpartition("/")
    metadata: Obj = {
        "namespace": TEAM,
        "name": name,
        "uid": str(uuid5(NAMESPACE_URL, f"{kind}/{name}")),
        "annotations": notes or {},
        "ownerReferences": [reference(by)] if by else [],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}}


def reference(obj: Obj) -> Obj:
    metadata = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def short(obj: Obj) -> str:
    """The first 13 characters of an object's uid, as gang names show them."""
    return str(obj["metadata"]["uid"])[:13]


def raw_pod(
    by: Obj | None = None, *, labels: dict[str, str] | None = None, notes: dict[str, str] | None = None, group: str = ""
) -> Obj:
    """A pod as admission sees it: no uid, and only a generateName."""
    metadata: Obj = {
        "namespace": TEAM,
        "generateName": "pod-",
        "labels": labels or {},
        "annotations": notes or {},
        "ownerReferences": [reference(by)] if by else [],
    }
    return {"metadata": metadata, "spec": {"schedulingGroup": {"podGroupName": group}} if group else {}}


def pod(
    by: Obj | None = None, *, labels: dict[str, str] | None = None, notes: dict[str, str] | None = None, group: str = ""
) -> PodFacts:
    return PodFacts.from_json(raw_pod(by, labels=labels, notes=notes, group=group))


INDEXED: Obj = {"parallelism": 8, "completions": 8, "completionMode": "Indexed"}


def job(spec: Obj | None = None, by: Obj | None = None, notes: dict[str, str] | None = None) -> Obj:
    return made("batch/v1/Job", "train", spec or INDEXED, by=by, notes=notes)


def kubeflow(kind: str, specs: str, version: str = "v1", *, replicas: dict[str, int | None], **spec: Any) -> Obj:
    """A job with these numbers of replicas by type; None does not give one."""
    types = {name: {} if count is None else {"replicas": count} for name, count in replicas.items()}
    return made(f"kubeflow.org/{version}/{kind}", "train", {specs: types, **spec})


def job_set(**spec: Any) -> Obj:
    jobs = [
        {"name": "driver", "template": {"spec": {}}},
        {"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 3}}},
    ]
    return made("jobset.x-k8s.io/v1alpha2/JobSet", "train", {"replicatedJobs": jobs, **spec})


def ray(spec: Obj, by: Obj | None = None) -> Obj:
    return made("ray.io/v1/RayCluster", "train", spec, by=by)


def volcano(**spec: Any) -> Obj:
    return made("batch.volcano.sh/v1alpha1/Job", "train", spec)
