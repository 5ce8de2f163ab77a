"""Synthetic machines for the demo and for tests: what a DGX, a GB200 tray or a plain server looks like from inside.

Each is described in a few numbers and written out as a folder with `sys`, `proc` and NVML's answers, which the agent
reads as it would a live machine. Sizes and wiring follow the public descriptions of these products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GIB: Final = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """What all GPUs of a machine have in common. `links` NVLinks lead from each GPU to switches."""

    product: str
    memory: int
    capability: tuple[int, int]
    architecture: int
    driver: str
    links: int = 0
    nvlink_version: int = 0
    pcie_gen: int = 5
    clique: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine by its numbers.

    `gpu_numa[i]` and `nic_numa[i]` are the NUMA nodes of GPU and NIC i. NIC i shares a PCIe switch with GPU i, as in
    machines built for GPUDirect. `memory_nodes` are NUMA nodes without CPUs (GPU memory).
    """

    name: str
    packages: int
    numa_per_package: int
    cores_per_numa: int
    threads: int
    memory_per_numa: int
    gpu: GpuModel | None = None
    gpu_numa: tuple[int, ...] = ()
    nic_numa: tuple[int, ...] = ()
    nic_gbps: int = 0
    memory_nodes: tuple[int, ...] = ()

    @property
    def numa_count(self) -> int:
        return self.packages * self.numa_per_package

    @property
    def cpu_count(self) -> int:
        return self.numa_count * self.cores_per_numa * self.threads

    @property
    def memory(self) -> int:
        return self.numa_count * self.memory_per_numa

    def cpus_of(self, numa: int) -> list[int]:
        """Cores first, then their second threads, as Linux numbers them."""
        cores = self.numa_count * self.cores_per_numa
        first = numa * self.cores_per_numa
        return [thread * cores + first + core for thread in range(self.threads) for core in range(self.cores_per_numa)]

    def package_of(self, numa: int) -> int:
        return numa // self.numa_per_package

    def distance(self, one: int, other: int) -> int:
        """10 is local, 12 the same package, 32 the other one; the memory of a GPU is 40 further than its node."""
        if one == other:
            return 10
        homes = [
            self.gpu_numa[self.memory_nodes.index(node)] if node in self.memory_nodes else node for node in (one, other)
        ]
        packages = {self.package_of(home) for home in homes}
        return (12 if len(packages) == 1 else 32) + 40 * sum(node in self.memory_nodes for node in (one, other))


H100 = GpuModel(
    product="NVIDIA H100 80GB HBM3",
    memory=81559 * 1024**2,
    capability=(9, 0),
    architecture=9,
    driver="580.105.08",
    links=18,
    nvlink_version=6,
)
A100 = GpuModel(
    product="NVIDIA A100-SXM4-80GB",
    memory=81920 * 1024**2,
    capability=(8, 0),
    architecture=7,
    driver="580.105.08",
    links=12,
    nvlink_version=4,
    pcie_gen=4,
)
GB200 = GpuModel(
    product="NVIDIA GB200",
    memory=189471 * 1024**2,
    capability=(10, 0),
    architecture=10,
    driver="580.105.08",
    links=18,
    nvlink_version=7,
    clique="5f1e0c9a-3d72-4b8e-9a44-0d6c2f7e1b35.1",
)

MACHINES: Final = {
    machine.name: machine
    for machine in (
        Machine(
            name="dgx-h100",
            packages=2,
            numa_per_package=1,
            cores_per_numa=56,
            threads=2,
            memory_per_numa=1024 * GIB,
            gpu=H100,
            gpu_numa=(0, 0, 0, 0, 1, 1, 1, 1),
            nic_numa=(0, 0, 0, 0, 1, 1, 1, 1),
            nic_gbps=400,
        ),
        Machine(
            name="dgx-a100",
            packages=2,
            numa_per_package=4,
            cores_per_numa=16,
            threads=2,
            memory_per_numa=128 * GIB,
            gpu=A100,
            gpu_numa=(3, 3, 1, 1, 7, 7, 5, 5),
            nic_numa=(3, 3, 1, 1, 7, 7, 5, 5),
            nic_gbps=200,
        ),
        Machine(
            name="gb200",
            packages=2,
            numa_per_package=1,
            cores_per_numa=72,
            threads=1,
            memory_per_numa=480 * GIB,
            gpu=GB200,
            gpu_numa=(0, 0, 1, 1),
            nic_numa=(0, 0, 1, 1),
            nic_gbps=400,
            memory_nodes=(2, 10, 18, 26),
        ),
        Machine(
            name="epyc",
            packages=2,
            numa_per_package=4,
            cores_per_numa=16,
            threads=2,
            memory_per_numa=96 * GIB,
            nic_numa=(0,),
            nic_gbps=100,
        ),
        Machine(
            name="plain",
            packages=1,
            numa_per_package=1,
            cores_per_numa=16,
            threads=1,
            memory_per_numa=64 * GIB,
            nic_numa=(0,),
            nic_gbps=25,
        ),
    )
}
