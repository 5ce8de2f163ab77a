"""Trouble while gangs with claims are scheduled: no device has two claims, and no pod is where its devices are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.kube.resources import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from kubenexus.common.sandbox import Sandbox
from tests.builders import PodBuilder, pod
from tests.component.test_gang_chaos import PATIENCE, Crowd
from tests.devices import claim_template, device_class, devices_of, from_template, resource_slice
from tests.schedulers import Running, connected, scheduling
from tests.stub_server import until
from tests.troubles import TROUBLES, lose_binds

pytestmark = pytest.mark.slow

DEVICES = 4
SIZES, COUNTS = (1, 2, 3, 5), (1, 2)


class Claimants(Crowd):
    """Gangs whose members claim one or two devices each, on four nodes of four devices."""

    def add_nodes(self, *names: str) -> None:
        self.cluster.add_nodes(*names)
        for name in names:
            self.cluster.client.create(RESOURCE_SLICES, resource_slice(name, DEVICES))

    def _gang(self) -> list[PodBuilder]:
        name, size = f"p{len(self.sizes)}", self.random.choice(SIZES)
        template = f"claim-{self.random.choice(COUNTS)}"
        self.sizes[name] = size
        made = [pod(f"{name}-{number}").cpu("100m").gang(name, size) for number in range(size)]
        return [one.set("spec.resourceClaims", from_template(template)) for one in made]

    def check(self) -> None:
        """In the end each gang is bound or waits as a whole; with devices for all everybody gets some."""
        self.settle()
        self.check_devices()
        waiting = sum(self.sizes.values()) - self.bound()
        if waiting:
            self.add_nodes(*(f"more-{number}" for number in range(waiting)))
        until(lambda: self.bound() == sum(self.sizes.values()), PATIENCE)
        self.check_devices()

    def check_devices(self) -> None:
        claims = self.box.registry.list(RESOURCE_CLAIMS, "default")
        given = Counter(device for claim in claims for device in devices_of(claim))
        assert not [device for device, count in given.items() if count > 1], "a device was given twice"
        by_pod = {claim["metadata"]["ownerReferences"][0]["uid"]: claim for claim in claims}
        for obj in self.box.registry.list(PODS, "default"):
            if node := obj["spec"].get("nodeName"):  # the claim of one that waits may not be there yet
                claim = by_pod[obj["metadata"]["uid"]]
                assert {device.partition("/")[0] for device in devices_of(claim)} == {node}
                assert [one["uid"] for one in claim["status"]["reservedFor"]] == [obj["metadata"]["uid"]]


@contextmanager
def claimants(folder: Path, seed: int) -> Iterator[Claimants]:
    with Sandbox(controllers=True) as box, connected(box, folder) as cluster:
        cluster.client.create(DEVICE_CLASSES, device_class())
        for count in COUNTS:
            cluster.client.create(RESOURCE_CLAIM_TEMPLATES, claim_template(f"claim-{count}", count), "default")
        made = Claimants(box, cluster, seed)
        made.add_nodes("n0", "n1", "n2", "n3")
        try:
            yield made
        finally:
            made.witness.stop()


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_one_kind_of_trouble(trouble: Callable[[Sandbox, Random], None], tmp_path: Path) -> None:
    with claimants(tmp_path, 7) as made, scheduling(tmp_path / "kubeconfig"):
        for _ in range(3):
            trouble(made.box, made.random)
            made.arrive(3)
            made.settle()
        made.check()


@pytest.mark.parametrize("seed", [3, 4])
def test_scheduler_is_killed_in_mid_gang_and_started_again(seed: int, tmp_path: Path) -> None:
    """Some claims are written whose pods were never bound."""
    with claimants(tmp_path, seed) as made:
        for life in range(4):
            running = Running(tmp_path / "kubeconfig", SchedulerConfiguration(), f"life-{life}")
            running.die_after(binds := made.random.randint(1, 4))
            before = made.bound()
            lose_binds(made.box, made.random)
            made.arrive(2)
            made.await_bound(before + binds)
            running.kill()
        with scheduling(tmp_path / "kubeconfig"):
            made.check()
