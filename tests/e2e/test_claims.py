"""Claims of devices on a real API server: kube-controller-manager makes and frees them, the scheduler gives devices.

There are no kubelets and no drivers: a pod that has a node, and a claim with devices there, is all there is to see.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubenexus.common.kube.resources import (
    DEVICE_CLASSES,
    JOBS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from kubenexus.scheduler.prepare import PROTECTION
from tests.contract.objects import unique
from tests.devices import claim_template, device_class, devices_of, from_template, resource_slice
from tests.schedulers import POOL, Cluster, Obj, pod_spec
from tests.stub_server import until

pytestmark = pytest.mark.e2e

PATIENCE = 40.0


class Fleet:
    """The cluster of a test, with two GPUs on each of the first three nodes, of a class of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.client = cluster, cluster.client
        self.driver = f"{cluster.namespace}.example.com"
        self.kind = unique("gpu")
        self.client.create(DEVICE_CLASSES, device_class(self.kind, self.driver))
        self.slices = [self.add_devices(name, 2) for name in cluster.pool()[:3]]

    def add_devices(self, node: str, count: int) -> str:
        made = self.client.create(RESOURCE_SLICES, resource_slice(node, count, self.driver))
        return str(made["metadata"]["name"])

    def template(self, name: str, *counts: int) -> None:
        made = claim_template(name, *counts, deviceClassName=self.kind)
        self.client.create(RESOURCE_CLAIM_TEMPLATES, made, self.cluster.namespace)

    def claims(self) -> dict[str, Obj]:
        """By the pod that each was made for."""
        found = self.client.list(RESOURCE_CLAIMS, self.cluster.namespace).items
        return {one["metadata"]["ownerReferences"][0]["name"]: one for one in found}

    def given(self) -> list[str]:
        return sorted(device for one in self.claims().values() for device in devices_of(one))

    def close(self) -> None:
        for name in self.slices:
            self.client.delete(RESOURCE_SLICES, name)
        self.client.delete(DEVICE_CLASSES, self.kind)


@pytest.fixture
def fleet(cluster: Cluster) -> Iterator[Fleet]:
    made = Fleet(cluster)
    yield made
    made.close()


def job(cluster: Cluster, name: str, count: int, template: str) -> Obj:
    """An indexed Job of so many pods, each with a claim made from the template."""
    where = {"nodeSelector": {POOL: cluster.namespace}, "schedulerName": cluster.scheduler_name}
    spec = pod_spec("100m", restartPolicy="Never", resourceClaims=from_template(template), **where)
    pods = {"metadata": {"labels": {"app": name}}, "spec": spec}
    shape = {"completionMode": "Indexed", "parallelism": count, "completions": count, "template": pods}
    return cluster.client.create(JOBS, {"metadata": {"name": name, "namespace": cluster.namespace}, "spec": shape})


def bound(cluster: Cluster, name: str) -> list[Obj]:
    found = cluster.client.list(PODS, cluster.namespace, label_selector=f"app={name}").items
    return [one for one in found if one["spec"].get("nodeName")]


def test_g12_a_job_with_a_device_each_runs_as_a_gang(fleet: Fleet) -> None:
    cluster = fleet.cluster
    fleet.template("one", 1)
    job(cluster, "train", 3, "one")
    until(lambda: len(bound(cluster, "train")) == 3, PATIENCE)
    assert len(set(fleet.given())) == 3
    claims = fleet.claims()
    for one in bound(cluster, "train"):
        claim = claims[one["metadata"]["name"]]
        assert PROTECTION in claim["metadata"]["finalizers"]
        assert claim["status"]["reservedFor"] == [
            {"resource": "pods", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]}
        ]
        assert devices_of(claim)[0].startswith(f"{one['spec']['nodeName']}/")


def test_a_gang_waits_whole_and_devices_come_back_from_pods_that_go(fleet: Fleet) -> None:
    cluster = fleet.cluster
    fleet.template("one", 1)
    fleet.template("both", 2)
    cluster.add_pod("first", cpu="100m", resourceClaims=from_template("both"))
    cluster.await_node("first", seconds=PATIENCE)
    job(cluster, "train", 5, "one")

    def told() -> bool:
        found = cluster.client.list(PODS, cluster.namespace, label_selector="app=train").items
        messages = (cluster.condition(one["metadata"]["name"]).get("message", "") for one in found)
        return len(found) == 5 and all("5 exist, room for 4" in message for message in messages)

    until(told, PATIENCE)
    assert len(fleet.given()) == 2, "nobody of the gang has any"
    cluster.client.delete(PODS, "first", cluster.namespace, grace_seconds=0)
    until(lambda: len(bound(cluster, "train")) == 5, PATIENCE)
    assert len(set(fleet.given())) == 5


def test_a_pod_says_which_devices_are_missing(fleet: Fleet) -> None:
    cluster = fleet.cluster
    fleet.template("many", 3)
    cluster.add_pod("large", cpu="100m", resourceClaims=from_template("many"))
    message = cluster.await_pending("large", "cannot allocate all claims", PATIENCE)
    assert "0/" in message
