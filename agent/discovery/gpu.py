"""GPUs as the topology knows them, from what NVML and the PCI bus tell of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubenexus.agent.discovery import nvlink, pci
from kubenexus.agent.discovery.nvml import NvmlAnswer, NvmlGpu
from kubenexus.agent.discovery.seats import Seat
from kubenexus.common.topology import UNKNOWN_CLASS, Gpu, NumaNode, PairClass

ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
# NVML's common-ancestor levels; two GPUs of one board count as one switch apart.
ANCESTORS = {
    0: PairClass.PIX,
    10: PairClass.PIX,
    20: PairClass.PXB,
    30: PairClass.PHB,
    40: PairClass.NODE,
    50: PairClass.SYS,
}


def read_gpus(seats: Sequence[Seat], answer: NvmlAnswer, nodes: Sequence[NumaNode]) -> tuple[Gpu, ...]:
    """The GPUs as the topology knows them."""
    cpus = {node.id: node.cpus for node in nodes}
    links = nvlink.peer_rows(seats)
    return tuple(
        Gpu(
            index=seat.index,
            **_identity(seat.nvml or NvmlGpu(), answer),
            **_bus(seat),
            numa=seat.numa,
            numa_source=seat.numa_source,
            memory_numa=seat.memory_numa,
            cpus=cpus.get(seat.numa) if seat.numa is not None else None,
            nvlink_version=nvlink.version(seat.nvml),
            peer_links=links.get(seat.index),
            peer_classes="".join(_pair(seat, other, answer) for other in seats),
            p2p=_p2p(seat, seats, answer),
            health=seat.health,
        )
        for seat in seats
    )


def _identity(gpu: NvmlGpu, answer: NvmlAnswer) -> dict[str, Any]:
    code = gpu.architecture
    return {
        "minor": gpu.minor,
        "uuid": gpu.uuid,
        "product": gpu.name,
        "architecture": None if code is None else ARCHITECTURES.get(code, str(code)),
        "compute_capability": ".".join(map(str, gpu.capability)) or None,
        "driver": answer.driver if gpu.uuid else None,
        "memory": gpu.memory,
        "nvlinks": None if gpu.links is None else len(gpu.links),
        "fabric_clique": gpu.clique,
        "mig": gpu.mig,
    }


def _bus(seat: Seat) -> dict[str, Any]:
    device, gpu = seat.device, seat.nvml
    return {
        "pci_bus_id": seat.address,
        "pcie_root": device and device.root,
        "pcie_switch": device and device.switch,
        "pcie_gen": (gpu and gpu.pcie_gen) or (device and device.generation),
        "pcie_width": (gpu and gpu.pcie_width) or (device and device.width),
    }


def _pair(seat: Seat, other: Seat, answer: NvmlAnswer) -> str:
    if seat is other:
        return PairClass.SELF
    if seat.device and other.device:
        code = pci.pair_class(seat.device, other.device, seat.numa, other.numa)
        if code != UNKNOWN_CLASS:
            return code
    level = _cell(answer.ancestors, seat, other)
    return UNKNOWN_CLASS if level is None else ANCESTORS.get(level, UNKNOWN_CLASS)


def _p2p(seat: Seat, seats: Sequence[Seat], answer: NvmlAnswer) -> str | None:
    """Whether NVML says that this GPU reads each other's memory; None where it says nothing of any."""
    cells = [_cell(answer.p2p, seat, other) for other in seats]
    return None if cells.count(None) == len(cells) else "".join("?" if c is None else "1" if c else "0" for c in cells)


def _cell(matrix: Sequence[Sequence[int | None]], one: Seat, other: Seat) -> int | None:
    """What NVML's matrix says of two GPUs, which it numbers in its own way."""
    indices = [gpu.index for gpu in (one.nvml, other.nvml) if gpu and gpu.index is not None]
    if len(indices) < 2 or indices[0] >= len(matrix) or indices[1] >= len(matrix[indices[0]]):
        return None
    return matrix[indices[0]][indices[1]]
