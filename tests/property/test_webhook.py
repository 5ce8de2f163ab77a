"""Admission of whatever there is: a valid answer, a patch that only adds, no tier above the namespace's."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import orjson
from hypothesis import event, given
from hypothesis import strategies as st

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import ANNOTATIONS, PodFacts, resolve
from kubenexus.common.sandbox.patch import json_patch
from kubenexus.webhook.cluster import Cluster, NamespaceFacts
from kubenexus.webhook.review import answer
from tests.admission import TEAM, mutated, patch_of, review, validated
from tests.owners import Known, Obj, job, job_set, made, reference

KEYS = [name.key for name in v.NAMES if name.place in (v.Place.POD, v.Place.PLACED, v.Place.CLUSTER)]
SIGNS = ["spark-role", "spark-app-selector", "notebook-name", "leaderworkerset.sigs.k8s.io/name", "grove.io/podgang"]
RANKS = {"bronze": 0, "silver": 1, "gold": 2}
OWNERS = [job(), job(by=job_set()), job_set(), made("apps/v1/ReplicaSet", "r", {"replicas": 3})]

tiers = st.sampled_from([*v.Tier, "GOLD", "Silver", "platinum", ""])
texts = st.one_of(
    st.sampled_from(["4", "0", "1", "true", "false", "g", "", "disabled", "driver", "10m", "cpu,memory", "80Gi", TEAM]),
    st.sampled_from([*v.NumaPolicy, *v.Tier, *v.WorkloadType, "strict", "0,1"]),
    st.text(max_size=70),
)

# Pods that an API server would send, with much to complete and much to complain about.
common = {v.TENANT_TIER: tiers, v.GANG_NAME: texts, v.GANG_MIN_AVAILABLE: texts, v.WORKLOAD_TYPE: texts}
keys = st.sampled_from([*KEYS, *SIGNS, *sorted(ANNOTATIONS), "app"])
maps = st.fixed_dictionaries({}, optional=common) | st.dictionaries(keys, texts, max_size=4) | st.none()
amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "amd.com/gpu"]),
    st.sampled_from(["1", "4", "500m", "8Gi", "0"]),
    max_size=3,
)
containers = st.lists(
    st.one_of(
        st.builds(lambda one: {"resources": {"requests": one, "limits": one}}, amounts),
        st.builds(lambda one, other: {"resources": {"requests": one, "limits": other}}, amounts, amounts),
    ),
    max_size=2,
)
metadata = {
    "labels": maps,
    "annotations": maps,
    "ownerReferences": st.sampled_from(OWNERS).map(lambda owner: [reference(owner)]),
    "namespace": st.sampled_from([TEAM, "other"]),
}
pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({}, optional=metadata),
        "spec": st.fixed_dictionaries(
            {
                "containers": containers,
                "schedulerName": st.sampled_from(["default-scheduler", v.SCHEDULER_NAME, "volcano"]),
            },
            optional={"nodeName": st.sampled_from(["", "n1"]), "resourceClaims": st.just([{"name": "gpu"}])},
        ),
    }
)
worlds = st.builds(
    lambda labels, notes, owners: Cluster(
        {TEAM: NamespaceFacts(TEAM, {v.INJECT: "enabled", **labels}, notes)}.get, Known(*owners)
    ),
    st.fixed_dictionaries({}, optional={v.TENANT_TIER: tiers, v.TENANT_NAME: st.just("acme")}),
    st.dictionaries(st.sampled_from([v.DEFAULT_NUMA_POLICY, v.DEFAULT_WORKLOAD_TYPE]), texts, max_size=2),
    st.sampled_from([[], OWNERS]),
)

# Anything at all.
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts)
fields = st.sampled_from(["metadata", "labels", "annotations", "spec", "containers", "resources", "ownerReferences"])
wild = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields | st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
wild_pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({}, optional=dict.fromkeys(metadata, maps | wild)) | wild,
        "spec": st.fixed_dictionaries({"containers": containers | wild}, optional={"schedulerName": wild}) | wild,
    }
)
any_pod = pods | wild_pods
requests = st.fixed_dictionaries(
    {
        "kind": st.just({"group": "", "version": "v1", "kind": "Pod"}),
        "operation": st.sampled_from(["CREATE", "CREATE", "UPDATE", "DELETE"]),
        "namespace": st.just(TEAM),
        "object": pods,
        "oldObject": pods,
        "uid": st.text(max_size=40) | wild,
    }
)


reviews = st.fixed_dictionaries({"request": requests})
broken = st.tuples(
    reviews, st.sampled_from(["kind", "operation", "namespace", "object", "oldObject"]), wild | wild_pods
).map(lambda drawn: {"request": {**drawn[0]["request"], drawn[1]: drawn[2]}})


@given(reviews | broken | wild, worlds, st.booleans())
def test_any_json_gets_a_valid_answer(junk: Any, world: Cluster, mutate: bool) -> None:
    found = answer(junk, world, mutate=mutate)
    response = found.body["response"]
    request = junk.get("request") if isinstance(junk, dict) else None
    uid = request.get("uid") if isinstance(request, dict) else None
    assert found.error == ""
    assert response["uid"] == (uid if isinstance(uid, str) else "")
    assert response["allowed"] is not found.denied
    assert all(len(text) <= 120 and text.isprintable() for text in response.get("warnings", ()))
    assert (response.get("patchType") == "JSONPatch") is found.patched is ("patch" in response)
    assert orjson.loads(orjson.dumps(found.body)) == found.body
    event(f"denied {found.denied}, patched {found.patched}")


@given(any_pod, worlds)
def test_a_patch_only_adds(pod: Obj, world: Cluster) -> None:
    found = answer(review(pod), world, mutate=True)
    before = copy.deepcopy(pod)
    after = json_patch(pod, patch_of(found))
    event(f"patched {found.patched}")
    assert pod == before
    if found.patched and before["spec"].get("schedulerName") in (None, "", "default-scheduler"):
        assert after["spec"].pop("schedulerName") == v.SCHEDULER_NAME
        before["spec"].pop("schedulerName", None)
    notes = before["metadata"].get("annotations") if found.patched else None
    if notes and (note := notes.pop(v.INJECTED, None)) and isinstance(note, str):
        assert after["metadata"]["annotations"][v.INJECTED].startswith(note)
    assert contains(after, before)


def contains(more: Any, less: Any) -> bool:
    """Whether everything in `less` stands in `more` as it is; a map that was null may have come to be."""
    if isinstance(less, dict):
        return isinstance(more, dict) and all(key in more and contains(more[key], less[key]) for key in less)
    return bool(more == less) or (less is None and isinstance(more, dict))


@given(any_pod, worlds)
def test_completing_twice_is_completing_once(pod: Obj, world: Cluster) -> None:
    once = mutated(pod, world)
    assert mutated(once, world) == once


@given(pods, worlds)
def test_completing_makes_no_pod_wrong(pod: Obj, world: Cluster) -> None:
    before = validated(pod, world)
    event(f"denied {before.denied}")
    assert validated(mutated(pod, world), world).denied is before.denied


@given(pods, worlds)
def test_completing_leaves_a_pod_in_its_gang(pod: Obj, world: Cluster) -> None:
    before, after = (replace(PodFacts.from_json(one), namespace=TEAM) for one in (pod, mutated(pod, world)))
    found = resolve(before, world.owners)
    event(type(found).__name__)
    assert resolve(after, world.owners) == found


@given(pods, tiers | st.none(), tiers | st.none(), worlds)
def test_nobody_gets_a_tier_above_the_namespace(pod: Obj, label: str | None, note: str | None, world: Cluster) -> None:
    """The oracle knows no rules: it looks at what stands on a pod that was let through to our scheduler."""
    pod["metadata"] |= {"labels": claim_of(label), "annotations": claim_of(note)}
    after = mutated(pod, world)
    allowed = not validated(after, world).denied
    claims = [after["metadata"][kind].get(v.TENANT_TIER, "").lower() for kind in ("labels", "annotations")]
    above = any(RANKS.get(claim, 0) > granted(world) for claim in claims)
    event(f"above {above}, allowed {allowed}")
    assert not (above and allowed and after["spec"]["schedulerName"] == v.SCHEDULER_NAME)


def claim_of(tier: str | None) -> dict[str, str]:
    return {} if tier is None else {v.TENANT_TIER: tier}


def granted(world: Cluster) -> int:
    namespace = world.namespace(TEAM)
    assert namespace is not None
    return RANKS.get(namespace.labels.get(v.TENANT_TIER, "").lower(), 0)


@given(pods, tiers, worlds)
def test_nobody_is_raised_above_the_namespace_later(pod: Obj, claim: str, world: Cluster) -> None:
    spec = {**pod["spec"], "schedulerName": v.SCHEDULER_NAME}
    old, new = ({"metadata": {"labels": labels}, "spec": spec} for labels in ({}, claim_of(claim)))
    granted_at_all = claim.lower() in RANKS and RANKS[claim.lower()] <= granted(world)
    assert validated(new, world, old).denied is not granted_at_all


@given(pods, worlds)
def test_a_change_of_nothing_is_let_through(pod: Obj, world: Cluster) -> None:
    """Whoever removes a finalizer is not held up by what was wrong before."""
    assert not validated(pod, world, old=copy.deepcopy(pod)).denied
