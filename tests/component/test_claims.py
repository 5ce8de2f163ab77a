"""Claims of devices on the sandbox: what is written, who gets what, and what becomes of it in trouble."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubenexus.common.kube.resources import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.vocabulary import GANG_MIN_AVAILABLE, GANG_NAME
from kubenexus.scheduler.prepare import PROTECTION
from tests.devices import claim_template, device_class, devices_of, from_template, resource_slice
from tests.schedulers import Cluster, Obj, connected, scheduling


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(controllers=True) as made:
        yield made


@pytest.fixture
def cluster(box: Sandbox, tmp_path: Path) -> Iterator[Cluster]:
    """Two nodes; templates `one` and `two` ask for a device, and for one and another."""
    with connected(box, tmp_path) as made:
        made.client.create(DEVICE_CLASSES, device_class())
        made.add_nodes("n", "m")
        made.client.create(RESOURCE_CLAIM_TEMPLATES, claim_template("one", 1), "default")
        made.client.create(RESOURCE_CLAIM_TEMPLATES, claim_template("two", 1, 1), "default")
        with scheduling(tmp_path / "kubeconfig"):
            yield made


def add_devices(cluster: Cluster, node: str, count: int) -> None:
    cluster.client.create(RESOURCE_SLICES, resource_slice(node, count))


def add_user(cluster: Cluster, name: str, template: str = "one", gang: int = 0) -> None:
    labels = {GANG_NAME: "g", GANG_MIN_AVAILABLE: str(gang)} if gang else {}
    cluster.add_pod(name, cpu="100m", labels=labels, resourceClaims=from_template(template))


def claims(cluster: Cluster) -> dict[str, Obj]:
    """By the pod that each was made for."""
    found = cluster.client.list(RESOURCE_CLAIMS, "default").items
    return {one["metadata"]["ownerReferences"][0]["name"]: one for one in found}


def given(cluster: Cluster) -> list[str]:
    return sorted(device for one in claims(cluster).values() for device in devices_of(one))


def test_g12_a_gang_with_a_device_each_runs(cluster: Cluster) -> None:
    add_devices(cluster, "n", 8)
    add_devices(cluster, "m", 8)
    for index in range(3):
        add_user(cluster, f"w-{index}", gang=3)
    cluster.await_node("w-0", "w-1", "w-2")
    assert len(set(given(cluster))) == 3
    for name, made in claims(cluster).items():
        assert PROTECTION in made["metadata"]["finalizers"]
        [user] = made["status"]["reservedFor"]
        assert (user["name"], user["uid"]) == (name, cluster.pod(name)["metadata"]["uid"])
        assert devices_of(made)[0].startswith(f"{cluster.node_of(name)}/")


def test_d1_each_request_counts(cluster: Cluster) -> None:
    add_devices(cluster, "n", 3)
    add_user(cluster, "a")
    add_user(cluster, "b", "two")
    cluster.await_node("a", "b")
    assert given(cluster) == ["n/gpu-0", "n/gpu-1", "n/gpu-2"]
    add_user(cluster, "c")
    assert "cannot allocate all claims" in cluster.await_pending("c", "claims")
    cluster.client.delete(PODS, "b", "default", grace_seconds=0)
    cluster.await_node("c")
    assert len(given(cluster)) == 2


def test_a_gang_waits_for_devices_as_a_whole(cluster: Cluster) -> None:
    add_devices(cluster, "n", 2)
    for index in range(3):
        add_user(cluster, f"w-{index}", gang=3)
    cluster.await_pending("w-2", "room for 2")
    assert given(cluster) == []
    add_devices(cluster, "m", 1)
    cluster.await_node("w-0", "w-1", "w-2")
    assert len(given(cluster)) == 3


@pytest.mark.parametrize("path", ["/resourceclaims/", "/status", "/binding"])
@pytest.mark.parametrize("how", ["conflict", "error", "lost"])
def test_trouble_on_the_way_costs_no_device(box: Sandbox, cluster: Cluster, path: str, how: str) -> None:
    """Each of six pods gets one of six devices, and no two the same, though writes fail and answers are lost."""
    method = "POST" if path == "/binding" else "PUT"
    if how == "lost":
        box.faults.lose_answers(times=3, method=method, path=path)
    else:
        box.faults.fail(409 if how == "conflict" else 500, times=3, method=method, path=path)
    add_devices(cluster, "n", 3)
    add_devices(cluster, "m", 3)
    names = [f"p{index}" for index in range(6)]
    for name in names:
        add_user(cluster, name)
    cluster.await_node(*names, seconds=40)
    assert len(set(given(cluster))) == 6
    for name, made in claims(cluster).items():
        assert devices_of(made)[0].startswith(f"{cluster.node_of(name)}/")


def test_devices_of_a_pod_that_cannot_be_bound_are_given_back(box: Sandbox, cluster: Cluster) -> None:
    add_devices(cluster, "n", 1)
    box.faults.fail(409, times=1000, method="POST", path="/pods/a/binding")
    add_user(cluster, "a")
    cluster.await_pending("a", "The pod was to be bound, which failed")
    add_user(cluster, "b")
    cluster.await_node("b", seconds=30)
    cluster.await_pending("a", "cannot allocate all claims")
    assert [devices_of(claims(cluster)[name]) for name in ("a", "b")] == [[], ["n/gpu-0"]]
