"""The webhook's app without a network: whatever is posted, the answer is one that an API server can use."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common import metrics
from kubenexus.common.sandbox.patch import json_patch
from kubenexus.common.vocabulary import GANG_MIN_AVAILABLE, GANG_NAME
from kubenexus.webhook.app import LARGE, Hurried, create_app
from kubenexus.webhook.cluster import Cluster, Glance, NamespaceFacts
from kubenexus.webhook.quick import JSON, Review
from tests.admission import cluster, pod, review
from tests.owners import Known, job, raw_pod

Obj = dict[str, Any]


def client(world: Cluster | None = None) -> FlaskClient:
    app = create_app(world or cluster(job()), ready={"x": lambda: "not yet"}, live={"y": lambda: None})
    return app.test_client()


def post(path: str, body: object, world: Cluster | None = None) -> Obj:
    """The response in the answer, which must be a review."""
    answer = client(world).post(path, data=json.dumps(body), content_type="application/json")
    found: Obj = json.loads(answer.data)
    assert (answer.status_code, found["kind"], found["apiVersion"]) == (200, "AdmissionReview", "admission.k8s.io/v1")
    response: Obj = found["response"]
    return response


def counted(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


def test_pod_of_a_job_is_completed_once() -> None:
    raw = raw_pod(job())
    response = post("/mutate", review(raw))
    completed = json_patch(raw, json.loads(base64.b64decode(response["patch"])))
    assert completed["metadata"]["labels"][GANG_MIN_AVAILABLE] == "8"
    assert "patch" not in post("/mutate", review(completed))


def test_denial_is_counted_by_its_rule() -> None:
    response = post("/validate", review(pod().label(GANG_NAME, "g").label(GANG_MIN_AVAILABLE, "abc")))
    rule = response["auditAnnotations"]["denied"]
    assert response["allowed"] is False
    assert counted("kubenexus_webhook_denials_total", rule=rule) >= 1
    assert counted("kubenexus_webhook_reviews_total", path="validate", end="denied") >= 1


def test_error_of_ours_admits_with_a_warning_and_a_metric() -> None:
    def broken(_: str) -> NamespaceFacts | None:
        raise RuntimeError("oh no")

    before = counted("kubenexus_webhook_reviews_total", path="mutate", end="error")
    response = post("/mutate", review(pod()), Cluster(broken, Known()))
    assert response["allowed"] is True
    assert "oh no" in response["warnings"][0]
    assert counted("kubenexus_webhook_reviews_total", path="mutate", end="error") == before + 1


@pytest.mark.parametrize("bulk", [0, LARGE])
def test_large_reviews_are_unpacked_one_at_a_time(bulk: int) -> None:
    """Whoever looks up the namespace waits for a second one who does so as well."""
    together = threading.Barrier(2, timeout=5.0 if bulk == 0 else 0.2)

    def meet(name: str) -> NamespaceFacts | None:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait()
        return NamespaceFacts(name)

    app = create_app(Cluster(meet, Known()), ready={}, live={})
    body = json.dumps(review(pod().annotation("bulk", "x" * bulk)))

    def ask(_: int) -> int:
        return app.test_client().post("/mutate", data=body, content_type="application/json").status_code

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(ask, range(2))) == [200, 200]
    assert together.broken == (bulk > 0)


@pytest.mark.parametrize("path", ["mutate", "validate"])
def test_errors_that_have_not_happened_yet_are_counted_as_zero(path: str) -> None:
    """An alert on an increase never sees a series that begins with 1."""
    client()
    assert (
        metrics.REGISTRY.get_sample_value("kubenexus_webhook_reviews_total", {"path": path, "end": "error"}) is not None
    )


def test_health_is_told() -> None:
    assert client().get("/healthz").status_code == 200
    ready = client().get("/readyz")
    assert (ready.status_code, ready.text) == (503, "[-] x: not yet\nnot ok\n")


texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=6),
    max_leaves=30,
)
reviews = st.builds(lambda meta, spec, uid: review({"metadata": meta, "spec": spec}, uid=uid), values, values, values)


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@given(body=values | reviews)
def test_any_json_gets_a_valid_answer(path: str, body: object) -> None:
    response = post(path, body)
    request = body.get("request") if isinstance(body, dict) else None
    uid = request.get("uid") if isinstance(request, dict) else None
    assert response["uid"] == (uid if isinstance(uid, str) else "")
    assert isinstance(response["allowed"], bool)
    assert all(len(warning) <= 120 for warning in response.get("warnings", ()))


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@given(body=values | reviews)
def test_an_answer_at_once_is_the_usual_one(path: str, body: object) -> None:
    world = cluster(job())
    app = create_app(world, ready={}, live={}, hurried=Hurried(world, Glance()))
    sent = json.dumps(body).encode()
    assert app.at_once(Review(path, sent)) == app.test_client().post(path, data=sent, content_type=JSON).data


@pytest.mark.parametrize(
    ("body", "missed"),
    [
        pytest.param(b"{", False, id="no JSON"),
        pytest.param(json.dumps(review(pod())).encode(), True, id="a look-up that may be worth a wait"),
    ],
)
def test_what_takes_time_is_not_answered_at_once(body: bytes, missed: bool) -> None:
    glance = Glance()
    world = Cluster(lambda _: glance.await_(lambda: None), Known())
    app = create_app(world, ready={}, live={}, hurried=Hurried(world, glance))
    assert app.at_once(Review("/mutate", body)) is None
    assert glance.missed is missed
