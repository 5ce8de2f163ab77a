"""`kubenexus scheduler` as a command: its health, its end, and what it says about a wrong configuration."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from hack.control_plane.processes import free_port
from kubenexus.common.cli import FAILURE, main
from kubenexus.common.sandbox import Sandbox
from tests.schedulers import connected
from tests.stub_server import until

HEADER = "apiVersion: kubenexus.io/v1alpha1\nkind: SchedulerConfiguration\n"


def fetch(port: int, page: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_schedules_serves_and_ends(tmp_path: Path) -> None:
    with Sandbox() as box, connected(box, tmp_path) as cluster:
        cluster.add_nodes("n1")
        port = free_port()
        command = [str(Path(sys.executable).with_name("kubenexus")), "scheduler", "--no-leader-elect"]
        words = ["--kubeconfig", str(tmp_path / "kubeconfig"), "--metrics-port", str(port)]
        with subprocess.Popen([*command, *words], stderr=subprocess.PIPE, env=os.environ) as process:
            cluster.add_pod("a")
            cluster.await_node("a", seconds=30)
            until(lambda: "ok" in fetch(port, "readyz"))
            assert "ok" in fetch(port, "healthz")
            assert 'kubenexus_scheduler_decisions_total{decision="place"} 1.0' in fetch(port, "metrics")
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=20)
        assert process.returncode == 0, said.decode()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("profils: []", "profils is not known; did you mean profiles?", id="unknown key"),
        pytest.param(
            "profiles: [{plugins: {enabled: [{name: NodeAffinty}]}}]",
            "there is no plugin NodeAffinty; did you mean NodeAffinity?",
            id="unknown plugin",
        ),
    ],
)
def test_wrong_configuration(text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Sandbox() as box, connected(box, tmp_path):
        file = tmp_path / "config.yaml"
        file.write_text(HEADER + text)
        words = ["scheduler", "--kubeconfig", str(tmp_path / "kubeconfig"), "--config", str(file)]
        assert main(words) == FAILURE
    assert sentence in capsys.readouterr().err


def test_missing_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scheduler", "--config", str(tmp_path / "absent.yaml")]) == FAILURE
    assert "absent.yaml cannot be read: No such file or directory." in capsys.readouterr().err
