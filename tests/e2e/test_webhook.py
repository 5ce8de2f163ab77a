"""`kubenexus webhook` as a program, with the rights it is shipped with, on a real API server with its controllers."""

from __future__ import annotations

import base64
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from kubenexus.webhook.certs import Holdings, Step, renewed, service_names
from kubenexus.webhook.rights import SECRET
from kubenexus.webhook.tls import Files
from tests import webhooks
from tests.contract import hook as other_hooks
from tests.contract.hook import label, patching
from tests.contract.objects import pod, unique
from tests.servers import Server
from tests.stub_server import until
from tests.webhooks import PATIENCE, Tenant, is_completed

pytestmark = pytest.mark.e2e

Obj = dict[str, Any]
GPU = {"limits": {"nvidia.com/gpu": "1"}}


@pytest.fixture(scope="module")
def shared(_real_session: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Server], Tenant]]:
    with _real_session.with_namespace() as home, webhooks.serving(home, tmp_path_factory.mktemp("webhook")) as tenant:
        yield tenant


@pytest.fixture
def tenant(shared: Callable[[Server], Tenant], real_server: Server) -> Tenant:
    """A namespace of the test's own, served by the one webhook of this module."""
    return shared(real_server)


@pytest.fixture
def mortal(real_server: Server, tmp_path: Path) -> Iterator[Tenant]:
    """A namespace with a webhook of the test's own."""
    with webhooks.serving(real_server, tmp_path) as tenant:
        yield tenant(real_server)


def template(app: str, **resources: Any) -> Obj:
    container = {"name": "main", "image": "example.invalid/main", "resources": resources}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}


def indexed_job(name: str, size: int) -> Obj:
    made = template(name, **GPU)
    made["spec"]["restartPolicy"] = "Never"
    spec = {"completionMode": "Indexed", "parallelism": size, "completions": size, "template": made}
    return {"metadata": {"name": name}, "spec": spec}


def test_indexed_job_becomes_a_gang(tenant: Tenant) -> None:
    job = tenant.client.create(JOBS, indexed_job("train", 8), tenant.namespace)
    until(lambda: len(tenant.pods("app=train")) == 8, PATIENCE)
    for made in tenant.pods("app=train"):
        labels, notes = made["metadata"]["labels"], made["metadata"]["annotations"]
        assert is_completed(made)
        assert labels[v.GANG_MIN_AVAILABLE] == "8"
        assert labels[v.GANG_NAME].startswith(f"job-{job['metadata']['uid'][:8]}")
        assert notes[v.GANG_DISPLAY_NAME] == "Job train"
        assert notes[v.NUMA_POLICY] == v.NumaPolicy.BEST_EFFORT
    assert len({made["metadata"]["labels"][v.GANG_NAME] for made in tenant.pods("app=train")}) == 1


def test_bad_gang_size_is_refused_with_the_remedy(tenant: Tenant, tmp_path: Path) -> None:
    labels = f"{{{v.GANG_NAME}: g, {v.GANG_MIN_AVAILABLE}: abc}}"
    file = tmp_path / "pod.yaml"
    file.write_text(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: bad, labels: {labels}}}\n"
        "spec: {containers: [{name: main, image: example.invalid/main}]}\n"
    )
    kubectl = [str(Path(sys.executable).with_name("kubectl")), f"--kubeconfig={tenant.server.kubeconfig}"]
    command = [*kubectl, "-n", tenant.namespace, "apply", "-f", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "abc" in done.stderr
    assert "whole number" in done.stderr


def test_deployment_is_completed_without_a_gang(tenant: Tenant) -> None:
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("web")}
    tenant.client.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, tenant.namespace)
    until(lambda: len(tenant.pods("app=web")) == 3, PATIENCE)
    assert all(is_completed(made) and v.GANG_NAME not in made["metadata"]["labels"] for made in tenant.pods("app=web"))


@pytest.mark.parametrize(
    ("obj", "dry_run"),
    [
        pytest.param(pod("bare"), False, id="a bare pod"),
        pytest.param(pod("bare"), True, id="a dry run"),
        pytest.param({"metadata": {"generateName": "some-"}, "spec": pod()["spec"]}, False, id="a name to be made up"),
    ],
)
def test_pod_is_completed(tenant: Tenant, obj: Obj, dry_run: bool) -> None:
    assert is_completed(tenant.create(obj, dry_run=dry_run))
    assert bool(tenant.pods()) is not dry_run


def test_scheduler_that_the_user_chose_stays(tenant: Tenant) -> None:
    assert tenant.create(pod("mine", {"schedulerName": "mine"}))["spec"]["schedulerName"] == "mine"


def test_namespace_that_did_not_ask_is_left_alone(tenant: Tenant) -> None:
    disabled = {"metadata": {"labels": {v.INJECT: None}}}
    tenant.client.patch(NAMESPACES, tenant.namespace, disabled, kind=PatchType.MERGE)
    until(lambda: not tenant.is_served(), PATIENCE)
    assert v.INJECTED not in (tenant.create(pod("plain"))["metadata"].get("annotations") or {})


def test_second_webhook_and_reinvocation(tenant: Tenant) -> None:
    """What another webhook adds after us is seen in a second round, and nothing is set twice."""
    with other_hooks.running() as other:
        other.reply = lambda _: patching(label("added", "yes"))
        config = webhooks.configuration(tenant.configuration, 1)[MUTATING_WEBHOOKS]
        config["webhooks"][0]["clientConfig"] = {"url": other.url, "caBundle": other.ca_bundle}
        config["metadata"]["name"] = name = unique("zz-after-us")
        tenant.client.create(MUTATING_WEBHOOKS, config)
        try:
            labelled = pod("both", labels={"app": "x"})
            until(lambda: "added" in tenant.create(labelled, dry_run=True)["metadata"]["labels"], PATIENCE)
            made = tenant.create(labelled)
        finally:
            tenant.client.delete(MUTATING_WEBHOOKS, name)
    assert is_completed(made)
    assert made["metadata"]["labels"]["added"] == "yes"
    assert other.seen[-1]["object"]["spec"]["schedulerName"] == v.SCHEDULER_NAME


def test_owner_uid_is_needed_to_belong(tenant: Tenant) -> None:
    """A pod that claims an owner which never was is admitted as it is, and soon."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "none", "uid": "0-0", "controller": True}
    made = tenant.create(pod("orphan", ownerReferences=[reference]))
    assert is_completed(made)
    assert v.GANG_NAME not in (made["metadata"].get("labels") or {})


# --- It may die


def test_stopped_in_mid_stream_it_loses_no_pod(mortal: Tenant) -> None:
    made: list[Obj] = []
    for number in range(60):
        if number == 20:
            mortal.running.process.send_signal(signal.SIGTERM)
        made.append(mortal.create(pod(f"p{number}")))
    assert mortal.running.process.wait(20) == 0
    completed = [is_completed(one) for one in (*made, mortal.create(pod("last")))]
    assert all(completed[:20])
    assert not completed[-1]
    assert len(mortal.pods()) == 61


def test_killed_it_loses_no_pod_of_a_job(mortal: Tenant) -> None:
    """The parent vanishes without a word, and the worker with it, while a controller creates pods."""
    mortal.client.create(JOBS, indexed_job("big", 40), mortal.namespace)
    until(lambda: mortal.pods("app=big"), PATIENCE)
    mortal.running.process.kill()
    mortal.running.process.wait(20)
    until(lambda: len(mortal.pods("app=big")) == 40, PATIENCE)


def test_worker_that_dies_is_replaced(mortal: Tenant) -> None:
    (worker,) = psutil.Process(mortal.running.process.pid).children()
    worker.kill()
    mortal.create(pod("meanwhile"))
    until(mortal.is_served, PATIENCE)
    mortal.running.await_ready()


# --- Certificates change under load


class Load:
    """Works in threads of its own until the block ends, and remembers what went wrong."""

    def __init__(self, work: Callable[[], object], threads: int) -> None:
        self._work = work
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]
        self.done, self.failures = 0, list[str]()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._work()
                self.done += 1
            except (ApiError, AssertionError, OSError) as error:
                self.failures.append(repr(error))

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()


def shake_hands(tenant: Tenant) -> bytes:
    """Connect as an API server would that has read the configuration this moment; gives the certificate."""
    entry = tenant.client.get(MUTATING_WEBHOOKS, tenant.configuration)["webhooks"][0]
    bundle = base64.b64decode(entry["clientConfig"]["caBundle"]).decode()
    context = ssl.create_default_context(cadata=bundle)
    with (
        socket.create_connection(("127.0.0.1", tenant.running.port), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        return connection.getpeercert(binary_form=True) or b""


def await_new_certificate(tenant: Tenant, change: Callable[[], object]) -> None:
    before = shake_hands(tenant)
    change()
    until(lambda: shake_hands(tenant) != before, PATIENCE)


def expire_soon(tenant: Tenant) -> None:
    """As after three weeks: the leaf has less than a third of its life left."""
    data = tenant.client.get(SECRETS, SECRET, tenant.home)["data"]
    names = service_names("kubenexus-webhook", tenant.home)
    old = renewed(Step.LEAF, Holdings.from_secret(data), names, datetime.now(UTC) - timedelta(days=21))
    tenant.client.patch(SECRETS, SECRET, {"data": old.to_secret()}, tenant.home, kind=PatchType.MERGE)


@pytest.mark.slow
def test_certificates_change_without_one_failed_admission(real_server: Server, tmp_path: Path) -> None:
    """The leaf is renewed, then the Secret is lost and with it the authority; failures would refuse pods here."""
    with webhooks.serving(real_server, tmp_path, policy="Fail") as make:
        tenant = make(real_server)

        def admit() -> None:
            assert is_completed(tenant.create(pod("load"), dry_run=True))

        with Load(admit, 3) as admissions, Load(lambda: shake_hands(tenant), 1) as handshakes:
            await_new_certificate(tenant, lambda: expire_soon(tenant))
            await_new_certificate(tenant, lambda: tenant.client.delete(SECRETS, SECRET, tenant.home))
            more = admissions.done + 20
            until(lambda: admissions.done > more, PATIENCE)
        assert admissions.failures == []
        assert handshakes.failures == []
        assert tenant.running.is_ready()


def test_certificate_out_of_its_time_stops_nobody(real_server: Server, tmp_path: Path) -> None:
    """A mounted certificate is expired, then of a clock that is ahead, then good again: pods are created all along."""
    now = datetime.now(UTC)
    good, expired, ahead, again = (
        renewed(Step.BOTH, Holdings(), ("kubenexus-webhook",), now + timedelta(days=days)) for days in (0, -31, 1, 0)
    )
    files = Files.of(tmp_path)
    files.write(good.leaf, good.leaf_key)
    flags = ["--certificates", "mounted", "--certificate-dir", str(tmp_path)]
    with webhooks.serving(real_server, tmp_path, *flags, bundle=good.authorities) as make:
        tenant = make(real_server)
        for held in (expired, ahead):
            files.write(held.leaf, held.leaf_key)
            trust(tenant, held.authorities)
            until(lambda: not tenant.is_served(), PATIENCE)
            assert not is_completed(tenant.create(pod(unique("p"))))
        files.write(again.leaf, again.leaf_key)
        trust(tenant, again.authorities)
        until(tenant.is_served, PATIENCE)


def trust(tenant: Tenant, authorities: bytes) -> None:
    """Whom API servers trust from now on. They connect anew for that; open connections would go on."""
    bundle = base64.b64encode(authorities).decode()
    patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
    for res in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        tenant.client.patch(res, tenant.configuration, patch, kind=PatchType.JSON)
