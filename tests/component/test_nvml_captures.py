"""Captured GPU machines, made into folders and a driver's answers: the matrix we print is the captured one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kubenexus.agent.discovery.scan import scan
from kubenexus.common.cli import main
from kubenexus.common.topology import NodeTopology
from tests.nvml import stub
from tests.nvml.captures import (
    Capture,
    Matrix,
    hwloc_capture,
    nccl_capture,
    read_matrix,
    scenario,
    topo_capture,
    write_tree,
)
from tests.nvml.stub import Driver

# In a virtual machine the switches are out of sight: no kind of far end, and no address.
OUT_OF_SIGHT = (stub.UNKNOWN, "ffffffff:ff:ff")

CAPTURES: dict[str, Callable[[], Capture]] = {
    "dgx1-v100": lambda: topo_capture("dgx1-v100-8gpu-4nic"),
    "h100": lambda: topo_capture("h100-8gpu-8nic"),
    "pairs": lambda: topo_capture("4gpu-nvlink-pairs-across-numa"),
    "gb200": lambda: topo_capture("gb200-4gpu-container-ansi"),
    "azure-ndv5": lambda: nccl_capture("azure-ndv5-h100", OUT_OF_SIGHT, 18),
    "aws-p4d": lambda: nccl_capture("aws-p4d-a100", (stub.SWITCH, "0:0:0"), 12),
    "power8": lambda: hwloc_capture("hwloc-power8gpudistances"),
}

every_capture = pytest.mark.parametrize("name", CAPTURES)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stub.build(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def driver(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    return Driver(library, tmp_path / "scenario", monkeypatch)


def install(name: str, driver: Driver, root: Path) -> Capture:
    capture = CAPTURES[name]()
    driver.says(*scenario(capture))
    write_tree(capture, root)
    return capture


def printed(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Matrix, dict[str, tuple[str, str]]]:
    assert main(["topo", "--root", str(root)]) == 0
    return read_matrix(capsys.readouterr().out)


@every_capture
def test_the_matrix_is_the_captured_one(
    name: str, driver: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = install(name, driver, tmp_path)
    cells, affinity = printed(tmp_path, capsys)
    expected = capture.cells
    if name == "gb200":
        # Each NIC is said to be NODE from GPUs of both nodes, so its own node was not to be seen: nobody knows, then.
        expected = {pair: "?" if cell == "NODE" else cell for pair, cell in expected.items()}
    assert cells == expected
    assert {gpu: cpus for gpu, (cpus, _) in affinity.items()} == {
        # Two GPUs of the container have no CPUs that it may use; we tell the machine's.
        gpu: cpus or affinity[gpu][0]
        for gpu, (cpus, _) in capture.affinity.items()
    }
    assert {gpu: numa for gpu, (_, numa) in affinity.items()} == {
        gpu: numa or affinity[gpu][1] for gpu, (_, numa) in capture.affinity.items()
    }


ALL_EIGHT = (tuple(range(8)),)


@pytest.mark.parametrize(
    ("name", "kind", "islands", "nvlinks", "numa"),
    [
        ("dgx1-v100", "mesh", ALL_EIGHT, [6] * 8, [0, 0, 0, 0, 1, 1, 1, 1]),
        ("h100", "nvswitch", ALL_EIGHT, [18] * 8, [0, 0, 0, 0, 1, 1, 1, 1]),
        ("pairs", "pairs", ((0, 1), (2, 3)), [12] * 4, [0, 1, 2, 3]),
        ("gb200", "nvswitch", ((0, 1, 2, 3),), [18] * 4, [0, 0, 1, 1]),
        ("azure-ndv5", "nvswitch", ALL_EIGHT, [18] * 8, [0, 0, 0, 0, 1, 1, 1, 1]),
        ("aws-p4d", "nvswitch", ALL_EIGHT, [12] * 8, [0, 0, 0, 0, 1, 1, 1, 1]),
        # Four links each, two of them to the processor.
        ("power8", "pairs", ((0, 1), (2, 3)), [4] * 4, [0, 0, 1, 1]),
    ],
    ids=list(CAPTURES),
)
def test_islands(
    name: str,
    kind: str,
    islands: tuple[tuple[int, ...], ...],
    nvlinks: list[int],
    numa: list[int],
    driver: Driver,
    tmp_path: Path,
) -> None:
    install(name, driver, tmp_path)
    topology: NodeTopology = scan(tmp_path)
    assert (topology.nvlink, topology.islands) == (kind, islands)
    assert [gpu.nvlinks for gpu in topology.gpus or ()] == nvlinks
    assert [gpu.numa for gpu in topology.gpus or ()] == numa
