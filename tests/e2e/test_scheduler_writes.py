"""What the scheduler writes besides Bindings, on a real API server and with its own rights only.

There are no kubelets, provisioners or device drivers: the test does their part.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    STORAGE_CLASSES,
)
from kubenexus.scheduler.prepare import SELECTED_NODE
from tests.contract.objects import unique
from tests.schedulers import POOL, Cluster, Obj
from tests.stub_server import until

pytestmark = pytest.mark.e2e

PATIENCE = 40.0


def pinned(node: str) -> Obj:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def await_node(cluster: Cluster, name: str) -> str:
    cluster.await_node(name, seconds=PATIENCE)
    return cluster.node_of(name)


def test_preemption_makes_room(cluster: Cluster) -> None:
    client, node, important = cluster.client, cluster.pool()[0], unique("important")
    client.create(PRIORITY_CLASSES, {"metadata": {"name": important}, "value": 1000})
    cluster.add_pod("low", cpu="6", **pinned(node))
    cluster.add_pod("bystander", cpu="2", **pinned(node))
    assert await_node(cluster, "low") == await_node(cluster, "bystander") == node
    cluster.add_pod("high", cpu="6", priorityClassName=important, **pinned(node))

    until(lambda: cluster.pod("low")["metadata"].get("deletionTimestamp"), PATIENCE)
    reason = cluster.condition("low", "DisruptionTarget")
    assert (reason["status"], reason["reason"]) == ("True", "PreemptionByScheduler")
    assert reason["message"] == f"{cluster.scheduler_name}: preempting to accommodate a higher priority pod"
    until(lambda: cluster.pod("high")["status"].get("nominatedNodeName") == node, PATIENCE)
    assert not cluster.node_of("high"), "the victim has not left yet"
    until(lambda: cluster.events("low", "Preempted"), PATIENCE)
    [event] = cluster.events("low", "Preempted")
    assert event["note"] == f"Preempted by pod {cluster.pod('high')['metadata']['uid']} on node {node}"

    client.delete(PODS, "low", cluster.namespace, grace_seconds=0)  # as its kubelet does when it has ended
    assert await_node(cluster, "high") == node
    assert not cluster.pod("bystander")["metadata"].get("deletionTimestamp")
    assert not cluster.overcommitted()
    client.delete(PRIORITY_CLASSES, important)


@pytest.fixture
def claim(cluster: Cluster) -> Obj:
    """A claim whose volume is made once it is known for which node."""
    name = unique("made-to-order")
    wait = {"metadata": {"name": name}, "provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.client.create(STORAGE_CLASSES, wait)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": "data", "namespace": cluster.namespace}
    return cluster.client.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": spec})


def selected_node(cluster: Cluster) -> str:
    found: Obj = cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "data", cluster.namespace)
    node: str = (found["metadata"].get("annotations") or {}).get(SELECTED_NODE, "")
    return node


def provision(cluster: Cluster, claim: Obj, node: str) -> None:
    """As a provisioner does: a volume that is the claim's from its beginning."""
    meta = claim["metadata"]
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": claim["spec"]["storageClassName"],
        "claimRef": {
            "apiVersion": "v1",
            "kind": PERSISTENT_VOLUME_CLAIMS.kind,
            **{key: meta[key] for key in ("namespace", "name", "uid")},
        },
        "csi": {"driver": "example.com", "volumeHandle": "1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    cluster.client.create(PERSISTENT_VOLUMES, {"metadata": {"name": unique("pv")}, "spec": spec})


def mounting(cluster: Cluster) -> Obj:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    return {"nodeSelector": {POOL: cluster.namespace}, "volumes": [volume]}


def test_volume_is_made_where_the_pod_goes(cluster: Cluster, claim: Obj) -> None:
    cluster.add_pod("db", **mounting(cluster))
    until(lambda: selected_node(cluster), PATIENCE)
    node = selected_node(cluster)
    assert node in cluster.pool()
    assert not cluster.node_of("db"), "its volume is not there yet"
    provision(cluster, claim, node)
    assert await_node(cluster, "db") == node
    bound = cluster.client.get(PERSISTENT_VOLUME_CLAIMS, "data", cluster.namespace)
    assert bound["status"]["phase"] == "Bound"


def test_provisioner_that_cannot_gives_the_node_back(cluster: Cluster, claim: Obj) -> None:
    cluster.add_pod("db", **mounting(cluster))
    until(lambda: selected_node(cluster), PATIENCE)
    cluster.client.patch(
        PERSISTENT_VOLUME_CLAIMS,
        "data",
        {"metadata": {"annotations": {SELECTED_NODE: None}}},
        cluster.namespace,
        kind=PatchType.MERGE,
    )
    assert "will not be" in cluster.await_pending("db", "volume", seconds=PATIENCE)
    until(lambda: selected_node(cluster), PATIENCE)
    node = selected_node(cluster)
    provision(cluster, claim, node)
    assert await_node(cluster, "db") == node


def test_allocated_claim_is_reserved_for_its_pod(cluster: Cluster) -> None:
    client, node = cluster.client, cluster.pool()[3]
    exactly = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    meta = {"name": "one", "namespace": cluster.namespace}
    client.create(RESOURCE_CLAIMS, {"metadata": meta, "spec": {"devices": {"requests": [exactly]}}})
    wanted: Any = [{"name": "gpu", "resourceClaimName": "one"}]
    cluster.add_pod("user", resourceClaims=wanted, nodeSelector={POOL: cluster.namespace})
    assert "claim" in cluster.await_pending("user", seconds=PATIENCE)

    made = client.get(RESOURCE_CLAIMS, "one", cluster.namespace)
    client.update(RESOURCE_CLAIMS, {**made, "status": {"allocation": allocation(node)}}, subresource="status")
    assert await_node(cluster, "user") == node
    reserved = client.get(RESOURCE_CLAIMS, "one", cluster.namespace)
    uid = cluster.pod("user")["metadata"]["uid"]
    assert reserved["status"]["reservedFor"] == [{"resource": "pods", "name": "user", "uid": uid}]
    # A controller reserves for pods that were bound without it; it was not that one.
    writers = {one["manager"] for one in reserved["metadata"]["managedFields"] if one.get("subresource") == "status"}
    assert "kubenexus-scheduler" in writers


def allocation(node: str) -> Obj:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    device = {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": "gpu-0"}
    return {
        "devices": {"results": [device]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
