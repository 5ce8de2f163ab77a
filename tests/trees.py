"""Folders that look like a machine's /sys and /proc: captured ones, and ones written for a test."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.shared import SHARED, shared_file

CAPTURES = (
    "128arm-2pa2n8cluster4co",
    "16em64t-4s2c2t-offlines",
    "32em64t-2n8c+dax+nvme+mic+dimms",
    "fakeheteromemtiers",
    "ghw-vm-1gpu-nvidia",
    "nri-2socket-4node-snc2-hugepages",
)


def unpack(name: str, into: Path) -> tuple[Path, dict[str, Any]]:
    """A captured machine's root below `into`, and the facts that an independent reader found in it."""
    facts = json.loads(shared_file(f"fixtures/sysfs/expected/{name}.facts.json").read_text(encoding="utf-8"))
    archive = next((SHARED / "fixtures" / "sysfs").glob(f"{name}.tar.*"), None) or shared_file(f"{name}.tar")
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="tar")
    return into / facts["root_in_tar"], facts


def write(root: Path, files: Mapping[str, str | bytes], links: Mapping[str, str] | None = None) -> Path:
    """Writes files and links (path → target, both below the root) and returns the root."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else f"{text}\n".encode())
    for path, target in (links or {}).items():
        link = root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(root / target, link.parent))
    return root


def cpu(number: int, package: int, siblings: str, l3: str) -> dict[str, str]:
    """The files of one online CPU."""
    folder = f"sys/devices/system/cpu/cpu{number}"
    return {
        f"{folder}/topology/physical_package_id": str(package),
        f"{folder}/topology/core_cpus_list": siblings,
        f"{folder}/cache/index3/level": "3",
        f"{folder}/cache/index3/shared_cpu_list": l3,
    }


def node(number: int, cpus: str, distance: str, kilobytes: int = 1024) -> dict[str, str]:
    """The files of one NUMA node."""
    folder = f"sys/devices/system/node/node{number}"
    return {
        f"{folder}/cpulist": cpus,
        f"{folder}/distance": distance,
        f"{folder}/meminfo": f"Node {number} MemTotal:       {kilobytes} kB\nNode {number} MemFree: 1 kB",
    }


def function(path: str, class_code: str, vendor: str = "0x8086", **files: str) -> tuple[dict[str, str], dict[str, str]]:
    """Files and links of a PCI function at `path` below sys/devices; `files` are more files of it."""
    folder = f"sys/devices/{path}"
    own = {"class": class_code, "vendor": vendor, **files}
    address = path.rsplit("/", 1)[-1]
    return {f"{folder}/{name}": text for name, text in own.items()}, {f"sys/bus/pci/devices/{address}": folder}
