"""Gangs that nobody labelled, on a real API server: what Jobs and JobSets imply, as kube-controller-manager runs them.

There are no kubelets: a pod that has a node has arrived; where one has to run, the test says so in its kubelet's place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubenexus.common.kube.resources import CUSTOM_RESOURCES, JOBS, NODES, PODS, Resource
from kubenexus.common.vocabulary import GANG_TIMEOUT
from tests.contract.objects import unique
from tests.owners import reference
from tests.schedulers import POOL, Cluster, Obj, Running, pod_spec, profiles, scheduling
from tests.servers import Server
from tests.stub_server import until

pytestmark = pytest.mark.e2e

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
INDEX = "batch.kubernetes.io/job-completion-index"
PATIENCE = 40.0
A_NODE_EACH = "8"
"""CPUs of which every node has as many: no two pods that ask for them share one of the six nodes"""


def job(cluster: Cluster, name: str, count: int, cpu: str, *, by: Obj | None = None, indexed: bool = True) -> Obj:
    """A Job of so many pods at once."""
    selected = {"nodeSelector": {POOL: cluster.namespace}, "schedulerName": cluster.scheduler_name}
    meta = {"labels": {"app": name}, "annotations": {GANG_TIMEOUT: "1s"}}
    template = {"metadata": meta, "spec": pod_spec(cpu, restartPolicy="Never", **selected)}
    how = {"completionMode": "Indexed"} if indexed else {}
    own = {"name": name, "namespace": cluster.namespace, "ownerReferences": [reference(by)] if by else []}
    spec = {"parallelism": count, "completions": count, "backoffLimit": 100, "template": template, **how}
    return cluster.client.create(JOBS, {"metadata": own, "spec": spec})


def members(cluster: Cluster, name: str) -> list[Obj]:
    found = cluster.client.list(PODS, cluster.namespace, label_selector=f"app={name}").items
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def nodes_of(cluster: Cluster, name: str) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in members(cluster, name) if pod["spec"].get("nodeName"))


def await_bound(cluster: Cluster, name: str, count: int) -> list[str]:
    until(lambda: len(nodes_of(cluster, name)) == count, PATIENCE)
    return nodes_of(cluster, name)


def await_told(cluster: Cluster, name: str, count: int, text: str) -> None:
    """All members are there, wait, and say so."""

    def told() -> bool:
        conditions = [cluster.condition(pod["metadata"]["name"]) for pod in members(cluster, name)]
        return len(conditions) == count and all(text in one.get("message", "") for one in conditions)

    until(told, PATIENCE)


@pytest.fixture
def seventh(cluster: Cluster) -> Iterator[Any]:
    """Lets one more node join the six of the test."""
    name = unique("node")
    yield lambda: cluster.add_nodes(name, labels={POOL: cluster.namespace})
    cluster.client.delete(NODES, name)


def test_indexed_job_waits_as_a_whole_and_its_members_come_back_alone(cluster: Cluster, seventh: Any) -> None:
    made = job(cluster, "train", 7, A_NODE_EACH)
    await_told(cluster, "train", 7, "Gang Job train needs 7 members at once: 7 exist, room for 6: ")
    assert nodes_of(cluster, "train") == []
    seventh()
    assert await_bound(cluster, "train", 7) == sorted(cluster.pool())

    lost = members(cluster, "train")[3]
    index, node = lost["metadata"]["annotations"][INDEX], lost["spec"]["nodeName"]
    cluster.client.delete(PODS, lost["metadata"]["name"], cluster.namespace, grace_seconds=0)
    until(lambda: len(members(cluster, "train")) == 7 and lost["metadata"]["uid"] not in uids(cluster), PATIENCE)
    await_bound(cluster, "train", 7)
    [again] = [pod for pod in members(cluster, "train") if pod["metadata"]["annotations"][INDEX] == index]
    assert again["spec"]["nodeName"] == node
    assert again["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]


def uids(cluster: Cluster) -> set[str]:
    return {pod["metadata"]["uid"] for pod in cluster.pods()}


def test_job_without_indices_is_no_gang(cluster: Cluster) -> None:
    job(cluster, "sum", 7, A_NODE_EACH, indexed=False)
    assert await_bound(cluster, "sum", 6) == sorted(cluster.pool())


def test_scheduler_that_dies_in_mid_gang_is_followed_by_one_that_binds_the_rest(
    cluster: Cluster, real_server: Server
) -> None:
    """Another pod wants the room that is left, and would be first by its name."""
    mine = Cluster(cluster.client, cluster.namespace, unique("scheduler"))
    config = profiles(mine.scheduler_name)
    first = Running(real_server.kubeconfig, config)
    first.die_after(2)
    job(mine, "train", 6, A_NODE_EACH)
    await_bound(mine, "train", 2)
    first.kill()
    mine.add_pod("a-thief", cpu=A_NODE_EACH, nodeSelector={POOL: mine.namespace})
    assert len(nodes_of(mine, "train")) == 2
    with scheduling(real_server.kubeconfig, config):
        assert await_bound(mine, "train", 6) == sorted(mine.pool())
        assert "Insufficient cpu" in mine.await_pending("a-thief", seconds=PATIENCE)


@pytest.fixture
def job_sets(cluster: Cluster) -> Iterator[None]:
    """JobSets, served; nobody runs their controller."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    version = {"name": JOB_SETS.version, "served": True, "storage": True, "schema": schema}
    names = {"plural": JOB_SETS.plural, "singular": "jobset", "kind": JOB_SETS.kind}
    name = f"{JOB_SETS.plural}.{JOB_SETS.group}"
    approved = {"api-approved.kubernetes.io": "unapproved, for a test"}
    spec = {"group": JOB_SETS.group, "scope": "Namespaced", "names": names, "versions": [version]}
    cluster.client.create(CUSTOM_RESOURCES, {"metadata": {"name": name, "annotations": approved}, "spec": spec})
    until(lambda: serves(cluster), PATIENCE)
    yield
    cluster.client.delete(CUSTOM_RESOURCES, name)


def serves(cluster: Cluster) -> bool:
    groups = cluster.client.request("GET", "/apis")["groups"]
    return any(one["name"] == JOB_SETS.group for one in groups)


@pytest.mark.usefixtures("job_sets")
def test_job_set_is_one_gang_over_its_jobs(cluster: Cluster, real_server: Server) -> None:
    mine = Cluster(cluster.client, cluster.namespace, unique("scheduler"))
    replicated = {"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 3, "completions": 3}}}
    train = {
        "apiVersion": f"{JOB_SETS.group}/{JOB_SETS.version}",
        "kind": JOB_SETS.kind,
        "metadata": {"name": "train", "namespace": mine.namespace},
        "spec": {"replicatedJobs": [replicated]},
    }
    with scheduling(real_server.kubeconfig, profiles(mine.scheduler_name)):
        by = mine.client.create(JOB_SETS, train)
        job(mine, "train-worker-0", 3, "1", by=by)
        await_told(mine, "train-worker-0", 3, "Gang JobSet train waits for its members: 3 of 6 exist.")
        assert nodes_of(mine, "train-worker-0") == []
        job(mine, "train-worker-1", 3, "1", by=by)
        await_bound(mine, "train-worker-0", 3)
        await_bound(mine, "train-worker-1", 3)
