"""What the API server checks before it stores an object, and what it fills in: pure functions of JSON objects.

`kind` is the Kind. An object whose `apiVersion` is not that of the built-in kind of this name (a Job of Volcano) is a
custom resource: only its metadata is checked.
"""

from __future__ import annotations

from kubenexus.common.sandbox.validation.defaults import apply_defaults
from kubenexus.common.sandbox.validation.field import Field, FieldError, Obj
from kubenexus.common.sandbox.validation.meta import metadata, metadata_update
from kubenexus.common.sandbox.validation.rules import rules_for

__all__ = ["FieldError", "apply_defaults", "validate_create", "validate_status", "validate_update"]


def validate_create(kind: str, obj: Obj) -> list[FieldError]:
    """What the server would refuse in a new object, after defaulting and with its name and namespace filled in."""
    rules, new = rules_for(kind, obj), Field(obj)
    metadata(new["metadata"], rules.name, rules.namespaced)
    rules.check(new, Field(None))
    return new.errors


def validate_update(kind: str, new: Obj, old: Obj) -> list[FieldError]:
    """What the server would refuse in `new` as the successor of `old`."""
    rules, field = rules_for(kind, new), Field(new)
    metadata_update(field["metadata"], Field(old)["metadata"])
    rules.check(field, Field(old))
    return field.errors


def validate_status(kind: str, new: Obj, old: Obj) -> list[FieldError]:
    """What the server would refuse in a write to the status subresource."""
    rules, field = rules_for(kind, new), Field(new)
    metadata_update(field["metadata"], Field(old)["metadata"])
    rules.check_status(field, Field(old))
    return field.errors
