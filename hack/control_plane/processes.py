"""Start programs that outlive us, know them again later, and end exactly those.

A process is remembered by its id and its start time: ids are reused, the pair is not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was when we met it; `started` is opaque text."""

    name: str
    pid: int
    started: str

    @property
    def alive(self) -> bool:
        return _start_time(self.pid) == self.started


def running(name: str, pid: int) -> Process:
    """A process that runs now, so that anybody can see later whether it still does."""
    return Process(name, pid, _start_time(pid) or "")


def start(name: str, command: list[str], log: Path) -> Process:
    """Start a program in a session of its own, writing to `log`; an interrupt at our terminal does not reach it."""
    with log.open("wb") as sink:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True)
    child.returncode = 0  # It is ours to end but not to wait for here; keeps Popen's destructor from complaining.
    return running(name, child.pid)


def stop(process: Process, deadline: float = 10.0) -> None:
    """Kill the process if it is still the one we started, and wait until it is gone. Nothing in it is worth keeping."""
    if process.alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: not process.alive, deadline)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll until the condition holds; False when it did not within the time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def free_port() -> int:
    """A loopback port that is free now; use it at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _start_time(pid: int) -> str | None:
    """The start time of a running process, or None when there is none (a zombie runs no more)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None if Path("/proc/self").exists() else _start_time_by_ps(pid)
    # The program's name stands in brackets and may hold anything; the fields after it do not.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def _start_time_by_ps(pid: int) -> str | None:
    shown = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, began = shown.stdout.strip().partition(" ")
    return None if not began or state.startswith("Z") else began.strip()
