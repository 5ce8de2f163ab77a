"""Folders that look like a machine's /sys and /proc: captured ones, and ones written for a test."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.shared import SHARED, shared_file

CAPTURES = (
    "128arm-2pa2n8cluster4co",
    "16em64t-4s2c2t-offlines",
    "32em64t-2n8c+dax+nvme+mic+dimms",
    "fakeheteromemtiers",
    "ghw-vm-1gpu-nvidia",
    "nri-2socket-4node-snc2-hugepages",
)


# A capture has ten thousand files and more, most of which say nothing about topology.
_TELLING = re.compile(
    r"(^|/)(proc/(meminfo|cpuinfo)"
    r"|cpu/(online|cpu\d+/(online|topology/(physical|core_cpus|thread).*|cache/index[23]/(level|shared_cpu_.*)))"
    r"|node/(\w+|node\d+/(cpu(list|map)|distance|meminfo|hugepages/.*/nr_.*|access\d/initiators/.*))"
    r"|bus/pci/devices/[^/]*|class/(net|infiniband)/.*"
    r"|[0-9a-f]+:[0-9a-f]+:[0-9a-f]+\.\d/(class|vendor|numa_node|local_cpulist|max_link_\w+|physfn)"
    r"|(net|infiniband)/[^/]+/(device|operstate|speed|ports/\d/(state|rate|link_layer)))$"
)
_unpacked: dict[str, Path] = {}


def unpack(name: str, factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The root of a captured machine, for reading only, and the facts that an independent reader found in it."""
    facts = json.loads(shared_file(f"fixtures/sysfs/expected/{name}.facts.json").read_text(encoding="utf-8"))
    if name not in _unpacked:
        _unpacked[name] = factory.mktemp("capture")
        archive = next((SHARED / "fixtures" / "sysfs").glob(f"{name}.tar.*"))
        with tarfile.open(archive) as tar:
            wanted = [member for member in tar if not member.isdir() and _TELLING.search(member.name)]
            tar.extractall(_unpacked[name], wanted, filter="fully_trusted")
    return _unpacked[name] / facts["root_in_tar"], facts


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
