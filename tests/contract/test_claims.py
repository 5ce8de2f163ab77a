"""ResourceClaims in the life of a pod: made from a template, allocated by a scheduler, gone with the pod."""

from __future__ import annotations

import pytest

from kubenexus.common.kube.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.contract.api import Api, Obj, eventually
from tests.contract.objects import meta, pod

ONE_GPU: Obj = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
ALLOCATION: Obj = {"devices": {"results": [RESULT]}}


@pytest.fixture
def claim(api: Api) -> Obj:
    """The claim that was made from a template for the pod `a`."""
    api.create(RESOURCE_CLAIM_TEMPLATES, {**meta("template"), "spec": {"spec": ONE_GPU}}).expect(201)
    wanted = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}]}
    api.create(PODS, pod("a", wanted)).expect(201)
    [made] = eventually(lambda: api.list(RESOURCE_CLAIMS).expect(200)["items"])
    assert isinstance(made, dict)
    return made


def named(claim: Obj) -> str:
    return str(claim["metadata"]["name"])


def test_template_becomes_a_claim_of_the_pod(api: Api, claim: Obj) -> None:
    assert named(claim).startswith("a-gpu-")
    assert claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"
    [owner] = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "a", True)
    statuses = eventually(lambda: api.get(PODS, "a").expect(200)["status"].get("resourceClaimStatuses"))
    assert statuses == [{"name": "gpu", "resourceClaimName": named(claim)}]


def test_claim_goes_with_its_pod(api: Api, claim: Obj) -> None:
    api.delete(PODS, "a").expect(200)
    eventually(lambda: api.get(RESOURCE_CLAIMS, named(claim)).status == 404)


def allocate(api: Api, claim: Obj) -> Obj:
    uid = api.get(PODS, "a").expect(200)["metadata"]["uid"]
    claim["status"] = {"allocation": ALLOCATION, "reservedFor": [{"resource": "pods", "name": "a", "uid": uid}]}
    allocated: Obj = api.update(RESOURCE_CLAIMS, claim, "status").expect(200)
    return allocated


def test_scheduler_allocates_and_reserves_in_one_write(api: Api, claim: Obj) -> None:
    status = allocate(api, claim)["status"]
    assert status["allocation"]["devices"]["results"] == [RESULT]
    assert [user["name"] for user in status["reservedFor"]] == ["a"]


def test_allocation_cannot_be_changed(api: Api, claim: Obj) -> None:
    allocated = allocate(api, claim)
    allocated["status"]["allocation"]["devices"]["results"][0]["device"] = "gpu-1"
    refusal = api.update(RESOURCE_CLAIMS, allocated, "status")
    refusal.refused(422, "Invalid")
    assert ("status.allocation", "FieldValueInvalid") in refusal.causes


def test_stale_claim_is_not_allocated(api: Api, claim: Obj) -> None:
    api.patch(RESOURCE_CLAIMS, named(claim), {"metadata": {"labels": {"x": "y"}}}).expect(200)
    claim["status"] = {"allocation": ALLOCATION}
    api.update(RESOURCE_CLAIMS, claim, "status").refused(409, "Conflict")


def test_reservation_needs_an_allocation(api: Api, claim: Obj) -> None:
    claim["status"] = {"reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}]}
    api.update(RESOURCE_CLAIMS, claim, "status").refused(422, "Invalid")


def test_allocation_of_an_unknown_request_is_refused(api: Api, claim: Obj) -> None:
    claim["status"] = {"allocation": {"devices": {"results": [{**RESULT, "request": "other"}]}}}
    api.update(RESOURCE_CLAIMS, claim, "status").refused(422, "Invalid")


def test_spec_of_a_claim_is_fixed(api: Api, claim: Obj) -> None:
    patch = {"spec": {"devices": {"requests": [{"name": "b", "exactly": {"deviceClassName": "gpu.example.com"}}]}}}
    api.patch(RESOURCE_CLAIMS, named(claim), patch).refused(422, "Invalid")
