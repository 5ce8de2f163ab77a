"""`hack/control-plane` as people type it: several side by side, stops its own, says what is wrong."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hack.control_plane import binaries, cluster
from hack.control_plane.processes import Process
from tests.servers import Server

ROOT = Path(__file__).resolve().parents[2]
STATE: dict[str, Any] = {
    "url": "",
    "token": "",
    "etcd_url": "",
    "version": "v0",
    "programs": {},
    "processes": [],
    "owner": None,
}


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "hack" / "control-plane"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, timeout=120, check=False)


def test_up_env_and_down_beside_another_instance(real_server: Server, tmp_path: Path) -> None:
    state = str(tmp_path / "second")
    try:
        up = run("up", "--state", state)
        assert up.returncode == 0, up.stderr
        again = run("up", "--state", state)
        assert "already running" in again.stderr
        exports = dict(
            line.removeprefix("export ").split("=", 1) for line in run("env", "--state", state).stdout.splitlines()
        )
        assert exports["KUBENEXUS_APISERVER"] != real_server.url
        kubectl = [exports["KUBECTL"], f"--kubeconfig={shlex.split(exports['KUBECONFIG'])[0]}"]
        assert subprocess.run([*kubectl, "auth", "can-i", "*", "*"], capture_output=True, check=True).stdout == b"yes\n"
        processes = json.loads((tmp_path / "second" / "state.json").read_text())["processes"]
    finally:
        down = run("down", "--state", state)
    assert (down.returncode, down.stderr) == (0, "stopped\n")
    assert {process["name"] for process in processes} == {"etcd", "kube-apiserver"}
    assert not any(Process(**process).alive for process in processes)
    assert not (tmp_path / "second").exists()
    assert real_server.call("GET", "/version")  # the other one is untouched


def test_permissions_are_checked(real_server: Server) -> None:
    review = {"spec": {"user": "nobody", "resourceAttributes": {"verb": "list", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert real_server.call("POST", path, review)["status"]["allowed"] is False


def test_down_leaves_a_process_alone_that_took_over_the_id(tmp_path: Path) -> None:
    ourselves = {"name": "etcd", "pid": os.getpid(), "started": "another time"}
    folder = tmp_path / "stale"
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps({**STATE, "processes": [ourselves]}))
    assert cluster.down(folder)  # we are still here to say so
    assert not folder.exists()


def test_down_without_an_instance_says_so(tmp_path: Path) -> None:
    assert "nothing is running" in run("down", "--state", str(tmp_path)).stderr


def test_env_without_an_instance_says_what_to_do(tmp_path: Path) -> None:
    answer = run("env", "--state", str(tmp_path))
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "hack/control-plane up" in answer.stderr


def test_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    if not all(map(binaries.find, ("etcd", "kube-apiserver"))):
        pytest.skip("no real API server: run `hack/control-plane build` once")
    (tmp_path / "precious").write_text("data")
    answer = run("up", "--state", str(tmp_path))
    assert answer.returncode == 1
    assert "is not empty" in answer.stderr
    assert (tmp_path / "precious").read_text() == "data"


def test_without_programs_and_go_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    bare = {"PATH": "/nonexistent", "KUBEBUILDER_ASSETS": "", "XDG_CACHE_HOME": str(tmp_path)}
    answer = run("build", **bare)
    assert answer.returncode == 1
    assert "install Go" in answer.stderr
    assert "KUBEBUILDER_ASSETS" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_programs_in_kubebuilder_assets_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "kube-apiserver"
    program.touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert binaries.find("kube-apiserver") == program


@pytest.mark.e2e
def test_failing_program_shows_the_end_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bin" / "etcd"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho the disk is on fire\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(broken.parent))
    if binaries.find("kube-apiserver") is None:
        pytest.skip("no real API server: run `hack/control-plane build` once")
    answer = run("up", "--state", str(tmp_path / "state"))
    assert answer.returncode == 1
    assert "etcd ended at once" in answer.stderr
    assert "the disk is on fire" in answer.stderr
    assert not (tmp_path / "state").exists()


def test_instance_whose_owner_died_is_swept_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    dead = {"name": "owner", "pid": os.getpid(), "started": "another time"}
    for name, owner in {"abandoned": dead, "kept": None}.items():
        folder = cluster.instances() / name
        folder.mkdir(parents=True)
        (folder / "state.json").write_text(json.dumps({**STATE, "owner": owner}))
    cluster.sweep()
    assert [entry.name for entry in cluster.instances().iterdir()] == ["kept"]
