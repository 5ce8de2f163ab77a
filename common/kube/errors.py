"""What can go wrong between us and an API server, as one tree.

    ApiError
    ├── NotConfigured        there is no usable kubeconfig or service account
    ├── NotReached           no connection: the request was certainly not carried out
    ├── NoAnswer             sent, but the answer was cut off or timed out
    │   └── MaybeApplied     … and it was a write: look before you repeat it
    └── StatusError          the server answered, and the answer is no
        ├── BadRequest       400  malformed: a bug of ours
        ├── Unauthorized     401  the credentials are not accepted
        ├── Forbidden        403  not allowed; names the missing verb and resource, where that is the reason
        ├── NotFound         404
        ├── Conflict         409  the object has changed, or is in the wrong state
        ├── AlreadyExists    409  there is such an object (not a Conflict: trying again is pointless)
        ├── Gone             410  the resourceVersion or continue token is too old: list again
        ├── Invalid          422  the object breaks a rule; `causes` names the fields
        ├── TooManyRequests  429  come back after `retry_after` seconds
        └── ServerError      5xx  the server failed; a write may have been carried out
            └── Unavailable  502, 503, 504

`str()` of each is one sentence for people. `maybe_applied` is the question a writer asks of any of them.
"""

# ruff: noqa: N818 (the names are those of the answers)

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson

Obj = dict[str, Any]


class ApiError(Exception):
    """Root of the tree: everything that the client raises on purpose."""

    maybe_applied: ClassVar[bool] = False


class NotConfigured(ApiError):
    """No cluster to talk to: no kubeconfig, a broken one, or no service account."""


class NotReached(ApiError):
    """No connection could be made, so nothing was sent. Repeating is safe."""


class NoAnswer(ApiError):
    """The request went out and no whole answer came back."""


class MaybeApplied(NoAnswer):
    """A write without an answer: the server may have carried it out."""

    maybe_applied = True


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason of an Invalid answer: which field, the kind of fault (`FieldValueInvalid`, …), in words."""

    field: str
    reason: str
    message: str


class StatusError(ApiError):
    """A refusal. `reason`, `message` and `details` are those of the server's Status object."""

    def __init__(self, request: str, code: int, status: Obj, retry_after: float | None = None) -> None:
        self.request = request
        self.code = code
        self.reason: str = status.get("reason") or ""
        self.message = " ".join(str(status.get("message") or "no reason given").split())
        self.details: Obj = status.get("details") or {}
        self.retry_after = retry_after
        super().__init__(request, code, self.message)

    @property
    def causes(self) -> tuple[Cause, ...]:
        found = self.details.get("causes") or ()
        return tuple(Cause(c.get("field", ""), c.get("reason", ""), c.get("message", "")) for c in found)

    def __str__(self) -> str:
        reason = f" {self.reason}" if self.reason else ""
        return f"{self.request} was refused with {self.code}{reason}: {self.message}"


class BadRequest(StatusError):
    """The request itself is malformed."""


class Unauthorized(StatusError):
    """The server does not know who we are."""

    def __str__(self) -> str:
        return f"{self.request} was refused with 401: the credentials are missing, expired or wrong ({self.message})"


_MISSING_RIGHT = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) (?:resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"|'
    r'path "(?P<path>[^"]*)")(?: in the namespace "(?P<namespace>[^"]*)")?'
)


class Forbidden(StatusError):
    """Not allowed. When a right is missing, `verb`, `resource`, `group` and `namespace` say which; else they are empty.

    Admission (quota, a policy, a terminating namespace) answers 403 as well; then only the message explains.
    """

    def __init__(self, request: str, code: int, status: Obj, retry_after: float | None = None) -> None:
        super().__init__(request, code, status, retry_after)
        found = _MISSING_RIGHT.search(self.message)
        right: Mapping[str, str | None] = found.groupdict() if found else {}
        self.user = right.get("user") or ""
        self.verb = right.get("verb") or ""
        self.resource = right.get("resource") or right.get("path") or ""
        self.group = right.get("group") or ""
        self.namespace = right.get("namespace") or ""

    def __str__(self) -> str:
        if not self.verb:
            return super().__str__()
        group = f" of API group {self.group}" if self.group else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return (
            f"{self.user} may not {self.verb} {self.resource}{group}{where}: "
            f"give its role the verb {self.verb} on {self.resource}"
        )


class NotFound(StatusError):
    """There is no such object, or no such resource on this server."""


class Conflict(StatusError):
    """The object is not as the request assumes: read it again and decide anew."""


class AlreadyExists(StatusError):
    """An object of this name is there."""


class Gone(StatusError):
    """The version asked for is no longer kept."""


class Invalid(StatusError):
    """The object breaks the API's rules."""


class TooManyRequests(StatusError):
    """The server, or a disruption budget, asks us to wait `retry_after` seconds (None: it did not say)."""


class ServerError(StatusError):
    """The server failed while at it."""

    maybe_applied = True


class Unavailable(ServerError):
    """Nobody there to serve the request, or not in time."""


_BY_CODE: dict[int, type[StatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def status_error(request: str, status: Obj, code: int = 0, retry_after: float | None = None) -> StatusError:
    """The error for a Status object, from an HTTP answer (which has a code of its own) or from a watch."""
    code = code or int(status.get("code") or 500)
    kind = _BY_CODE.get(code, ServerError if code >= 500 else StatusError)
    if status.get("reason") == "AlreadyExists":
        kind = AlreadyExists
    return kind(request, code, status, retry_after)


def answer_error(request: str, code: int, headers: Mapping[str, str], body: bytes) -> StatusError:
    """The error for an HTTP answer that is not 2xx, whoever wrote it: the API server, a webhook, a proxy in between."""
    return status_error(request, _status(body), code, _seconds(headers.get("Retry-After")))


def _status(body: bytes) -> Obj:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return status
    return {"message": body[:200].decode("utf-8", "replace")}


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After as Kubernetes writes it, in whole seconds; dates, which it never sends, count as not said."""
    return float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else None
