"""Trouble while hundreds of pods are scheduled: each is bound exactly once, nothing overcommitted, nothing lost."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.kube.resources import PODS
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.sandbox.controllers.kubelet import KUBELET_ANNOTATION
from kubenexus.common.sandbox.errors import ApiError
from tests.schedulers import Cluster, Running, connected, scheduling
from tests.stub_server import until
from tests.troubles import FAST, TROUBLES, Witness, lose_binds

pytestmark = pytest.mark.slow

NODES = 25
PODS_EACH = 40
"""pods for which a node has CPUs"""
PATIENCE = 50.0


@contextmanager
def crowd(folder: Path, count: int) -> Iterator[tuple[Sandbox, Cluster, Callable[[], None]]]:
    """A sandbox in which pods keep arriving, more than a node takes of each size, but fewer than all take.

    The function that comes with it waits until all are bound, and checks what must hold.
    """
    with Sandbox() as box, connected(box, folder) as cluster:
        annotations = {KUBELET_ANNOTATION: "none"}
        cluster.add_nodes(*(f"n{number}" for number in range(NODES)), annotations=annotations, cpu=str(PODS_EACH // 2))
        witness = Witness(cluster.client)
        feeder = threading.Thread(target=_feed, args=(box, count), daemon=True)
        feeder.start()

        def check() -> None:
            feeder.join(PATIENCE)
            until(lambda: cluster.bound() >= count - 10 or not box.faults.pending, PATIENCE)
            box.faults.clear()  # or the last pod would meet all that is left of it, and wait longer each time
            until(lambda: cluster.bound() == count, PATIENCE)
            until(lambda: len(witness.nodes) == count, PATIENCE)
            assert all(len(nodes) == 1 for nodes in witness.nodes.values()), "a pod was bound twice"
            assert cluster.overcommitted() == {}
            assert len(cluster.pods()) == count

        try:
            yield box, cluster, check
        finally:
            witness.stop()


def _feed(box: Sandbox, count: int) -> None:
    """Pods come past all troubles, for a server in trouble would not take them."""
    for number in range(count):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}
        spec = {"schedulerName": "kubenexus-scheduler", "containers": [container]}
        box.registry.create(PODS, "default", {"metadata": {"name": f"p{number}"}, "spec": spec})


def outrun(box: Sandbox, random: Random) -> None:
    """Somebody else binds pods that are being bound: 409, and the pod is elsewhere."""
    waiting = [pod["metadata"]["name"] for pod in box.registry.list(PODS, "default", fields="spec.nodeName=")]
    for name in waiting[:8]:
        target = {"kind": "Node", "name": f"n{random.randrange(NODES)}"}
        with contextlib.suppress(ApiError):  # we were faster
            box.registry.bind("default", name, {"metadata": {"name": name}, "target": target})


@pytest.mark.parametrize("trouble", [*TROUBLES, outrun], ids=lambda trouble: trouble.__name__)
def test_one_kind_of_trouble(trouble: Callable[[Sandbox, Random], None], tmp_path: Path) -> None:
    random = Random(7)
    with crowd(tmp_path, 300) as (box, _, check), scheduling(tmp_path / "kubeconfig"):
        for share in range(30, 300, 30):
            until(lambda share=share: _bound(box) >= share, PATIENCE)  # type: ignore[misc]
            trouble(box, random)
        check()


@pytest.mark.parametrize("seed", [1, 2])
def test_everything_at_once(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    with crowd(tmp_path, NODES * PODS_EACH) as (box, _, check), scheduling(tmp_path / "kubeconfig"):
        for share in range(25, NODES * PODS_EACH, 50):
            until(lambda share=share: _bound(box) >= share, PATIENCE)  # type: ignore[misc]
            random.choice(TROUBLES)(box, random)
        check()


@pytest.mark.parametrize("seed", [3, 4])
def test_scheduler_is_killed_and_started_again(seed: int, tmp_path: Path) -> None:
    """It dies with binds under way: its client is closed under it, and nothing is told to anybody."""
    random = Random(seed)
    with crowd(tmp_path, 500) as (box, _, check):
        for life in range(4):
            running = Running(tmp_path / "kubeconfig", SchedulerConfiguration(), f"life-{life}")
            until(lambda life=life: _bound(box) >= 100 * (life + 1), PATIENCE)  # type: ignore[misc]
            lose_binds(box, random)
            running.kill()
        with scheduling(tmp_path / "kubeconfig"):
            check()


def test_two_replicas_and_a_change_of_leader(tmp_path: Path) -> None:
    config = SchedulerConfiguration(leader_election=FAST)
    with crowd(tmp_path, 500) as (box, _, check):
        kubeconfig = tmp_path / "kubeconfig"
        first = Running(kubeconfig, config, "first", elect=True)
        until(lambda: _bound(box) >= 50, PATIENCE)
        second = Running(kubeconfig, config, "second", elect=True)
        until(lambda: _bound(box) >= 150, PATIENCE)
        first.stop()  # hands the Lease over
        until(lambda: _bound(box) >= 250, PATIENCE)
        third = Running(kubeconfig, config, "third", elect=True)
        second.kill()  # its Lease has to run out
        check()
        third.stop()
        third.validate()


def _bound(box: Sandbox) -> int:
    return sum(1 for pod in box.registry.list(PODS, "default") if pod["spec"].get("nodeName"))
