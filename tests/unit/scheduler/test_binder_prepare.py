"""What is written before a bind: volumes given to claims, nodes chosen for them, devices reserved."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.objects import Allocation, project_persistent_volume_claim, project_pod, project_resource_claim
from kubenexus.scheduler.dra import Grant
from kubenexus.scheduler.prepare import (
    BOUND_BY_CONTROLLER,
    PROTECTION,
    SELECTED_NODE,
    Taken,
    allocate,
    free,
    give,
    protect,
    reserve,
    select,
)
from tests.builders import Builder, pod
from tests.devices import claim

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


# --- Devices ----------------------------------------------------------------------------------------------------------

OUR_USE = {"resource": "pods", "name": "a", "uid": "u"}
THEIR_USE = {"resource": "pods", "name": "b", "uid": "v"}


def given(device: str = "gpu-0") -> Obj:
    return {"devices": {"results": [{"request": "r0", "driver": "d", "pool": "n", "device": device}]}}


GRANT = Grant(project_resource_claim(claim("gpu").build()), Allocation((), None), given())


def raw(**status: Any) -> Obj:
    return {"metadata": {"name": "gpu", "uid": "uid-gpu"}, **({"status": status} if status else {})}


def test_claim_with_devices_cannot_go() -> None:
    kept = protect(raw())
    assert kept is not None
    assert kept["metadata"]["finalizers"] == [PROTECTION]
    assert protect(kept) is None


def test_claim_gets_its_devices_and_its_user_at_once() -> None:
    allocated = allocate(raw(), GRANT, POD)
    assert allocated is not None
    assert allocated["status"] == {"allocation": given(), "reservedFor": [OUR_USE]}
    assert allocate(allocated, GRANT, POD) is None, "an answer was lost, but not the write"


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(raw(allocation=given("gpu-1")), id="has other devices"),
        pytest.param({"metadata": {"name": "gpu", "uid": "younger"}}, id="another one of that name"),
        pytest.param({"metadata": {**raw()["metadata"], "deletionTimestamp": "t"}}, id="is being deleted"),
    ],
)
def test_claim_that_has_changed_is_left_alone(there: Obj) -> None:
    with pytest.raises(Taken):
        allocate(there, GRANT, POD)


@pytest.mark.parametrize(
    ("users", "devices", "left"),
    [
        pytest.param([OUR_USE], True, {"reservedFor": []}, id="given for its sake"),
        pytest.param([OUR_USE], False, {"allocation": given(), "reservedFor": []}, id="given before"),
        pytest.param(
            [THEIR_USE, OUR_USE], True, {"allocation": given(), "reservedFor": [THEIR_USE]}, id="others use it"
        ),
        pytest.param([THEIR_USE], True, None, id="not its own"),
    ],
)
def test_claim_gives_devices_back(users: list[Obj], devices: bool, left: Obj | None) -> None:
    found = free(raw(allocation=given(), reservedFor=users), POD, devices=devices)
    assert (None if found is None else found["status"]) == left
