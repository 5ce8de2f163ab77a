"""Every kind we touch is served: it can be made, read, listed, changed and deleted, and keeps what was written."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.kube.resources import (
    CSI_NODES,
    DEVICE_CLASSES,
    LEASES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    SECRETS,
    SERVICE_ACCOUNTS,
    STORAGE_CLASSES,
    Resource,
)
from tests.contract.api import Api, Obj
from tests.contract.objects import rows, unique

ROOM: Obj = {"accessModes": ["ReadWriteOnce"]}
ONE_GPU: Obj = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
VOLUME = {**ROOM, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp/x"}, "storageClassName": "none"}
CLAIM = {**ROOM, "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}
SELECTOR = {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]}
DRIVERS = [{"name": "csi.example.com", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 3}}]

KINDS: list[tuple[str, Resource, Obj]] = [
    ("Secret", SECRETS, {"data": {"k": "dg=="}, "type": "Opaque"}),
    ("ServiceAccount", SERVICE_ACCOUNTS, {"automountServiceAccountToken": False}),
    ("Lease", LEASES, {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}),
    ("PriorityClass", PRIORITY_CLASSES, {"value": 1000, "description": "for tests"}),
    (
        "PodDisruptionBudget",
        POD_DISRUPTION_BUDGETS,
        {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"x": "y"}}}},
    ),
    ("PersistentVolume", PERSISTENT_VOLUMES, {"spec": VOLUME}),
    ("PersistentVolumeClaim", PERSISTENT_VOLUME_CLAIMS, {"spec": CLAIM}),
    ("StorageClass", STORAGE_CLASSES, {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}),
    ("CSINode", CSI_NODES, {"spec": {"drivers": DRIVERS}}),
    ("DeviceClass", DEVICE_CLASSES, {"spec": SELECTOR}),
    ("ResourceClaim", RESOURCE_CLAIMS, {"spec": ONE_GPU}),
    ("ResourceClaimTemplate", RESOURCE_CLAIM_TEMPLATES, {"spec": {"spec": ONE_GPU}}),
]


def contains(whole: Any, part: Any) -> bool:
    """Everything in `part` is in `whole`; the server may have added defaults."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], part[key]) for key in part)
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(contains, whole, part))
    return bool(whole == part)


@pytest.mark.parametrize(("res", "content"), rows(KINDS))
def test_kind_is_served(api: Api, res: Resource, content: Obj) -> None:
    name = unique("thing")
    created = api.create(res, {"metadata": {"name": name}, **content}).expect(201)
    assert created["kind"] == res.kind
    assert contains(created, content)
    assert contains(api.get(res, name).expect(200), content)
    assert name in {item["metadata"]["name"] for item in api.list(res).expect(200)["items"]}
    patched = api.patch(res, name, {"metadata": {"labels": {"x": "y"}}}).expect(200)
    assert patched["metadata"]["labels"] == {"x": "y"}
    assert contains(patched, content)
    api.delete(res, name).expect(200)


def test_lease_keeps_microseconds(api: Api) -> None:
    times = {"acquireTime": "2026-01-01T00:00:00.123456Z", "renewTime": "2026-01-01T00:00:01.000000Z"}
    created = api.create(LEASES, {"metadata": {"name": "a"}, "spec": times}).expect(201)
    assert created["spec"] == times


def test_secret_takes_plain_text_and_gives_base64(api: Api) -> None:
    created = api.create(SECRETS, {"metadata": {"name": "a"}, "stringData": {"k": "v"}}).expect(201)
    assert created["data"] == {"k": "dg=="}
    assert "stringData" not in created


def test_claim_asks_for_one_device_unless_it_says_otherwise(api: Api) -> None:
    created = api.create(RESOURCE_CLAIMS, {"metadata": {"name": "a"}, "spec": ONE_GPU}).expect(201)
    [request] = created["spec"]["devices"]["requests"]
    assert contains(request["exactly"], {"allocationMode": "ExactCount", "count": 1})


def test_unbound_claims_and_classes_have_the_defaults_we_read(api: Api) -> None:
    claim = api.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "a"}, "spec": CLAIM}).expect(201)
    assert (claim["spec"]["volumeMode"], claim["status"]["phase"]) == ("Filesystem", "Pending")
    immediate = {"metadata": {"name": unique("class")}, "provisioner": "csi.example.com"}
    created = api.create(STORAGE_CLASSES, immediate).expect(201)
    assert (created["volumeBindingMode"], created["reclaimPolicy"]) == ("Immediate", "Delete")
