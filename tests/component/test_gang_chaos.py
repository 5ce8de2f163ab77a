"""Trouble while gangs are scheduled: in the end each is bound or waits as a whole, and no GPU is given twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.kube.resources import PODS
from kubenexus.common.sandbox import Sandbox
from tests.builders import PodBuilder, pod
from tests.machines import dgx_h100
from tests.scenarios import Machine, check, new
from tests.schedulers import Cluster, Obj, Running, connected, scheduling
from tests.stub_server import until
from tests.troubles import FAST, TROUBLES, Witness, lose_binds

pytestmark = pytest.mark.slow

PATIENCE = 90.0
"""a gang of one may meet a trouble eight times, and waits longer after each"""
MACHINES = [Machine(f"dgx-{number}", dgx_h100()) for number in range(6)]
SIZES, GPUS = (1, 2, 3, 5, 8), (1, 2, 4, 8)


class Crowd:
    """Gangs that arrive on a few machines, more than these have room for, and what must hold of them."""

    def __init__(self, box: Sandbox, cluster: Cluster, seed: int) -> None:
        self.box, self.cluster, self.random = box, cluster, Random(seed)
        self.sizes: dict[str, int] = {}
        self.witness = Witness(cluster.client)

    def arrive(self, gangs: int) -> None:
        """So many more, their members in any order. They come past all troubles: a server in trouble takes no pods."""
        pods = [one for _ in range(gangs) for one in self._gang()]
        self.random.shuffle(pods)
        for one in pods:
            self.box.registry.create(PODS, "default", new(one.build(), "status"))

    def _gang(self) -> list[PodBuilder]:
        name, size, gpus = f"p{len(self.sizes)}", self.random.choice(SIZES), self.random.choice(GPUS)
        self.sizes[name] = size
        return [pod(f"{name}-{number}").cpu(1).gpu(gpus).gang(name, size) for number in range(size)]

    def settle(self) -> None:
        """Wait until each gang is whole on nodes, or whole in waiting and told so."""
        try:
            until(lambda: not self.torn(), PATIENCE)
        except AssertionError:
            raise AssertionError(f"neither whole nor waiting as a whole: {self.torn()}") from None

    def torn(self) -> dict[str, list[str]]:
        """Gangs that are neither, with what becomes of each member."""
        gangs: dict[str, list[str]] = {}
        for obj in self.box.registry.list(PODS, "default"):
            gangs.setdefault(obj["metadata"]["labels"][v.GANG_NAME], []).append(_fate(obj))
        return {name: sorted(fates) for name, fates in gangs.items() if set(fates) not in ({"bound"}, {"told"})}

    def await_bound(self, count: int) -> None:
        """Wait for so many binds, or until there is nothing more to bind."""
        until(lambda: self.bound() >= count or not self.torn(), PATIENCE)

    def bound(self) -> int:
        return sum(_fate(obj) == "bound" for obj in self.box.registry.list(PODS, "default"))

    def check(self) -> None:
        """All is well, and with room for all everybody gets a place: nothing was lost, and nobody waits for nothing."""
        self.settle()
        check(self.cluster, MACHINES)
        waiting = [obj for obj in self.cluster.pods() if _fate(obj) == "told"]
        more = [Machine(f"more-{number}", dgx_h100()) for number in range(len(waiting))]
        for machine in more:
            machine.join(self.cluster)
        until(lambda: self.bound() == sum(self.sizes.values()), PATIENCE)
        until(lambda: len(self.witness.nodes) == sum(self.sizes.values()), PATIENCE)
        assert all(len(nodes) == 1 for nodes in self.witness.nodes.values()), "a pod was bound twice"
        check(self.cluster, [*MACHINES, *more])


def _fate(obj: Obj) -> str:
    if obj["spec"].get("nodeName"):
        return "bound"
    said = [one for one in obj["status"].get("conditions") or () if one["type"] == "PodScheduled"]
    return "told" if said and "nodes are available" in said[0]["message"] else "waits"


@contextmanager
def crowd(folder: Path, seed: int) -> Iterator[Crowd]:
    with Sandbox() as box, connected(box, folder) as cluster:
        for machine in MACHINES:
            machine.join(cluster)
        made = Crowd(box, cluster, seed)
        try:
            yield made
        finally:
            made.witness.stop()


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_one_kind_of_trouble(trouble: Callable[[Sandbox, Random], None], tmp_path: Path) -> None:
    with crowd(tmp_path, 7) as made, scheduling(tmp_path / "kubeconfig"):
        for _ in range(3):
            trouble(made.box, made.random)
            made.arrive(4)
            made.settle()
        made.check()


@pytest.mark.parametrize("seed", [1, 2])
def test_everything_at_once(seed: int, tmp_path: Path) -> None:
    with crowd(tmp_path, seed) as made, scheduling(tmp_path / "kubeconfig"):
        for _ in range(12):
            made.random.choice(TROUBLES)(made.box, made.random)
            made.arrive(2)
            until(lambda: made.bound() > 0, PATIENCE)
        made.check()


@pytest.mark.parametrize("seed", [3, 4])
def test_scheduler_is_killed_in_mid_gang_and_started_again(seed: int, tmp_path: Path) -> None:
    """Some members are bound, the answers of others are lost, and the binds of the rest never leave."""
    with crowd(tmp_path, seed) as made:
        for life in range(4):
            running = Running(tmp_path / "kubeconfig", SchedulerConfiguration(), f"life-{life}")
            running.die_after(binds := made.random.randint(1, 6))
            before = made.bound()
            lose_binds(made.box, made.random)
            made.arrive(3)
            made.await_bound(before + binds)
            running.kill()
        with scheduling(tmp_path / "kubeconfig"):
            made.check()


def test_two_replicas_and_a_change_of_leader(tmp_path: Path) -> None:
    config, kubeconfig = SchedulerConfiguration(leader_election=FAST), tmp_path / "kubeconfig"
    with crowd(tmp_path, 5) as made:
        first = Running(kubeconfig, config, "first", elect=True)
        made.arrive(2)
        until(lambda: made.bound() > 0, PATIENCE)
        second = Running(kubeconfig, config, "second", elect=True)
        made.arrive(2)
        first.stop()  # hands the Lease over
        made.settle()
        third = Running(kubeconfig, config, "third", elect=True)
        made.arrive(4)
        second.kill()  # its Lease has to run out
        made.check()
        third.stop()
        third.validate()
