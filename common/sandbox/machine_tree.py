"""Writing a synthetic machine as files: the parts of /sys and /proc that describe it, and NVML's answers beside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubenexus.common import cpulist
from kubenexus.common.sandbox.machines import GpuModel, Machine

NVML_FILE = "nvml.json"
_SYSTEM = "sys/devices/system"
_PCI = "sys/bus/pci/devices"
# NVML's word for a link whose far end is a switch.
_SWITCH = "switch"


def write_machine(machine: Machine, root: Path) -> None:
    """Fills the folder `root` with the machine."""
    for path, text in _files(machine):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    for path, target in _links(machine):
        link = root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(root / target, link.parent))


def _files(machine: Machine) -> Iterator[tuple[str, str]]:
    yield from _cpu_files(machine)
    yield from _numa_files(machine)
    for folder, function in _functions(machine):
        yield from ((f"{folder}/{name}", text) for name, text in function.items())
    yield from _nic_files(machine)
    yield "proc/meminfo", f"MemTotal: {machine.memory // 1024} kB"
    yield NVML_FILE, json.dumps(nvml_answer(machine))


def _cpu_files(machine: Machine) -> Iterator[tuple[str, str]]:
    cores = machine.cpu_count // machine.threads
    yield f"{_SYSTEM}/cpu/online", cpulist.format_list(range(machine.cpu_count))
    for numa in range(machine.numa_count):
        cpus = machine.cpus_of(numa)
        for cpu in cpus:
            folder = f"{_SYSTEM}/cpu/cpu{cpu}"
            siblings = [other for other in cpus if other % cores == cpu % cores]
            yield f"{folder}/topology/physical_package_id", str(machine.package_of(numa))
            yield f"{folder}/topology/core_cpus_list", cpulist.format_list(siblings)
            yield f"{folder}/cache/index3/level", "3"
            yield f"{folder}/cache/index3/shared_cpu_list", cpulist.format_list(sorted(cpus))


def _numa_files(machine: Machine) -> Iterator[tuple[str, str]]:
    nodes = [*range(machine.numa_count), *machine.memory_nodes]
    yield f"{_SYSTEM}/node/online", cpulist.format_list(nodes)
    for node in nodes:
        folder = f"{_SYSTEM}/node/node{node}"
        has_cpus = node < machine.numa_count
        memory = machine.memory_per_numa if has_cpus else (machine.gpu.memory if machine.gpu else 0)
        yield f"{folder}/cpulist", cpulist.format_list(sorted(machine.cpus_of(node))) if has_cpus else ""
        yield f"{folder}/meminfo", f"Node {node} MemTotal:       {memory // 1024} kB"
        yield f"{folder}/distance", " ".join(str(machine.distance(node, other)) for other in nodes)


def _switches(machine: Machine) -> Iterator[tuple[int, int, list[tuple[str, int]]]]:
    """(number, NUMA node, what hangs on it) of each PCIe switch: GPU i with NIC i, or one of them alone."""
    for number in range(max(len(machine.gpu_numa), len(machine.nic_numa))):
        here = [
            (kind, homes[number])
            for kind, homes in (("gpu", machine.gpu_numa), ("nic", machine.nic_numa))
            if number < len(homes)
        ]
        yield number, here[0][1], here


def _functions(machine: Machine) -> Iterator[tuple[str, dict[str, str]]]:
    """(folder, files) of every PCI function. Each switch hangs on a root complex of its own, as on these boards."""
    for number, numa, devices in _switches(machine):
        bus = _bus(number)
        port = f"sys/devices/pci{number:04x}:{bus:02x}/{_address(number, bus)}"
        link = _link_files(machine)
        bridge = {"class": "0x060400", "vendor": "0x1000", "numa_node": str(numa), **link}
        yield port, bridge
        upstream = f"{port}/{_address(number, bus + 1)}"
        yield upstream, bridge
        for place, (kind, _) in enumerate(devices):
            downstream = f"{upstream}/{_address(number, bus + 2, place)}"
            yield downstream, bridge
            yield (
                f"{downstream}/{_address(number, bus + 3 + place)}",
                {
                    "class": "0x030200" if kind == "gpu" else "0x020700",
                    "vendor": "0x10de" if kind == "gpu" else "0x15b3",
                    "numa_node": str(numa),
                    "local_cpulist": cpulist.format_list(sorted(machine.cpus_of(numa))),
                    **link,
                },
            )


def _bus(number: int) -> int:
    """The first bus of a switch, which has a PCI domain of its own."""
    return 0x10 * (number % 15 + 1)


def _address(domain: int, bus: int, device: int = 0) -> str:
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


def _link_files(machine: Machine) -> dict[str, str]:
    generation = machine.gpu.pcie_gen if machine.gpu else 5
    return {"max_link_speed": f"{2.0**generation:.1f} GT/s PCIe", "max_link_width": "16"}


def _nic_files(machine: Machine) -> Iterator[tuple[str, str]]:
    for index in range(len(machine.nic_numa)):
        port = f"sys/class/infiniband/mlx5_{index}/ports/1"
        yield f"{port}/state", "4: ACTIVE"
        yield f"{port}/link_layer", "InfiniBand"
        yield f"{port}/rate", f"{machine.nic_gbps} Gb/sec (4X NDR)"


def _links(machine: Machine) -> Iterator[tuple[str, str]]:
    for folder, function in _functions(machine):
        yield f"{_PCI}/{folder.rsplit('/', 1)[1]}", folder
        if function["class"] == "0x020700":
            number = int(folder.split("pci")[1][:4], 16)
            yield f"sys/class/infiniband/mlx5_{number}/device", folder


def nvml_answer(machine: Machine) -> dict[str, Any]:
    """What the agent's NVML probe would print on this machine."""
    model = machine.gpu
    if model is None:
        return {"status": "absent", "reason": "this machine has no GPU"}
    gpus = [_nvml_gpu(machine, model, index) for index in range(len(machine.gpu_numa))]
    return {"status": "ok", "driver": model.driver, "gpus": gpus}


def _nvml_gpu(machine: Machine, model: GpuModel, index: int) -> dict[str, Any]:
    link = {"version": model.nvlink_version, "remote": _SWITCH, "pci": None}
    return {
        "uuid": f"GPU-00000000-0000-4000-8000-{index:012x}",
        "minor": index,
        "name": model.product,
        "pci": [index, _bus(index) + 3, 0],
        "memory": model.memory,
        "capability": list(model.capability),
        "architecture": model.architecture,
        "memory_affinity": [machine.gpu_numa[index]],
        "gpu_memory_numa": machine.memory_nodes[index] if machine.memory_nodes else None,
        "pcie_gen": model.pcie_gen,
        "pcie_width": 16,
        "mig": False,
        "clique": model.clique,
        "links": [link] * model.links,
        "error": None,
    }
