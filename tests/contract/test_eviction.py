"""`pods/eviction`: a delete that asks the disruption budgets first."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.kube.resources import POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS
from tests.contract.api import Answer, Api, Obj, eventually
from tests.contract.objects import IDLE, meta, pod

READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


def evict(api: Api, name: str, **options: Any) -> Answer:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", **meta(name, namespace=api.namespace)}
    return api.create(PODS, {**body, "deleteOptions": options} if options else body, "eviction", name)


def running_pods(api: Api, *names: str) -> None:
    for name in names:
        api.create(PODS, pod(name, {"nodeName": IDLE}, labels={"app": "x"})).expect(201)
        api.patch(PODS, name, READY, "strategic", "status").expect(200)


def budget(api: Api, name: str = "budget", **spec: Any) -> None:
    """A budget whose status a controller has worked out."""
    whole = {**meta(name), "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec}}
    api.create(POD_DISRUPTION_BUDGETS, whole).expect(201)
    eventually(lambda: api.get(POD_DISRUPTION_BUDGETS, name).body.get("status", {}).get("observedGeneration"))


def allowed(api: Api) -> int:
    return int(api.get(POD_DISRUPTION_BUDGETS, "budget").expect(200)["status"]["disruptionsAllowed"])


def terminating(api: Api, name: str) -> bool:
    return "deletionTimestamp" in api.get(PODS, name).expect(200)["metadata"]


def test_pod_without_a_budget_is_evicted(api: Api) -> None:
    running_pods(api, "a")
    status = evict(api, "a").expect(201)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert terminating(api, "a")


def test_unbound_pod_is_evicted_at_once(api: Api) -> None:
    api.create(PODS, pod("a")).expect(201)
    evict(api, "a").expect(201)
    api.get(PODS, "a").refused(404, "NotFound")


def test_grace_of_the_eviction_counts(api: Api) -> None:
    running_pods(api, "a")
    evict(api, "a", gracePeriodSeconds=7).expect(201)
    assert api.get(PODS, "a").expect(200)["metadata"]["deletionGracePeriodSeconds"] == 7


def test_unknown_pod_is_not_found(api: Api) -> None:
    evict(api, "absent").refused(404, "NotFound")


def test_another_uid_is_refused(api: Api) -> None:
    running_pods(api, "a")
    evict(api, "a", preconditions={"uid": "00000000-0000-0000-0000-000000000000"}).refused(409, "Conflict")
    assert not terminating(api, "a")


def test_budget_that_is_used_up_refuses(api: Api) -> None:
    running_pods(api, "a", "b")
    budget(api, minAvailable=2)
    eventually(lambda: api.get(POD_DISRUPTION_BUDGETS, "budget").body["status"]["currentHealthy"] == 2)
    refusal = evict(api, "a")
    status = refusal.refused(429, "TooManyRequests")
    assert status["message"].startswith("Cannot evict pod as it would violate the pod's disruption budget.")
    assert {cause["reason"] for cause in status["details"]["causes"]} == {"DisruptionBudget"}
    assert not terminating(api, "a")


def test_budget_allows_what_it_leaves(api: Api) -> None:
    running_pods(api, "a", "b")
    budget(api, minAvailable=1)
    eventually(lambda: allowed(api) == 1)
    evict(api, "a").expect(201)
    evict(api, "b").refused(429, "TooManyRequests")
    assert (terminating(api, "a"), terminating(api, "b")) == (True, False)


@pytest.mark.parametrize("spec", [{"maxUnavailable": 1}, {"minAvailable": "50%"}, {"maxUnavailable": "50%"}], ids=str)
def test_budget_counts_the_replicas_that_should_be(api: Api, spec: Obj) -> None:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    wanted = {**meta("set"), "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}}
    api.create(REPLICA_SETS, wanted).expect(201)
    made = eventually(lambda: len(items := api.list(PODS).expect(200)["items"]) == 2 and items)
    for member in made:
        name = member["metadata"]["name"]
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": IDLE}}
        api.create(PODS, body, "binding", name).expect(201)
        api.patch(PODS, name, READY, "strategic", "status").expect(200)
    budget(api, **spec)
    eventually(lambda: allowed(api) == 1)
    evict(api, made[0]["metadata"]["name"]).expect(201)
    evict(api, made[1]["metadata"]["name"]).refused(429, "TooManyRequests")


def test_eviction_counts_against_the_budget_at_once(api: Api) -> None:
    running_pods(api, "a", "b", "c")
    budget(api, minAvailable=1)
    eventually(lambda: allowed(api) == 2)
    evict(api, "a").expect(201)
    assert allowed(api) == 1


def test_pending_pod_needs_no_budget(api: Api) -> None:
    running_pods(api, "a")
    api.create(PODS, pod("waiting", labels={"app": "x"})).expect(201)
    budget(api, minAvailable=2)
    evict(api, "waiting").expect(201)
    api.get(PODS, "waiting").refused(404, "NotFound")


def test_two_budgets_on_one_pod_are_an_error(api: Api) -> None:
    running_pods(api, "a")
    budget(api, "one", minAvailable=0)
    budget(api, "two", minAvailable=0)
    assert evict(api, "a").status == 500
    assert not terminating(api, "a")


def test_dry_run_evicts_nothing(api: Api) -> None:
    running_pods(api, "a")
    evict(api, "a", dryRun=["All"]).expect(201)
    assert not terminating(api, "a")


def test_eviction_marks_the_pod_as_disrupted(api: Api) -> None:
    running_pods(api, "a")
    budget(api, minAvailable=0)
    eventually(lambda: allowed(api) == 1)
    evict(api, "a").expect(201)
    conditions = {entry["type"]: entry for entry in api.get(PODS, "a").expect(200)["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["status"] == "True"
    assert conditions["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"
