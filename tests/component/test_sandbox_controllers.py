"""The runner of the controllers: refused writes, lost history, its thread, and a whole Job over HTTP."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import CORE_EVENTS, JOBS, NODES, PODS, REPLICA_SETS
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.sandbox.admission_match import AdmissionRequest
from kubenexus.common.sandbox.errors import forbidden
from tests.sandbox_cluster import Cluster, Obj, job, replicated


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


class NoPods:
    """Admission that refuses every pod."""

    def mutate(self, request: AdmissionRequest) -> tuple[Obj, list[str]]:
        return request.obj or request.old or {}, []

    def validate(self, request: AdmissionRequest) -> list[str]:
        if request.resource == PODS and request.operation == "CREATE":
            raise forbidden(PODS, request.name, "not today")
        return []


def test_refused_pod_is_told_and_tried_again(cluster: Cluster) -> None:
    cluster.registry.admit_with(NoPods())
    cluster.create(JOBS, job())
    cluster.settle()
    cluster.wait(1)
    event = cluster.registry.list(CORE_EVENTS, "default")[0]
    assert event["reason"] == "FailedCreate"
    assert event["message"].endswith("is forbidden: not today")
    assert event["involvedObject"]["kind"] == "Job"
    cluster.registry.writes.admission = None
    cluster.wait(1)
    assert cluster.phases() == ["Running"]


def test_compaction_is_survived(cluster: Cluster) -> None:
    cluster.create(REPLICA_SETS, replicated("r", 3))
    cluster.settle()
    cluster.registry.delete(REPLICA_SETS, "default", "r")
    cluster.create(JOBS, job())
    cluster.registry.store.compact()
    cluster.settle()
    assert [name[:2] for name in cluster.names()] == ["j-"]


def test_sandbox_runs_a_job_over_http(tmp_path: Path) -> None:
    with Sandbox(controllers=True) as sandbox:
        kubeconfig = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        with Client.connect(str(kubeconfig)) as client:
            allocatable = {"cpu": "8", "memory": "16Gi", "pods": "20"}
            client.create(NODES, {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}})
            client.create(JOBS, job(run_time=1, completions=3, parallelism=3), "default")
            assert _bind_until_complete(client)["succeeded"] == 3


def _bind_until_complete(client: Client) -> Obj:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        status: Obj = client.get(JOBS, "j", "default")["status"]
        if "completionTime" in status:
            return status
        for pod in client.list(PODS, "default", field_selector="spec.nodeName=").items:
            target = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": "n"}}
            client.create(PODS, target, "default", subresource="binding")
    pytest.fail("the Job did not complete")


def test_background_thread_does_the_same(cluster: Cluster) -> None:
    cluster.create(JOBS, job(run_time=0))
    cluster.manager.start()
    try:
        watch = cluster.registry.watch(PODS)
        kind, pod = next(iter(watch))
        assert kind == "ADDED"
        name = pod["metadata"]["name"]
        cluster.registry.bind("default", name, {"metadata": {"name": name}, "target": {"name": "n"}})
        jobs = cluster.registry.watch(JOBS)
        states = (each["status"].get("succeeded") for _, each in jobs)
        assert next(state for state in states if state) == 1
    finally:
        cluster.manager.stop()
