"""What says that pods are a gang is known before anything is decided, unless it cannot be known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubenexus.common.kube.mirror import Synced
from kubenexus.common.kube.resources import JOBS
from kubenexus.common.sandbox import Sandbox
from kubenexus.scheduler.actions import OWNERS, Heard
from kubenexus.scheduler.owners import FIRST_LISTS_SECONDS, GangOwners
from tests.builders import PodBuilder, job, pod
from tests.scenarios import new, submit
from tests.schedulers import Cluster, connected, scheduling
from tests.stub_server import until

LISTS = "/apis/batch/v1/jobs"


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.fixture
def cluster(box: Sandbox, tmp_path: Path) -> Iterator[Cluster]:
    with connected(box, tmp_path) as made:
        yield made


def test_gang_that_runs_by_halves_is_completed_although_its_job_is_known_last(
    box: Sandbox, cluster: Cluster, tmp_path: Path
) -> None:
    """Its members have no labels that say so, and somebody else wants the room, too."""
    cluster.add_nodes("a", "b")
    train = cluster.client.create(JOBS, new(job("train", pod("x").cpu(8)).parallelism(2).indexed().build()))

    def worker(name: str) -> PodBuilder:
        return pod(name).cpu(8).owner("Job", "train", train["metadata"]["uid"], "batch/v1")

    for one in (worker("w0").node("a"), pod("a-thief").cpu(8), worker("w1")):
        submit(cluster, one)
    box.faults.delay(1.0, method="GET", path=LISTS)
    with scheduling(tmp_path / "kubeconfig"):
        cluster.await_pending("a-thief", "Insufficient cpu")
        cluster.await_node("w1")
    assert cluster.node_of("w1") == "b"


def test_owners_that_cannot_be_listed_are_waited_for_only_so_long(box: Sandbox, cluster: Cluster) -> None:
    now, heard = [0.0], list[Heard]()
    box.faults.fail(503, times=1000, method="GET", path=LISTS)
    owners = GangOwners(cluster.client, heard.append, clock=lambda: now[0])
    owners.start()
    until(lambda: any(one.kind == OWNERS for one in heard), 10)
    assert not synced(heard)
    now[0] += FIRST_LISTS_SECONDS
    until(lambda: synced(heard), 10)
    owners.stop()


def synced(heard: list[Heard]) -> bool:
    return any(one.kind == OWNERS and isinstance(one.change, Synced) for one in list(heard))
