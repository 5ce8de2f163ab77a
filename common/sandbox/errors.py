"""Refusals of the API server as values that can be raised: one `ApiError`, rendered as a Kubernetes Status.

The functions build the errors a client tells apart, with the wording of the real server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kubenexus.common.kube.resources import Resource

Obj = dict[str, Any]

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class ApiError(Exception):
    """A refused request: HTTP code, Kubernetes reason, one sentence, and the `details` of the Status if any."""

    def __init__(
        self, code: int, reason: str, message: str, details: Obj | None = None, metadata: Obj | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}

    def status(self) -> Obj:
        """The body of the answer."""
        body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details:
            body["details"] = self.details
        return body | {"code": self.code}


class FieldProblem(Protocol):
    """What validation reports about one field; `message` stands without the field's path."""

    @property
    def field(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...


def success(res: Resource | None = None, name: str = "", uid: str = "") -> Obj:
    """The Status that answers a request that leaves no object to show."""
    body: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if res:
        body["details"] = _details(res, name) | ({"uid": uid} if uid else {})
    return body


def _details(res: Resource, name: str) -> Obj:
    details = {"name": name, "group": res.group, "kind": res.plural}
    return {key: value for key, value in details.items() if value}


def not_found(res: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{res} "{name}" not found', _details(res, name))


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(res: Resource, name: str, *, deleting: bool = False) -> ApiError:
    message = f'{res} "{name}" already exists'
    return ApiError(
        409, "AlreadyExists", f"object is being deleted: {message}" if deleting else message, _details(res, name)
    )


def conflict(res: Resource, name: str, why: str = MODIFIED, *, subject: str = "") -> ApiError:
    """Optimistic concurrency or a precondition failed; `subject` replaces the resource where the real server does."""
    message = f'Operation cannot be fulfilled on {subject or res} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(res, name))


def forbidden(res: Resource, name: str, why: str, causes: list[Obj] | None = None) -> ApiError:
    quoted = f' "{name}"' if name else ""
    details = _details(res, name) | ({"causes": causes} if causes else {})
    return ApiError(403, "Forbidden", f"{res}{quoted} is forbidden: {why}", details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def expired(message: str, metadata: Obj | None = None) -> ApiError:
    return ApiError(410, "Expired", message, metadata=metadata)


def too_old(asked: int, oldest: int) -> ApiError:
    return expired(f"too old resource version: {asked} ({oldest})")


def internal(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")


def too_many_requests(message: str, retry_after: int = 0, causes: list[Obj] | None = None) -> ApiError:
    details: Obj = {"retryAfterSeconds": retry_after} if retry_after else {}
    return ApiError(429, "TooManyRequests", message, details | ({"causes": causes} if causes else {}))


def invalid(res: Resource, name: str, problems: Sequence[FieldProblem]) -> ApiError:
    """422 with every field that validation refused."""
    texts = list(dict.fromkeys(f"{p.field}: {p.message}" for p in problems))
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": p.reason, "message": p.message, "field": p.field} for p in problems]
    details = _details(res, name) | {"kind": res.kind, "causes": causes}
    subject = f"{res.kind}.{res.group}" if res.group else res.kind
    return ApiError(422, "Invalid", f'{subject} "{name}" is invalid: {message}', details)
