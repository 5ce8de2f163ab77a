"""The webhook of the demo: its process, and the configurations by which pods reach it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubenexus.common.cli import CommandError
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import StatusError
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, PODS, VALIDATING_WEBHOOKS
from kubenexus.common.sandbox.facade import Sandbox
from kubenexus.common.vocabulary import INJECT, SCHEDULER_NAME, SYSTEM_NAMESPACE, Inject

Obj = dict[str, Any]
NAME = "kubenexus-webhook"
PATIENCE_SECONDS = 60.0
_PROBE = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "main", "image": "example/work:1"}]}}


@contextmanager
def webhook(sandbox: Sandbox, client: Client, kubeconfig: Path, namespace: str) -> Iterator[None]:
    """The webhook as a process of its own, from the moment it completes the pods of the namespace."""
    port, health = _free_port(), _free_port()
    sandbox.services[SYSTEM_NAMESPACE, NAME] = ("127.0.0.1", port)
    client.create(NAMESPACES, {"metadata": {"name": SYSTEM_NAMESPACE}})
    client.patch(NAMESPACES, namespace, {"metadata": {"labels": {INJECT: Inject.ENABLED}}}, kind=PatchType.MERGE)
    client.create(MUTATING_WEBHOOKS, _configuration("mutate", "CREATE"))
    client.create(VALIDATING_WEBHOOKS, _configuration("validate", "CREATE", "UPDATE"))
    words = ["webhook", "--kubeconfig", str(kubeconfig), "--namespace", SYSTEM_NAMESPACE]
    words += ["--address", f"127.0.0.1:{port}", "--health", f"127.0.0.1:{health}"]
    command = [sys.executable, "-m", "kubenexus.common.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await(lambda: _is_ready(health) and _is_completing(client, namespace))
            yield
        finally:
            for res in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):  # nobody calls a webhook that is going away
                client.delete(res, NAME)
            process.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _configuration(path: str, *operations: str) -> Obj:
    """As the Helm chart has it. Who is to be trusted, the webhook fills in itself."""
    entry = {
        "name": f"{path}.{NAME}.svc",
        "clientConfig": {"service": {"namespace": SYSTEM_NAMESPACE, "name": NAME, "path": f"/{path}"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": list(operations), "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {INJECT: Inject.ENABLED}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "timeoutSeconds": 2,
    }
    return {"metadata": {"name": NAME}, "webhooks": [entry]}


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise CommandError(f"the webhook was not ready within {PATIENCE_SECONDS:.0f} s; please report it.")
        time.sleep(0.1)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
            return True
    except OSError:
        return False


def _is_completing(client: Client, namespace: str) -> bool:
    made = client.create(PODS, _PROBE, namespace, dry_run=True)
    return bool(made["spec"].get("schedulerName") == SCHEDULER_NAME)


def refusal(client: Client, pod: Obj) -> str:
    """What the user hears who submits this pod; nothing if it is admitted."""
    try:
        client.create(PODS, pod, dry_run=True)
    except StatusError as error:
        return error.message
    return ""
