"""`kubenexus scheduler` as a program on a real API server, for the tests of this process alone.

Several processes share the server. Each has a scheduler with a name of its own, so that none does another's work, and
each test has nodes of its own, on which a label keeps its pods.

The tests of the chart share a control plane of their own, one to a process, since policies and webhooks reach over all
of a cluster; `site` is a release there.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.control_plane.cluster import Cluster as Plane
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import NotFound
from kubenexus.common.kube.resources import LEASES, NODES, SERVICE_ACCOUNTS, Resource
from kubenexus.common.vocabulary import CONFIG_API_VERSION, LEASE_NAME
from kubenexus.scheduler.rights import RULES, lease_rules
from tests.chart.helm import MAJORS, get_helm
from tests.chart.plane import own_plane, serve_foreign_kinds
from tests.chart.site import Site
from tests.contract.objects import unique
from tests.schedulers import POOL, ZONE, Cluster
from tests.servers import Server
from tests.stub_server import until

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)


@pytest.fixture(scope="session")
def scheduler(_real_session: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The program, once it leads, with the rights that it is shipped with and no others; the schedulerName."""
    folder = tmp_path_factory.mktemp("scheduler")
    with _real_session.with_namespace() as server, Client.connect(str(server.kubeconfig), agent="test") as client:
        name = f"scheduler-of-{server.namespace}"
        config, log = folder / "config.yaml", folder / "log"
        config.write_text(
            f"apiVersion: {CONFIG_API_VERSION}\n"
            "kind: SchedulerConfiguration\n"
            f"leaderElection: {{resourceNamespace: {server.namespace}}}\n"
            f"profiles: [{{schedulerName: {name}}}]\n"
        )
        words = ["scheduler", "--kubeconfig", str(account(client, server, name, folder)), "--config", str(config)]
        program = str(Path(sys.executable).with_name("kubenexus"))
        with log.open("wb") as output, subprocess.Popen([program, *words], stderr=output) as process:
            until(lambda: process.poll() is not None or leads(client, server.namespace), 60)
            yield name
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, log.read_text()
        client.delete(BINDINGS, name)
        client.delete(ROLES, name)
    said = log.read_text()
    assert "internal error" not in said
    assert "Traceback" not in said
    assert "give its role" not in said, "a right is missing"


def account(client: Client, server: Server, name: str, folder: Path) -> Path:
    """The kubeconfig of a service account that may do what the scheduler may."""
    client.create(ROLES, {"metadata": {"name": name}, "rules": [*RULES, *lease_rules()]})
    subject = {"kind": "ServiceAccount", "name": "scheduler", "namespace": server.namespace}
    reference = {"apiGroup": RBAC, "kind": ROLES.kind, "name": name}
    client.create(BINDINGS, {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference})
    client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "scheduler"}}, server.namespace)
    ask = {"metadata": {"name": "scheduler"}, "spec": {}}
    token = client.create(SERVICE_ACCOUNTS, ask, server.namespace, subresource="token")["status"]["token"]
    config = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


def leads(client: Client, namespace: str) -> bool:
    """Whether a scheduler has taken the Lease there."""
    try:
        lease = client.get(LEASES, LEASE_NAME, namespace)
    except NotFound:
        return False
    return bool(lease["spec"].get("holderIdentity"))


@pytest.fixture
def cluster(real_server: Server, scheduler: str) -> Iterator[Cluster]:
    """Six nodes in three zones, for the pods of this test."""
    with Client.connect(str(real_server.kubeconfig), agent="test") as client:
        made = Cluster(client, real_server.namespace, scheduler)
        names = [unique("node") for _ in range(6)]
        for number, name in enumerate(names):
            made.add_nodes(name, labels={ZONE: f"zone-{number % 3}", POOL: real_server.namespace})
        yield made
        for name in names:
            client.delete(NODES, name)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """With what other operators bring along; it writes down what service accounts ask for."""
    with own_plane(tmp_path_factory.mktemp("chart") / "plane", audit=True) as up:
        serve_foreign_kinds(up.kubeconfig)
        yield up


@pytest.fixture(params=MAJORS, ids=["helm 3", "helm 4"])
def site(request: pytest.FixtureRequest, plane: Plane, tmp_path: Path) -> Iterator[Site]:
    helm = get_helm(request.param)
    with Client.connect(str(plane.kubeconfig), agent="test") as client:
        made = Site(client, plane.kubeconfig, helm, tmp_path)
        made.prepare()
        yield made
        for kubelet in (made.gpu, made.plain):
            client.delete(NODES, kubelet.node)
