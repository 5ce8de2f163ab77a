"""The garbage collector, disruption budgets and claims from templates, step by step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubenexus.common.kube.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from kubenexus.common.sandbox.errors import ApiError
from kubenexus.common.vocabulary import SIMULATED_RUN_TIME
from tests.sandbox_cluster import Cluster, Obj, job, replicated, template


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def owned(name: str, *owners: Obj, blocks: bool = False) -> Obj:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]}
        | ({"blockOwnerDeletion": True} if blocks else {})
        for each in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": references}}


def plain(name: str) -> Obj:
    return {"metadata": {"name": name}}


def stranger(uid: str, **changes: Any) -> Obj:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": uid} | changes
    return {"metadata": {"name": "d", "ownerReferences": [reference]}}


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_dependents_go_with_their_owner(cluster: Cluster, policy: str) -> None:
    a = cluster.create(CONFIG_MAPS, plain("a"))
    b = cluster.create(CONFIG_MAPS, owned("b", a, blocks=True))
    cluster.create(CONFIG_MAPS, owned("c", b, blocks=True))
    cluster.settle()
    cluster.registry.delete(CONFIG_MAPS, "default", "a", propagation=policy)
    if policy == "Foreground":
        assert "a" in cluster.names(CONFIG_MAPS), "the owner stays until its dependents are gone"
    cluster.settle()
    assert cluster.names(CONFIG_MAPS) == []


def test_foreground_waits_only_for_those_that_block(cluster: Cluster) -> None:
    a = cluster.create(CONFIG_MAPS, plain("a"))
    held = owned("b", a, blocks=True)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(CONFIG_MAPS, held)
    cluster.settle()
    cluster.registry.delete(CONFIG_MAPS, "default", "a", propagation="Foreground")
    cluster.settle()
    assert cluster.names(CONFIG_MAPS) == ["a", "b"]
    cluster.registry.patch(CONFIG_MAPS, "default", "b", {"metadata": {"finalizers": None}})
    cluster.settle()
    assert cluster.names(CONFIG_MAPS) == []


def test_orphans_stay(cluster: Cluster) -> None:
    a = cluster.create(CONFIG_MAPS, plain("a"))
    cluster.create(CONFIG_MAPS, owned("b", a))
    cluster.settle()
    cluster.registry.delete(CONFIG_MAPS, "default", "a", propagation="Orphan")
    cluster.settle()
    assert cluster.names(CONFIG_MAPS) == ["b"]
    assert "ownerReferences" not in cluster.get(CONFIG_MAPS, "b")["metadata"]


def test_an_object_with_another_owner_stays(cluster: Cluster) -> None:
    a, b = (cluster.create(CONFIG_MAPS, plain(name)) for name in "ab")
    cluster.create(CONFIG_MAPS, owned("c", a, b))
    cluster.settle()
    cluster.registry.delete(CONFIG_MAPS, "default", "a")
    cluster.settle()
    assert [each["uid"] for each in cluster.get(CONFIG_MAPS, "c")["metadata"]["ownerReferences"]] == [
        b["metadata"]["uid"]
    ]


STRANGERS = [
    pytest.param(stranger("other-uid"), False, id="owner of that name has another uid"),
    pytest.param(stranger("x", apiVersion="example.com/v1", kind="Thing"), True, id="kind that nobody serves"),
]


@pytest.mark.parametrize(("dependent", "stays"), STRANGERS)
def test_owner_that_is_not_there(cluster: Cluster, dependent: Obj, stays: bool) -> None:
    cluster.create(CONFIG_MAPS, plain("a"))
    cluster.create(CONFIG_MAPS, dependent)
    cluster.settle()
    assert cluster.names(CONFIG_MAPS) == ["a", "d"][: 1 + stays]


def test_owner_in_another_namespace_does_not_count(cluster: Cluster) -> None:
    far = cluster.registry.create(CONFIG_MAPS, "kube-system", plain("a"))
    cluster.create(CONFIG_MAPS, owned("d", far))
    cluster.settle()
    assert cluster.names(CONFIG_MAPS) == []


@settings(max_examples=25, deadline=None)
@given(
    links=st.lists(st.sets(st.integers(0, 7)), min_size=8, max_size=8),
    deleted=st.dictionaries(st.integers(0, 7), st.sampled_from(["Background", "Foreground"]), max_size=4),
)
def test_an_object_lives_exactly_as_long_as_one_of_its_owners(links: list[set[int]], deleted: dict[int, str]) -> None:
    cluster, made = Cluster(), list[Obj]()
    parents = [sorted(each for each in owners if each < index) for index, owners in enumerate(links)]
    for index, mine in enumerate(parents):
        made.append(cluster.create(CONFIG_MAPS, owned(f"o{index}", *(made[each] for each in mine), blocks=True)))
    cluster.settle()
    for index, policy in deleted.items():
        cluster.registry.delete(CONFIG_MAPS, "default", f"o{index}", propagation=policy)
    cluster.settle()
    alive: list[int] = []
    for index, mine in enumerate(parents):
        if index not in deleted and (not mine or any(each in alive for each in mine)):
            alive.append(index)
    assert cluster.names(CONFIG_MAPS) == [f"o{index}" for index in alive]


def test_deleted_job_takes_its_running_pods_along(cluster: Cluster) -> None:
    cluster.create(JOBS, job(run_time=1000, completions=2, parallelism=2))
    cluster.settle()
    cluster.registry.delete(JOBS, "default", "j", propagation="Background")
    cluster.settle()
    assert cluster.names() == []


def budget(**spec: Any) -> Obj:
    return {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "a"}}} | spec}


BUDGETS = [
    pytest.param({"minAvailable": 2}, (3, 2, 3, 1), id="at least so many"),
    pytest.param({"minAvailable": "50%"}, (3, 2, 3, 1), id="at least a share, rounded up"),
    pytest.param({"maxUnavailable": 1}, (3, 2, 3, 1), id="at most one missing"),
    pytest.param({"maxUnavailable": "50%"}, (3, 1, 3, 2), id="at most a share, rounded up"),
    pytest.param({"minAvailable": 5}, (3, 5, 3, 0), id="more than there are"),
    pytest.param({"minAvailable": 0, "selector": {"matchLabels": {"app": "z"}}}, (0, 0, 0, 0), id="covers nothing"),
]


@pytest.mark.parametrize(("spec", "expected"), BUDGETS)
def test_disruption_budget(cluster: Cluster, spec: Obj, expected: tuple[int, ...]) -> None:
    cluster.create(DEPLOYMENTS, replicated())
    cluster.create(POD_DISRUPTION_BUDGETS, budget(**spec))
    cluster.settle()
    status = cluster.status(POD_DISRUPTION_BUDGETS, "b")
    keys = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")
    assert tuple(status[key] for key in keys) == expected
    assert bool(cluster.conditions(POD_DISRUPTION_BUDGETS, "b")) == bool(expected[3])


def test_eviction_spends_the_budget_until_the_pod_is_replaced(cluster: Cluster) -> None:
    cluster.create(REPLICA_SETS, replicated("r"))
    cluster.create(POD_DISRUPTION_BUDGETS, budget(minAvailable=2))
    cluster.settle()
    first, second, _ = cluster.names()
    cluster.registry.evict("default", first)
    with pytest.raises(ApiError) as refused:
        cluster.registry.evict("default", second)
    assert refused.value.code == 429
    cluster.settle()
    assert cluster.status(POD_DISRUPTION_BUDGETS, "b").get("disruptedPods", {}) == {}
    cluster.registry.evict("default", second)


def test_granted_eviction_counts_until_it_happens_or_two_minutes_passed(cluster: Cluster) -> None:
    cluster.create(REPLICA_SETS, replicated("r"))
    cluster.create(POD_DISRUPTION_BUDGETS, budget(minAvailable=1))
    cluster.settle()
    granted = {cluster.names()[0]: "2026-05-04T12:00:00Z", "gone": "2026-05-04T12:00:00Z"}
    change = {"status": {"disruptedPods": granted}}
    cluster.registry.patch(POD_DISRUPTION_BUDGETS, "default", "b", change, subresource="status")
    cluster.settle()
    status = cluster.status(POD_DISRUPTION_BUDGETS, "b")
    assert (status["currentHealthy"], list(status["disruptedPods"])) == (2, cluster.names()[:1])
    cluster.wait(120)
    status = cluster.status(POD_DISRUPTION_BUDGETS, "b")
    assert (status["currentHealthy"], status.get("disruptedPods", {})) == (3, {})


def test_pod_gets_a_claim_of_its_own_and_gives_it_back(cluster: Cluster) -> None:
    devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}
    cluster.create(RESOURCE_CLAIM_TEMPLATES, plain("t") | {"spec": {"spec": {"devices": devices}}})
    claims = [{"name": "mine", "resourceClaimTemplateName": "t"}]
    meta = {"name": "p", "annotations": {SIMULATED_RUN_TIME: "5"}}
    pod = cluster.create(PODS, template(resourceClaims=claims) | {"metadata": meta})
    cluster.settle(bind=False)
    [claim] = cluster.registry.list(RESOURCE_CLAIMS)
    name = claim["metadata"]["name"]
    assert name.startswith("p-mine-")
    assert cluster.status(PODS, "p")["resourceClaimStatuses"] == [{"name": "mine", "resourceClaimName": name}]
    reserved = [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
    given = {"allocation": {"devices": {}}, "reservedFor": reserved}
    cluster.registry.patch(RESOURCE_CLAIMS, "default", name, {"status": given}, subresource="status")
    cluster.settle()
    assert cluster.status(RESOURCE_CLAIMS, name)["reservedFor"] == reserved
    cluster.wait(5)
    assert cluster.status(RESOURCE_CLAIMS, name) == {}
    cluster.registry.delete(PODS, "default", "p")
    cluster.settle()
    assert cluster.names(RESOURCE_CLAIMS) == []
