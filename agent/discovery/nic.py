"""Network cards: PCI functions with the names, link layer and rate the kernel gives them, and their way to GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kubenexus.agent.discovery import pci
from kubenexus.agent.discovery.files import Files
from kubenexus.agent.discovery.pci import PciDevice, PciTree
from kubenexus.agent.discovery.seats import Seat, host_numa
from kubenexus.common.topology import Nic, NumaNode

NET = "sys/class/net"
INFINIBAND = "sys/class/infiniband"
ETHERNET_CLASS, INFINIBAND_CLASS = 0x0200, 0x0207


def read_nics(files: Files, tree: PciTree, nodes: Sequence[NumaNode], gpus: Sequence[Seat]) -> tuple[Nic, ...]:
    """Physical network functions in the order of their addresses; virtual functions are their parent's business."""
    interfaces = dict(_by_address(files, NET, tree))
    rdma = dict(_by_address(files, INFINIBAND, tree))
    cards = [device for device in tree.devices.values() if _is_nic(device, interfaces, rdma)]
    cards.sort(key=lambda device: pci.sort_key(device.address))
    return tuple(
        Nic(
            index=index,
            if_name=interfaces.get(device.address),
            rdma_name=rdma.get(device.address),
            pci_bus_id=device.address,
            pcie_root=device.root,
            pcie_switch=device.switch,
            **_link(files, device, interfaces.get(device.address), rdma.get(device.address)),
            **_place(tree, device, nodes, gpus),
        )
        for index, device in enumerate(cards)
    )


def _place(tree: PciTree, device: PciDevice, nodes: Sequence[NumaNode], gpus: Sequence[Seat]) -> dict[str, Any]:
    numa, _ = host_numa(tree, device, nodes)
    classes = (pci.pair_class(device, gpu.device, numa, gpu.numa) if gpu.device else "?" for gpu in gpus)
    return {"numa": numa, "gpu_classes": "".join(classes)}


def _is_nic(device: PciDevice, interfaces: dict[str, str], rdma: dict[str, str]) -> bool:
    known = device.class_code in (ETHERNET_CLASS, INFINIBAND_CLASS) or device.address in {*interfaces, *rdma}
    return known and not device.is_virtual


def _by_address(files: Files, folder: str, tree: PciTree) -> Iterator[tuple[str, str]]:
    """PCI address → name; of several names on one function (ports), the first. Bonds and bridges have no device."""
    for name in reversed(files.names(folder)):
        if files.exists(f"{folder}/{name}/device"):
            parts = reversed(files.resolve(f"{folder}/{name}/device").split("/"))
            found = next((part for part in parts if part in tree.devices), None)
            if found:
                yield found, name


def _link(files: Files, device: PciDevice, interface: str | None, rdma: str | None) -> dict[str, Any]:
    layer, rate = _port(files, rdma) if rdma else (None, None)
    if rate is None and interface:
        rate = _interface_rate(files, interface)
    by_class = {ETHERNET_CLASS: "Ethernet", INFINIBAND_CLASS: "InfiniBand"}
    return {"link_layer": layer or by_class.get(device.class_code or 0), "rate_gbps": rate}


def _port(files: Files, rdma: str) -> tuple[str | None, int | None]:
    """Link layer and rate of the first active port; an idle one has a link layer but reports whatever rate it tried."""
    ports = [port for _, port in files.numbered(f"{INFINIBAND}/{rdma}/ports", "")]
    active = [port for port in ports if (files.text(f"{port}/state") or "").endswith("ACTIVE")]
    rate = re.match(r"([0-9]{1,6})(\.[0-9]+)? Gb/sec", files.text(f"{active[0]}/rate") or "") if active else None
    layers = (files.text(f"{port}/link_layer") for port in (*active, *ports))
    return next((layer for layer in layers if layer), None), int(rate[1]) if rate else None


def _interface_rate(files: Files, interface: str) -> int | None:
    # Reading the speed of an interface that is down is an error in itself.
    if files.text(f"{NET}/{interface}/operstate") != "up":
        return None
    speed = files.number(f"{NET}/{interface}/speed")
    return speed // 1000 if speed is not None and speed >= 1000 else None
