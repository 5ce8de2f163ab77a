"""The topology as a picture: packages hold NUMA nodes, these hold caches and PCIe trees; NVLink islands are colours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kubenexus.agent.show import parts
from kubenexus.agent.show.boxes import Box, page
from kubenexus.common import cpulist
from kubenexus.common.topology import Nic, NodeTopology, NumaNode

STYLES = {
    "machine": "fill:#ffffff;stroke:#57606a",
    "package": "fill:#f6f8fa;stroke:#57606a",
    "numa": "fill:#eaf4ea;stroke:#4a7a4a",
    "cache": "fill:#ffffff;stroke:#8a8f98",
    "cell": "fill:#d0d7de;stroke:none",
    "root": "fill:#f3f0fa;stroke:#7a68a6",
    "switch": "fill:#e6e0f5;stroke:#7a68a6",
    "gpu": "fill:#ffffff;stroke:#1f2328",
    "lost": "fill:#ffd7d5;stroke:#cf222e;stroke-dasharray:4",
    "nic": "fill:#fff8e5;stroke:#9a6700",
    "legend": "fill:#ffffff;stroke:#d0d7de",
    "head": "font-weight:bold",
}
ISLANDS = ("#a8d5ff", "#ffc9a3", "#b9e6b5", "#f2b5d4", "#ffe08a", "#c9c2f0", "#a5e3dd", "#e0c9a6")
MAX_CACHES = 16
PACKAGE_WIDTH, NODE_WIDTH, ROOT_WIDTH = 1300, 820, 760

Colours = Mapping[int, str]
"""The colour of each GPU that is in an island."""


def svg(topology: NodeTopology, title: str = "Machine") -> str:
    """The picture as an SVG document; the same topology always gives the same bytes."""
    colours = {
        index: ISLANDS[number % len(ISLANDS)] for number, island in enumerate(topology.islands) for index in island
    }
    boxes = [
        Box([name], "package", [_numa(topology, node, colours) for node in nodes], PACKAGE_WIDTH)
        for name, nodes in parts.packages(topology)
    ]
    for name, inside in (
        ("Memory without CPUs", [_numa(topology, node, colours) for node in topology.memory_nodes]),
        ("NUMA node unknown", _roots(topology, None, colours)),
    ):
        boxes += [Box([name], "package", inside, PACKAGE_WIDTH)] if inside else []
    boxes += _island_legend(topology, colours)
    return page(Box([title, parts.summary(topology)], "machine", boxes), STYLES)


def _numa(topology: NodeTopology, node: NumaNode, colours: Colours) -> Box:
    lines = [f"NUMA node {node.id}", parts.memory(node)]
    if node.memory_only:
        lines += [] if node.nearest_cpu_node is None else [f"near node {node.nearest_cpu_node}"]
    else:
        lines.append(f"CPUs {'unknown' if node.cpus is None else cpulist.format_list(node.cpus)}")
    groups = (list(_caches(node)), _roots(topology, node.id, colours))
    return Box(lines, "numa", [Box([], "group", boxes, NODE_WIDTH) for boxes in groups if boxes])


def _caches(node: NumaNode) -> Iterator[Box]:
    """A box for each L3 cache with its cores, if they divide evenly; one for all where there are too many to draw."""
    cores = (node.cpu_count or 0) // (node.threads_per_core or 1)
    caches = node.l3_count or 0
    if not cores:
        return
    threads = f" × {node.threads_per_core}" if (node.threads_per_core or 1) > 1 else ""
    if 0 < caches <= MAX_CACHES and cores % caches == 0:
        each = cores // caches
        yield from (Box([f"L3: {parts.count(each, 'core')}{threads}"], "cache", cells=each) for _ in range(caches))
    else:
        heading = f"{caches} × L3: " if caches else ""
        yield Box([f"{heading}{parts.count(cores, 'core')}{threads}"], "cache", cells=cores)


def _roots(topology: NodeTopology, numa: int | None, colours: Colours) -> list[Box]:
    return [
        Box([f"PCIe {root}"], "root", [box for group in groups for box in _switch(*group, colours)], ROOT_WIDTH)
        for root, groups in parts.roots(topology, numa)
    ]


def _switch(switch: str | None, devices: list[parts.Device], colours: Colours) -> list[Box]:
    boxes = [_device(device, colours) for device in devices]
    return boxes if switch is None else [Box([f"switch {switch}"], "switch", boxes, ROOT_WIDTH)]


def _device(device: parts.Device, colours: Colours) -> Box:
    lines = [parts.name(device), device.pci_bus_id or "?", *parts.facts(device)]
    if isinstance(device, Nic):
        return Box(lines, "nic")
    return Box(lines, "gpu" if device.usable else "lost", colour=colours.get(device.index))


def _island_legend(topology: NodeTopology, colours: Colours) -> list[Box]:
    islands = [
        Box([f"GPU {cpulist.format_list(island)}", _widths(topology, island)], "gpu", colour=colours[island[0]])
        for island in topology.islands
    ]
    heading = f"NVLink islands{parts.kind(topology)}"
    return [Box([heading], "legend", islands, PACKAGE_WIDTH)] if islands else []


def _widths(topology: NodeTopology, island: tuple[int, ...]) -> str:
    """How many links join two of an island's GPUs."""
    pairs = ((one, other) for one in island for other in island if one < other)
    found = sorted({links for one, other in pairs if (links := topology.nvlinks(one, other))})
    return " or ".join(f"NV{links}" for links in found)
