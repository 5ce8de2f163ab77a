"""How an object is born and how it may change: the metadata rules that hold for every kind. Pure.

A new object passes `begin`, a changed one `carry`; both decide what the server owns and what the client may say.
"""

from __future__ import annotations

from typing import Any

from kubenexus.common.kube.resources import CUSTOM_RESOURCES, JOBS, NAMESPACES, NODES, PODS
from kubenexus.common.sandbox.definitions import established
from kubenexus.common.sandbox.errors import ApiError, bad_request, conflict, invalid
from kubenexus.common.sandbox.kinds import Kind
from kubenexus.common.sandbox.pods import first_status
from kubenexus.common.sandbox.validation import FieldError

Obj = dict[str, Any]

_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
_NOT_SPEC = ("metadata", "status", "apiVersion", "kind")


def meta(obj: Obj) -> Obj:
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def check_type(kind: Kind, obj: Any, *, typed: bool) -> Obj:
    """The body is an object of the kind that the path names. Only where `typed` it has to say so."""
    res = kind.resource
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata") or {}, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {res.kind})")
    given = obj.get("apiVersion") or "", obj.get("kind") or ""
    if typed and not all(given):
        missing = "apiVersion" if not given[0] else "kind"
        raise bad_request(
            f"Object '{missing.capitalize()}' is missing in the body: {res.api_version}, {res.kind} expected"
        )
    if (given[0] or res.api_version, given[1] or res.kind) != (res.api_version, res.kind):
        wanted = f"{res.api_version}, Kind={res.kind}"
        found = f"{given[0]}, Kind={given[1]}"
        raise bad_request(f"the API version in the data ({found}) does not match the expected API version ({wanted})")
    return obj | {"metadata": obj.get("metadata") or {}}


def placed(kind: Kind, obj: Obj, namespace: str, name: str | None) -> Obj:
    """The object with the namespace of its path; 400 where namespace or name contradict it."""
    given = meta(obj)
    if kind.resource.namespaced and given.get("namespace", namespace) not in ("", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if name is not None and given.get("name") != name:
        if not given.get("name"):
            raise bad_request("name must be provided")
        raise bad_request(f"the name of the object ({given['name']}) does not match the name on the URL ({name})")
    return obj | {"metadata": given | {"namespace": namespace}} if kind.resource.namespaced else obj


def begin(kind: Kind, obj: Obj, namespace: str, name: str, uid: str, now: str) -> Obj:
    """A new object: identity given, server-owned fields set, status as the kind starts."""
    given = {key: value for key, value in meta(obj).items() if key not in _SERVER_OWNED and key != "resourceVersion"}
    born = given | {"name": name, "uid": uid, "creationTimestamp": now}
    if kind.resource.namespaced:
        born["namespace"] = namespace
    else:
        born.pop("namespace", None)
    if kind.generation:
        born["generation"] = 1
    new = obj | {"metadata": born}
    if kind.status and kind.resource != NODES:
        new.pop("status", None)
        new |= {"status": dict(kind.initial_status)} if not kind.custom else {}
    return _SPECIAL_BIRTH.get(kind.resource, _unchanged)(new)


def _unchanged(obj: Obj) -> Obj:
    return obj


def _begin_namespace(obj: Obj) -> Obj:
    labels = {**(meta(obj).get("labels") or {}), "kubernetes.io/metadata.name": meta(obj)["name"]}
    return obj | {"metadata": meta(obj) | {"labels": labels}, "spec": {"finalizers": ["kubernetes"]}}


def _begin_job(job: Obj) -> Obj:
    """A Job selects its pods by its own uid, unless it says otherwise."""
    spec = job.get("spec") or {}
    if spec.get("manualSelector"):
        return job
    name, uid = meta(job)["name"], meta(job)["uid"]
    own = {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid}
    own |= {"batch.kubernetes.io/job-name": name, "job-name": name}
    template = spec.get("template") or {}
    labels = {**(meta(template).get("labels") or {}), **own}
    template = template | {"metadata": meta(template) | {"labels": labels}}
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    return job | {"spec": spec | {"selector": selector, "template": template}}


def _begin_pod(pod: Obj) -> Obj:
    return pod | {"status": first_status(pod)}


def _begin_definition(definition: Obj) -> Obj:
    return established(definition, meta(definition)["creationTimestamp"])


_SPECIAL_BIRTH = {
    NAMESPACES: _begin_namespace,
    JOBS: _begin_job,
    PODS: _begin_pod,
    CUSTOM_RESOURCES: _begin_definition,
}


def carry(kind: Kind, old: Obj, new: Obj, subresource: str) -> Obj:
    """A changed object: what the client may not touch comes from the old one, and the generation counts."""
    if subresource == "status":
        kept = {key: value for key, value in old.items() if key != "status"}
        changed = kept | {"metadata": _status_metadata(kind, old, new)}
        if "status" in new:
            changed["status"] = new["status"]
        if kind.resource == PODS:
            changed["status"] = {"qosClass": old["status"]["qosClass"]} | changed.get("status", {})
    else:
        changed = dict(new)
        if kind.status:
            changed.pop("status", None)
            changed |= {"status": old["status"]} if "status" in old else {}
    owned = {key: meta(old)[key] for key in _SERVER_OWNED if key in meta(old)}
    given = {key: value for key, value in meta(changed).items() if key not in ("generation", *_unset(changed))}
    metadata = owned | given | {"resourceVersion": meta(old)["resourceVersion"]}
    if kind.generation and _specification(changed) != _specification(old):
        metadata["generation"] = owned.get("generation", 0) + 1
    return changed | {"metadata": metadata}


def _unset(obj: Obj) -> list[str]:
    return [key for key in _SERVER_OWNED if meta(obj).get(key) is None]


def _status_metadata(kind: Kind, old: Obj, new: Obj) -> Obj:
    """A status write may change labels and annotations of built-in kinds, never owners; of custom kinds, nothing."""
    source, other = (old, new) if kind.custom else (new, old)
    copied = dict(meta(source))
    for key in ("managedFields",) if kind.custom else ("ownerReferences",):
        copied.pop(key, None)
        if key in meta(other):
            copied[key] = meta(other)[key]
    return copied


def _specification(obj: Obj) -> Obj:
    """What the generation counts changes of."""
    return {key: value for key, value in obj.items() if key not in _NOT_SPEC}


def check_identity(kind: Kind, old: Obj, new: Obj) -> None:
    """A changed object is still the same one."""
    given, stored = meta(new).get("uid"), meta(old)["uid"]
    if given and given != stored:
        problem = FieldError("metadata.uid", "FieldValueInvalid", f'Invalid value: "{given}": field is immutable')
        raise invalid(kind.resource, meta(old)["name"], [problem])


def check_version(kind: Kind, old: Obj, new: Obj) -> None:
    """Optimistic concurrency: a resourceVersion that the client gives is that of the old object."""
    given, stored = meta(new), meta(old)
    if given.get("resourceVersion"):
        if given["resourceVersion"] != stored["resourceVersion"]:
            raise conflict(kind.resource, stored["name"])
    elif not kind.unconditional:
        raise _version_required(kind, stored["name"])


def check_uid(kind: Kind, old: Obj, new: Obj) -> None:
    """An update that names a uid means that very object."""
    given, stored = meta(new).get("uid"), meta(old)["uid"]
    if given and given != stored:
        why = f"Precondition failed: UID in precondition: {given}, UID in object meta: {stored}"
        raise conflict(kind.resource, meta(old)["name"], why)


def _version_required(kind: Kind, name: str) -> ApiError:
    text = "Invalid value: 0: must be specified for an update"
    return invalid(kind.resource, name, [FieldError("metadata.resourceVersion", "FieldValueInvalid", text)])
