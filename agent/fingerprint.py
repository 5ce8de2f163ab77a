"""A cheap look that tells whether a full scan is due: what changes when hardware, drivers or huge pages do.

sysfs has no notifications and uevents need the host's network namespace, so this is read every few seconds. Nothing
in it flaps by itself: no link speeds, no free memory, no port states.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from kubenexus.agent.discovery.files import Files

NODES = "sys/devices/system/node"
PCI = "sys/bus/pci/devices"
NVIDIA = "proc/driver/nvidia"
# Displays, network cards and accelerators, by the first byte of their PCI class.
WATCHED_CLASSES = ("0x02", "0x03", "0x0b40", "0x12")


def fingerprint(root: str | os.PathLike[str] = "/") -> str:
    """Equal for equal machines; never raises for what it reads."""
    lines = (f"{name}={text}\n" for name, text in _facts(Files(root)))
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _facts(files: Files) -> Iterator[tuple[str, object]]:
    yield "cpus", files.text("sys/devices/system/cpu/online")
    yield "nodes", files.text(f"{NODES}/online")
    for _, node in files.numbered(NODES, "node"):
        meminfo = files.text(f"{node}/meminfo") or ""
        yield node, next((line.split()[-2:] for line in meminfo.splitlines() if "MemTotal" in line), None)
        for size in files.names(f"{node}/hugepages"):
            yield f"{node} {size}", files.text(f"{node}/hugepages/{size}/nr_hugepages")
    for name in files.names(PCI):
        if (files.text(f"{PCI}/{name}/class") or "").startswith(WATCHED_CLASSES):
            yield name, files.text(f"{PCI}/{name}/numa_node")
    for folder in ("sys/class/net", "sys/class/infiniband"):
        # Only names that are hardware: pods come and go with virtual ones.
        yield folder, [name for name in files.names(folder) if files.exists(f"{folder}/{name}/device")]
    yield "driver", files.text(f"{NVIDIA}/version")
    for gpu in files.names(f"{NVIDIA}/capabilities"):
        yield gpu, files.names(f"{NVIDIA}/capabilities/{gpu}/mig")
