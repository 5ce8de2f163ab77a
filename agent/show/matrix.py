"""The topology as `nvidia-smi topo -m` prints it: who reaches whom how, with CPU and NUMA affinity and a legend."""

from __future__ import annotations

from collections.abc import Sequence

from kubenexus.agent.show import parts
from kubenexus.common import cpulist
from kubenexus.common.topology import Gpu, Nic, NodeTopology, PairClass

NAMES = {
    "X": "X",
    PairClass.PIX: "PIX",
    PairClass.PXB: "PXB",
    PairClass.PHB: "PHB",
    PairClass.NODE: "NODE",
    PairClass.SYS: "SYS",
}
SWITCHED = {PairClass.PIX, PairClass.PXB}
LEGEND = """\
Legend:

  X    = Self
  SYS  = Over PCIe and the link between NUMA nodes
  NODE = Over PCIe and between PCIe host bridges of one NUMA node
  PHB  = Over PCIe and one PCIe host bridge
  PXB  = Over several PCIe switches, without the host bridge
  PIX  = Over a single PCIe switch
  NV#  = Over # bonded NVLinks
  ?    = Unknown"""


def matrix(topology: NodeTopology) -> str:
    """The whole page. Without GPUs there is no matrix to print, and the answer says so."""
    gpus, nics = topology.gpus or (), topology.nics or ()
    if not gpus:
        return _nothing(topology)
    header = ["", *_gpu_names(gpus), *_nic_names(nics), "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    rows = [header]
    rows += [_gpu_row(topology, gpu, gpus, nics) for gpu in gpus]
    rows += [_nic_row(nic, gpus, nics) for nic in nics]
    return f"{_align(rows)}\n\n{LEGEND}\n\n{_legend(nics)}".rstrip()


def _nothing(topology: NodeTopology) -> str:
    if topology.gpus is None:
        reasons = "; ".join(f"{fact}: {reason}" for fact, reason in sorted(topology.unknowns.items()))
        return f"Whether this machine has a GPU is unknown ({parts.clean(reasons)})."
    nodes, nics = parts.count(len(topology.cpu_nodes), "NUMA node"), parts.count(len(topology.nics or ()), "NIC")
    return f"No GPU on this machine (none was found); {nodes} with CPUs, {nics}."


def _gpu_names(gpus: Sequence[Gpu]) -> list[str]:
    return [f"GPU{gpu.index}" for gpu in gpus]


def _nic_names(nics: Sequence[Nic]) -> list[str]:
    return [f"NIC{nic.index}" for nic in nics]


def _gpu_row(topology: NodeTopology, gpu: Gpu, gpus: Sequence[Gpu], nics: Sequence[Nic]) -> list[str]:
    cells = [_between_gpus(topology, gpu.index, other.index) for other in gpus]
    cells += [_class_name(nic.gpu_classes, gpu.index) for nic in nics]
    affinity = [
        "" if gpu.cpus is None else cpulist.format_list(gpu.cpus),
        "" if gpu.numa is None else str(gpu.numa),
        "N/A" if gpu.memory_numa is None else str(gpu.memory_numa),
    ]
    return [parts.name(gpu), *cells, *affinity]


def _nic_row(nic: Nic, gpus: Sequence[Gpu], nics: Sequence[Nic]) -> list[str]:
    to_gpus = [_class_name(nic.gpu_classes, gpu.index) for gpu in gpus]
    return [f"NIC{nic.index}", *to_gpus, *(_between_nics(nic, other) for other in nics)]


def _between_gpus(topology: NodeTopology, one: int, other: int) -> str:
    if one == other:
        return "X"
    links = topology.nvlinks(one, other)
    if links:
        return f"NV{links}"
    known = topology.pair_class(one, other)
    return NAMES[known] if known else "?"


def _class_name(row: str | None, index: int) -> str:
    code = row[index] if row and index < len(row) else "?"
    return NAMES.get(code, "?")


def _between_nics(one: Nic, other: Nic) -> str:
    """From what their own facts tell: a NIC has no row for other NICs.

    What is below one root complex is joined by switches if both reach some GPU that way without the host bridge.
    """
    if one is other:
        return NAMES["X"]
    if one.pcie_root and one.pcie_root == other.pcie_root:
        if _card(one) == _card(other) or (one.pcie_switch and one.pcie_switch == other.pcie_switch):
            return NAMES[PairClass.PIX]
        ways = zip(one.gpu_classes or "", other.gpu_classes or "", strict=False)
        return NAMES[PairClass.PXB if any(set(way) <= SWITCHED for way in ways) else PairClass.PHB]
    if one.numa is None or other.numa is None:
        return "?"
    return NAMES[PairClass.NODE if one.numa == other.numa else PairClass.SYS]


def _card(nic: Nic) -> str:
    """The address without the function: the ports of one card share it."""
    return (nic.pci_bus_id or "").rpartition(".")[0]


def _align(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; shorter rows end where they end."""
    count = max(len(row) for row in rows)
    widths = [max(len(row[column]) for row in rows if column < len(row)) for column in range(count)]
    return "\n".join("  ".join(f"{cell:<{widths[i]}}" for i, cell in enumerate(row)).rstrip() for row in rows)


def _legend(nics: Sequence[Nic]) -> str:
    if not nics:
        return ""
    return "\n".join(["NIC Legend:", "", *(f"  NIC{nic.index}: {parts.clean(nic.name)}" for nic in nics)])
