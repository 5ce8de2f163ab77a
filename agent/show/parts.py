"""What tree and picture have in common: the machine cut into packages, NUMA nodes, root complexes and switches."""

from __future__ import annotations

from itertools import groupby

from kubenexus.common.topology import Gpu, Nic, NodeTopology, NumaNode

Device = Gpu | Nic


def packages(topology: NodeTopology) -> list[tuple[str, list[NumaNode]]]:
    """The NUMA nodes with CPUs by package, those whose package is unknown last."""
    nodes = sorted(topology.cpu_nodes, key=lambda node: (node.package is None, node.package or 0, node.id))
    return [
        ("Package unknown, or several" if package is None else f"Package {package}", list(group))
        for package, group in groupby(nodes, key=lambda node: node.package)
    ]


def roots(topology: NodeTopology, numa: int | None) -> list[tuple[str, list[tuple[str | None, list[Device]]]]]:
    """The devices of a NUMA node by root complex and switch, in the order of their addresses."""
    devices: list[Device] = [*(topology.gpus or ()), *(topology.nics or ())]
    here = sorted((device for device in devices if device.numa == numa), key=_place)
    return [
        (root or "unknown", [(switch, list(group)) for switch, group in groupby(group, lambda d: d.pcie_switch)])
        for root, group in groupby(here, key=lambda device: device.pcie_root)
    ]


def _place(device: Device) -> tuple[str, str, str]:
    return device.pcie_root or "", device.pcie_switch or "", device.pci_bus_id or ""


def name(device: Device) -> str:
    """What a device is called on every page."""
    kind = "GPU" if isinstance(device, Gpu) else "NIC"
    lost = " (lost)" if isinstance(device, Gpu) and not device.usable else ""
    return f"{kind}{device.index}{lost}"


def facts(device: Device) -> list[str]:
    """What people want to know of a device, as far as it is known."""
    if isinstance(device, Nic):
        rate = f"{device.rate_gbps} Gb/s" if device.rate_gbps else ""
        known = [device.rdma_name, device.if_name, device.link_layer, rate]
    else:
        link = f"PCIe gen{device.pcie_gen} x{device.pcie_width}" if device.pcie_gen and device.pcie_width else ""
        links = f"{device.nvlinks} NVLinks" if device.nvlinks else ""
        known = [device.product, size(device.memory) if device.memory else "", link, links]
    return [fact for fact in known if fact]


def memory(node: NumaNode) -> str:
    """A NUMA node's memory with its bandwidth, if the firmware tells."""
    amount = "memory unknown" if node.memory is None else size(node.memory)
    return f"{amount}, {node.read_bandwidth} MB/s" if node.read_bandwidth else amount


def summary(topology: NodeTopology) -> str:
    """The machine in a line."""
    of_gpus = {gpu.memory_numa for gpu in topology.gpus or ()}
    counts = [
        count(sum(node.cpu_count or 0 for node in topology.cpu_nodes), "CPU"),
        size(sum(node.memory or 0 for node in topology.numa or () if node.id not in of_gpus)),
        count(len(topology.usable_gpus), "GPU"),
        count(len(topology.nics or ()), "NIC"),
    ]
    return ", ".join(counts)


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(amount: int) -> str:
    """Bytes for people, in the largest unit that leaves at least one of it."""
    for unit, width in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if amount >= width:
            return f"{amount / width:.0f} {unit}" if amount / width >= 10 else f"{amount / width:.1f} {unit}"
    return f"{amount} B"


def clean(text: str) -> str:
    """Text without what would upset a terminal or an XML reader: a driver may name a GPU as it likes."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def kind(topology: NodeTopology) -> str:
    """The kind of NVLink, as an addition to a heading."""
    return f" ({topology.nvlink})" if topology.nvlink else ""
