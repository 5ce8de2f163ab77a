"""Turning workloads into the pods that their controllers would make: pure, deterministic, for simulations.

Names, labels and owner references are as the real controllers write them, save that random suffixes are numbers and
uids are made from names, so that the same manifests give the same pods.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

from kubenexus.common.objects import Fields, ProjectionError
from kubenexus.common.objects.reading import identified

Obj = dict[str, Any]

_CLAIM: Final = "PersistentVolumeClaim"
_CLAIM_TEMPLATE: Final = "ResourceClaimTemplate"
_DEVICES: Final = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
_JOB_INDEX: Final = "batch.kubernetes.io/job-completion-index"


def expand_all(objects: Iterable[Obj]) -> list[Obj]:
    """The objects with workloads expanded: what was made beside pods first, then everything else in its order.

    A workload that some object names as its controller stays as it is: it has made its pods already.
    `ProjectionError` tells of a workload that cannot be read.
    """
    given = list(objects)
    busy = {uid for obj in given for uid in _owners(obj)}
    templates = {_identity(obj): obj for obj in given if obj.get("kind") == _CLAIM_TEMPLATE}
    made: list[Obj] = []
    listed: list[Obj] = []
    for obj in given:
        for one in expand(obj) if uid_of(obj) not in busy else [obj]:
            if one.get("kind") == "Pod":
                *claims, pod = _with_devices(one, templates)
                made += claims
                listed.append(pod)
            else:
                (listed if one is obj else made).append(one)
    return made + listed


def expand(obj: Obj) -> list[Obj]:
    """What the controllers would make of a workload, pods last; of any other object, the object itself."""
    if obj.get("kind") == "Pod":
        return _pod(obj)
    group, maker = _MAKERS.get(str(obj.get("kind")), ("", None))
    if maker is None or _group(obj) not in (group, None):
        return [obj]
    work = _Workload.read(obj, group)
    made = list(maker(work))
    if work.spec.problems:
        raise ProjectionError(f"{work.kind} {work.namespace}/{work.name}: {work.spec.problems[0]}")
    return made


def uid_of(obj: Obj) -> str:
    """The object's uid; without one it is made of kind, namespace and name."""
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    return str(meta.get("uid") or f"{obj.get('kind')}/{meta.get('namespace') or 'default'}/{meta.get('name')}")


def _group(obj: Obj) -> str | None:
    """The API group; None if the object does not say."""
    version = obj.get("apiVersion")
    return version.rpartition("/")[0] if isinstance(version, str) else None


def _owners(obj: Obj) -> Iterator[str]:
    """The uid of the object's controller, and the one it would have if it had none."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("ownerReferences"), list):
        return
    for owner in meta["ownerReferences"]:
        if isinstance(owner, dict) and owner.get("controller") is True:
            yield str(owner.get("uid"))
            yield uid_of({"kind": owner.get("kind"), "metadata": {**meta, "uid": "", "name": owner.get("name")}})


@dataclass(frozen=True, slots=True)
class _Workload:
    """What makes pods: an object as given, and what all of them have."""

    raw: Obj
    kind: str
    name: str
    namespace: str
    spec: Fields
    template: Obj

    @classmethod
    def read(cls, raw: Obj, group: str) -> _Workload:
        root, meta = identified(raw, raw["kind"])
        spec = root.child("spec")
        version = raw.get("apiVersion") or (f"{group}/v1" if group else "v1")
        namespace = meta.text("namespace") or "default"
        identity = {**raw["metadata"], "namespace": namespace, "uid": uid_of(raw)}
        whole = {**raw, "apiVersion": version, "metadata": identity}
        return cls(whole, raw["kind"], meta.text("name"), namespace, spec, _template(spec))

    def count(self, key: str, default: int) -> int:
        """A number of pods; without containers to run there are none."""
        found = self.spec.whole(key, default)
        if found < 0:
            self.spec.problem(key, f"is {found}, which is less than 0")
        return found if (self.template.get("spec") or {}).get("containers") else 0

    def pod(self, name: str, labels: Obj | None = None, notes: Obj | None = None) -> Obj:
        meta = self.template.get("metadata") or {}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "uid": f"{uid_of(self.raw)}/{name}",
                "labels": {**(meta.get("labels") or {}), **(labels or {})},
                "annotations": {**(meta.get("annotations") or {}), **(notes or {})},
                "creationTimestamp": self.raw["metadata"].get("creationTimestamp"),
                "ownerReferences": [_reference(self.raw)],
            },
            "spec": dict(self.template.get("spec") or {}),
        }


def _template(spec: Fields) -> Obj:
    """The pod template, once it is sure that it can be copied."""
    template = spec.child("template")
    meta = template.child("metadata")
    for fields, key in ((meta, "labels"), (meta, "annotations"), (template, "spec")):
        fields.child(key)
    return {} if spec.problems else template.raw


def _reference(owner: Obj) -> Obj:
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta.get("name"),
        "uid": uid_of(owner),
        "controller": True,
    }


def _job(job: _Workload) -> Iterator[Obj]:
    """The pods that run at first: as many as run side by side. The Job may say that they are a gang."""
    if job.spec.flag("suspend") or _finished(job.raw):
        return
    yield job.raw
    count = job.count("parallelism", 1)
    if job.spec.raw.get("completions") is not None:
        count = min(count, job.count("completions", 0))
    labels = {"batch.kubernetes.io/job-name": job.name, "job-name": job.name}
    for index in range(count):
        number = {_JOB_INDEX: str(index)} if job.spec.text("completionMode") == "Indexed" else {}
        yield job.pod(f"{job.name}-{index}", {**labels, **number}, number)


def _finished(job: Obj) -> bool:
    conditions = Fields(job, []).child("status").children("conditions")
    return any(one.text("status") == "True" and one.text("type") in ("Complete", "Failed") for one in conditions)


def _replicas(owner: _Workload) -> Iterator[Obj]:
    """Through the owner's selector pods of one owner spread, so it comes along."""
    yield owner.raw
    for index in range(owner.count("replicas", 1)):
        yield owner.pod(f"{owner.name}-{index}")


def _deployment(deployment: _Workload) -> Iterator[Obj]:
    """Through a ReplicaSet, which is what its pods name as their owner."""
    mark = {"pod-template-hash": f"{crc32(json.dumps(deployment.template, sort_keys=True, default=str).encode()):x}"}
    name = f"{deployment.name}-{mark['pod-template-hash']}"
    template, selector = deployment.template, deployment.spec.child("selector").raw
    meta = {**(template.get("metadata") or {})}
    spec = {
        "replicas": deployment.spec.raw.get("replicas"),
        "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **mark}},
        "template": {**template, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **mark}}},
    }
    yield from _child(deployment, "apps", "ReplicaSet", name, spec, _replicas)


def _stateful_set(owner: _Workload) -> Iterator[Obj]:
    yield owner.raw
    first = owner.spec.child("ordinals").whole("start")
    templates = [(one.child("metadata").text("name"), one) for one in owner.spec.children("volumeClaimTemplates")]
    for number in range(first, first + owner.count("replicas", 1)):
        name = f"{owner.name}-{number}"
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}
        pod = owner.pod(name, labels)
        yield from (_claim(owner.namespace, f"{volume}-{name}", template) for volume, template in templates)
        if templates:
            pod["spec"]["volumes"] = _with_claims(pod["spec"].get("volumes"), name, [volume for volume, _ in templates])
        yield pod


def _with_claims(volumes: Any, pod: str, claimed: list[str]) -> list[Any]:
    kept = [one for one in volumes or () if not (isinstance(one, dict) and one.get("name") in claimed)]
    return [*kept, *({"name": one, "persistentVolumeClaim": {"claimName": f"{one}-{pod}"}} for one in claimed)]


def _claim(namespace: str, name: str, template: Fields, owner: Obj | None = None) -> Obj:
    meta: Obj = {**template.child("metadata").raw, "name": name, "namespace": namespace}
    if owner is not None:
        meta["ownerReferences"] = [_reference(owner)]
    return {"apiVersion": "v1", "kind": _CLAIM, "metadata": meta, "spec": template.child("spec").raw}


def _pod(pod: Obj) -> list[Obj]:
    """A pod itself, after the claims of its ephemeral volumes, which are told by their owner. It may be malformed."""
    meta, spec = pod.get("metadata"), pod.get("spec")
    volumes = spec.get("volumes") if isinstance(spec, dict) else None
    if not isinstance(meta, dict) or not isinstance(volumes, list):
        return [pod]
    ephemeral = [one for one in volumes if isinstance(one, dict) and isinstance(one.get("ephemeral"), dict)]
    templates = [(one.get("name"), Fields(one["ephemeral"], []).child("volumeClaimTemplate")) for one in ephemeral]
    namespace, owner = meta.get("namespace") or "default", {"apiVersion": "v1", **pod}
    return [*(_claim(namespace, f"{meta.get('name')}-{name}", one, owner) for name, one in templates), pod]


def _with_devices(pod: Obj, templates: Mapping[tuple[str, str], Obj]) -> list[Obj]:
    """A pod itself, after the claims for devices that are made for it, of which it is told. It may be malformed."""
    meta, spec, status = (Fields(pod, []).child(key) for key in ("metadata", "spec", "status"))
    namespace = meta.text("namespace") or "default"
    named = ((one.text("name"), one.text("resourceClaimTemplateName")) for one in spec.children("resourceClaims"))
    found = [(name, templates.get((namespace, template))) for name, template in named if template]
    if not found or not meta.text("name") or status.items("resourceClaimStatuses"):
        return [pod]
    claims, told = [], []
    for name, template in found:
        if template is not None:
            made = f"{meta.text('name')}-{name}"
            model = Fields(template, []).child("spec")
            owned = {"name": made, "namespace": namespace, "ownerReferences": [_reference({"apiVersion": "v1", **pod})]}
            own = {**model.child("metadata").raw, **owned}
            claims.append({**_DEVICES, "metadata": own, "spec": model.child("spec").raw})
            told.append({"name": name, "resourceClaimName": made})
    return [*claims, {**pod, "status": {**status.raw, "resourceClaimStatuses": told}}]


def _identity(obj: Obj) -> tuple[str, str]:
    meta = Fields(obj, []).child("metadata")
    return meta.text("namespace") or "default", meta.text("name")


def _job_set(job_set: _Workload) -> Iterator[Obj]:
    """The pods of every Job of every replicated Job."""
    if job_set.spec.flag("suspend"):
        return
    yield job_set.raw
    for replicated in job_set.spec.children("replicatedJobs"):
        role = replicated.text("name")
        spec = replicated.child("template").child("spec").raw
        for index in range(replicated.whole("replicas", 1)):
            labels = {
                "jobset.sigs.k8s.io/jobset-name": job_set.name,
                "jobset.sigs.k8s.io/replicatedjob-name": role,
                "jobset.sigs.k8s.io/job-index": str(index),
            }
            made = _child(job_set, "batch", "Job", f"{job_set.name}-{role}-{index}", spec, _job)
            yield from (_labelled(one, labels) for one in made)


def _labelled(obj: Obj, labels: dict[str, str]) -> Obj:
    meta = obj["metadata"]
    return {**obj, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **labels}}}


def _child(
    owner: _Workload, group: str, kind: str, name: str, spec: Obj, maker: Callable[[_Workload], Iterator[Obj]]
) -> Iterator[Obj]:
    """What a workload makes that another one made. Its problems are its owner's."""
    meta = {
        "name": name,
        "namespace": owner.namespace,
        "uid": f"{uid_of(owner.raw)}/{name}",
        "creationTimestamp": owner.raw["metadata"].get("creationTimestamp"),
        "ownerReferences": [_reference(owner.raw)],
    }
    child = _Workload.read({"apiVersion": f"{group}/v1", "kind": kind, "metadata": meta, "spec": spec}, group)
    yield from maker(child)
    owner.spec.problems.extend(child.spec.problems)


# Kind → API group, and what makes its pods.
_MAKERS: Final[dict[str, tuple[str, Callable[[_Workload], Iterator[Obj]]]]] = {
    "Job": ("batch", _job),
    "ReplicationController": ("", _replicas),
    "ReplicaSet": ("apps", _replicas),
    "Deployment": ("apps", _deployment),
    "StatefulSet": ("apps", _stateful_set),
    "JobSet": ("jobset.x-k8s.io", _job_set),
}
