"""Admission webhooks: what they are sent, what they may change, and what happens when they do not answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kubenexus.common.kube.resources import (
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from tests.contract import hook as hooks
from tests.contract.api import Api, Obj, eventually
from tests.contract.hook import Hook, label, patching
from tests.contract.objects import config_map, meta, pod, unique

Register = Callable[..., None]
LABELLED = {"labels": {"app": "x"}}


@pytest.fixture
def new_hook() -> Iterator[Callable[[], Hook]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(hooks.running())


@pytest.fixture
def hook(new_hook: Callable[[], Hook]) -> Hook:
    return new_hook()


@pytest.fixture
def register(api: Api, new_hook: Callable[[], Hook]) -> Register:
    """Register webhooks for pods created in the test's namespace, and wait until they are in force.

    A real server takes notice of them a moment after they were written. It does so for a configuration as a whole,
    so each gets a witness, a webhook for config maps: once that is called, the others are in force too.
    """

    def run(res: Resource, *changes: Obj) -> None:
        witness = new_hook()
        watched = webhook(api, witness, rules=[rule("configmaps")], name="witness.example.com")
        created = {**meta(unique("hook")), "webhooks": [*changes, watched]}
        api.create(res, created).expect(201)
        eventually(lambda: api.create(CONFIG_MAPS, config_map("probe"), dryRun="All").expect(201) and witness.seen)

    return run


def rule(resource: str = "pods", *operations: str) -> Obj:
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": operations or ["CREATE"], "resources": [resource]}


def webhook(api: Api, hook: Hook, **changes: Any) -> Obj:
    return {
        "name": "hook.example.com",
        "clientConfig": {"url": hook.url, "caBundle": hook.ca_bundle},
        "rules": [rule()],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "timeoutSeconds": 5,
        **changes,
    }


def test_webhook_is_sent_the_request(api: Api, hook: Hook, register: Register) -> None:
    register(MUTATING_WEBHOOKS, webhook(api, hook))
    api.create(PODS, pod("a", **LABELLED)).expect(201)
    [request] = hook.seen
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["operation"], request["namespace"], request["name"]) == ("CREATE", api.namespace, "a")
    assert (request["dryRun"], request["oldObject"]) == (False, None)
    assert "system:authenticated" in request["userInfo"]["groups"]
    seen = request["object"]
    assert (seen["apiVersion"], seen["kind"], seen["metadata"]["labels"]) == ("v1", "Pod", {"app": "x"})
    assert seen["spec"]["schedulerName"] == "default-scheduler"  # defaults are there already


def test_webhook_sees_old_and_new_on_update(api: Api, hook: Hook, register: Register) -> None:
    register(VALIDATING_WEBHOOKS, webhook(api, hook, rules=[rule("pods", "UPDATE")]))
    api.create(PODS, pod("a", **LABELLED)).expect(201)
    api.patch(PODS, "a", {"metadata": {"labels": {"app": "y"}}}).expect(200)
    [request] = hook.seen
    assert request["oldObject"]["metadata"]["labels"] == {"app": "x"}
    assert request["object"]["metadata"]["labels"] == {"app": "y"}


def test_webhook_sees_what_is_deleted(api: Api, hook: Hook, register: Register) -> None:
    register(VALIDATING_WEBHOOKS, webhook(api, hook, rules=[rule("pods", "DELETE")]))
    api.create(PODS, pod("a")).expect(201)
    api.delete(PODS, "a").expect(200)
    assert (hook.seen[0]["operation"], hook.seen[0]["object"]) == ("DELETE", None)
    assert hook.seen[0]["oldObject"]["metadata"]["name"] == "a"


def test_webhook_sees_a_binding(api: Api, hook: Hook, register: Register) -> None:
    register(VALIDATING_WEBHOOKS, webhook(api, hook, rules=[rule("pods/binding")]))
    api.create(PODS, pod("a")).expect(201)
    body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "node-1"}}
    api.create(PODS, body, "binding", "a").expect(201)
    [request] = hook.seen
    assert (request["subResource"], request["object"]["target"]["name"]) == ("binding", "node-1")


def test_patch_of_a_mutating_webhook_is_stored(api: Api, hook: Hook, register: Register) -> None:
    hook.reply = lambda _: patching(
        label("added", "yes"), {"op": "replace", "path": "/spec/schedulerName", "value": "ours"}
    )
    register(MUTATING_WEBHOOKS, webhook(api, hook))
    created = api.create(PODS, pod("a", **LABELLED)).expect(201)
    assert created["metadata"]["labels"] == {"app": "x", "added": "yes"}
    assert created["spec"]["schedulerName"] == "ours"


def test_result_of_a_patch_is_validated(api: Api, hook: Hook, register: Register) -> None:
    hook.reply = lambda _: patching(label("added", "0,1"))
    register(MUTATING_WEBHOOKS, webhook(api, hook))
    refusal = api.create(PODS, pod("a", **LABELLED))
    refusal.refused(422, "Invalid")
    assert refusal.causes == {("metadata.labels", "FieldValueInvalid")}


def test_patch_of_a_validating_webhook_is_not_taken(api: Api, hook: Hook, register: Register) -> None:
    hook.reply = lambda _: patching(label("added", "yes"))
    register(VALIDATING_WEBHOOKS, webhook(api, hook))
    answer = api.create(PODS, pod("a", **LABELLED))
    assert "added" not in answer.body.get("metadata", {}).get("labels", {})


@pytest.mark.parametrize("res", [MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS], ids=["mutating", "validating"])
def test_denial_refuses_the_request_with_the_reason(api: Api, hook: Hook, register: Register, res: Resource) -> None:
    hook.reply = lambda _: {"allowed": False, "status": {"message": "not today"}}
    register(res, webhook(api, hook))
    answer = api.create(PODS, pod("a"))
    assert answer.expect(400)["message"] == 'admission webhook "hook.example.com" denied the request: not today'
    api.get(PODS, "a").refused(404, "NotFound")


def test_denial_may_choose_its_code_and_reason(api: Api, hook: Hook, register: Register) -> None:
    hook.reply = lambda _: {"allowed": False, "status": {"message": "no", "code": 403, "reason": "Forbidden"}}
    register(VALIDATING_WEBHOOKS, webhook(api, hook))
    api.create(PODS, pod("a")).refused(403, "Forbidden")


def test_denial_without_a_reason_says_so(api: Api, hook: Hook, register: Register) -> None:
    hook.reply = lambda _: {"allowed": False}
    register(VALIDATING_WEBHOOKS, webhook(api, hook))
    message = api.create(PODS, pod("a")).expect(400)["message"]
    assert message == 'admission webhook "hook.example.com" denied the request without explanation'


def test_warnings_reach_the_client(api: Api, hook: Hook, register: Register) -> None:
    hook.reply = lambda _: {"allowed": True, "warnings": ["mind the gap"]}
    register(VALIDATING_WEBHOOKS, webhook(api, hook))
    answer = api.create(PODS, pod("a"))
    answer.expect(201)
    assert answer.headers["Warning"] == '299 - "mind the gap"'


def test_silent_webhook_is_ignored_when_it_may_fail(api: Api, hook: Hook, register: Register) -> None:
    release = threading.Event()
    hook.reply = lambda _: {"allowed": not release.wait(10)}
    register(MUTATING_WEBHOOKS, webhook(api, hook, failurePolicy="Ignore", timeoutSeconds=1))
    try:
        api.create(PODS, pod("a")).expect(201)
    finally:
        release.set()


def test_silent_webhook_refuses_when_it_must_not_fail(api: Api, hook: Hook, register: Register) -> None:
    release = threading.Event()
    hook.reply = lambda _: {"allowed": release.wait(10)}
    register(MUTATING_WEBHOOKS, webhook(api, hook, timeoutSeconds=1))
    try:
        status = api.create(PODS, pod("a")).refused(500, "InternalError")
        assert 'failed calling webhook "hook.example.com"' in status["message"]
    finally:
        release.set()


@pytest.mark.parametrize(("policy", "code"), [("Ignore", 201), ("Fail", 500)])
def test_unreachable_webhook_under_policy(api: Api, hook: Hook, register: Register, policy: str, code: int) -> None:
    config = {"url": "https://127.0.0.1:1/", "caBundle": hook.ca_bundle}
    register(VALIDATING_WEBHOOKS, webhook(api, hook, clientConfig=config, failurePolicy=policy))
    api.create(PODS, pod("a")).expect(code)


def test_webhook_with_a_foreign_certificate_is_not_trusted(
    api: Api, hook: Hook, new_hook: Callable[[], Hook], register: Register
) -> None:
    config = {"url": hook.url, "caBundle": new_hook().ca_bundle}
    register(VALIDATING_WEBHOOKS, webhook(api, hook, clientConfig=config))
    api.create(PODS, pod("a")).refused(500, "InternalError")
    assert hook.seen == []


def test_webhook_that_answers_nonsense_fails(api: Api, hook: Hook, register: Register) -> None:
    hook.reply = lambda _: {"uid": "another", "allowed": True}
    register(VALIDATING_WEBHOOKS, webhook(api, hook))
    api.create(PODS, pod("a")).refused(500, "InternalError")


def test_namespace_selector_leaves_others_alone(api: Api, hook: Hook, register: Register) -> None:
    selector = {"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [api.namespace]},
        {"key": "inject", "operator": "Exists"},
    ]}  # fmt: skip
    register(MUTATING_WEBHOOKS, webhook(api, hook, namespaceSelector=selector))
    api.create(PODS, pod("before")).expect(201)
    assert hook.seen == []
    api.patch(NAMESPACES, api.namespace, {"metadata": {"labels": {"inject": "enabled"}}}).expect(200)
    eventually(lambda: api.create(PODS, pod("probe"), dryRun="All").expect(201) and hook.seen)


def test_object_selector_leaves_others_alone(api: Api, hook: Hook, register: Register) -> None:
    register(MUTATING_WEBHOOKS, webhook(api, hook, objectSelector={"matchLabels": {"app": "x"}}))
    api.create(PODS, pod("a")).expect(201)
    api.create(PODS, pod("b", **LABELLED)).expect(201)
    assert [request["name"] for request in hook.seen] == ["b"]


def test_webhooks_see_each_others_changes_in_order(
    api: Api, hook: Hook, new_hook: Callable[[], Hook], register: Register
) -> None:
    second = new_hook()
    hook.reply = lambda _: patching(label("first", "1"))
    register(MUTATING_WEBHOOKS, webhook(api, hook, name="a.example.com"), webhook(api, second, name="b.example.com"))
    api.create(PODS, pod("a", **LABELLED)).expect(201)
    assert [request["object"]["metadata"]["labels"] for request in second.seen] == [{"app": "x", "first": "1"}]


@pytest.mark.parametrize(("policy", "calls"), [("IfNeeded", 2), ("Never", 1)])
def test_earlier_webhook_is_called_again_after_a_later_change(
    api: Api, hook: Hook, new_hook: Callable[[], Hook], register: Register, policy: str, calls: int
) -> None:
    second = new_hook()
    second.reply = lambda _: patching(label("second", "2"))
    first = webhook(api, hook, name="a.example.com", reinvocationPolicy=policy)
    register(MUTATING_WEBHOOKS, first, webhook(api, second, name="b.example.com"))
    api.create(PODS, pod("a", **LABELLED)).expect(201)
    assert len(hook.seen) == calls
    assert ("second" in hook.seen[-1]["object"]["metadata"]["labels"]) == (calls == 2)


def test_webhook_is_not_called_again_without_a_later_change(
    api: Api, hook: Hook, new_hook: Callable[[], Hook], register: Register
) -> None:
    first = webhook(api, hook, name="a.example.com", reinvocationPolicy="IfNeeded")
    register(MUTATING_WEBHOOKS, first, webhook(api, new_hook(), name="b.example.com"))
    api.create(PODS, pod("a", **LABELLED)).expect(201)
    assert len(hook.seen) == 1


def test_validating_webhooks_see_what_mutating_ones_made(
    api: Api, hook: Hook, new_hook: Callable[[], Hook], register: Register
) -> None:
    mutating = new_hook()
    mutating.reply = lambda _: patching(label("added", "yes"))
    register(MUTATING_WEBHOOKS, webhook(api, mutating))
    register(VALIDATING_WEBHOOKS, webhook(api, hook))
    api.create(PODS, pod("a", **LABELLED)).expect(201)
    assert hook.seen[0]["object"]["metadata"]["labels"] == {"app": "x", "added": "yes"}


def test_dry_run_tells_the_webhook(api: Api, hook: Hook, register: Register) -> None:
    register(VALIDATING_WEBHOOKS, webhook(api, hook))
    api.create(PODS, pod("a"), dryRun="All").expect(201)
    assert hook.seen[0]["dryRun"] is True


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"timeoutSeconds": 31}, ("webhooks[0].timeoutSeconds", "FieldValueInvalid")),
        ({"sideEffects": "Some"}, ("webhooks[0].sideEffects", "FieldValueNotSupported")),
        ({"name": "short"}, ("webhooks[0].name", "FieldValueInvalid")),
        ({"admissionReviewVersions": []}, ("webhooks[0].admissionReviewVersions", "FieldValueRequired")),
        ({"clientConfig": {"url": "http://127.0.0.1/"}}, ("webhooks[0].clientConfig.url", "FieldValueInvalid")),
    ],
    ids=["a long timeout", "side effects", "a short name", "no versions", "plain http"],
)
def test_configuration_is_refused_for(api: Api, hook: Hook, change: Obj, cause: tuple[str, str]) -> None:
    refusal = api.create(MUTATING_WEBHOOKS, {**meta(unique("hook")), "webhooks": [webhook(api, hook, **change)]})
    refusal.refused(422, "Invalid")
    assert cause in refusal.causes
