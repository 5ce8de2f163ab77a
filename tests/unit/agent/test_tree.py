"""The tree page."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubenexus.agent.discovery.nvml import recorded_or_asked
from kubenexus.agent.discovery.scan import scan
from kubenexus.agent.show.parts import clean, size
from kubenexus.agent.show.tree import tree
from kubenexus.common.sandbox.machine_tree import write_machine
from kubenexus.common.sandbox.machines import MACHINES
from kubenexus.common.topology import Gpu, Health, Nic, NodeTopology, NumaNode

GIB = 1 << 30


def test_a_whole_machine(tmp_path: Path) -> None:
    write_machine(MACHINES["gb200"], tmp_path)
    page = tree(scan(tmp_path, lambda: recorded_or_asked(tmp_path)), "Grace")
    assert (
        page
        == """\
Grace (144 CPUs, 960 GiB, 4 GPUs, 4 NICs)
├─ Package 0
│  └─ NUMA node 0 (480 GiB)
│     ├─ CPUs 0-71 (72, 1 thread per core, 1 × L3)
│     ├─ PCIe root pci0000:10
│     │  └─ switch 0000:11:00.0
│     │     ├─ GPU0 0000:13:00.0 (NVIDIA GB200, 185 GiB, PCIe gen5 x16, 18 NVLinks)
│     │     └─ NIC0 0000:14:00.0 (mlx5_0, InfiniBand, 400 Gb/s)
│     └─ PCIe root pci0001:20
│        └─ switch 0001:21:00.0
│           ├─ GPU1 0001:23:00.0 (NVIDIA GB200, 185 GiB, PCIe gen5 x16, 18 NVLinks)
│           └─ NIC1 0001:24:00.0 (mlx5_1, InfiniBand, 400 Gb/s)
├─ Package 1
│  └─ NUMA node 1 (480 GiB)
│     ├─ CPUs 72-143 (72, 1 thread per core, 1 × L3)
│     ├─ PCIe root pci0002:30
│     │  └─ switch 0002:31:00.0
│     │     ├─ GPU2 0002:33:00.0 (NVIDIA GB200, 185 GiB, PCIe gen5 x16, 18 NVLinks)
│     │     └─ NIC2 0002:34:00.0 (mlx5_2, InfiniBand, 400 Gb/s)
│     └─ PCIe root pci0003:40
│        └─ switch 0003:41:00.0
│           ├─ GPU3 0003:43:00.0 (NVIDIA GB200, 185 GiB, PCIe gen5 x16, 18 NVLinks)
│           └─ NIC3 0003:44:00.0 (mlx5_3, InfiniBand, 400 Gb/s)
├─ NUMA node 2 (185 GiB, nearest CPUs: node 0)
├─ NUMA node 10 (185 GiB, nearest CPUs: node 0)
├─ NUMA node 18 (185 GiB, nearest CPUs: node 1)
└─ NUMA node 26 (185 GiB, nearest CPUs: node 1)
NVLink island 0 (nvswitch): GPU 0-3"""
    )


def test_what_is_unknown_says_so() -> None:
    page = tree(
        NodeTopology(
            numa=(
                NumaNode(id=0, memory=GIB, hugepages_2mi=8, hugepages_1gi=2, read_bandwidth=102400),
                NumaNode(id=7, cpus=(), memory=0),
            ),
            gpus=(Gpu(index=0, health=Health.LOST),),
            nics=(Nic(index=0),),
            unknowns={"gpu-0.health": "GPU is lost"},
        )
    )
    assert (
        page
        == """\
Machine (0 CPUs, 1.0 GiB, 0 GPUs, 1 NIC)
├─ Package unknown, or several
│  └─ NUMA node 0 (1.0 GiB, 102400 MB/s, 8 × 2 MiB pages, 2 × 1 GiB pages)
│     └─ CPUs unknown
├─ NUMA node 7 (0 B, no CPUs)
└─ NUMA node unknown
   └─ PCIe root unknown
      ├─ GPU0 (lost) ?
      └─ NIC0 ?
unknown: gpu-0.health: GPU is lost"""
    )


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10 << 20, "10 MiB"),
        (85520809984, "80 GiB"),
        (2 << 40, "2.0 TiB"),
    ],
)
def test_sizes(amount: int, text: str) -> None:
    assert size(amount) == text


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\n", "\x00", "\udcff", "\u202e", "\ufffe"], ids=ascii)
def test_hostile_names_reach_no_terminal(hostile: str) -> None:
    page = tree(NodeTopology(gpus=(Gpu(index=0, product=f"GPU{hostile}!"),)))
    assert hostile not in page.splitlines()[-1]
    assert page.splitlines()[-1].endswith(f"(GPU{clean(hostile)}!)")
