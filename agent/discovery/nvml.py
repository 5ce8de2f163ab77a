"""Asking NVML through its child process: an answer in bounded time, whatever the driver does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubenexus.agent.discovery import pci

# With persistence mode off a driver wakes each GPU for the question, a second or two a GPU.
TIMEOUT_SECONDS = 25.0
RECORDING = "nvml.json"


@dataclass(frozen=True, slots=True)
class NvmlLink:
    """An active NVLink: where it leads (`gpu`, `npu`, `switch`) and to which PCI address, as far as NVML tells."""

    version: int | None = None
    remote: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class NvmlGpu:
    """What NVML tells of one GPU. `links` is empty for a GPU without NVLink and None where nobody knows."""

    index: int | None = None
    address: str | None = None
    uuid: str | None = None
    minor: int | None = None
    name: str | None = None
    memory: int | None = None
    capability: tuple[int, ...] = ()
    architecture: int | None = None
    memory_affinity: tuple[int, ...] = ()
    gpu_memory_numa: int | None = None
    pcie_gen: int | None = None
    pcie_width: int | None = None
    mig: bool | None = None
    clique: str | None = None
    links: tuple[NvmlLink, ...] | None = None
    error_code: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class NvmlAnswer:
    """`status`: ok, absent (no driver: not an error), error, hung, crashed or off. `reason` is for people."""

    status: str
    reason: str = ""
    driver: str | None = None
    gpus: tuple[NvmlGpu, ...] = ()
    ancestors: tuple[tuple[int | None, ...], ...] = ()
    p2p: tuple[tuple[int | None, ...], ...] = ()


OFF = NvmlAnswer("off", "NVML was not asked")


def recorded_or_asked(root: Path) -> NvmlAnswer:
    """The answers kept beside a captured machine (what the probe printed there), else those of this one."""
    try:
        return decode((root / RECORDING).read_bytes())
    except FileNotFoundError:
        return ask_nvml()
    except OSError as error:
        return NvmlAnswer("error", f"{RECORDING} cannot be read: {error.strerror}")


def ask_nvml(timeout: float = TIMEOUT_SECONDS) -> NvmlAnswer:
    """Runs the probe; the environment passes through, so that LD_LIBRARY_PATH chooses the driver's library."""
    command = [sys.executable, "-P", "-m", "kubenexus.agent.discovery.nvml_probe"]
    try:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError as error:
        return NvmlAnswer("error", f"the NVML probe did not start ({error})")
    try:
        output, _ = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _abandon(child)
        return NvmlAnswer("hung", f"NVML gave no answer within {timeout:g} s")
    if child.returncode:
        return NvmlAnswer("crashed", f"the NVML probe ended with {_ending(child.returncode)}")
    return decode(output)


def _abandon(child: subprocess.Popen[bytes]) -> None:
    """Kills the child; one that hangs inside the kernel cannot be waited for, and init will reap it."""
    child.kill()
    try:
        child.communicate(timeout=1)
    except subprocess.TimeoutExpired:
        if child.stdout:
            child.stdout.close()


def _ending(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


def decode(output: bytes) -> NvmlAnswer:
    """What the probe printed, here or, in a recording, elsewhere."""
    try:
        facts = _Facts(json.loads(output))
    except (ValueError, RecursionError) as error:
        return NvmlAnswer("crashed", f"the NVML probe printed no answer ({error})")
    return NvmlAnswer(
        status=facts.text("status") or "crashed",
        reason=facts.text("reason") or "",
        driver=facts.text("driver"),
        gpus=tuple(_gpu(index, gpu) for index, gpu in enumerate(facts.parts("gpus") or ())),
        ancestors=_matrix(facts, "ancestors"),
        p2p=_matrix(facts, "p2p"),
    )


def _matrix(facts: _Facts, key: str) -> tuple[tuple[int | None, ...], ...]:
    return tuple(tuple(map(_number, row)) for row in facts.items(key) if isinstance(row, list))


class _Facts:
    """A JSON object that someone may have edited: whatever has not the right type is unknown."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw if isinstance(raw, dict) else {}

    def text(self, name: str) -> str | None:
        value = self._raw.get(name)
        # Half of a surrogate pair is JSON but not text that anybody could print.
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value else None

    def number(self, name: str) -> int | None:
        return _number(self._raw.get(name))

    def flag(self, name: str) -> bool | None:
        value = self._raw.get(name)
        return value if isinstance(value, bool) else None

    def items(self, name: str) -> list[Any]:
        value = self._raw.get(name)
        return value if isinstance(value, list) else []

    def numbers(self, name: str) -> tuple[int, ...]:
        return tuple(number for number in map(_number, self.items(name)) if number is not None)

    def parts(self, name: str) -> list[_Facts] | None:
        value = self._raw.get(name)
        return [_Facts(item) for item in value] if isinstance(value, list) else None

    def part(self, name: str) -> _Facts:
        return _Facts(self._raw.get(name))

    def address(self, name: str) -> str | None:
        """Domain, bus and device as the kernel spells them. All ones or all zeros is how NVML writes nothing."""
        parts = self.numbers(name)
        fits = len(parts) == 3 and parts[0] < 0xFFFFFFFF and parts[1] <= 0xFF and parts[2] <= 0x1F
        return pci.address(*parts) if fits and any(parts) else None


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def _gpu(index: int, facts: _Facts) -> NvmlGpu:
    links, error = facts.parts("links"), facts.part("error")
    return NvmlGpu(
        index=index,
        address=facts.address("pci"),
        uuid=facts.text("uuid"),
        minor=facts.number("minor"),
        name=facts.text("name"),
        memory=facts.number("memory"),
        capability=facts.numbers("capability"),
        architecture=facts.number("architecture"),
        memory_affinity=facts.numbers("memory_affinity"),
        gpu_memory_numa=facts.number("gpu_memory_numa"),
        pcie_gen=facts.number("pcie_gen"),
        pcie_width=facts.number("pcie_width"),
        mig=facts.flag("mig"),
        clique=facts.text("clique"),
        links=None if links is None else tuple(_link(link) for link in links),
        error_code=error.number("code"),
        error=error.text("reason"),
    )


def _link(facts: _Facts) -> NvmlLink:
    return NvmlLink(facts.number("version"), facts.text("remote"), facts.address("pci"))
