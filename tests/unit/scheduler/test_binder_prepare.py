"""What is written before a bind: volumes given to claims, nodes chosen for them, devices reserved."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.objects import project_persistent_volume_claim, project_pod
from kubenexus.scheduler.prepare import BOUND_BY_CONTROLLER, SELECTED_NODE, Taken, give, reserve, select
from tests.builders import Builder, pod

Obj = dict[str, Any]
POD = project_pod(pod("a").uid("u").build())
CLAIM = project_persistent_volume_claim(Builder("v1", "PersistentVolumeClaim", "data", "default").uid("c").build())
OURS = {"namespace": "default", "name": "data"}


def volume(**reference: str) -> Obj:
    return {"metadata": {"name": "v"}, "spec": {"claimRef": reference} if reference else {}}


@pytest.mark.parametrize("there", [{}, OURS], ids=["free", "kept for this claim"])
def test_volume_is_given_to_the_claim(there: dict[str, str]) -> None:
    given = give(volume(**there), CLAIM)
    assert given is not None
    assert given["spec"]["claimRef"].items() >= {**OURS, "uid": "c"}.items()
    assert given["metadata"]["annotations"] == {BOUND_BY_CONTROLLER: "yes"}


def test_volume_that_is_given_is_left_alone() -> None:
    assert give(volume(**OURS, uid="c"), CLAIM) is None


@pytest.mark.parametrize("there", [{**OURS, "uid": "older"}, {"namespace": "default", "name": "other"}])
def test_volume_of_another_claim_is_not_taken(there: dict[str, str]) -> None:
    with pytest.raises(Taken, match="another claim"):
        give(volume(**there), CLAIM)


def test_node_is_chosen_for_the_claim() -> None:
    claim: Obj = {"metadata": {"name": "data", "uid": "c"}}
    chosen = select(claim, "c", "n")
    assert chosen is not None
    assert chosen["metadata"]["annotations"] == {SELECTED_NODE: "n"}
    assert select(chosen, "c", "n") is None
    for uid, node in (("c", "m"), ("d", "n")):
        with pytest.raises(Taken):
            select(chosen, uid, node)


def test_allocated_claim_is_reserved_once() -> None:
    other = {"resource": "pods", "name": "b", "uid": "v"}
    claim: Obj = {"metadata": {"name": "gpu"}, "status": {"allocation": {"devices": {}}, "reservedFor": [other]}}
    reserved = reserve(claim, POD)
    assert reserved is not None
    assert reserved["status"]["reservedFor"] == [other, {"resource": "pods", "name": "a", "uid": "u"}]
    assert reserve(reserved, POD) is None
    with pytest.raises(Taken, match="not allocated any more"):
        reserve({"metadata": {"name": "gpu"}}, POD)
