"""Webhooks of the sandbox, called over real HTTPS, and what the client gets to see of them."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, PODS, VALIDATING_WEBHOOKS, Resource
from kubenexus.common.sandbox.admission import Admission, AdmissionRequest, DeniedError
from kubenexus.common.sandbox.errors import ApiError, not_found
from kubenexus.common.sandbox.writes import Call
from tests.webhook_server import ALLOW, Bench, Webhook, certificate, pod

Obj = dict[str, Any]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    hook = Webhook(tmp_path)
    made = Bench(hook)
    yield made
    made.admission.close()
    hook.close()


def label(key: str, value: str = "yes") -> Callable[[Obj], Obj]:
    """A webhook that adds a label, or sets it again."""

    def answer(request: Obj) -> Obj:
        present = request["object"]["metadata"].get("labels", {})
        operations = [{"op": "add", "path": "/metadata/labels", "value": present | {key: value}}]
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded(operations)}

    return answer


def encoded(operations: Any) -> str:
    return base64.b64encode(json.dumps(operations).encode()).decode()


def rules(**rule: Any) -> list[Obj]:
    return [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]} | rule]


# --- what is asked ---------------------------------------------------------------------------------------------------


def test_webhook_sees_the_request_and_changes_the_object(bench: Bench) -> None:
    bench.configure(MUTATING_WEBHOOKS, bench.webhook("a", label("touched"), timeoutSeconds=7))
    created = bench.create(call=Call("alice", ("team",), dry_run=False))
    assert created["metadata"]["labels"] == {"touched": "yes"}
    [(_, request)] = bench.hook.asked
    assert request["object"]["metadata"]["name"] == "p"
    assert request["kind"] == request["requestKind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["operation"], request["namespace"], request["name"]) == ("CREATE", "default", "p")
    assert request["userInfo"] == {"username": "alice", "groups": ["team"]}
    assert (request["oldObject"], request["dryRun"]) == (None, False)
    assert bench.hook.queries == ["timeout=7s"]


def test_update_and_delete_carry_the_old_object(bench: Bench) -> None:
    bench.create()
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v"))
    bench.registry.patch(PODS, "default", "p", {"metadata": {"labels": {"a": "b"}}})
    bench.registry.delete(PODS, "default", "p")
    update, delete = (request for _, request in bench.hook.asked)
    assert "labels" not in update["oldObject"]["metadata"]
    assert update["object"]["metadata"]["labels"] == {"a": "b"}
    assert (delete["operation"], delete["object"]) == ("DELETE", None)
    assert delete["oldObject"]["metadata"]["labels"] == {"a": "b"}


def test_connection_is_reused(bench: Bench) -> None:
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v"))
    for index in range(5):
        bench.create(f"p{index}")
    assert (len(bench.hook.asked), bench.hook.connections) == (5, 1)


def test_service_is_found_by_its_endpoint_and_verified_by_its_name(bench: Bench) -> None:
    service = {"namespace": "tools", "name": "hook", "path": "/v"}
    client = {"service": service, "caBundle": bench.hook.bundle}
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", clientConfig=client))
    with pytest.raises(ApiError, match='service "hook" not found'):
        bench.create()
    bench.admission.service_endpoints["tools", "hook"] = ("127.0.0.1", bench.hook.port)
    bench.create()
    assert bench.hook.paths() == ["/v"]


def test_order_is_by_configuration_name_then_as_listed(bench: Bench) -> None:
    bench.configure(MUTATING_WEBHOOKS, bench.webhook("third"), name="b")
    bench.configure(MUTATING_WEBHOOKS, bench.webhook("second-z"), bench.webhook("first-a"), name="a")
    bench.create()
    assert bench.hook.paths() == ["/second-z", "/first-a", "/third"]


# --- whom it concerns ------------------------------------------------------------------------------------------------

MATCHES = [
    pytest.param({"rules": rules()}, True, id="wildcards without subresources"),
    pytest.param({"rules": rules(operations=["UPDATE"])}, False, id="other operation"),
    pytest.param({"rules": rules(operations=["CREATE", "DELETE"])}, True, id="listed operation"),
    pytest.param({"rules": rules(apiGroups=[""], apiVersions=["v1"])}, True, id="group and version"),
    pytest.param({"rules": rules(apiGroups=["apps"])}, False, id="other group"),
    pytest.param({"rules": rules(resources=["pods"])}, True, id="resource"),
    pytest.param({"rules": rules(resources=["pods/binding"])}, False, id="only its subresource"),
    pytest.param({"rules": rules(resources=["pods/*"])}, True, id="resource and all subresources"),
    pytest.param({"rules": rules(scope="Cluster")}, False, id="cluster scope"),
    pytest.param({"rules": rules(scope="Namespaced")}, True, id="namespaced scope"),
    pytest.param({"rules": rules(resources=["nodes"]) + rules(resources=["pods"])}, True, id="any rule"),
    pytest.param({"rules": []}, False, id="no rule"),
    pytest.param({"objectSelector": {}}, True, id="empty object selector"),
    pytest.param({"objectSelector": {"matchLabels": {"app": "web"}}}, True, id="object selector"),
    pytest.param({"objectSelector": {"matchLabels": {"app": "db"}}}, False, id="object selector misses"),
    pytest.param({"namespaceSelector": {"matchLabels": {"team": "red"}}}, True, id="namespace selector"),
    pytest.param(
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}},
        False,
        id="namespace selector misses",
    ),
]


@pytest.mark.parametrize(("settings", "called"), MATCHES)
def test_matching(bench: Bench, settings: Obj, called: bool) -> None:
    bench.registry.create(NAMESPACES, None, {"metadata": {"name": "red", "labels": {"team": "red"}}})
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", **settings))
    bench.registry.create(PODS, "red", pod(labels={"app": "web"}))
    assert bench.hook.paths() == ["/v"] * called


def test_object_selector_matches_the_old_object_too(bench: Bench) -> None:
    bench.create(labels={"app": "web"})
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", objectSelector={"matchLabels": {"app": "web"}}))
    bench.registry.patch(PODS, "default", "p", {"metadata": {"labels": {"app": None}}})
    assert bench.hook.paths() == ["/v"]


def test_namespace_object_is_matched_by_its_own_labels(bench: Bench) -> None:
    selector = {"matchLabels": {"team": "red"}}
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", namespaceSelector=selector))
    bench.registry.create(NAMESPACES, None, {"metadata": {"name": "blue"}})
    bench.registry.create(NAMESPACES, None, {"metadata": {"name": "red", "labels": {"team": "red"}}})
    [(_, request)] = bench.hook.asked
    assert (request["name"], request["namespace"]) == ("red", "red")


def test_webhook_configurations_are_exempt(bench: Bench) -> None:
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", {"allowed": False}))
    bench.configure(MUTATING_WEBHOOKS, bench.webhook("m"))
    bench.registry.delete(VALIDATING_WEBHOOKS, None, "config")
    assert bench.hook.asked == []


def test_match_conditions_are_not_evaluated_and_the_client_is_told_once(bench: Bench) -> None:
    conditions = [{"name": "never", "expression": "false"}]
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", matchConditions=conditions))
    first, second = Call(), Call()
    bench.create("a", first)
    bench.create("b", second)
    assert bench.hook.paths() == ["/v", "/v"]
    assert first.warnings == ["the sandbox does not evaluate matchConditions: v.example.com is called as if they held"]
    assert second.warnings == []


# --- reinvocation ----------------------------------------------------------------------------------------------------


def test_reinvocation_reaches_those_that_ran_before_a_change(bench: Bench) -> None:
    again: Obj = {"reinvocationPolicy": "IfNeeded"}
    late = bench.webhook("late", objectSelector={"matchLabels": {"c": "yes"}}, **again)
    bench.configure(
        MUTATING_WEBHOOKS,
        late,  # skipped in the first round, so not called in the second although it matches by then
        bench.webhook("a", **again),
        bench.webhook("b"),
        bench.webhook("c", label("c"), **again),
        bench.webhook("d", **again),
    )
    bench.create()
    assert bench.hook.paths() == ["/a", "/b", "/c", "/d", "/a"]


def test_without_a_change_nothing_is_called_again(bench: Bench) -> None:
    bench.configure(MUTATING_WEBHOOKS, bench.webhook("a", reinvocationPolicy="IfNeeded"), bench.webhook("b"))
    bench.create()
    assert bench.hook.paths() == ["/a", "/b"]


def test_priority_class_set_by_a_webhook_contradicts_the_priority_computed_before(bench: Bench) -> None:
    operations = [{"op": "add", "path": "/spec/priorityClassName", "value": "system-node-critical"}]
    answer = {"allowed": True, "patchType": "JSONPatch", "patch": encoded(operations)}
    bench.configure(MUTATING_WEBHOOKS, bench.webhook("a", answer))
    with pytest.raises(ApiError, match=r"the integer value of priority \(0\) must not be provided") as refused:
        bench.create()
    assert refused.value.code == 403


# --- refusals and failures -------------------------------------------------------------------------------------------

DENIALS = [
    pytest.param({"message": "no", "code": 403, "reason": "Forbidden"}, 403, "Forbidden", ": no", id="all given"),
    pytest.param({"message": "no"}, 400, "", ": no", id="no code is 400"),
    pytest.param({"message": "no", "code": 200}, 400, "", ": no", id="a code of success is 400"),
    pytest.param({"reason": "Quota"}, 400, "Quota", ": Quota", id="reason as explanation"),
    pytest.param(None, 400, "", " without explanation", id="nothing said"),
]


@pytest.mark.parametrize("kind", [MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS], ids=["mutating", "validating"])
@pytest.mark.parametrize(("status", "code", "reason", "words"), DENIALS)
def test_denial(bench: Bench, kind: Resource, status: Obj | None, code: int, reason: str, words: str) -> None:
    bench.configure(kind, bench.webhook("v", {"allowed": False, "status": status, "warnings": ["careful"]}))
    with pytest.raises(DeniedError) as refused:
        bench.create()
    error = refused.value
    assert (error.code, error.reason) == (code, reason)
    assert error.message == f'admission webhook "v.example.com" denied the request{words}'
    assert error.warnings == ["careful"]


def test_every_validating_webhook_is_asked_and_the_first_refusal_counts(bench: Bench) -> None:
    no = {"allowed": False, "status": {"message": "no"}}
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("a", no), bench.webhook("b", no), bench.webhook("c"))
    with pytest.raises(ApiError, match=r'webhook "a\.example\.com" denied'):
        bench.create()
    assert bench.hook.paths() == ["/a", "/b", "/c"]


def bad_review(**fields: Any) -> Obj:
    return {"allowed": True, "review": fields}


FAILURES = [
    pytest.param((500, b"boom"), 'an error on the server ("boom") has prevented the request from succeeding', id="500"),
    pytest.param((404, b""), "the server could not find the requested resource", id="404"),
    pytest.param((200, b"{"), "couldn't get version/kind; json parse error", id="not JSON"),
    pytest.param((200, b"{}"), "received invalid webhook response: webhook response was absent", id="no response"),
    pytest.param(ALLOW | {"uid": "x"}, "received invalid webhook response: expected response.uid=", id="wrong uid"),
    pytest.param(
        bad_review(apiVersion="admission.k8s.io/v1beta1"),
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1beta1",
        id="old version",
    ),
    pytest.param(ALLOW | {"patch": "W10="}, "webhook returned response.patch but not response.patchType", id="no type"),
    pytest.param(
        ALLOW | {"patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch", id="no patch"
    ),
    pytest.param(
        ALLOW | {"patchType": "JSONPatch", "patch": "e30x"}, "received undecodable patch in webhook response", id="junk"
    ),
    pytest.param(ALLOW | {"patchType": "Merge", "patch": "W10="}, 'unsupported patch type "Merge"', id="other type"),
]


@pytest.mark.parametrize(("answer", "words"), FAILURES)
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_unusable_answer(bench: Bench, answer: Any, words: str, policy: str) -> None:
    fixed = answer if isinstance(answer, tuple) else None
    bench.configure(
        MUTATING_WEBHOOKS, bench.webhook("m", lambda _: fixed or dict(answer), failurePolicy=policy, timeoutSeconds=5)
    )
    if policy == "Ignore":
        assert bench.create()["metadata"]["name"] == "p"
        return
    with pytest.raises(ApiError) as refused:
        bench.create()
    assert (refused.value.code, refused.value.reason) == (500, "InternalError")
    assert refused.value.message.startswith('Internal error occurred: failed calling webhook "m.example.com": ')
    assert words in refused.value.message


def test_validating_webhook_may_not_patch(bench: Bench) -> None:
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", label("a")))
    with pytest.raises(ApiError, match=r"validating webhook may not return response\.patch"):
        bench.create()


def test_patch_that_does_not_apply_is_an_internal_error_whatever_the_policy(bench: Bench) -> None:
    patch = encoded([{"op": "remove", "path": "/spec/nothing"}])
    answer = {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    bench.configure(MUTATING_WEBHOOKS, bench.webhook("m", answer, failurePolicy="Ignore"))
    with pytest.raises(ApiError) as refused:
        bench.create()
    assert refused.value.code == 500


def test_deletion_cannot_be_patched(bench: Bench) -> None:
    bench.create()
    answer = {"allowed": True, "patchType": "JSONPatch", "patch": encoded([{"op": "add", "path": "/a", "value": 1}])}
    bench.configure(MUTATING_WEBHOOKS, bench.webhook("m", answer))
    with pytest.raises(ApiError, match="attempted to modify the object, which is not supported for this operation"):
        bench.registry.delete(PODS, "default", "p")


def test_slow_webhook_times_out(bench: Bench) -> None:
    release = threading.Event()

    def slow(_request: Obj) -> Obj:
        release.wait(10)
        return dict(ALLOW)

    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", slow, timeoutSeconds=1))
    started = time.monotonic()
    with pytest.raises(ApiError, match="context deadline exceeded"):
        bench.create()
    assert time.monotonic() - started < 5
    release.set()


def test_webhook_that_is_not_there(bench: Bench) -> None:
    client = {"url": "https://127.0.0.1:1/v", "caBundle": bench.hook.bundle}
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", clientConfig=client))
    with pytest.raises(ApiError) as refused:
        bench.create()
    assert refused.value.message == (
        'Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: '
        'Post "https://127.0.0.1:1/v?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused'
    )


def test_certificate_of_another_authority_is_refused(bench: Bench, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    pem = certificate(other).read_bytes().split(b"-----END PRIVATE KEY-----\n")[1]
    client = {"url": f"https://127.0.0.1:{bench.hook.port}/v", "caBundle": base64.b64encode(pem).decode()}
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", clientConfig=client))
    with pytest.raises(ApiError, match="x509: certificate signed by unknown authority"):
        bench.create()


def test_certificate_for_another_name_is_refused(bench: Bench) -> None:
    client = {"service": {"namespace": "tools", "name": "other"}, "caBundle": bench.hook.bundle}
    bench.admission.service_endpoints["tools", "other"] = ("127.0.0.1", bench.hook.port)
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", clientConfig=client))
    with pytest.raises(ApiError, match=r"x509: certificate is .*other\.tools\.svc"):
        bench.create()


# --- dry run and warnings --------------------------------------------------------------------------------------------


class OneWebhook:
    """A registry that holds one webhook, of a kind that older API servers accepted and still keep."""

    def __init__(self, hook: Obj) -> None:
        self._configuration = {"metadata": {"name": "config"}, "webhooks": [hook]}

    def get(self, res: Resource, _namespace: str | None, name: str, /) -> Obj:
        raise not_found(res, name)

    def objects(self, res: Resource, /) -> list[Obj]:
        return [self._configuration] if res == VALIDATING_WEBHOOKS else []


DRY_RUN = AdmissionRequest("CREATE", PODS, "", "default", "p", pod(), None, dry_run=True)


@pytest.mark.parametrize("effects", ["None", "NoneOnDryRun"])
def test_dry_run_reaches_webhooks_without_side_effects(bench: Bench, effects: str) -> None:
    bench.configure(VALIDATING_WEBHOOKS, bench.webhook("v", sideEffects=effects))
    bench.admission.validate(DRY_RUN)
    assert bench.hook.asked[0][1]["dryRun"] is True


@pytest.mark.parametrize("effects", ["Some", "Unknown"])
def test_dry_run_is_refused_where_it_would_have_side_effects(bench: Bench, effects: str) -> None:
    admission = Admission(OneWebhook(bench.webhook("v", sideEffects=effects, failurePolicy="Ignore")))
    with pytest.raises(ApiError) as refused:
        admission.validate(DRY_RUN)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    assert refused.value.message == 'admission webhook "v.example.com" does not support dry run'
    assert bench.hook.asked == []


def test_warnings_reach_the_client_each_once(bench: Bench) -> None:
    bench.configure(MUTATING_WEBHOOKS, bench.webhook("a", ALLOW | {"warnings": ["one", "two", "one"]}))
    call = Call()
    bench.create(call=call)
    assert call.warnings == ["one", "two"]
