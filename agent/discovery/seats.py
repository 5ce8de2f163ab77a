"""Seating the GPUs: what the PCI bus and NVML each know, joined by address, with the CPU node each GPU hangs on.

Indices follow the PCI addresses of all GPUs on the bus, lost ones included. That is NVML's order while every GPU is
there, and unlike NVML's it does not shift when one is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kubenexus.agent.discovery import pci
from kubenexus.agent.discovery.files import Files
from kubenexus.agent.discovery.nvml import NvmlAnswer, NvmlGpu
from kubenexus.agent.discovery.pci import PciDevice, PciTree
from kubenexus.common.topology import Health, NumaNode

NO_PERMISSION, GPU_IS_LOST = 4, 15
UNLISTED = NvmlGpu(error_code=GPU_IS_LOST, error="NVML does not list it")


@dataclass(frozen=True, slots=True)
class Seat:
    """One GPU's place: its index, its function on the bus and what NVML tells, each of the two perhaps missing."""

    index: int
    device: PciDevice | None
    nvml: NvmlGpu | None
    numa: int | None
    numa_source: str | None
    memory_numa: int | None

    @property
    def address(self) -> str | None:
        known = self.device or self.nvml
        return known.address if known else None

    @property
    def health(self) -> Health | None:
        """A GPU that NVML may not open is in the dark; one that it fails to open is of no use to anybody."""
        if self.nvml is None or self.nvml.error_code == NO_PERMISSION:
            return None
        return Health.OK if self.nvml.error_code is None else Health.LOST


def seat_gpus(files: Files, tree: PciTree, answer: NvmlAnswer, nodes: Sequence[NumaNode]) -> tuple[Seat, ...]:
    """Every GPU that the bus or NVML knows, in the order of addresses, with its NUMA node."""
    known = {gpu.address: gpu for gpu in answer.gpus if gpu.address}
    # NVML names no address for a GPU it cannot open; it must be one of those on the bus that it did not name.
    nameless = [gpu for gpu in answer.gpus if not gpu.address]
    found: list[tuple[PciDevice | None, NvmlGpu | None]] = []
    for address in sorted({*known, *(device.address for device in tree.gpus)}, key=pci.sort_key):
        device, gpu = tree.devices.get(address), known.get(address)
        if gpu is None and answer.status == "ok" and device and device.vendor == pci.NVIDIA:
            gpu = nameless.pop(0) if nameless else UNLISTED
        found.append((device, gpu))
    found += [(None, gpu) for gpu in nameless]
    return tuple(_seat(files, tree, nodes, index, device, gpu) for index, (device, gpu) in enumerate(found))


def _seat(
    files: Files, tree: PciTree, nodes: Sequence[NumaNode], index: int, device: PciDevice | None, gpu: NvmlGpu | None
) -> Seat:
    numa, source = host_numa(tree, device, nodes, gpu.memory_affinity if gpu else ())
    memory_numa = gpu.gpu_memory_numa if gpu else None
    if memory_numa is None and device:
        memory_numa = _numa_status(files, device.address)
    return Seat(index, device, gpu, numa, source, memory_numa)


def host_numa(
    tree: PciTree, device: PciDevice | None, nodes: Sequence[NumaNode], affinity: Sequence[int] = ()
) -> tuple[int | None, str | None]:
    """The CPU node a device hangs on and where that was learnt; (None, None) where nobody tells.

    Some firmware names the node made of the GPU's own memory: the nearest CPU node is meant then.
    """
    by_id = {node.id: node for node in nodes}
    for source, id_ in _claims(tree, device, nodes, affinity):
        node = by_id.get(id_)
        near = node.nearest_cpu_node if node and node.memory_only else id_
        if near in by_id:
            return near, source
    return None, None


def _claims(
    tree: PciTree, device: PciDevice | None, nodes: Sequence[NumaNode], affinity: Sequence[int]
) -> Iterator[tuple[str, int]]:
    """Who says where the device is, the most trusted first."""
    with_cpus = [node for node in nodes if not node.memory_only]
    if device and device.numa is not None:
        yield "device", device.numa
    bridge = tree.bridge_numa(device) if device else None
    if bridge is not None:
        yield "bridge", bridge
    if device and device.local_cpus:
        same = [node.id for node in with_cpus if node.cpus == device.local_cpus]
        if len(same) == 1:
            yield "cpulist", same[0]
    near = {node.id for node in with_cpus}.intersection(affinity)
    if len(near) == 1:
        yield "nvml", near.pop()
    if len(with_cpus) == 1:
        yield "single", with_cpus[0].id


def _numa_status(files: Files, address: str) -> int | None:
    """The node of the GPU's own memory, which the driver tells in /proc where NVML is too old to."""
    text = files.text(f"proc/driver/nvidia/gpus/{address}/numa_status") or ""
    match = re.search(r"Node:\s*([0-9]{1,4})\b", text)
    return int(match[1]) if match else None
