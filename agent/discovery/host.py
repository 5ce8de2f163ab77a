"""What only people want to know of a host: the name of its CPU, and when it booted. Never part of a topology."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import psutil

from kubenexus.agent.discovery.files import Files
from kubenexus.common.topology import NodeTopology

# py-cpuinfo starts programs and reads the CPU's registers, which takes a second or more.
BRAND_SECONDS = 5.0
# Firmware and kernel reserve a little differently for each count; more than this is a contradiction.
MEMORY_TOLERANCE = 0.05


def describe(files: Files) -> str:
    """The machine's title: `AMD EPYC 9654, booted 2026-11-17 05:16 UTC`; of a captured one what its files tell."""
    live = str(files.root) == "/"
    words = [_brand(files) or (_asked_brand() if live else None), f"booted {_boot_time()}" if live else None]
    return ", ".join(word for word in words if word) or "Machine"


def memory_doubt(files: Files, topology: NodeTopology) -> str | None:
    """A sentence, if the NUMA nodes of this very machine do not add up to the memory that the kernel counts."""
    amounts = [node.memory for node in topology.numa or ()]
    if str(files.root) != "/" or None in amounts:
        return None
    listed, counted = sum(amount or 0 for amount in amounts), psutil.virtual_memory().total
    if abs(listed - counted) <= counted * MEMORY_TOLERANCE:
        return None
    return f"the NUMA nodes have {listed} bytes together, and the kernel counts {counted}"


def _boot_time() -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(psutil.boot_time()))


def _brand(files: Files) -> str | None:
    """The first CPU's name; x86 has a `model name`, POWER a `cpu`, and ARM often neither."""
    match = re.search(r"^(?:model name|cpu)\s*: (.+)$", files.text("proc/cpuinfo") or "", re.MULTILINE)
    return " ".join(match[1].split()) if match else None


def _asked_brand() -> str | None:
    command = [sys.executable, "-P", "-m", "cpuinfo", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=BRAND_SECONDS, check=True)
        brand = json.loads(done.stdout).get("brand_raw")
    except (OSError, ValueError, AttributeError, subprocess.SubprocessError):
        return None
    return brand if isinstance(brand, str) and brand else None
