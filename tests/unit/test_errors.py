"""The error tree: which answer becomes which error, and what people read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubenexus.common.kube import errors
from kubenexus.common.kube.errors import ApiError, StatusError, answer_error, status_error

RBAC = (
    'pods "a" is forbidden: User "system:serviceaccount:ns:scheduler" cannot create resource "pods/binding" '
    'in API group "" in the namespace "default"'
)
RBAC_CLUSTER = (
    'resourceslices.resource.k8s.io is forbidden: User "bob" cannot list resource "resourceslices" '
    'in API group "resource.k8s.io" at the cluster scope'
)
RBAC_PATH = 'forbidden: User "system:anonymous" cannot get path "/metrics"'
QUOTA = 'pods "a" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=1, limited: pods=1'


def answer(code: int, reason: str = "", message: str = "no", **more: Any) -> StatusError:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, **more}
    return answer_error("POST /x", code, {}, json.dumps(status).encode())


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", StatusError),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Expired", errors.Gone),
        (410, "Gone", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (502, "", errors.Unavailable),
        (503, "ServiceUnavailable", errors.Unavailable),
        (504, "Timeout", errors.Unavailable),
    ],
)
def test_each_answer_has_its_error(code: int, reason: str, kind: type[ApiError]) -> None:
    error = answer(code, reason)
    assert type(error) is kind
    assert (error.code, error.reason) == (code, reason)
    assert error.maybe_applied == (code >= 500)


def test_already_exists_is_no_conflict() -> None:
    assert not issubclass(errors.AlreadyExists, errors.Conflict)


@pytest.mark.parametrize(
    ("message", "right", "sentence"),
    [
        pytest.param(
            RBAC,
            ("create", "pods/binding", "", "default"),
            "system:serviceaccount:ns:scheduler may not create pods/binding in namespace default: "
            "give its role the verb create on pods/binding",
            id="in a namespace",
        ),
        pytest.param(
            RBAC_CLUSTER,
            ("list", "resourceslices", "resource.k8s.io", ""),
            "bob may not list resourceslices of API group resource.k8s.io: "
            "give its role the verb list on resourceslices",
            id="cluster-wide",
        ),
        pytest.param(
            RBAC_PATH,
            ("get", "/metrics", "", ""),
            "system:anonymous may not get /metrics: give its role the verb get on /metrics",
            id="no resource",
        ),
        pytest.param(QUOTA, ("", "", "", ""), f"POST /x was refused with 403 Forbidden: {QUOTA}", id="by admission"),
    ],
)
def test_forbidden_names_the_missing_right(message: str, right: tuple[str, ...], sentence: str) -> None:
    error = answer(403, "Forbidden", message)
    assert isinstance(error, errors.Forbidden)
    assert (error.verb, error.resource, error.group, error.namespace) == right
    assert str(error) == sentence


def test_invalid_names_the_fields() -> None:
    cause = {"field": "spec.nodeName", "reason": "FieldValueInvalid", "message": "Invalid value"}
    error = answer(422, "Invalid", "Pod is invalid", details={"causes": [cause, {"message": "bad"}]})
    assert error.causes == (
        errors.Cause("spec.nodeName", "FieldValueInvalid", "Invalid value"),
        errors.Cause("", "", "bad"),
    )


@pytest.mark.parametrize(
    ("header", "seconds"),
    [({"Retry-After": "3"}, 3.0), ({}, None), ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None)],
    ids=["seconds", "not said", "a date"],
)
def test_retry_after(header: dict[str, str], seconds: float | None) -> None:
    assert answer_error("GET /x", 429, header, b"{}").retry_after == seconds


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"<html>\n bad   gateway</html>", "GET /x was refused with 502: <html> bad gateway</html>"),
        (b"", "GET /x was refused with 502: no reason given"),
        (b'{"error": "odd"}', 'GET /x was refused with 502: {"error": "odd"}'),
        (b"\xff\xfe", "GET /x was refused with 502: ��"),
        (b"[]", "GET /x was refused with 502: []"),
    ],
    ids=["html", "empty", "other json", "not text", "a list"],
)
def test_an_answer_of_somebody_else_is_one_sentence_too(body: bytes, sentence: str) -> None:
    assert str(answer_error("GET /x", 502, {}, body)) == sentence


def test_a_status_inside_a_watch_has_its_own_code() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (9)"}
    error = status_error("the watch", status)
    assert isinstance(error, errors.Gone)
    assert str(error) == "the watch was refused with 410 Expired: too old resource version: 1 (9)"
