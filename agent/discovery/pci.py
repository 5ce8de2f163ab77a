"""The PCI tree: where each function hangs, how fast its link is, and how two of them reach each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from kubenexus.agent.discovery.files import Files
from kubenexus.common.topology import UNKNOWN_CLASS, PairClass

DEVICES = "sys/bus/pci/devices"

NVIDIA, AMD, INTEL = 0x10DE, 0x1002, 0x8086
DISPLAY, DISPLAY_3D, DISPLAY_OTHER, ACCELERATOR = 0x0300, 0x0302, 0x0380, 0x1200
# A VGA function of another vendor is the console of the machine's management board, and Intel's is on the CPU.
GPU_CLASSES = {
    NVIDIA: {DISPLAY, DISPLAY_3D, DISPLAY_OTHER},
    AMD: {DISPLAY_3D, DISPLAY_OTHER, ACCELERATOR},
    INTEL: {DISPLAY_3D, DISPLAY_OTHER, ACCELERATOR},
}

# VMD controllers and Hyper-V use domains of more than four digits.
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.IGNORECASE)
# Transfer rate of a lane in GT/s → PCIe generation.
_GENERATIONS = {2.5: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6, 128: 7}
# The kernel prints 0 or 255 where the register makes no sense.
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)


def address(domain: int, bus: int, device: int, function: int = 0) -> str:
    """The kernel's spelling, which NVML's `00000000:1B:00.0` is turned into."""
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One function. `root` is its root complex (`pci0000:17`), `bridges` the ports above it, outermost first."""

    address: str
    root: str | None
    bridges: tuple[str, ...]
    class_code: int | None
    vendor: int | None
    numa: int | None
    local_cpus: tuple[int, ...] | None
    generation: int | None
    width: int | None
    is_virtual: bool

    @property
    def switch(self) -> str | None:
        """The upstream port of the nearest switch: above a device stands a downstream port, above that the upstream.

        The outermost bridge is a root port, which is no switch.
        """
        return self.bridges[-2] if len(self.bridges) >= 3 else None

    @property
    def is_gpu(self) -> bool:
        return not self.is_virtual and self.class_code in GPU_CLASSES.get(self.vendor or 0, ())


class PciTree:
    """All functions of a machine by address."""

    def __init__(self, devices: Iterable[PciDevice]) -> None:
        self.devices: Mapping[str, PciDevice] = {device.address: device for device in devices}

    @cached_property
    def gpus(self) -> tuple[PciDevice, ...]:
        """Physical GPUs in the order of their addresses, which is NVML's order too."""
        found = (device for device in self.devices.values() if device.is_gpu)
        return tuple(sorted(found, key=lambda device: sort_key(device.address)))

    def bridge_numa(self, device: PciDevice) -> int | None:
        """The NUMA node that the nearest bridge above the device claims."""
        above = (self.devices.get(bridge) for bridge in reversed(device.bridges))
        return next((bridge.numa for bridge in above if bridge and bridge.numa is not None), None)


def pair_class(a: PciDevice, b: PciDevice, numa_a: int | None, numa_b: int | None) -> str:
    """How two functions reach each other: the code of a `PairClass`, or `?` where nobody knows."""
    if a.root is not None and a.root == b.root:
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a.bridges, b.bridges, strict=False)))
        if not shared:
            return PairClass.PHB
        return PairClass.PIX if max(len(a.bridges), len(b.bridges)) - shared <= 1 else PairClass.PXB
    if numa_a is None or numa_b is None:
        return UNKNOWN_CLASS
    if numa_a != numa_b:
        return PairClass.SYS
    # Two devices of one NUMA node may be closer than that; without their roots it cannot be told.
    return PairClass.NODE if a.root and b.root else UNKNOWN_CLASS


def sort_key(address: str) -> tuple[int, ...]:
    match = _ADDRESS.fullmatch(address)
    return tuple(int(part, 16) for part in match.groups()) if match else ()


def read_tree(files: Files) -> PciTree:
    names = [name for name in files.names(DEVICES) if _ADDRESS.fullmatch(name)]
    return PciTree(_read_device(files, name) for name in names)


def _read_device(files: Files, name: str) -> PciDevice:
    folder = f"{DEVICES}/{name}"
    parts = files.resolve(folder).split("/")
    class_code = files.number(f"{folder}/class")
    above = [part for part in parts[:-1] if _ADDRESS.fullmatch(part)]
    port = "/".join(parts[:-1]) if above and above[-1] == parts[-2] else None
    ends = [_end(files, end) for end in (folder, port) if end]
    return PciDevice(
        address=name.lower(),
        root=next((part for part in parts if _ROOT.fullmatch(part)), None),
        bridges=tuple(part.lower() for part in above),
        class_code=None if class_code is None else class_code >> 8,
        vendor=files.number(f"{folder}/vendor"),
        numa=files.number(f"{folder}/numa_node"),
        local_cpus=files.cpus(f"{folder}/local_cpulist"),
        generation=min((generation for generation, _ in ends if generation), default=None),
        width=min((width for _, width in ends if width), default=None),
        is_virtual=files.exists(f"{folder}/physfn"),
    )


def _end(files: Files, folder: str) -> tuple[int | None, int | None]:
    """Generation and width that one end of a link can do. The current ones fall when idle."""
    speed = re.match(r"([0-9]{1,3}(?:\.[0-9])?) GT/s", files.text(f"{folder}/max_link_speed") or "")
    width = files.number(f"{folder}/max_link_width")
    return _GENERATIONS.get(float(speed[1])) if speed else None, width if width in _WIDTHS else None
