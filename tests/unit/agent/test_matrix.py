"""The matrix page, for machines that the captures do not show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubenexus.agent.show.matrix import matrix
from kubenexus.common.topology import Gpu, Nic, NodeTopology, NumaNode
from tests.machines import dgx_h100
from tests.nvml.captures import read_matrix


def between(one: Nic, other: Nic) -> str:
    nics = (replace(one, index=0, rdma_name="mlx5_0"), replace(other, index=1, rdma_name="mlx5_1"))
    cells, _ = read_matrix(matrix(NodeTopology(gpus=(Gpu(index=0),), nics=nics)))
    return cells["mlx5_0", "mlx5_1"]


def nic(address: str, **facts: object) -> Nic:
    return replace(Nic(index=0, pci_bus_id=address, pcie_root="pci0000:16", numa=0), **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other", "cell"),
    [
        (nic("0000:17:00.0"), nic("0000:17:00.1"), "PIX"),
        (nic("0000:17:00.0", pcie_switch="0000:10:00.0"), nic("0000:18:00.0", pcie_switch="0000:10:00.0"), "PIX"),
        (nic("0000:17:00.0", gpu_classes="I"), nic("0000:18:00.0", gpu_classes="B"), "PXB"),
        (nic("0000:17:00.0", gpu_classes="I"), nic("0000:18:00.0", gpu_classes="H"), "PHB"),
        (nic("0000:17:00.0"), nic("0000:61:00.0", pcie_root="pci0000:60"), "NODE"),
        (nic("0000:17:00.0"), nic("0000:61:00.0", pcie_root="pci0000:60", numa=1), "SYS"),
        (nic("0000:17:00.0"), nic("0000:61:00.0", pcie_root="pci0000:60", numa=None), "?"),
    ],
    ids=["ports of a card", "one switch", "two switches", "host bridge", "one node", "two nodes", "unknown"],
)
def test_between_nics(one: Nic, other: Nic, cell: str) -> None:
    assert (between(one, other), between(other, one)) == (cell, cell)


def test_a_lost_gpu_is_named_and_has_no_links() -> None:
    page = matrix(dgx_h100(lost=[3]))
    cells, affinity = read_matrix(page)
    assert "\nGPU3 (lost)  NODE" in page
    assert (cells["GPU0", "GPU3"], cells["GPU0", "GPU1"], affinity["GPU3"][1]) == ("NODE", "NV18", "0")


@pytest.mark.parametrize(
    ("topology", "text"),
    [
        (NodeTopology(gpus=()), "No GPU on this machine (none was found); 0 NUMA nodes with CPUs, 0 NICs."),
        (
            NodeTopology(gpus=(), numa=(NumaNode(id=0, cpus=(0,)), NumaNode(id=1, cpus=())), nics=(Nic(index=0),)),
            "No GPU on this machine (none was found); 1 NUMA node with CPUs, 1 NIC.",
        ),
        (
            NodeTopology(gpus=None, unknowns={"sys/bus/pci/devices": "Permission denied"}),
            "Whether this machine has a GPU is unknown (sys/bus/pci/devices: Permission denied).",
        ),
    ],
    ids=["nothing", "a plain server", "nobody could look"],
)
def test_without_gpus(topology: NodeTopology, text: str) -> None:
    assert matrix(topology) == text


def test_what_is_unknown_is_not_invented() -> None:
    page = matrix(NodeTopology(gpus=(Gpu(index=0), Gpu(index=1)), nics=(Nic(index=0),)))
    assert page.startswith(
        "      GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity  GPU NUMA ID\n"
        "GPU0  X     ?     ?                                  N/A\n"
        "GPU1  ?     X     ?                                  N/A\n"
        "NIC0  ?     ?     X\n"
    )
