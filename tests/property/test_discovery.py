"""Any tree of files at all, and any answer of a driver: a scan never raises, and what it finds can be published."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.dom import minidom

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubenexus.agent.discovery.nvml import OFF, NvmlAnswer, decode
from kubenexus.agent.discovery.scan import scan
from kubenexus.agent.show.matrix import matrix
from kubenexus.agent.show.svg import svg
from kubenexus.agent.show.tree import tree
from kubenexus.common import wire
from kubenexus.common.sandbox.machine_tree import nvml_answer, write_machine
from kubenexus.common.sandbox.machines import GB200, GIB, Machine
from kubenexus.common.sandbox.validation import validate_create
from kubenexus.common.topology import NodeTopology

SMALL = Machine(
    name="small",
    packages=2,
    numa_per_package=1,
    cores_per_numa=1,
    threads=2,
    memory_per_numa=GIB,
    gpu=GB200,
    gpu_numa=(0, 1),
    nic_numa=(0, 1),
    nic_gbps=400,
    memory_nodes=(4, 9),
)
ANSWER = decode(json.dumps(nvml_answer(SMALL)).encode())

patient = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))

GONE, LOOP, FOLDER = "gone", "loop", "folder"
ODD = [
    "-1",
    "0",
    "0x",
    "99999999999999999999",
    "9223372036854775807",
    "18446744073709551615",
    "0-65535",
    "1-0",
    "0-3:0/0",
]
CONTENTS = st.one_of(
    st.sampled_from(ODD).map(str.encode),
    st.binary(max_size=30),
    st.text(max_size=30).map(lambda text: text.encode(errors="surrogatepass")),
    st.integers(-(10**20), 10**20).map(lambda number: str(number).encode()),
    st.sampled_from([GONE, LOOP, FOLDER]),
)
NEW_FILES = [
    "sys/devices/system/cpu/cpu4095/topology/core_cpus_list",
    "sys/devices/system/node/node4095/cpulist",
    "sys/devices/system/node/node99999/cpulist",
    "sys/devices/system/node/node0/access1/initiators/read_bandwidth",
    "sys/devices/system/node/node9/access0/initiators/node1/x",
    "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
    "sys/bus/pci/devices/ffffffff:ff:1f.7/class",
    "sys/class/net/сеть0/device",
    "sys/class/infiniband/mlx5_0/ports/x/rate",
    "proc/driver/nvidia/gpus/0000:13:00.0/numa_status",
]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("machine")
    write_machine(SMALL, root)
    return root


def paths(root: Path) -> list[str]:
    """Every file and link of the machine, and some more."""
    found = (os.path.join(folder, name) for folder, folders, files in os.walk(root) for name in (*folders, *files))
    own = {os.path.relpath(path, root) for path in found if os.path.islink(path) or os.path.isfile(path)}
    return sorted({*own, *NEW_FILES} - {"nvml.json"})


CHANGES = st.lists(st.tuples(st.integers(0, 1000), CONTENTS), max_size=6)


@contextmanager
def changed(root: Path, changes: Mapping[str, bytes | str]) -> Iterator[None]:
    """Files of a tree replaced for a while."""
    undo: list[tuple[Path, Path]] = []
    made: list[Path] = []
    try:
        for number, (name, change) in enumerate(changes.items()):
            path = root / name
            if os.path.lexists(path):
                undo.append((path, root / f"saved-{number}"))
                os.rename(*undo[-1])
            path.parent.mkdir(parents=True, exist_ok=True)
            made.append(path)
            _make(path, change)
        yield
    finally:
        for path in made:
            _remove(path)
        for path, saved in undo:
            os.rename(saved, path)


def _make(path: Path, change: bytes | str) -> None:
    if isinstance(change, bytes):
        path.write_bytes(change)
    elif change == LOOP:
        path.symlink_to(path.name)
    elif change == FOLDER:
        path.mkdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def assert_publishable(topology: NodeTopology) -> None:
    labels, _ = wire.encode_labels(topology)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": labels}}
    assert validate_create("Node", node) == []
    for slice_ in wire.encode_slices(topology, "node-1", "uid")[0]:
        assert validate_create("ResourceSlice", slice_) == []
    annotation = wire.encode_annotation(topology)
    assert len(annotation) < 64 * 1024
    read, digest = wire.decode_annotation(annotation)
    assert wire.topology_hash(read) == digest == labels["kubenexus.io/topology-hash"]
    assert read.gpus is None or len(read.gpus) == len(topology.gpus or ())
    for page in (matrix(topology), tree(topology)):
        assert page.replace("\n", "").isprintable()
    minidom.parseString(svg(topology).encode())


@patient
@given(changes=CHANGES, answer=st.sampled_from([ANSWER, OFF]))
def test_any_tree(changes: list[tuple[int, bytes | str]], answer: NvmlAnswer, machine: Path) -> None:
    known = paths(machine)
    with changed(machine, {known[number % len(known)]: change for number, change in changes}):
        assert_publishable(scan(machine, lambda: answer))


def test_the_machine_is_whole_again_after_each_change(machine: Path) -> None:
    """Otherwise the test above would look at less and less."""
    before = wire.canonical_json(scan(machine, lambda: ANSWER))
    with changed(machine, dict.fromkeys(paths(machine), GONE)):
        assert wire.canonical_json(scan(machine, lambda: ANSWER)) != before
    assert wire.canonical_json(scan(machine, lambda: ANSWER)) == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = sorted(nvml_answer(SMALL)["gpus"][0])


@patient
@given(
    edits=st.lists(st.tuples(st.integers(0, 1), st.sampled_from(NAMES), JSON), max_size=5),
    whole=st.dictionaries(st.sampled_from(["status", "driver", "ancestors", "gpus"]), JSON, max_size=1),
)
def test_any_answer_of_the_driver(edits: list[tuple[int, str, Any]], whole: dict[str, Any], machine: Path) -> None:
    raw = json.loads(json.dumps(nvml_answer(SMALL)))
    for index, name, value in edits:
        raw["gpus"][index][name] = value
    answer = decode(json.dumps(raw | whole).encode())
    assert_publishable(scan(machine, lambda: answer))


@patient
@given(seed=st.integers(0, 1 << 32))
def test_the_order_of_directories_does_not_show(seed: int, machine: Path) -> None:
    before = wire.encode_annotation(scan(machine, lambda: ANSWER))
    order = random.Random(seed)
    listdir = os.listdir

    def shuffled(path: Any) -> list[str]:
        names = listdir(path)
        order.shuffle(names)
        return names

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "listdir", shuffled)
        assert wire.encode_annotation(scan(machine, lambda: ANSWER)) == before


NODE0, GPU0 = "sys/devices/system/node/node0", "sys/bus/pci/devices/0000:13:00.0"


@patient
@given(number=st.integers(0, 1 << 40))
def test_what_changes_all_the_time_does_not_show(number: int, machine: Path) -> None:
    before = wire.encode_annotation(scan(machine, lambda: ANSWER))
    meminfo = f"Node 0 MemTotal: {GIB // 1024} kB\nNode 0 MemFree: {number} kB\n"
    noise = {
        f"{NODE0}/meminfo": meminfo.encode(),
        f"{NODE0}/hugepages/hugepages-64kB/free_hugepages": str(number).encode(),
        f"{NODE0}/vmstat": str(number).encode(),
        f"{GPU0}/current_link_speed": f"{number} GT/s".encode(),
        f"{GPU0}/current_link_width": str(number).encode(),
        f"{GPU0}/power_state": str(number).encode(),
        "proc/meminfo": f"MemTotal: {number} kB\n".encode(),
        "proc/uptime": str(number).encode(),
    }
    with changed(machine, noise):
        assert wire.encode_annotation(scan(machine, lambda: ANSWER)) == before
