"""Pods that are changed: a pod stays in its gang, and only what the change made wrong is held against it."""

from __future__ import annotations

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.webhook.cluster import Cluster
from tests.admission import cluster, message, pod, validated, warnings
from tests.builders import Builder
from tests.owners import INDEXED, Known, Obj, job, reference

MIN, NAME = v.GANG_MIN_AVAILABLE, v.GANG_NAME


def gang(size: str = "4", name: str = "g") -> Builder:
    return pod().label(NAME, name).label(MIN, size)


def owned(by: Obj) -> Builder:
    return pod().append("metadata.ownerReferences", reference(by))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(gang(), gang(name="h"), id="another name"),
        pytest.param(gang("4"), gang("8"), id="another size"),
        pytest.param(gang(), pod(), id="no gang any more"),
        pytest.param(pod(), gang(), id="a gang only now"),
        pytest.param(
            pod().label("scheduling.x-k8s.io/pod-group", "a"),
            pod().label("scheduling.x-k8s.io/pod-group", "b"),
            id="a dialect",
        ),
        pytest.param(
            owned(job()).label(NAME, "job-1").label(MIN, "8").annotation(v.GANG_INFERRED_FROM, "Job/1"),
            owned(job()),
            id="the marks of an inferred gang are gone",
        ),
        pytest.param(gang(), gang("abc"), id="a size that is no number"),
        pytest.param(
            pod().annotation("scheduling.k8s.io/group-name", "a" * 100_000),
            pod().annotation("scheduling.k8s.io/group-name", "a" * 99_999),
            id="names without end that differ at their end",
        ),
    ],
)
def test_the_gang_of_a_pod_cannot_be_changed(old: Builder, new: Builder) -> None:
    found = validated(new, cluster(), old)
    assert found.rule == "same-gang"
    assert "delete the pod and create it anew." in message(found)
    assert len(message(found)) < 500


def test_a_change_says_what_it_was_and_what_it_would_be() -> None:
    assert message(validated(gang("8"), cluster(), gang("4"))) == (
        "the gang of a pod cannot be changed (it was g of 4, now g of 8): delete the pod and create it anew."
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(gang(), gang().label("app", "web"), id="another label"),
        pytest.param(
            gang("abc"), gang("abc").set("metadata.finalizers", []), id="a finalizer of a pod that is bad already"
        ),
        pytest.param(pod().label(v.TENANT_TIER, "gold"), pod().label(v.TENANT_TIER, "gold"), id="an old claim"),
        pytest.param(
            pod().annotation(v.NUMA_POLICY, "x"),
            pod().annotation(v.NUMA_POLICY, "x").label("a", "b"),
            id="an old value",
        ),
        pytest.param(pod(), gang("abc").deleting(), id="a pod that is being deleted"),
        pytest.param(owned(job()), owned(job()).label("app", "web"), id="a pod whose owner may be gone"),
        pytest.param(owned(job()), pod(), id="a pod that its Job lets go"),
        pytest.param(pod(), owned(job()), id="a pod that a Job adopts"),
        pytest.param(
            pod().scheduler("volcano"),
            pod().scheduler("volcano").annotation("scheduling.k8s.io/group-name", "podgroup-1"),
            id="another scheduler's pod, which its controller puts into a gang",
        ),
    ],
)
def test_what_a_change_did_not_make_wrong_is_not_held_against_it(old: Builder, new: Builder) -> None:
    found = validated(new, cluster(), old)
    assert not found.denied
    assert warnings(found) == []


@pytest.mark.parametrize(
    ("new", "rule"),
    [
        pytest.param(pod().label(v.TENANT_TIER, "gold"), "tier", id="a tier that is raised"),
        pytest.param(pod().annotation(v.NUMA_POLICY, "strict"), "value", id="a bad value"),
        pytest.param(pod().annotation(v.NUMA_ASSIGNED, "0"), "placed", id="a place"),
    ],
)
def test_what_a_change_makes_wrong_is_denied(new: Builder, rule: str) -> None:
    assert validated(new, cluster(), pod().label(v.TENANT_TIER, "bronze")).rule == rule


def test_the_owner_may_be_resized() -> None:
    grown = job({**INDEXED, "parallelism": 12, "completions": 12})
    marked = owned(job()).label(NAME, "job-1").label(MIN, "8").annotation(v.GANG_INFERRED_FROM, "Job/1")
    assert not validated(marked, cluster(grown), marked).denied


def test_a_change_that_touches_nothing_of_ours_looks_nothing_up() -> None:
    """Finalizers are removed from every pod of every Job; none of that may wait for owners, which may be gone."""
    owners = Known()
    world = Cluster(cluster().namespace, owners)
    assert not validated(owned(job()).set("metadata.finalizers", []), world, owned(job())).denied
    assert owners.asked == []
