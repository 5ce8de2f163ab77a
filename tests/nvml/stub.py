"""The stub of NVIDIA's library: built here, loaded by the real pynvml in the agent's real child process."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("stub.c")
SCENARIO = "NVML_SCENARIO"
LIBRARY = "libnvidia-ml.so.1"

GPU, NPU, SWITCH, UNKNOWN = 0, 1, 2, 255
"""What NVML calls the far end of a link."""
LOST, NOT_LOADED, MISMATCH, NO_PERMISSION = "!15", "!9", "!18", "!4"

Facts = dict[str, str | int]


def build(folder: Path, *defines: str) -> Path:
    """Compiles the library into a folder, which then serves as LD_LIBRARY_PATH."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("NO C COMPILER: nothing of NVML can be tested without one")
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{LIBRARY}"]
    macros = [f"-D{name}" for name in defines]
    subprocess.run([compiler, *flags, *macros, "-o", folder / LIBRARY, SOURCE], check=True)
    return folder


class Driver:
    """A driver for the processes that this one starts: a library, and a scenario that says what it answers."""

    def __init__(self, library: Path, scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._scenario = scenario
        monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
        monkeypatch.setenv(SCENARIO, str(scenario))

    def says(self, *facts: Mapping[str, str | int]) -> None:
        lines = [f"{key} {value}" for part in facts for key, value in part.items()]
        self._scenario.write_bytes("\n".join([*lines, ""]).encode(errors="surrogateescape"))


def machine(count: int, **facts: str | int) -> Facts:
    """The lines of a machine."""
    return {"count": count, "driver": "580.105.08", **facts}


def gpu(index: int, address: str, **facts: str | int) -> Facts:
    """The lines of one GPU; of the facts that are not given the usual ones."""
    usual: Facts = {
        "uuid": f"GPU-{index}",
        "name": "NVIDIA H100 80GB HBM3",
        "minor": index,
        "pci": address,
        "memory": 81559 << 20,
        "capability": "9.0",
        "architecture": 9,
        "pcie_gen": 5,
        "pcie_width": 16,
    }
    return {f"gpu{index}.{fact}": value for fact, value in {**usual, **facts}.items()}


def links(index: int, *ends: tuple[int, str], version: int = 6) -> Facts:
    """The lines of a GPU's active links: the kind and the address of each far end."""
    lines: Facts = {f"gpu{index}.links": len(ends)}
    for number, (kind, address) in enumerate(ends):
        link = f"gpu{index}.link{number}"
        lines |= {f"{link}.version": version, f"{link}.remote": kind, f"{link}.pci": address}
    return lines
