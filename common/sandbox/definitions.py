"""CustomResourceDefinitions: what the server asks of one, and what it says when it serves it. Pure.

Names are accepted and kinds served at once. Schemas are not enforced: custom objects are neither pruned nor defaulted
nor validated beyond their metadata.
"""

from __future__ import annotations

from typing import Any

from kubenexus.common.kube.resources import CUSTOM_RESOURCES
from kubenexus.common.sandbox.errors import invalid
from kubenexus.common.sandbox.validation import FieldError

Obj = dict[str, Any]


def established(definition: Obj, now: str) -> Obj:
    """A new definition with the status of one that is served; 422 when it cannot be."""
    if found := _problems(definition):
        raise invalid(CUSTOM_RESOURCES, definition["metadata"]["name"], found)
    spec = definition["spec"]
    conditions = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
    ]
    stored = [version["name"] for version in spec["versions"] if version.get("storage")]
    status = {"acceptedNames": spec["names"], "conditions": conditions, "storedVersions": stored}
    return definition | {"status": status}


def _problems(definition: Obj) -> list[FieldError]:
    name, spec = definition["metadata"]["name"], definition.get("spec") or {}
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    needed = {"spec.group": spec.get("group"), "spec.scope": spec.get("scope"), "spec.versions": versions}
    needed |= {"spec.names.plural": names.get("plural"), "spec.names.kind": names.get("kind")}
    missing = [
        FieldError(field, "FieldValueRequired", "Required value") for field, value in needed.items() if not value
    ]
    if missing:
        return missing
    if name != f"{names['plural']}.{spec['group']}":
        text = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        return [FieldError("metadata.name", "FieldValueInvalid", text)]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "Invalid value: must have exactly one version marked as storage version"
        return [FieldError("spec.versions", "FieldValueInvalid", text)]
    return []


def _condition(type_: str, reason: str, message: str, now: str) -> Obj:
    return {"type": type_, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
