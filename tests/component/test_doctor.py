"""`kubenexus doctor` on the sandbox: what it finds, and what it says when it cannot ask."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common import doctor
from kubenexus.common.cli import FAILURE, NEGATIVE, OK, main
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import micro_time, wall_clock
from kubenexus.common.kube.resources import LEASES, NODES
from kubenexus.common.vocabulary import LEASE_NAME, NUMA_NODE_COUNT, TOPOLOGY_SNAPSHOT
from tests.contract.objects import node, rows
from tests.servers import Server

Obj = dict[str, Any]

WINDOWS = {"kubernetes.io/os": "windows"}
NOW = datetime(2026, 11, 17, 9, 0, tzinfo=UTC)


def described(name: str) -> Obj:
    return node(name, labels={NUMA_NODE_COUNT: "2"})


def lease(holder: str | None, age: float = 1.0) -> Obj:
    return {"spec": {"holderIdentity": holder, "renewTime": micro_time(NOW - timedelta(seconds=age))}}


FINDINGS: list[tuple[str, doctor.Finding, bool, str]] = [
    ("a new server", doctor.server({"minor": "36", "gitVersion": "v1.36.4"}), True, "Kubernetes v1.36.4"),
    ("a managed server", doctor.server({"minor": "34+", "gitVersion": "v1.34.1-gke"}), True, "v1.34.1-gke"),
    ("an old server", doctor.server({"minor": "33", "gitVersion": "v1.33.0"}), False, "1.34 or newer is needed"),
    ("a server that does not say", doctor.server({}), False, "of an unknown version"),
    ("no nodes", doctor.nodes([]), False, "there are none"),
    ("described nodes", doctor.nodes([described("a"), described("b")]), True, "all 2 are described"),
    (
        "a node with an annotation only",
        doctor.nodes([node("a", annotations={TOPOLOGY_SNAPSHOT: "{}"})]),
        True,
        "all 1 are",
    ),
    ("a Windows node beside", doctor.nodes([described("a"), node("w", labels=WINDOWS)]), True, "all 1 are described"),
    ("a bare node", doctor.nodes([described("a"), node("b")]), False, "1 of 2 are not described by an agent: b"),
    (
        "many bare nodes",
        doctor.nodes([node(name) for name in "edcba"]),
        False,
        "5 of 5 are not described by an agent: a, b, c, …",
    ),
    ("a leader", doctor.scheduler(lease("pod-1"), NOW), True, "pod-1 leads"),
    ("a leader that is silent", doctor.scheduler(lease("pod-1", 90), NOW), False, "has not said so for 90 s"),
    ("a Lease that was given back", doctor.scheduler(lease(""), NOW), False, "nobody leads"),
    ("a Lease that nobody took yet", doctor.scheduler({}, NOW), False, "nobody leads"),
    ("a pod that was completed", doctor.pod({"spec": {"schedulerName": "x"}}, "x"), True, "is given to x"),
    ("a pod that was not", doctor.pod({"spec": {"schedulerName": "y"}}, "x"), False, "is given to y, not to x"),
]


@pytest.mark.parametrize(("finding", "ok", "words"), rows(FINDINGS))
def test_findings(finding: doctor.Finding, ok: bool, words: str) -> None:
    assert finding.ok is ok
    assert words in finding.text


def ask(server: Server, *words: str) -> int:
    return main(["doctor", "--kubeconfig", str(server.kubeconfig), "--namespace", server.namespace, *words])


def test_a_healthy_installation(sandbox_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    space = sandbox_server.namespace
    with Client.connect(str(sandbox_server.kubeconfig), agent="test") as client:
        now = micro_time(wall_clock())
        held = {"metadata": {"name": LEASE_NAME}, "spec": {"holderIdentity": "me", "renewTime": now}}
        client.create(LEASES, held, space)
    code = ask(sandbox_server, "--skip", "nodes", "--try-in", space, "--scheduler-name", "default-scheduler")
    lines = capsys.readouterr().out.splitlines()
    assert code == OK
    assert [line.split()[:2] for line in lines] == [["ok", about] for about in ("server", "scheduler", "webhook")]


def test_an_empty_namespace(sandbox_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    with Client.connect(str(sandbox_server.kubeconfig), agent="test") as client:
        client.create(NODES, node("bare-for-doctor"))
        code = ask(sandbox_server, "-o", "json")
        client.delete(NODES, "bare-for-doctor")
    found = {one["about"]: one for one in json.loads(capsys.readouterr().out)}
    assert code == NEGATIVE
    assert (found["nodes"]["ok"], found["scheduler"]["ok"]) == (False, False)
    assert "is it installed there?" in found["scheduler"]["text"]


def test_only_nodes_that_have_agents_are_looked_at(sandbox_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    with Client.connect(str(sandbox_server.kubeconfig), agent="test") as client:
        client.create(NODES, node("bare-beside-doctor"))
        client.create(NODES, node("seen-by-doctor", labels={NUMA_NODE_COUNT: "2", "pool": "doctor"}))
        ask(sandbox_server, "-o", "json", "--nodes-with", "pool=doctor")
        for name in ("bare-beside-doctor", "seen-by-doctor"):
            client.delete(NODES, name)
    found = {one["about"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["nodes"] == {"about": "nodes", "ok": True, "text": "all 1 are described"}


def test_no_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--kubeconfig", str(tmp_path / "none")]) == FAILURE
    assert len(capsys.readouterr().err.splitlines()) == 1
