"""The fingerprint changes with what a scan would see, and with nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kubenexus.agent.fingerprint import fingerprint
from kubenexus.common.sandbox.machine_tree import write_machine
from tests.agents import SMALL_DGX


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_machine(SMALL_DGX, tmp_path)
    put(tmp_path, "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "0")
    put(tmp_path, "proc/driver/nvidia/version", "580.105.08")
    return tmp_path


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def first(root: Path, pattern: str) -> str:
    return str(min(root.glob(pattern)).relative_to(root))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda r: put(r, "sys/devices/system/cpu/online", "0-6"), id="a CPU went offline"),
        pytest.param(lambda r: put(r, "sys/devices/system/node/online", "0"), id="a NUMA node went"),
        pytest.param(
            lambda r: put(r, "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "8"),
            id="huge pages were set aside",
        ),
        pytest.param(
            lambda r: put(r, "sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:  1024 kB"), id="memory changed"
        ),
        pytest.param(lambda r: (r / first(r, "sys/bus/pci/devices/*:13:00.0")).unlink(), id="a GPU fell off the bus"),
        pytest.param(lambda r: put(r, "proc/driver/nvidia/version", "590.1"), id="another driver"),
        pytest.param(
            lambda r: put(r, "proc/driver/nvidia/capabilities/gpu0/mig/gi0/access", "x"), id="a GPU was partitioned"
        ),
    ],
)
def test_it_changes_when(root: Path, change: Callable[[Path], object]) -> None:
    before = fingerprint(root)
    change(root)
    assert fingerprint(root) != before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda _: None, id="nothing happens"),
        pytest.param(
            lambda r: put(
                r,
                "sys/devices/system/node/node0/meminfo",
                (r / "sys/devices/system/node/node0/meminfo").read_text() + "Node 0 MemFree: 7 kB",
            ),
            id="free memory moves",
        ),
        pytest.param(lambda r: (r / "sys/class/net/veth1").mkdir(parents=True), id="a pod gets its interface"),
    ],
)
def test_it_stays_when(root: Path, change: Callable[[Path], object]) -> None:
    before = fingerprint(root)
    change(root)
    assert fingerprint(root) == before


def test_an_empty_or_unreadable_machine_has_one_too(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    os.symlink("loop", tmp_path / "sys/bus/pci/devices/loop")
    assert fingerprint(tmp_path) == fingerprint(tmp_path)
