"""`kubenexus agent` as a program, with the rights it is shipped with, on a real API server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from hack.control_plane import cluster
from hack.control_plane.processes import free_port, start, stop, wait_for
from kubenexus.agent.publish.rights import RULES
from kubenexus.common import vocabulary as v
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import NODES, RESOURCE_SLICES, SERVICE_ACCOUNTS, Resource
from kubenexus.common.sandbox.machine_tree import write_machine
from tests.agents import SMALL_DGX, labels, own_node, program, slices, versions
from tests.servers import Server
from tests.stub_server import until

pytestmark = pytest.mark.e2e

ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
KINDS = {"numa", "gpu", "nic"}
PATIENCE = 60.0


@pytest.fixture
def admin(real_server: Server) -> Iterator[Client]:
    with Client.connect(str(real_server.kubeconfig), agent="test") as made:
        yield made


@pytest.fixture
def node(admin: Client) -> Iterator[str]:
    with own_node(admin) as name:
        yield name


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("machine")
    write_machine(SMALL_DGX, root)
    return root


@contextlib.contextmanager
def account(admin: Client, server: Server, rules: Sequence[Any], folder: Path) -> Iterator[Path]:
    """The kubeconfig of a service account with these rights and no others."""
    name, space = f"agent-{server.namespace}", server.namespace
    role = {"apiVersion": ROLES.api_version, "kind": ROLES.kind, "metadata": {"name": name}, "rules": list(rules)}
    admin.create(ROLES, role)
    subject = {"kind": "ServiceAccount", "name": "agent", "namespace": space}
    reference = {"apiGroup": ROLES.group, "kind": ROLES.kind, "name": name}
    admin.create(BINDINGS, {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference})
    admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": "agent"}}, space)
    ask = {"metadata": {"name": "agent"}, "spec": {}}
    token = admin.create(SERVICE_ACCOUNTS, ask, space, subresource="token")["status"]["token"]
    config = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / "agent-kubeconfig"
    path.write_text(json.dumps(config))
    yield path
    admin.delete(BINDINGS, name)
    admin.delete(ROLES, name)


def grant(admin: Client, server: Server, rules: Sequence[Any]) -> None:
    admin.patch(ROLES, f"agent-{server.namespace}", {"rules": list(rules)}, kind=PatchType.MERGE)


def page(port: int, path: str) -> str:
    """A page of the agent, whatever its status; empty while nobody serves it."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""


def metric(port: int, name: str) -> float:
    found = (line.rpartition(" ")[2] for line in page(port, "/metrics").splitlines() if line.startswith(name + " "))
    return float(next(found, "0"))


def test_the_life_of_an_agent_with_the_rights_it_is_shipped_with(
    admin: Client, real_server: Server, node: str, machine: Path, tmp_path: Path
) -> None:
    port, log = free_port(), tmp_path / "log"
    words = ["--root", machine, "--node-name", node, "--interval", "0.5", "--metrics-port", str(port)]
    with (
        account(admin, real_server, RULES, tmp_path) as kubeconfig,
        program(*words, "--kubeconfig", kubeconfig, log=log) as process,
    ):
        until(lambda: slices(admin, node).keys() == KINDS, PATIENCE)
        until(lambda: "[+] published" in page(port, "/readyz"), PATIENCE)
        assert labels(admin, node)[v.GPU_COUNT] == "8"
        assert all(device["taints"] for device in slices(admin, node)["gpu"]["spec"]["devices"])

        # A kubelet that starts wipes all slices of its node.
        for slice_ in slices(admin, node).values():
            admin.delete(RESOURCE_SLICES, slice_["metadata"]["name"])
        until(lambda: slices(admin, node).keys() == KINDS, 30)
        admin.patch(NODES, node, {"metadata": {"labels": {v.GPU_COUNT: "1"}}}, kind=PatchType.MERGE)
        until(lambda: labels(admin, node)[v.GPU_COUNT] == "8", PATIENCE)

        # Idle: many rounds, no write.
        until(lambda: metric(port, "kubenexus_agent_slices_recreated_total") == 3, PATIENCE)
        before, scans = versions(admin, node), metric(port, "kubenexus_agent_scan_duration_seconds_count")
        until(lambda: metric(port, "kubenexus_agent_scan_duration_seconds_count") >= scans + 10, PATIENCE)
        assert versions(admin, node) == before

        assert psutil.Process(process.pid).memory_info().rss <= 60 * 1024**2
        admin.delete(NODES, node)
        assert process.wait(30) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line for line in lines if line["level"] in ("warning", "error")] == []


DENIED = [
    *((verb, "", "nodes") for verb in ("list", "watch", "create", "update", "delete")),
    ("patch", "", "nodes/status"),
    ("get", "", "pods"),
    ("get", "", "secrets"),
    ("get", "", "configmaps"),
    ("create", "", "events"),
    *((verb, "resource.k8s.io", "resourceslices") for verb in ("get", "patch", "deletecollection")),
    ("get", "resource.k8s.io", "resourceclaims"),
]


def test_the_rights_are_no_more_than_these(admin: Client, real_server: Server, tmp_path: Path) -> None:
    with account(admin, real_server, RULES, tmp_path):
        allowed = [row for row in DENIED if may(admin, real_server, *row)]
        assert allowed == []
        needed = [(verb, r["apiGroups"][0], r["resources"][0]) for r in RULES for verb in r["verbs"]]
        assert [row for row in needed if not may(admin, real_server, *row)] == []


def may(admin: Client, server: Server, verb: str, group: str, resource: str) -> bool:
    resource, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    review = {"spec": {"user": f"system:serviceaccount:{server.namespace}:agent", "resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(admin.request("POST", path, body=review)["status"]["allowed"])


def without(verb: str, resource: str) -> list[Any]:
    return [
        {**rule, "verbs": [each for each in rule["verbs"] if (each, rule["resources"]) != (verb, [resource])]}
        for rule in RULES
    ]


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("get", "nodes"), ("patch", "nodes"), ("list", "resourceslices"), ("create", "resourceslices")],
)
def test_a_missing_right_is_named_once_and_waited_for(
    admin: Client, real_server: Server, node: str, machine: Path, tmp_path: Path, verb: str, resource: str
) -> None:
    port, log = free_port(), tmp_path / "log"
    words = ["--root", machine, "--node-name", node, "--metrics-port", str(port)]
    advice = f"give its role the verb {verb} on {resource}"
    with (
        account(admin, real_server, without(verb, resource), tmp_path) as kubeconfig,
        program(*words, "--kubeconfig", kubeconfig, log=log),
    ):
        until(lambda: advice in page(port, "/readyz"), PATIENCE)
        assert "[+] loop" in page(port, "/healthz")
        until(lambda: metric(port, "kubenexus_agent_last_success_timestamp_seconds") == 0)
        assert bool(labels(admin, node)) is (resource != "nodes")  # what is allowed is done
        assert bool(slices(admin, node)) is (resource == "nodes" and verb == "patch")
        grant(admin, real_server, RULES)
        until(lambda: "[+] published" in page(port, "/readyz"), PATIENCE)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(advice in str(line) for line in lines) == 1


def test_once_names_the_missing_right_and_fails(
    admin: Client, real_server: Server, node: str, machine: Path, tmp_path: Path
) -> None:
    words = ["--once", "--root", machine, "--node-name", node]
    with (
        account(admin, real_server, without("patch", "nodes"), tmp_path) as kubeconfig,
        program(*words, "--kubeconfig", kubeconfig, log=tmp_path / "log") as process,
    ):
        assert process.wait(30) == 2
    assert "may not patch nodes: give its role the verb patch on nodes.\n" in (tmp_path / "log").read_text()


class ControlPlane:
    """A control plane of the test's own, whose API server can be taken away and brought back on the same port."""

    def __init__(self, folder: Path) -> None:
        self._cluster = cluster.up(folder, owner=os.getpid(), say=print)
        self._server = next(each for each in self._cluster.processes if each.name == "kube-apiserver")
        self._command = Path(f"/proc/{self._server.pid}/cmdline").read_text().split("\0")[:-1]
        self.kubeconfig = self._cluster.kubeconfig

    def stop_server(self) -> None:
        stop(self._server)

    def start_server(self) -> None:
        self._server = start("kube-apiserver", self._command, self._cluster.folder / "second.log")

    def down(self) -> None:
        stop(self._server)
        cluster.down(self._cluster.folder)


@pytest.fixture
def control_plane(real_server: Server, tmp_path: Path) -> Iterator[ControlPlane]:  # noqa: ARG001 (skips where none is)
    made = ControlPlane(tmp_path / "control-plane")
    yield made
    made.down()


def answers(client: Client) -> bool:
    try:
        return str(client.request("GET", "/readyz", timeout=2)) == "ok"
    except ApiError:
        return False


def test_it_survives_a_restart_of_the_api_server(control_plane: ControlPlane, machine: Path, tmp_path: Path) -> None:
    port = free_port()
    words = ["--root", machine, "--interval", "1", "--metrics-port", str(port)]
    with (
        Client.connect(str(control_plane.kubeconfig), agent="test") as admin,
        own_node(admin) as node,
        program(*words, "--node-name", node, "--kubeconfig", control_plane.kubeconfig, log=tmp_path / "log") as process,
    ):
        until(lambda: slices(admin, node).keys() == KINDS, PATIENCE)
        control_plane.stop_server()
        until(lambda: "publishing failed" in (tmp_path / "log").read_text(), PATIENCE)
        assert "[+] loop" in page(port, "/healthz")
        control_plane.start_server()
        assert wait_for(lambda: answers(admin), PATIENCE)
        admin.patch(NODES, node, {"metadata": {"labels": {v.GPU_COUNT: "1"}}}, kind=PatchType.MERGE)
        admin.delete(RESOURCE_SLICES, slices(admin, node)["gpu"]["metadata"]["name"])
        until(lambda: labels(admin, node)[v.GPU_COUNT] == "8", 90)
        until(lambda: slices(admin, node).keys() == KINDS, 90)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_hangup_scans_at_once_and_a_termination_ends_it(
    real_server: Server, admin: Client, node: str, machine: Path, tmp_path: Path
) -> None:
    port = free_port()
    words = ["--root", machine, "--node-name", node, "--metrics-port", str(port)]
    with program(*words, "--kubeconfig", real_server.kubeconfig, log=tmp_path / "log") as process:
        until(lambda: slices(admin, node).keys() == KINDS, PATIENCE)
        process.send_signal(signal.SIGHUP)
        until(lambda: metric(port, "kubenexus_agent_scan_duration_seconds_count") == 2, PATIENCE)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
