"""`kubenexus scheduler` as a command: its health, its end, and what it says about a wrong configuration."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from hack.control_plane.processes import free_port
from kubenexus.common.cli import FAILURE, main
from kubenexus.common.kube.client import Client
from kubenexus.common.sandbox import Sandbox
from kubenexus.scheduler.intake import WATCHED, Intake
from tests.schedulers import connected
from tests.stub_server import Handler, StubServer, serving, until

KUBENEXUS = str(Path(sys.executable).with_name("kubenexus"))
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
        command = [KUBENEXUS, "scheduler", "--no-leader-elect"]
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


def catches_sigterm(process: subprocess.Popen[bytes], _server: StubServer) -> bool:
    """Its first moment: long before it has loaded everything."""
    caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text())
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def has_asked(_process: subprocess.Popen[bytes], server: StubServer) -> bool:
    return bool(server.seen)


@pytest.mark.parametrize(
    ("answer", "moment"),
    [
        pytest.param(Handler.hang, catches_sigterm, id="while it loads"),
        pytest.param(Handler.hang, has_asked, id="while the server is silent"),
        pytest.param(lambda handler: handler.reply(500, {}), has_asked, id="while the server is broken"),
    ],
)
def test_sigterm_before_it_works_is_no_failure(
    answer: Callable[[Handler], None],
    moment: Callable[[subprocess.Popen[bytes], StubServer], bool],
    tmp_path: Path,
) -> None:
    with serving(answer) as server:
        config = tmp_path / "kubeconfig"
        config.write_text(json.dumps(kubeconfig(server.url)))
        with subprocess.Popen([KUBENEXUS, "scheduler", "--kubeconfig", config], stderr=subprocess.PIPE) as process:
            until(lambda: moment(process, server), 20)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=20)
    assert process.returncode == 0, said.decode()
    assert b"Traceback" not in said


def test_server_that_falls_silent_is_waited_for_only_once(tmp_path: Path) -> None:
    """Not once for each of the many things that are watched: the kubelet gives us half a minute in all."""
    config = tmp_path / "kubeconfig"
    with serving(Handler.hang) as server:
        config.write_text(json.dumps(kubeconfig(server.url)))
        with Client.connect(str(config)) as client:
            intake = Intake(client, WATCHED, lambda _: None)
            intake.start()
            until(lambda: len(server.seen) > len(WATCHED))
            begun = time.monotonic()
            intake.stop(timeout=0.5)
            assert time.monotonic() - begun < 0.5 * len(WATCHED) / 2


def kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "stub", "cluster": {"server": url}}],
        "users": [{"name": "stub", "user": {"token": "t"}}],
        "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
        "current-context": "stub",
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("profils: []", "profils is not known (did you mean profiles?)", id="unknown key"),
        pytest.param(
            "profiles: [{plugins: {enabled: [{name: NodeAffinty}]}}]",
            "there is no plugin NodeAffinty (did you mean NodeAffinity?)",
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
