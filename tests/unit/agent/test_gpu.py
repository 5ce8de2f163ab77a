"""Seating GPUs: which NUMA node each hangs on and how that was learnt; recordings of NVML that someone edited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubenexus.agent.discovery.nvml import OFF, NvmlAnswer, NvmlGpu, decode, recorded_or_asked
from kubenexus.agent.discovery.scan import scan
from kubenexus.common.topology import Gpu, NodeTopology
from tests.trees import function, node, write

PORT, CARD = "pci0000:16/0000:16:02.0", "pci0000:16/0000:16:02.0/0000:17:00.0"
TWO_NODES = {**node(0, "0-1", "10 20 15"), **node(4, "2-3", "20 10 30"), **node(9, "", "15 30 10")}


def machine(root: Path, files: dict[str, str], port: dict[str, str], nodes: dict[str, str]) -> Path:
    for path, class_code, own in ((PORT, "0x060400", port), (CARD, "0x030200", files)):
        write(root, *function(path, class_code, "0x10de", **own))
    return write(root, nodes)


@pytest.mark.parametrize(
    ("files", "port", "affinity", "expected"),
    [
        ({"numa_node": "4"}, {"numa_node": "0"}, (0,), (4, "device")),
        ({"numa_node": "-1"}, {"numa_node": "4"}, (0,), (4, "bridge")),
        ({"numa_node": "-1", "local_cpulist": "2-3"}, {"numa_node": "-1"}, (0,), (4, "cpulist")),
        ({"local_cpulist": "0-3"}, {}, (4, 9), (4, "nvml")),
        ({"local_cpulist": "0-3"}, {}, (0, 4), (None, None)),
        ({"numa_node": "9"}, {}, (), (0, "device")),
        ({"numa_node": "77"}, {"numa_node": "4"}, (), (4, "bridge")),
        ({"numa_node": "garbage"}, {}, (), (None, None)),
    ],
    ids=[
        "the device says so",
        "its bridge does",
        "its CPUs are those of a node",
        "NVML's affinity, the nodes with CPUs of it",
        "two nodes are as near",
        "a node of memory: the nearest with CPUs",
        "a node that is not there",
        "garbage",
    ],
)
def test_host_numa(
    files: dict[str, str],
    port: dict[str, str],
    affinity: tuple[int, ...],
    expected: tuple[int | None, str | None],
    tmp_path: Path,
) -> None:
    answer = NvmlAnswer("ok", gpus=(NvmlGpu(index=0, address="0000:17:00.0", memory_affinity=affinity),))
    topology = scan(machine(tmp_path, files, port, TWO_NODES), lambda: answer)
    assert [(gpu.numa, gpu.numa_source) for gpu in topology.gpus or ()] == [expected]
    assert ("gpu-0.numaNode" in topology.unknowns) is (expected[0] is None)


def test_where_there_is_one_node_it_is_that(tmp_path: Path) -> None:
    (gpu,) = scan(machine(tmp_path, {}, {}, node(3, "0-3", "10")), lambda: OFF).gpus or ()
    assert (gpu.numa, gpu.numa_source, gpu.cpus) == (3, "single", (0, 1, 2, 3))


def test_the_node_of_the_gpus_memory_from_proc(tmp_path: Path) -> None:
    status = {"proc/driver/nvidia/gpus/0000:17:00.0/numa_status": "Node:    9\nStatus:  online\n"}
    (gpu,) = scan(machine(tmp_path, {"numa_node": "4"}, {}, {**TWO_NODES, **status}), lambda: OFF).gpus or ()
    assert (gpu.numa, gpu.memory_numa) == (4, 9)


def test_gpus_that_only_nvml_sees(tmp_path: Path) -> None:
    """No PCI bus below this root, as in a container without /sys."""
    answer = NvmlAnswer("ok", gpus=tuple(NvmlGpu(index=i, address=f"0000:{i:02x}:00.0") for i in (1, 2)))
    topology = scan(write(tmp_path, TWO_NODES), lambda: answer)
    assert [(gpu.index, gpu.pci_bus_id, gpu.peer_classes) for gpu in topology.gpus or ()] == [
        (0, "0000:01:00.0", "X?"),
        (1, "0000:02:00.0", "?X"),
    ]


def test_a_gpu_of_another_vendor_is_not_lost_because_nvml_does_not_list_it(tmp_path: Path) -> None:
    write(tmp_path, *function(CARD, "0x120000", "0x1002"))
    (gpu,) = scan(tmp_path, lambda: NvmlAnswer("ok")).gpus or ()
    assert (gpu.usable, gpu.health) == (True, None)


def test_a_bus_that_cannot_be_listed_is_not_a_machine_without_gpus(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices").symlink_to("devices")
    topology = scan(tmp_path, lambda: OFF)
    assert (topology.gpus, topology.nics) == (None, None)
    assert topology.unknowns == {"sys/bus/pci/devices": "Too many levels of symbolic links"}


def test_reasons_are_bounded(tmp_path: Path) -> None:
    names = [f"sys/devices/system/cpu/cpu{i}/topology/physical_package_id" for i in range(100)]
    topology = scan(write(tmp_path, dict.fromkeys(names, "garbage")), lambda: OFF)
    assert len(topology.unknowns) == 21
    assert topology.unknowns["files"] == "80 more could not be read"


GOOD: dict[str, Any] = {
    "pci": [0, 0x17, 0],
    "uuid": "GPU-0",
    "minor": 3,
    "memory": 5,
    "capability": [9, 0],
    "links": [{"version": 6, "remote": "gpu", "pci": [0, 0x18, 0]}],
    "mig": True,
    "error": {"code": 15, "reason": "lost"},
}


@pytest.mark.parametrize("fact", GOOD)
@pytest.mark.parametrize("value", [None, -1, 1 << 70, "text", "\udcff", [], [None], {}, {"code": []}, 1.5, [[0]] * 3])
def test_a_recording_that_someone_edited(fact: str, value: object, tmp_path: Path) -> None:
    """Whatever is not of its type is unknown, and nothing raises."""
    recording = {"status": "ok", "gpus": [{**GOOD, fact: value}], "ancestors": [["x"], 7]}
    write(machine(tmp_path, {}, {}, TWO_NODES), {"nvml.json": json.dumps(recording)})
    topology = scan(tmp_path, lambda: recorded_or_asked(tmp_path))
    kept = [name for name in ("uuid", "minor", "memory", "mig") if name != fact]
    (gpu,) = [card for card in topology.gpus or () if card.minor or card.uuid]
    assert {name: getattr(gpu, name) for name in kept} == {name: GOOD[name] for name in kept}


@pytest.mark.parametrize(
    "output", [b"", b"{", b"\xff", b"[]", b"null", b"[" * 100_000, b'{"gpus": 1}'], ids=lambda o: o[:9]
)
def test_output_that_is_no_answer(output: bytes) -> None:
    assert decode(output).status == "crashed"


def test_a_recording_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "nvml.json").mkdir()
    assert recorded_or_asked(tmp_path) == NvmlAnswer("error", "nvml.json cannot be read: Is a directory")


def test_lost_gpus_keep_their_index(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path, *function(f"pci0000:{number}0/0000:{number}1:00.0", "0x030200", "0x10de"))
    answer = NvmlAnswer(
        "ok",
        gpus=(
            NvmlGpu(index=0, address="0000:01:00.0", uuid="GPU-a"),
            NvmlGpu(index=1, error_code=15, error="GPU is lost"),
            NvmlGpu(index=2, address="0000:31:00.0", uuid="GPU-d"),
        ),
    )
    topology: NodeTopology = scan(tmp_path, lambda: answer)
    gpus: tuple[Gpu, ...] = topology.gpus or ()
    assert [(gpu.uuid, gpu.health) for gpu in gpus] == [
        ("GPU-a", "ok"),
        (None, "lost"),
        (None, "lost"),
        ("GPU-d", "ok"),
    ]
    assert topology.unknowns["gpu-1.health"] == "GPU is lost"
    assert topology.unknowns["gpu-2.health"] == "NVML does not list it"
