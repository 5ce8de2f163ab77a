"""The command: every format on every machine, what it loads, and how it fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from xml.dom import minidom

import psutil
import pytest

from kubenexus.agent import topo
from kubenexus.agent.discovery import host
from kubenexus.agent.discovery.files import Files
from kubenexus.agent.discovery.nvml import OFF, NvmlAnswer, recorded_or_asked
from kubenexus.agent.discovery.scan import scan
from kubenexus.common.cli import main
from kubenexus.common.sandbox.machine_tree import write_machine
from kubenexus.common.sandbox.machines import MACHINES
from kubenexus.common.sandbox.validation import validate_create
from kubenexus.common.topology import NodeTopology, NumaNode
from tests.trees import CAPTURES, unpack, write

HEAVY = {
    "numpy",
    "flask",
    "kubernetes",
    "gunicorn",
    "prometheus_client",
    "urllib3",
    "cryptography",
    "pynvml",
    "cpuinfo",
}


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {name: tmp_path_factory.mktemp(name) for name in MACHINES}
    for name, root in found.items():
        write_machine(MACHINES[name], root)
    return found


def page(root: Path, output: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["topo", "--root", str(root), "--nvml", "auto", "--node-name", "node-1", "-o", output]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def check(output: str, text: str) -> None:
    """What every page of a format has."""
    if output == "labels":
        labels = dict(line.split("=") for line in text.splitlines())
        assert list(labels) == sorted(labels)
        assert validate_create("Node", {"metadata": {"name": "n", "labels": labels}, "apiVersion": "v1"}) == []
    elif output == "slices":
        items = json.loads(text)["items"]
        assert [item["spec"]["pool"]["name"] for item in items] == ["node-1/numa", "node-1/gpu", "node-1/nic"]
        assert [error for item in items for error in validate_create("ResourceSlice", item)] == []
    elif output == "json":
        assert set(json.loads(text)) >= {"hash", "topology"}
    elif output == "svg":
        minidom.parseString(text)
    else:
        assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("output", topo.FORMATS)
@pytest.mark.parametrize("name", MACHINES)
def test_every_format_of_a_synthetic_machine(
    name: str, output: str, roots: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    check(output, page(roots[name], output, capsys))


@pytest.mark.parametrize("output", topo.FORMATS)
@pytest.mark.parametrize("name", CAPTURES)
def test_every_format_of_a_captured_machine(
    name: str, output: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    check(output, page(unpack(name, tmp_path_factory)[0], output, capsys))


@pytest.mark.parametrize("output", topo.FORMATS)
def test_every_format_of_this_machine(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(output, page(Path("/"), output, capsys))


def test_without_nvml_the_gpus_are_known_from_the_bus(
    roots: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topo", "--root", str(roots["dgx-h100"]), "--nvml", "off", "-o", "labels"]) == 0
    labels = dict(line.split("=") for line in capsys.readouterr().out.splitlines())
    assert (labels["gpu.kubenexus.io/count"], labels["gpu.kubenexus.io/gpu7-numa"]) == ("8", "1")
    assert not {"gpu.kubenexus.io/nvlink", "gpu.kubenexus.io/model"} & set(labels)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--root", "/nowhere/at/all"], r"kubenexus topo: there is no folder sys in /nowhere/at/all; .*\.\n"),
        (["--root", "/etc/passwd"], r"kubenexus topo: there is no folder sys in /etc/passwd; .*\.\n"),
        (["-o", "yaml"], r"(?s)usage: kubenexus topo.*invalid choice: 'yaml'.*"),
    ],
    ids=["no folder", "a file", "no such format"],
)
def test_bad_usage(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(message, printed.err)


@pytest.mark.parametrize("words", [["--help"], ["-o", "matrix"], ["-o", "tree"], ["-o", "slices"]], ids=" ".join)
def test_it_loads_little(words: list[str], roots: dict[str, Path]) -> None:
    """NVML stays in its child: no handle is open in this process, not even the library."""
    code = (
        f"import sys; from kubenexus.common.cli import main; main({['topo', '--root', str(roots['plain']), *words]}); "
    )
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout
    assert set(done.stderr.split()) & HEAVY == set()


def test_a_reader_that_goes_away(roots: dict[str, Path]) -> None:
    command = [sys.executable, "-m", "kubenexus.common.cli", "topo", "--root", str(roots["dgx-h100"]), "-o", "slices"]
    read, written = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=written, stderr=subprocess.PIPE, check=False)
    os.close(written)
    assert done.stderr == b""


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-a100"])
def test_a_scan_is_quick(name: str, roots: dict[str, Path]) -> None:
    root = roots[name]
    answer = recorded_or_asked(root)
    times = []
    for _ in range(5):
        start = time.process_time()
        scan(root, lambda: answer)
        times.append(time.process_time() - start)
    assert min(times) <= 0.2


@pytest.mark.parametrize(
    ("cpuinfo", "title"),
    [
        ("processor\t: 0\nmodel name\t: Intel(R)  Xeon(R) CPU\nmodel name\t: second", "Intel(R) Xeon(R) CPU"),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported", "POWER9, altivec supported"),
        ("processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41", "Machine"),
    ],
    ids=["x86", "POWER", "ARM"],
)
def test_the_title_of_a_captured_machine(cpuinfo: str, title: str, tmp_path: Path) -> None:
    assert host.describe(Files(write(tmp_path, {"proc/cpuinfo": cpuinfo}))) == title


def test_the_title_of_this_machine() -> None:
    assert re.search(r"booted \d{4}-\d\d-\d\d \d\d:\d\d UTC$", host.describe(Files("/")))


@pytest.mark.parametrize(
    ("share", "doubt"), [(1.0, False), (0.97, False), (0.5, True), (2.0, True)], ids=["equal", "near", "half", "double"]
)
def test_memory_is_counted_twice(share: float, doubt: bool) -> None:
    half = int(psutil.virtual_memory().total * share / 2)
    topology = NodeTopology(numa=(NumaNode(id=0, memory=half), NumaNode(id=1, memory=half)))
    assert (host.memory_doubt(Files("/"), topology) is not None) is doubt


def test_memory_of_another_machine_is_not_compared(tmp_path: Path) -> None:
    assert host.memory_doubt(Files(tmp_path), NodeTopology(numa=(NumaNode(id=0, memory=1),))) is None


def test_a_probe_that_hung_still_gives_what_is_known(
    roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hung = NvmlAnswer("hung", "NVML gave no answer within 25 s")
    monkeypatch.setattr(topo, "recorded_or_asked", lambda _root: hung)
    text = page(roots["dgx-h100"], "tree", capsys)
    assert text.splitlines()[-1] == "unknown: gpu.nvlink: NVML gave no answer within 25 s"
    assert "8 GPUs" in text.splitlines()[0]


def test_off_asks_nobody(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(topo, "recorded_or_asked", lambda _root: pytest.fail("NVML was asked"))
    assert main(["topo", "--nvml", "off"]) == 0
    assert OFF.status == "off"
    assert capsys.readouterr().out


class Silent(Files):
    """This machine, if its /proc/cpuinfo did not name the CPU."""

    def text(self, path: str) -> str | None:
        return None if path == "proc/cpuinfo" else super().text(path)


def test_a_cpu_that_the_kernel_does_not_name_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = host.describe(Silent("/"))
    monkeypatch.setattr(host, "BRAND_SECONDS", 0.0)
    assert asked.endswith(host.describe(Silent("/")))
    assert host.describe(Silent("/")).startswith("booted")
