"""Requests as values: path, query and body, without a server."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.kube.client import retry_delay
from kubenexus.common.kube.errors import (
    ApiError,
    Conflict,
    MaybeApplied,
    NoAnswer,
    NotReached,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from kubenexus.common.kube.request import PatchType, Request, object_name, prepare, raw
from kubenexus.common.kube.resources import JOBS, NODES, PODS


@pytest.mark.parametrize(
    ("request_", "target", "label"),
    [
        (prepare("GET", PODS), "/api/v1/pods", "pods"),
        (prepare("GET", PODS, "ns"), "/api/v1/namespaces/ns/pods", "pods"),
        (prepare("GET", PODS, "ns", "a"), "/api/v1/namespaces/ns/pods/a", "pods"),
        (
            prepare("POST", PODS, "ns", "a", subresource="binding"),
            "/api/v1/namespaces/ns/pods/a/binding",
            "pods/binding",
        ),
        (prepare("GET", NODES, None, "n"), "/api/v1/nodes/n", "nodes"),
        (prepare("GET", JOBS, "ns", "system:j"), "/apis/batch/v1/namespaces/ns/jobs/system:j", "jobs.batch"),
        (
            prepare("GET", PODS, query={"labelSelector": "a in (b,c)", "limit": 5, "watch": True, "continue": None}),
            "/api/v1/pods?labelSelector=a+in+%28b%2Cc%29&limit=5&watch=true",
            "pods",
        ),
        (raw("GET", "/version"), "/version", "other"),
    ],
    ids=lambda value: value.target if isinstance(value, Request) else "",
)
def test_path_and_query(request_: Request, target: str, label: str) -> None:
    assert (request_.target, request_.label) == (target, label)


def test_body_and_content_type() -> None:
    request = prepare("PATCH", PODS, "ns", "a", body=[{"op": "test"}], content_type=PatchType.JSON.value)
    assert (request.body, request.content_type) == (b'[{"op":"test"}]', "application/json-patch+json")
    assert raw("POST", "/x", body=b"as it is").body == b"as it is"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        prepare("GET", PODS, "ns", name)
    with pytest.raises(ValueError, match="is not a name"):
        prepare("GET", PODS, name, "a")


def test_an_object_without_its_namespace_is_refused() -> None:
    with pytest.raises(ValueError, match="pods live in a namespace: name one for 'a'"):
        prepare("GET", PODS, None, "a")


@given(st.text(min_size=1).filter(lambda name: name not in (".", "..")))
def test_no_name_changes_the_path(name: str) -> None:
    target = prepare("GET", PODS, "ns", name).target
    assert target.startswith("/api/v1/namespaces/ns/pods/")
    assert target.count("/") == 6
    assert not set(target) & set("?# ")


def test_object_name() -> None:
    assert object_name({"metadata": {"namespace": "ns", "name": "a"}}) == ("ns", "a")
    with pytest.raises(ValueError, match=r"the Pod has no metadata\.name"):
        object_name({"kind": "Pod"})


def refusal(kind: type[ApiError], retry_after: float | None = None) -> Any:
    return kind("GET /x", 0, {}, retry_after)


READ, WRITE = raw("GET", "/x"), raw("POST", "/x")


@pytest.mark.parametrize(
    ("request_", "error", "tries", "delay"),
    [
        pytest.param(WRITE, NotReached("no"), 1, 0.2, id="never sent: again"),
        pytest.param(WRITE, NotReached("no"), 2, 0.4, id="never sent: again, later"),
        pytest.param(WRITE, NotReached("no"), 3, None, id="never sent: enough"),
        pytest.param(READ, NoAnswer("cut"), 1, 0.0, id="a read cut off: again"),
        pytest.param(WRITE, MaybeApplied("cut"), 1, None, id="a write cut off: never"),
        pytest.param(WRITE, refusal(TooManyRequests, 2), 1, 2.0, id="asked to wait a little"),
        pytest.param(WRITE, refusal(TooManyRequests, 10), 1, None, id="asked to wait for long"),
        pytest.param(WRITE, refusal(TooManyRequests), 1, None, id="asked to wait, not said how long"),
        pytest.param(WRITE, refusal(Unauthorized), 1, 0.0, id="refused: with new credentials"),
        pytest.param(WRITE, refusal(Unauthorized), 2, None, id="refused again"),
        pytest.param(READ, refusal(Unavailable), 1, None, id="5xx of a read"),
        pytest.param(WRITE, refusal(Unavailable, 1), 1, None, id="5xx of a write, even with Retry-After"),
        pytest.param(WRITE, refusal(Conflict), 1, None, id="conflict"),
    ],
)
def test_what_the_client_tries_again(request_: Request, error: ApiError, tries: int, delay: float | None) -> None:
    assert retry_delay(request_, error, tries) == delay
