"""GPU machines that someone captured: what their matrix says, and how their devices would stand in sysfs.

Each reader gives a `Capture`. `write_tree` makes folders out of one, `scenario` a driver's answers. The matrix that
the agent then prints must be the captured one.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from kubenexus.common import cpulist
from tests import trees
from tests.nvml import stub
from tests.shared import shared_file

Matrix = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Device:
    """A GPU (`GPU0`) or a NIC (its kernel name), the path to it below sys/devices, and its NUMA node."""

    name: str
    path: str
    numa: int | None

    @property
    def is_gpu(self) -> bool:
        return self.name.startswith("GPU")

    @property
    def address(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass
class Capture:
    """`cells` by the names of row and column; `cpus` is each NUMA node's CPUs, `links` each GPU's far ends."""

    devices: list[Device]
    cells: Matrix
    cpus: dict[int, str]
    links: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    affinity: dict[str, tuple[str, str]] = field(default_factory=dict)
    """of each GPU: CPUs and NUMA node, as the capture prints them"""

    @property
    def gpus(self) -> list[Device]:
        return [device for device in self.devices if device.is_gpu]


def write_tree(capture: Capture, root: Path) -> Path:
    """The capture's machine as folders."""
    files: dict[str, str] = {}
    links: dict[str, str] = {}
    for id_, cpus in capture.cpus.items():
        distances = " ".join("10" if id_ == other else "20" for other in sorted(capture.cpus))
        files |= trees.node(id_, cpus, distances)
        for number in cpulist.parse(cpus):
            files |= {f"sys/devices/system/cpu/cpu{number}/topology/physical_package_id": str(id_)}
    for device in capture.devices:
        class_code, vendor = ("0x030200", "0x10de") if device.is_gpu else ("0x020700", "0x15b3")
        numa = -1 if device.numa is None else device.numa
        own, links_of = trees.function(device.path, class_code, vendor, numa_node=str(numa))
        files, links = files | own, links | links_of
        if not device.is_gpu:
            links[f"sys/class/infiniband/{device.name}/device"] = f"sys/devices/{device.path}"
    return trees.write(root, files, links)


def scenario(capture: Capture) -> list[stub.Facts]:
    """What NVML would say on that machine."""
    facts = [stub.machine(len(capture.gpus))]
    for index, device in enumerate(capture.gpus):
        facts.append(stub.gpu(index, device.address))
        facts.append(stub.links(index, *capture.links.get(device.name, ())))
    return facts


# --- nvidia-smi topo -m ----------------------------------------------------------------------------------------------


def read_matrix(text: str) -> tuple[Matrix, dict[str, tuple[str, str]]]:
    """Cells and affinities of a page in the manner of `nvidia-smi topo -m`, NICs by their name in the legend."""
    text = re.sub("\x1b\\[[0-9;]*m", "", text)
    names = dict(re.findall(r"^ *(NIC\d+): (\S+)$", text, re.MULTILINE))
    header, *rows = [line for line in text.split("\n\n")[0].splitlines() if line.strip()]
    columns = [word for word in header.split() if re.fullmatch(r"(GPU|NIC|mlx5_)\d+", word)]
    cells: Matrix = {}
    affinity: dict[str, tuple[str, str]] = {}
    for row in rows:
        name, *words = row.replace(" (lost)", "").split()
        for column, cell in zip(columns, words, strict=False):
            cells[names.get(name, name), names.get(column, column)] = cell
        if name.startswith("GPU"):
            affinity[name] = _affinity(words[len(columns) :])
    return cells, affinity


def _affinity(words: list[str]) -> tuple[str, str]:
    """CPUs, NUMA node and the node of the GPU's memory; an old page ends after the first, a container's lacks it."""
    if len(words) == 2:
        return "", words[0]
    return words[0], words[1] if len(words) > 1 else ""


def topo_capture(name: str) -> Capture:
    """A captured page, with folders that its classes follow from."""
    cells, affinity = read_matrix(shared_file(f"fixtures/gpu/{name}.topo.txt").read_text(encoding="utf-8"))
    names = list(dict.fromkeys(row for row, _ in cells))
    cpus = _cpus(affinity)
    numa = _numa_nodes(names, cells, affinity, cpus)
    devices = list(_place(names, cells, numa))
    by_name = {device.name: device for device in devices}
    gpus = [name for name in names if name.startswith("GPU")]
    return Capture(devices, cells, cpus, {gpu: list(_far_ends(gpu, gpus, cells, by_name)) for gpu in gpus}, affinity)


def _cpus(affinity: dict[str, tuple[str, str]]) -> dict[int, str]:
    """Each NUMA node's CPUs; a page without NUMA nodes has one for each set of CPUs."""
    sets = list(dict.fromkeys(cpus for cpus, _ in affinity.values()))
    found = {int(numa) if numa else sets.index(cpus): cpus for cpus, numa in affinity.values()}
    # CPUs that the container did not see are there nevertheless.
    return {id_: cpus or f"{500 + id_ * 10}-{509 + id_ * 10}" for id_, cpus in found.items()}


def _numa_nodes(
    names: list[str], cells: Matrix, affinity: dict[str, tuple[str, str]], cpus: dict[int, str]
) -> dict[str, int | None]:
    by_cpus = {text: id_ for id_, text in cpus.items()}
    found: dict[str, int | None] = {gpu: int(numa) if numa else by_cpus[text] for gpu, (text, numa) in affinity.items()}
    for nic in names:
        if nic in found:
            continue
        near = {found[gpu] for gpu in affinity if cells[nic, gpu] != "SYS"}
        if not near:  # it is on a node of its own
            cpus.setdefault(max(cpus) + 1, "900-909")
            near = {max(cpus)}
        found[nic] = near.pop() if len(near) == 1 else None
    return found


def _place(names: list[str], cells: Matrix, numa: dict[str, int | None]) -> Iterator[Device]:
    """A path for each device: devices at PIX share a switch, at PHB a root complex. GPUs sort before NICs."""
    switches, roots = _groups(names, cells, {"PIX"}), _groups(names, cells, {"PIX", "PHB"})
    for place, name in enumerate(names):
        root, switch = 0x10 * roots[name], switches[name]
        port = f"pci0000:{root:02x}/0000:{root:02x}:{switch % 32:02x}.0"
        downstream = f"0001:{0x80 + switch:02x}:00.0/0001:{0xC0 + switch:02x}:{place:02x}.0"
        yield Device(name, f"{port}/{downstream}/0002:{place:02x}:00.0", numa[name])


def _groups(names: list[str], cells: Matrix, classes: set[str]) -> dict[str, int]:
    """The number of each device's group: devices whose cell is one of these classes belong together."""
    group = {name: number for number, name in enumerate(names)}
    for one, other in combinations(names, 2):
        if cells[one, other] in classes:
            low, high = sorted((group[one], group[other]))
            group = {name: low if number == high else number for name, number in group.items()}
    return group


def _far_ends(gpu: str, gpus: list[str], cells: Matrix, devices: dict[str, Device]) -> Iterable[tuple[int, str]]:
    """Through switches all pairs have the same links; otherwise each link leads to its peer."""
    widths = {other: int(cells[gpu, other][2:]) for other in gpus if cells[gpu, other].startswith("NV")}
    if len(widths) == len(gpus) - 1 and len(set(widths.values())) == 1 and len(gpus) > 2:
        return [(stub.SWITCH, f"0:{0xE0 + number:x}:0") for number in range(min(widths.values()))]
    return [(stub.GPU, devices[other].address) for other, width in widths.items() for _ in range(width)]


# --- NCCL ------------------------------------------------------------------------------------------------------------


def nccl_capture(name: str, far_end: tuple[int, str], links: int) -> Capture:
    """A topology file of NCCL: switches as the cloud's engineers describe them; NVLink goes to switches out of sight.

    Each of its switches hangs on a root complex of its own.
    """
    system = ET.fromstring(shared_file(f"fixtures/gpu/{name}.nccl.xml").read_text(encoding="utf-8"))
    cpus = {int(cpu.attrib["numaid"]): _mask(cpu.attrib["affinity"]) for cpu in system.iter("cpu")}
    found = [
        (int(cpu.attrib["numaid"]), switch.attrib["busid"], end.attrib)
        for cpu in system.iter("cpu")
        for switch in cpu
        for end in switch
    ]
    found.sort(key=lambda item: item[2]["busid"])
    devices, switch_of, counts = [], {}, {"GPU": 0, "mlx5_": 0}
    for numa, switch, end in found:
        kind = "GPU" if end["class"].startswith("0x03") else "mlx5_"
        device = Device(f"{kind}{counts[kind]}", f"pci00{switch[-4:-2]}:00/{switch}/{end['busid']}", numa)
        counts[kind] += 1
        devices.append(device)
        switch_of[device.name] = switch
    cells = {(a.name, b.name): _nccl_cell(a, b, switch_of, links) for a in devices for b in devices}
    gpus = [device for device in devices if device.is_gpu]
    affinity = {gpu.name: (cpus[gpu.numa or 0], str(gpu.numa)) for gpu in gpus}
    return Capture(devices, cells, cpus, {gpu.name: [far_end] * links for gpu in gpus}, affinity)


def _nccl_cell(a: Device, b: Device, switch_of: dict[str, str], links: int) -> str:
    if a is b:
        return "X"
    if a.is_gpu and b.is_gpu:
        return f"NV{links}"
    if switch_of[a.name] == switch_of[b.name]:
        return "PIX"
    return "NODE" if a.numa == b.numa else "SYS"


def _mask(words: str) -> str:
    mask = int("".join(f"{int(word or '0', 16):08x}" for word in words.split(",")), 16)
    return cpulist.format_list(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


# --- hwloc -----------------------------------------------------------------------------------------------------------

LINK_BANDWIDTH = 20000
"""MB/s of one NVLink of the first version."""


def hwloc_capture(name: str) -> Capture:
    """A machine that hwloc exported, with its NVLink bandwidths between GPUs and processors."""
    topology = ET.fromstring(shared_file(f"fixtures/gpu/{name}.xml").read_text(encoding="utf-8"))
    cpus: dict[int, str] = {}
    devices: list[Device] = []
    ends: dict[str, tuple[int, str]] = {}
    for package in topology.iter("object"):
        if package.attrib["type"] != "Package":
            continue
        node = next(item for item in package if item.attrib.get("type") == "NUMANode")
        numa = int(node.attrib["os_index"])
        cpus[numa] = _mask(node.attrib["cpuset"].replace("0x", ""))
        ends[f"Package:{package.attrib['gp_index']}"] = (stub.NPU, "0:4:0")
        for path, gpu, index in _hwloc_gpus(package):
            devices.append(Device(f"GPU{len(devices)}", path, numa))
            ends[f"OSDev:{index}"] = (stub.GPU, gpu)
    names, bandwidth = _bandwidths(topology)
    links = {
        device.name: [ends[far] for far in names if far != near for _ in range(bandwidth[near, far] // LINK_BANDWIDTH)]
        for device, near in zip(devices, names, strict=False)
    }
    cells = {(a.name, b.name): _hwloc_cell(a, b, links) for a in devices for b in devices}
    affinity = {device.name: (cpus[device.numa or 0], str(device.numa)) for device in devices}
    return Capture(devices, cells, cpus, links, affinity)


def _hwloc_gpus(package: ET.Element) -> Iterator[tuple[str, str, str]]:
    """(path, address, index of the NVML device) of each GPU of a package."""
    for bridge in package:
        device = next((item for item in bridge.iter("object") if item.attrib["type"] == "PCIDev"), None)
        if bridge.attrib.get("type") != "Bridge" or device is None:
            continue
        ports = [item.attrib["pci_busid"] for item in bridge.iter("object") if "pci_busid" in item.attrib]
        nvml = next(item for item in device if item.attrib.get("subtype") == "NVML")
        domain, bus = bridge.attrib["bridge_pci"].split("-")[0].split(":[")
        yield f"pci{domain}:{bus}/{'/'.join(ports)}", device.attrib["pci_busid"], nvml.attrib["gp_index"]


def _bandwidths(topology: ET.Element) -> tuple[list[str], dict[tuple[str, str], int]]:
    matrix = next(item for item in topology.iter("distances2hetero") if item.attrib["name"] == "NVLinkBandwidth")
    names = "".join(item.text or "" for item in matrix.iter("indexes")).split()
    values = iter("".join(item.text or "" for item in matrix.iter("u64values")).split())
    return names, {(near, far): int(next(values)) for near in names for far in names}


def _hwloc_cell(a: Device, b: Device, links: dict[str, list[tuple[int, str]]]) -> str:
    if a is b:
        return "X"
    width = links[a.name].count((stub.GPU, b.address))
    if width:
        return f"NV{width}"
    return "NODE" if a.numa == b.numa else "SYS"
