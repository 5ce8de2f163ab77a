"""ReplicaSet, Deployment and StatefulSet, step by step."""

from __future__ import annotations

import pytest

from kubenexus.common.kube.resources import DEPLOYMENTS, PERSISTENT_VOLUME_CLAIMS, PODS, REPLICA_SETS, STATEFUL_SETS
from tests.sandbox_cluster import Cluster, Obj, replicated, template


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_replica_set_keeps_its_number(cluster: Cluster) -> None:
    cluster.create(REPLICA_SETS, replicated("r"))
    cluster.settle()
    cluster.registry.delete(PODS, "default", cluster.names()[0])
    cluster.settle()
    assert cluster.phases() == ["Running"] * 3
    status = cluster.status(REPLICA_SETS, "r")
    assert [status[key] for key in ("replicas", "readyReplicas", "availableReplicas", "observedGeneration")] == [
        3
    ] * 3 + [1]
    cluster.registry.patch(REPLICA_SETS, "default", "r", {"spec": {"replicas": 1}})
    cluster.settle()
    assert len(cluster.names()) == 1


def test_scaling_down_takes_pods_that_do_not_run_first(cluster: Cluster) -> None:
    cluster.create(REPLICA_SETS, replicated("r", 2))
    cluster.settle()
    ready = cluster.names()
    cluster.registry.patch(REPLICA_SETS, "default", "r", {"spec": {"replicas": 4}})
    cluster.settle(bind=False)
    cluster.registry.patch(REPLICA_SETS, "default", "r", {"spec": {"replicas": 2}})
    cluster.settle(bind=False)
    assert cluster.names() == ready


STRATEGIES = [
    pytest.param({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, 3, 4, id="surge"),
    pytest.param({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, 2, 3, id="in place"),
    pytest.param(
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "34%"}}, 2, 5, id="percent"
    ),
    pytest.param({"type": "Recreate"}, 0, 3, id="recreate"),
]


@pytest.mark.parametrize(("strategy", "least", "most"), STRATEGIES)
def test_rollout_stays_within_its_limits(cluster: Cluster, strategy: Obj, least: int, most: int) -> None:
    cluster.create(DEPLOYMENTS, replicated(strategy=strategy))
    cluster.settle()
    cluster.registry.patch(DEPLOYMENTS, "default", "d", {"spec": {"template": template(image="new")}})
    counts = watched(cluster)
    assert images(cluster) == ["new"] * 3
    assert min(running for running, _ in counts) == least
    assert max(present for _, present in counts) == most
    assert len(cluster.names(REPLICA_SETS)) == 2
    assert cluster.conditions(DEPLOYMENTS, "d") == {
        "Available": "MinimumReplicasAvailable",
        "Progressing": "NewReplicaSetAvailable",
    }
    assert cluster.get(DEPLOYMENTS, "d")["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "2"}


def test_deployment_is_scaled_after_a_rollout(cluster: Cluster) -> None:
    cluster.create(DEPLOYMENTS, replicated())
    cluster.settle()
    for change in ({"template": template(image="new")}, {"replicas": 1}):
        cluster.registry.patch(DEPLOYMENTS, "default", "d", {"spec": change})
        cluster.settle()
    assert images(cluster) == ["new"]
    cluster.registry.patch(DEPLOYMENTS, "default", "d", {"spec": {"replicas": 4}})
    cluster.settle()
    assert images(cluster) == ["new"] * 4


def watched(cluster: Cluster) -> list[tuple[int, int]]:
    """Settle, and count the pods (running, all) that are not on their way out after every single step."""
    counts: list[tuple[int, int]] = []
    while True:
        while cluster.manager.step():
            pods = cluster.registry.list(PODS, "default")
            phases = [pod["status"]["phase"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
            counts.append((phases.count("Running"), len(phases)))
        waiting = cluster.registry.list(PODS, "default", fields="spec.nodeName=")
        if not waiting:
            return counts
        name = waiting[0]["metadata"]["name"]
        cluster.registry.bind("default", name, {"metadata": {"name": name}, "target": {"name": "n"}})


def images(cluster: Cluster) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in cluster.registry.list(PODS, "default")]


def test_deployment_names_its_replica_set_by_the_template(cluster: Cluster) -> None:
    cluster.create(DEPLOYMENTS, replicated())
    cluster.settle()
    [replica_set] = cluster.registry.list(REPLICA_SETS)
    mark = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"d-{mark}"
    assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "a", "pod-template-hash": mark}
    assert all(name.startswith(f"d-{mark}-") for name in cluster.names())
    status = cluster.status(DEPLOYMENTS, "d")
    assert [status[key] for key in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")] == [3] * 4


def test_stateful_set_grows_and_shrinks_in_order(cluster: Cluster) -> None:
    cluster.create(STATEFUL_SETS, replicated("s", serviceName="svc"))
    cluster.settle(bind=False)
    assert cluster.names() == ["s-0"], "the second waits for the first to be ready"
    cluster.settle()
    assert cluster.names() == ["s-0", "s-1", "s-2"]
    pod = cluster.get(PODS, "s-1")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("s-1", "svc")
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    cluster.registry.patch(STATEFUL_SETS, "default", "s", {"spec": {"replicas": 1}})
    cluster.settle()
    assert cluster.names() == ["s-0"]
    assert cluster.status(STATEFUL_SETS, "s")["readyReplicas"] == 1


def test_parallel_stateful_set_does_not_wait(cluster: Cluster) -> None:
    cluster.create(STATEFUL_SETS, replicated("s", podManagementPolicy="Parallel", ordinals={"start": 5}))
    cluster.settle(bind=False)
    assert cluster.names() == ["s-5", "s-6", "s-7"]


def test_stateful_set_replaces_a_failed_pod_and_updates_above_the_partition(cluster: Cluster) -> None:
    cluster.create(STATEFUL_SETS, replicated("s"))
    cluster.settle()
    cluster.fail("s-1")
    cluster.settle()
    assert cluster.phases() == ["Running"] * 3
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    change = {"template": template(image="new"), "updateStrategy": strategy}
    cluster.registry.patch(STATEFUL_SETS, "default", "s", {"spec": change})
    cluster.settle()
    assert images(cluster) == ["i", "new", "new"]
    status = cluster.status(STATEFUL_SETS, "s")
    assert (status["currentReplicas"], status["updatedReplicas"]) == (1, 2)
    assert status["currentRevision"] != status["updateRevision"]


def test_stateful_set_claims_outlive_their_pods(cluster: Cluster) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "data"}, "spec": spec}]
    cluster.create(STATEFUL_SETS, replicated("s", 2, volumeClaimTemplates=claims))
    cluster.settle()
    assert cluster.names(PERSISTENT_VOLUME_CLAIMS) == ["data-s-0", "data-s-1"]
    volumes = cluster.get(PODS, "s-1")["spec"]["volumes"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-1"}} in volumes
    cluster.registry.delete(STATEFUL_SETS, "default", "s", propagation="Foreground")
    cluster.settle()
    assert (cluster.names(), cluster.names(PERSISTENT_VOLUME_CLAIMS)) == ([], ["data-s-0", "data-s-1"])
