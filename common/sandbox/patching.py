"""The four kinds of patch behind one value, and how their failures look to a client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kubenexus.common.sandbox import lifecycle
from kubenexus.common.sandbox.errors import ApiError, conflict
from kubenexus.common.sandbox.kinds import Kind
from kubenexus.common.sandbox.patch import (
    ApplyConflict,
    PatchError,
    apply_patch,
    json_patch,
    merge_patch,
    strategic_patch,
)

Obj = dict[str, Any]

MEDIA: Final = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch and who sends it. `type`: json, merge, strategic or apply; `force` takes fields from their owners."""

    type: str
    body: Any
    manager: str = ""
    force: bool = False

    @property
    def applies(self) -> bool:
        return self.type == "apply"

    def check(self, kind: Kind) -> None:
        """Refuse what the real server refuses before it looks at the object."""
        if self.applies:
            lifecycle.check_type(kind, self.body, typed=True)
        if self.applies and not self.manager:
            raise _bad_option("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
        if self.force and not self.applies:
            raise _bad_option("force", "FieldValueForbidden", "Forbidden: may not be specified for non-apply patch")
        if self.type == "strategic" and kind.custom:
            raise unsupported_media([media for media, name in MEDIA.items() if name != "strategic"])

    def first(self, kind: Kind, name: str, now: str) -> Obj:
        """The object that server-side apply creates; never one that the client believes to exist already."""
        uid = lifecycle.meta(self.body).get("uid")
        if uid:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(kind.resource, name, why)
        return _guarded(lambda: apply_patch(kind.name, None, self.body, self.manager, self.force, now))

    def to(self, kind: Kind, old: Obj, subresource: str, now: str) -> Obj:
        """The patched object; a new one, the old one is left alone."""
        match self.type:
            case "json":
                return _guarded(lambda: json_patch(old, self.body))
            case "merge":
                return _guarded(lambda: merge_patch(old, self.body))
            case "strategic":
                return _guarded(lambda: strategic_patch(kind.name, old, self.body))
        new = _guarded(lambda: apply_patch(kind.name, old, self.body, self.manager, self.force, now, subresource))
        claimed = {key: value for key, value in lifecycle.meta(self.body).items() if key in ("uid", "resourceVersion")}
        return new | {"metadata": new["metadata"] | claimed}  # for those who compare


def _guarded(work: Callable[[], Obj]) -> Obj:
    try:
        return work()
    except ApplyConflict as error:
        raise ApiError(409, "Conflict", error.message, {"causes": error.causes}) from None
    except PatchError as error:
        raise _failed(error) from None


def _failed(error: PatchError) -> ApiError:
    return ApiError(error.code, "Invalid" if error.code == 422 else "BadRequest", error.message)


def unsupported_media(accepted: list[str]) -> ApiError:
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return ApiError(415, "UnsupportedMediaType", message)


def _bad_option(field: str, reason: str, text: str) -> ApiError:
    message = f'PatchOptions.meta.k8s.io "" is invalid: {field}: {text}'
    cause = {"reason": reason, "message": text, "field": field}
    return ApiError(422, "Invalid", message, {"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [cause]})
