"""The two API servers tests run against, seen the same way: the sandbox, and a real one from `hack/control-plane`."""

from __future__ import annotations

import fcntl
import json
import os
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hack.control_plane import binaries, cluster
from kubenexus.common.kube.resources import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS

COMPONENTS = ("controller-manager",)
REAL_ONLY = pytest.mark.parametrize("server", ["real"], indirect=True)
"""For a case of the contract suite that the sandbox does not meet; the reason stands beside it."""


@dataclass(frozen=True, slots=True)
class Server:
    """An API server that is up. `kind` is "sandbox" or "real"; `namespace` belongs to one test alone."""

    kind: str
    url: str
    token: str
    ca_file: Path
    kubeconfig: Path
    compact: Callable[[], None]
    """Forget the history of all objects, as a server does after some minutes."""
    namespace: str = "default"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One JSON request that must succeed."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        https = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(self.ca_file)))
        no_proxy = urllib.request.ProxyHandler({})
        with urllib.request.build_opener(no_proxy, https).open(request, timeout=30) as answer:
            return json.load(answer)

    @contextmanager
    def with_namespace(self) -> Iterator[Server]:
        """The same server with a fresh namespace. Afterwards nothing in it acts any more.

        The namespace itself stays until the server goes: a real one sends some 150 requests to delete a namespace,
        which took most of the suite's time.
        """
        new = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "test-"}}
        name = self.call("POST", "/api/v1/namespaces", new)["metadata"]["name"]
        yield replace(self, namespace=name)
        for res in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, JOBS, PODS):
            self.call("DELETE", f"{res.path(name)}?gracePeriodSeconds=0&propagationPolicy=Background")


def real() -> Server:
    """The real server of this test session, started by whichever xdist worker needs it first.

    The session's main process owns it and ends it (`end_real`); if that was killed, the next session does.
    """
    require("etcd", "etcdctl", "kube-apiserver", *(cluster.OPTIONAL[name] for name in COMPONENTS))
    cluster.instances().mkdir(parents=True, exist_ok=True)
    with (cluster.instances() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster.sweep()
        folder = _session_folder()
        up = cluster.load(folder) or cluster.up(folder, COMPONENTS, owner=_session(), say=print)
    return Server("real", up.url, up.token, up.ca_file, up.kubeconfig, lambda: _compact(up))


def require(*programs: str) -> None:
    """Skip the test, or fail it if that was asked for, unless these programs of a control plane are to be had."""
    missing = [name for name in programs if binaries.find(name) is None]
    if missing:
        _not_to_be_had(f"no real API server: {', '.join(missing)} not found; run `hack/control-plane build` once")


def end_real() -> None:
    """End the session's real server, if it was started; only the session's main process does."""
    if _session() == os.getpid():
        cluster.down(_session_folder())


def _session() -> int:
    """The session's main process: the parent of an xdist worker, otherwise we."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def _session_folder() -> Path:
    return cluster.instances() / f"pytest-{_session()}"


def _not_to_be_had(reason: str) -> None:
    if os.environ.get("KUBENEXUS_E2E") == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def _compact(running: cluster.Cluster) -> None:
    etcdctl = [str(binaries.find("etcdctl")), f"--endpoints={running.etcd_url}"]
    status = subprocess.run([*etcdctl, "endpoint", "status", "--write-out=json"], capture_output=True, check=True)
    revision = json.loads(status.stdout)[0]["Status"]["header"]["revision"]
    subprocess.run([*etcdctl, "compact", str(revision)], capture_output=True, check=True)


@contextmanager
def sandbox() -> Iterator[Server]:
    """The sandbox in this process."""
    from kubenexus.common.sandbox import Sandbox  # here, so that tests of the real server alone do not need it

    with tempfile.TemporaryDirectory(prefix="kubenexus-sandbox-") as folder, Sandbox(controllers=True) as box:
        kubeconfig = Path(folder) / "kubeconfig"
        box.write_kubeconfig(kubeconfig)
        yield Server("sandbox", box.url, box.token, Path(box.ca_file), kubeconfig, box.faults.compact)
