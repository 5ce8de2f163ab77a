"""A cluster made of manifests: the namespaces and owners in them, and the pods to review. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import OwnerKey, OwnerStore, controller_of, trimmed
from kubenexus.common.objects import Fields, project_namespace
from kubenexus.common.objects.reading import DEFAULT_NAMESPACE
from kubenexus.webhook.cluster import Cluster, NamespaceFacts
from kubenexus.webhook.subject import mapping

Obj = dict[str, Any]

_JOBSET: Final = "jobset.sigs.k8s.io/"


class Offline:
    """What some manifests say. `ProjectionError` tells of a Namespace that cannot be read."""

    def __init__(self, objects: Iterable[Obj]) -> None:
        given = [_identified(obj) for obj in objects]
        self._namespaces = {facts.name: facts for facts in map(_namespace_facts, given) if facts}
        self._owners = OwnerStore()
        self.pods: list[Obj] = []
        busy = {owner.uid for obj in given if (owner := controller_of(obj))}
        for obj in given:
            self._take(obj, busy)

    def cluster(self, schedulers: tuple[str, ...]) -> Cluster:
        return Cluster(self._namespace, self._owners, schedulers)

    def knows(self, namespace: str) -> bool:
        return namespace in self._namespaces

    def _namespace(self, name: str) -> NamespaceFacts:
        """A namespace that is not among the manifests is one that asks for us and says nothing else."""
        return self._namespaces.get(name) or NamespaceFacts(name, {v.INJECT: v.Inject.ENABLED})

    def _take(self, obj: Obj, busy: set[str]) -> None:
        """The object, and one pod of each template that it has, unless its pods are among the manifests."""
        if obj["kind"] == "Pod":
            self.pods.append(obj)
            return
        meta = obj["metadata"]
        group = str(obj.get("apiVersion")).rpartition("/")[0]
        self._owners.set(OwnerKey(group, obj["kind"], meta["namespace"], meta["name"]), trimmed(obj))
        for child in _children(obj) if meta["uid"] not in busy else ():
            self._take(_identified(child), busy)


def _identified(obj: Obj) -> Obj:
    """The object with namespace, name and uid, which are made up where it has none."""
    meta = mapping(obj.get("metadata"))
    name = str(meta.get("name") or meta.get("generateName") or "unnamed")
    namespace = str(meta.get("namespace") or DEFAULT_NAMESPACE)
    uid = meta.get("uid") or str(uuid5(NAMESPACE_OID, f"{obj.get('kind')}/{namespace}/{name}"))
    return {**obj, "metadata": {**meta, "namespace": namespace, "name": name, "uid": uid}}


def _namespace_facts(obj: Obj) -> NamespaceFacts | None:
    return NamespaceFacts.of(project_namespace(obj)) if obj["kind"] == "Namespace" else None


# --- What workloads make ---------------------------------------------------------------------------------------------


def _children(obj: Obj) -> Iterator[Obj]:
    """What a workload makes: of each thing one, for they are all admitted alike."""
    spec = mapping(obj.get("spec"))
    match obj["kind"]:
        case "Deployment":
            notes = mapping(obj["metadata"].get("annotations"))
            yield _child(obj, "apps/v1", "ReplicaSet", {"metadata": {"annotations": notes}, "spec": spec})
        case "CronJob":
            yield _child(obj, "batch/v1", "Job", mapping(spec.get("jobTemplate")))
        case "JobSet":
            yield from (_replicated(obj, job.raw) for job in Fields(spec, []).children("replicatedJobs"))
        case _ if mapping(spec.get("template")).get("spec"):
            yield _child(obj, "v1", "Pod", spec["template"])


def _replicated(job_set: Obj, job: Obj) -> Obj:
    """A Job of a JobSet, whose pods know which of its roles they have."""
    name = str(job.get("name"))
    made = _child(job_set, "batch/v1", "Job", mapping(job.get("template")), part=name)
    template = mapping(mapping(made.get("spec")).get("template"))
    meta = mapping(template.get("metadata"))
    labels = {**mapping(meta.get("labels")), f"{_JOBSET}replicatedjob-name": name, f"{_JOBSET}job-index": "0"}
    template = {**template, "metadata": {**meta, "labels": labels}}
    return {**made, "spec": {**mapping(made.get("spec")), "template": template}}


def _child(owner: Obj, api_version: str, kind: str, template: Obj, part: str = "") -> Obj:
    """An object of a template, controlled by its owner, with a name that continues the owner's."""
    above = owner["metadata"]
    reference = {
        "apiVersion": owner.get("apiVersion"),
        "kind": owner["kind"],
        "name": above["name"],
        "uid": above["uid"],
        "controller": True,
    }
    name = "-".join(filter(None, (above["name"], part, "0")))
    meta = {**mapping(template.get("metadata")), "name": name, "namespace": above["namespace"]}
    return {**template, "apiVersion": api_version, "kind": kind, "metadata": {**meta, "ownerReferences": [reference]}}
