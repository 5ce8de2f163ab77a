"""The topology as a tree of text: packages, NUMA nodes, CPUs, and the devices on their PCIe switches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kubenexus.agent.show import parts
from kubenexus.common import cpulist
from kubenexus.common.topology import NodeTopology, NumaNode


@dataclass(slots=True)
class Branch:
    """A line and what stands below it."""

    text: str
    below: list[Branch] = field(default_factory=list)


def tree(topology: NodeTopology, title: str = "Machine") -> str:
    """The whole page: the machine, then its NVLink islands and what is unknown."""
    lines = [*_draw(_machine(topology, title)), *_footer(topology)]
    return "\n".join(map(parts.clean, lines))


def _machine(topology: NodeTopology, title: str) -> Branch:
    below = [Branch(name, [_node(topology, node) for node in nodes]) for name, nodes in parts.packages(topology)]
    below += [_node(topology, node) for node in topology.memory_nodes]
    unplaced = _devices(topology, None)
    if unplaced:
        below.append(Branch("NUMA node unknown", unplaced))
    return Branch(f"{title} ({parts.summary(topology)})", below)


def _node(topology: NodeTopology, node: NumaNode) -> Branch:
    facts = [parts.memory(node)]
    if node.hugepages_2mi:
        facts.append(f"{node.hugepages_2mi} × 2 MiB pages")
    if node.hugepages_1gi:
        facts.append(f"{node.hugepages_1gi} × 1 GiB pages")
    if node.memory_only:
        facts.append("no CPUs" if node.nearest_cpu_node is None else f"nearest CPUs: node {node.nearest_cpu_node}")
    cpus = [] if node.memory_only else [_cpus(node)]
    return Branch(f"NUMA node {node.id} ({', '.join(facts)})", [*cpus, *_devices(topology, node.id)])


def _cpus(node: NumaNode) -> Branch:
    if node.cpus is None:
        return Branch("CPUs unknown" if node.cpu_count is None else f"{node.cpu_count} CPUs")
    facts = [str(len(node.cpus))]
    if node.threads_per_core:
        facts.append(f"{parts.count(node.threads_per_core, 'thread')} per core")
    if node.l3_count:
        facts.append(f"{node.l3_count} × L3")
    if (node.die_count or 1) > 1:
        facts.append(f"{node.die_count} dies")
    # On most machines every core is a cluster of its own, which is no news.
    if 1 < (node.cluster_count or 1) < len(node.cpus) // (node.threads_per_core or 1):
        facts.append(f"{node.cluster_count} clusters")
    return Branch(f"CPUs {cpulist.format_list(node.cpus)} ({', '.join(facts)})")


def _devices(topology: NodeTopology, numa: int | None) -> list[Branch]:
    return [
        Branch(f"PCIe root {root}", [branch for group in groups for branch in _switch(*group)])
        for root, groups in parts.roots(topology, numa)
    ]


def _switch(switch: str | None, devices: list[parts.Device]) -> list[Branch]:
    leaves = [Branch(_leaf(device)) for device in devices]
    return leaves if switch is None else [Branch(f"switch {switch}", leaves)]


def _leaf(device: parts.Device) -> str:
    known = ", ".join(parts.facts(device))
    return f"{parts.name(device)} {device.pci_bus_id or '?'}" + (f" ({known})" if known else "")


def _draw(branch: Branch, lead: str = "", joint: str = "") -> Iterator[str]:
    yield lead + joint + branch.text
    lead += {"": "", "├─ ": "│  ", "└─ ": "   "}[joint]
    for number, below in enumerate(branch.below, 1):
        yield from _draw(below, lead, "└─ " if number == len(branch.below) else "├─ ")


def _footer(topology: NodeTopology) -> Iterator[str]:
    for number, island in enumerate(topology.islands):
        yield f"NVLink island {number}{parts.kind(topology)}: GPU {cpulist.format_list(island)}"
    for fact, reason in sorted(topology.unknowns.items()):
        yield f"unknown: {fact}: {reason}"
