"""What one node is made of: NUMA nodes, GPUs and NICs, how far they are from each other, and which GPUs NVLink joins.

A `NodeTopology` is a value: frozen, comparable, in canonical order whatever order its parts were found in. A fact that
could not be read is `None`, never 0 or -1, and `unknowns` may say why (`gpu-3.numaNode` → reason). Ids are the kernel's
and the driver's own, sparse or not. How it travels is the matter of `wire`.

Relations are rows, one per device, as the kernel and the driver tell them. `NumaNode.distances` has one entry for each
NUMA node in ascending id order. `Gpu.peer_links`, `Gpu.peer_classes` and `Nic.gpu_classes` have one character for each
GPU index from 0 to the highest: a base-36 number of NVLinks, or the code of a `PairClass` (`?` where unknown).
"""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

UNKNOWN_CLASS = "?"

_Entry = TypeVar("_Entry")


class PairClass(StrEnum):
    """What lies between two devices, closest first; the value is its code in a row."""

    SELF = "X"
    PIX = "I"
    """one PCIe switch"""
    PXB = "B"
    """several PCIe switches"""
    PHB = "H"
    """a PCIe root complex"""
    NODE = "N"
    """root complexes of one NUMA node"""
    SYS = "S"
    """the link between NUMA nodes"""


class NvlinkKind(StrEnum):
    """How NVLink joins the GPUs of a node."""

    NVSWITCH = "nvswitch"
    MESH = "mesh"
    PAIRS = "pairs"
    NONE = "none"


class Health(StrEnum):
    OK = "ok"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """A NUMA node. `cpu_count` follows from `cpus` where these are known; a node of memory alone has no CPUs: `()`."""

    id: int
    cpus: tuple[int, ...] | None = None
    cpu_count: int | None = None
    threads_per_core: int | None = None
    l3_count: int | None = None
    die_count: int | None = None
    cluster_count: int | None = None
    package: int | None = None
    memory: int | None = None
    """bytes"""
    hugepages_2mi: int | None = None
    """pages, as below"""
    hugepages_1gi: int | None = None
    read_bandwidth: int | None = None
    """MB/s from the best CPUs"""
    read_latency: int | None = None
    """ns from the best CPUs"""
    distances: tuple[int | None, ...] | None = None
    nearest_cpu_node: int | None = None
    """for a node without CPUs"""

    def __post_init__(self) -> None:
        if self.cpus is not None:
            object.__setattr__(self, "cpu_count", len(self.cpus))

    @property
    def memory_only(self) -> bool:
        return self.cpu_count == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as the PCI bus and the driver know it. A lost one keeps its index and the facts that PCI still tells."""

    index: int
    minor: int | None = None
    uuid: str | None = None
    product: str | None = None
    architecture: str | None = None
    compute_capability: str | None = None
    driver: str | None = None
    memory: int | None = None
    """bytes"""
    numa: int | None = None
    """NUMA node of the host side; always one with CPUs"""
    numa_source: str | None = None
    memory_numa: int | None = None
    """NUMA node made of this GPU's own memory (Grace, POWER9)"""
    cpus: tuple[int, ...] | None = None
    pci_bus_id: str | None = None
    pcie_root: str | None = None
    pcie_switch: str | None = None
    pcie_gen: int | None = None
    pcie_width: int | None = None
    nvlink_version: str | None = None
    nvlinks: int | None = None
    """active links, wherever they lead"""
    peer_links: str | None = None
    peer_classes: str | None = None
    p2p: str | None = None
    """one character for each GPU index: 1 reads that one's memory directly, 0 does not, ? nobody knows"""
    fabric_clique: str | None = None
    mig: bool | None = None
    health: Health | None = None

    @property
    def usable(self) -> bool:
        """Not known to be lost."""
        return self.health is not Health.LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A network card's PCI function, as the kernel's net and InfiniBand classes know it."""

    index: int
    rdma_name: str | None = None
    if_name: str | None = None
    link_layer: str | None = None
    rate_gbps: int | None = None
    numa: int | None = None
    pci_bus_id: str | None = None
    pcie_root: str | None = None
    pcie_switch: str | None = None
    gpu_classes: str | None = None

    @property
    def name(self) -> str:
        return self.rdma_name or self.if_name or f"nic{self.index}"

    @property
    def nearest_gpus(self) -> tuple[int, ...]:
        """The GPUs at the smallest known distance."""
        row = self.gpu_classes or ""
        best = next((code for code in PairClass if code in row), None)
        return tuple(index for index, code in enumerate(row) if code == best)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTopology:
    """One node. `gpus=None` means nobody looked or the look failed; `gpus=()` means there are none."""

    numa: tuple[NumaNode, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None
    nics: tuple[Nic, ...] | None = None
    threads_per_core: int | None = None
    """the most of any core"""
    l3_count: int | None = None
    """of the machine: under sub-NUMA clustering several NUMA nodes share one, so theirs do not add up to it"""
    nvlink: NvlinkKind | None = None
    unknowns: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.numa is not None:
            object.__setattr__(self, "numa", tuple(sorted(self.numa, key=lambda node: node.id)))
        if self.gpus is not None:
            object.__setattr__(self, "gpus", tuple(sorted(self.gpus, key=lambda gpu: gpu.index)))
        if self.nics is not None:
            object.__setattr__(self, "nics", tuple(sorted(self.nics, key=lambda nic: nic.index)))

    @property
    def cpu_nodes(self) -> tuple[NumaNode, ...]:
        """The NUMA nodes that work is placed on: all but those known to have no CPUs."""
        return tuple(node for node in self.numa or () if not node.memory_only)

    @property
    def memory_nodes(self) -> tuple[NumaNode, ...]:
        return tuple(node for node in self.numa or () if node.memory_only)

    @property
    def usable_gpus(self) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.gpus or () if gpu.usable)

    @property
    def snc(self) -> int | None:
        """The most CPU nodes in one package (sub-NUMA clustering, NPS); `None` while a package is unknown."""
        counts: defaultdict[int, int] = defaultdict(int)
        for node in self.cpu_nodes:
            if node.package is None:
                return None
            counts[node.package] += 1
        return max(counts.values(), default=None)

    @property
    def gpus_by_numa(self) -> dict[int | None, tuple[int, ...]]:
        """Indices of usable GPUs by host NUMA node; those whose node is unknown under `None`."""
        groups: defaultdict[int | None, list[int]] = defaultdict(list)
        for gpu in self.usable_gpus:
            groups[gpu.numa].append(gpu.index)
        return {numa: tuple(indices) for numa, indices in groups.items()}

    @property
    def islands(self) -> tuple[tuple[int, ...], ...]:
        """Sets of two or more usable GPUs that NVLink joins, directly or through each other, by lowest index."""
        return islands(self.gpus or ())

    def gpu(self, index: int) -> Gpu | None:
        return next((gpu for gpu in self.gpus or () if gpu.index == index), None)

    def distance(self, near: int, far: int) -> int | None:
        """The firmware's distance from one NUMA node to another (10 is local); tables need not be symmetric."""
        nodes = self.numa or ()
        rows = (node.distances for node in nodes if node.id == near)
        columns = (column for column, node in enumerate(nodes) if node.id == far)
        return _cell(next(rows, None), next(columns, None))

    def pair_class(self, one: int, other: int) -> PairClass | None:
        """What lies between two GPUs on PCIe, from the row of either."""
        for here, there in ((one, other), (other, one)):
            gpu = self.gpu(here)
            known = gpu and _class_at(gpu.peer_classes, there)
            if known:
                return known
        return None

    def nvlinks(self, one: int, other: int) -> int | None:
        """How many NVLinks join two GPUs: none where one is lost, `None` where nobody knows."""
        first, second = self.gpu(one), self.gpu(other)
        return links_between(first, second) if first and second else None

    def nics_near(self, gpu: int) -> tuple[Nic, ...]:
        """The NICs at the smallest known distance from a GPU."""
        nics = self.nics or ()
        best = next((code for code in PairClass if any(_class_at(nic.gpu_classes, gpu) is code for nic in nics)), None)
        return tuple(nic for nic in nics if best and _class_at(nic.gpu_classes, gpu) is best)


def link_row(counts: Iterable[int]) -> str:
    """Numbers of NVLinks as a row; a digit ends at 35, beyond any GPU that exists."""
    return "".join(string.digits[n] if n < 10 else string.ascii_lowercase[min(n, 35) - 10] for n in counts)


def links_between(one: Gpu, other: Gpu) -> int | None:
    """How many NVLinks join two GPUs: none where one is lost, `None` where neither row tells."""
    if not (one.usable and other.usable):
        return 0
    for row, column in ((one.peer_links, other.index), (other.peer_links, one.index)):
        digit = _cell(row, column)
        if digit is not None:
            return int(digit, 36)
    return None


def islands(gpus: Sequence[Gpu]) -> tuple[tuple[int, ...], ...]:
    """See `NodeTopology.islands`."""
    left = [gpu for gpu in gpus if gpu.usable]
    found = []
    while left:
        island = [left.pop(0)]
        for member in island:
            island += [gpu for gpu in left if links_between(member, gpu)]
            left = [gpu for gpu in left if not links_between(member, gpu)]
        found.append(tuple(sorted(gpu.index for gpu in island)))
    return tuple(sorted(island for island in found if len(island) > 1))


def nvlink_kind(gpus: Sequence[Gpu], *, switched: bool | None = None) -> NvlinkKind | None:
    """How NVLink joins these GPUs, or `None` where their rows do not tell.

    `switched` says whether links were seen to end in switches. Without that it shows in the numbers: through a switch
    the same links lead to every peer, so a GPU has more links to peers than links. Two GPUs alone leave it open.
    """
    usable = [gpu for gpu in gpus if gpu.usable]
    if not usable or any(gpu.peer_links is None for gpu in usable):
        return None
    joined = islands(usable)
    if not joined:
        return NvlinkKind.NONE
    if switched is None:
        switched = _shows_switch(usable, joined)
    if switched is None:
        return None
    if switched:
        return NvlinkKind.NVSWITCH
    return NvlinkKind.MESH if any(len(island) > 2 for island in joined) else NvlinkKind.PAIRS


def _shows_switch(gpus: Sequence[Gpu], joined: Sequence[Sequence[int]]) -> bool | None:
    if all(len(island) == 2 for island in joined):
        return None if len(joined) == 1 else False
    if any(gpu.nvlinks is None for gpu in gpus):
        return None
    to_peers = {gpu.index: sum(links_between(gpu, peer) or 0 for peer in gpus if peer is not gpu) for gpu in gpus}
    return any(to_peers[gpu.index] > (gpu.nvlinks or 0) for gpu in gpus)


def _class_at(row: str | None, column: int) -> PairClass | None:
    code = _cell(row, column)
    return None if code is None or code == UNKNOWN_CLASS else PairClass(code)


def _cell(row: Sequence[_Entry] | None, column: int | None) -> _Entry | None:
    return row[column] if row is not None and column is not None and 0 <= column < len(row) else None
