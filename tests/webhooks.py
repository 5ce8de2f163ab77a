"""What tests of the running webhook share: the program as a process, and the configurations that send pods to it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack.control_plane.processes import free_port
from kubenexus.common import vocabulary as v
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from kubenexus.webhook.rights import RULES, certificate_rules, secret_rules
from tests.contract.objects import pod, unique
from tests.servers import Server
from tests.stub_server import until

Obj = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
PATIENCE = 40.0
SERVED_BY = "served-by"
"""the label of a namespace that tells which webhook its pods go to: tests share the server"""


@dataclass(slots=True)
class Running:
    """The program, and where it listens."""

    process: subprocess.Popen[bytes]
    port: int
    health: int
    log: Path

    def fetch(self, page: str) -> str:
        """A page of its plain health server; nothing while there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/{page}", timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            return ""

    def is_ready(self) -> bool:
        return self.fetch("readyz").endswith("\nok\n")

    def await_ready(self) -> None:
        until(lambda: self.process.poll() is not None or self.is_ready(), PATIENCE)
        assert self.process.poll() is None, self.log.read_text()

    def post(self, path: str, body: bytes, content_type: str = "application/json") -> tuple[int, bytes]:
        """Status and body of an answer, whoever certified it."""
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}", body, {"Content-Type": content_type}, method="POST"
        )
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        https = urllib.request.HTTPSHandler(context=context)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({}), https).open(
                request, timeout=20
            ) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0, self.log.read_text()


@contextlib.contextmanager
def running(kubeconfig: Path, folder: Path, *flags: str, port: int = 0) -> Iterator[Running]:
    """`kubenexus webhook`, from the moment it is ready; it must end well and leave no trace of an error."""
    port, health = port or free_port(), free_port()
    command = [str(Path(sys.executable).with_name("kubenexus")), "webhook", "--kubeconfig", str(kubeconfig)]
    addresses = ["--address", f"127.0.0.1:{port}", "--health", f"127.0.0.1:{health}"]
    log = folder / f"webhook-{port}.log"
    own = {**os.environ, "TMPDIR": str(folder)}  # where a killed one leaves its key
    with log.open("ab") as output, subprocess.Popen([*command, *addresses, *flags], stderr=output, env=own) as process:
        program = Running(process, port, health, log)
        try:
            program.await_ready()
            yield program
        finally:
            if process.poll() is None:
                program.stop()
    assert "Traceback" not in log.read_text()
    assert "may not" not in log.read_text(), "its rights are not enough"


def flags_for(namespace: str, configuration: str) -> list[str]:
    return ["--namespace", namespace, "--webhook-configuration", configuration]


def configuration(name: str, port: int, policy: str = "Ignore", bundle: bytes = b"") -> dict[Resource, Obj]:
    """Both configurations, as the chart has them but by address, for namespaces that carry the label `served-by`."""

    def entry(path: str, operations: list[str], **more: Any) -> Obj:
        return {
            "name": f"{path}.webhook.test",
            "clientConfig": {
                "url": f"https://127.0.0.1:{port}/{path}",
                "caBundle": base64.b64encode(bundle).decode(),
            },
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {SERVED_BY: name}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": policy,
            "timeoutSeconds": 10 if policy == "Fail" else 2,
            **more,
        }

    mutating = entry("mutate", ["CREATE"], reinvocationPolicy="IfNeeded")
    validating = entry("validate", ["CREATE", "UPDATE"])
    return {
        MUTATING_WEBHOOKS: {"metadata": {"name": name}, "webhooks": [mutating]},
        VALIDATING_WEBHOOKS: {"metadata": {"name": name}, "webhooks": [validating]},
    }


@contextlib.contextmanager
def configured(client: Client, name: str, port: int, policy: str = "Ignore", bundle: bytes = b"") -> Iterator[None]:
    """While both configurations are on the server."""
    objects = configuration(name, port, policy, bundle)
    for res, obj in objects.items():
        client.create(res, obj)
    yield
    for res in objects:
        client.delete(res, name)


@contextlib.contextmanager
def account(client: Client, namespace: str, admin: Path, folder: Path, configured: str) -> Iterator[Path]:
    """The kubeconfig of a service account with the webhook's rights and no others."""
    name = f"webhook-{namespace}"
    rules = [*RULES, *certificate_rules(configured), *secret_rules()]
    client.create(ROLES, {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "webhook", "namespace": namespace}
    reference = {"apiGroup": RBAC, "kind": ROLES.kind, "name": name}
    client.create(BINDINGS, {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference})
    client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "webhook"}}, namespace)
    ask = {"metadata": {"name": "webhook"}, "spec": {}}
    token = client.create(SERVICE_ACCOUNTS, ask, namespace, subresource="token")["status"]["token"]
    config = json.loads(admin.read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / "webhook-kubeconfig"
    path.write_text(json.dumps(config))
    yield path
    client.delete(BINDINGS, name)
    client.delete(ROLES, name)


class Tenant:
    """A namespace that asked for us, and the webhook that serves it."""

    def __init__(self, client: Client, server: Server, running: Running, configuration: str, home: str) -> None:
        self.client, self.server, self.namespace = client, server, server.namespace
        self.running, self.configuration, self.home = running, configuration, home

    def create(self, obj: Obj, *, dry_run: bool = False) -> Obj:
        return self.client.create(PODS, obj, self.namespace, dry_run=dry_run)

    def pods(self, selector: str | None = None) -> list[Obj]:
        return self.client.list(PODS, self.namespace, label_selector=selector).items

    def is_served(self) -> bool:
        """Whether a pod is completed now; server and webhook take notice of labels a moment after they are there."""
        try:
            return is_completed(self.create(pod("probe"), dry_run=True))
        except ApiError:  # the namespace has no service account yet, or nobody trusts the webhook yet
            return False


def is_completed(made: Obj) -> bool:
    return bool(made["spec"]["schedulerName"] == v.SCHEDULER_NAME)


@contextlib.contextmanager
def serving(
    server: Server, folder: Path, *flags: str, policy: str = "Ignore", bundle: bytes = b""
) -> Iterator[Callable[[Server], Tenant]]:
    """The program with its account in the server's namespace; what it gives makes a tenant of another namespace.

    `bundle` is for a program that does not say itself whom to trust.
    """
    name, home, port = unique("webhook"), server.namespace, free_port()
    with (
        Client.connect(str(server.kubeconfig), agent="test") as client,
        configured(client, name, port, policy, bundle),
        account(client, home, server.kubeconfig, folder, name) as identity,
        running(identity, folder, *flags_for(home, name), *flags, port=port) as program,
    ):

        def tenant(of: Server) -> Tenant:
            made = Tenant(client, of, program, name, home)
            labels = {v.INJECT: v.Inject.ENABLED, SERVED_BY: name}
            client.patch(NAMESPACES, of.namespace, {"metadata": {"labels": labels}}, kind=PatchType.MERGE)
            until(made.is_served, PATIENCE)
            return made

        yield tenant
