"""The pages about installing, upgrading and uninstalling, command by command on a real API server, as a reader would.

`hack/kubelets` plays the kubelets, so that pods of the chart run as processes. What cannot be run is in CANNOT_RUN.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.control_plane.processes import free_port
from hack.kubelet import cli
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import (
    CUSTOM_RESOURCES,
    JOBS,
    MUTATING_WEBHOOKS,
    PODS,
    RESOURCE_SLICES,
    Resource,
)
from kubenexus.common.vocabulary import SCHEDULER_NAME, SYSTEM_NAMESPACE
from tests.chart.plane import own_plane
from tests.docs import pages
from tests.docs.pages import ROOT
from tests.docs.test_commands import run
from tests.owners import definition
from tests.stub_server import until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CANNOT_RUN = {
    "docker build ": "there is no container engine",
    "docker push ": "there is no registry",
    "make dev": "it has made what runs this test",
    "hack/control-plane up ": "the fixture does the same",
    "hack/kubelets": "the fixture does the same, and it does not end by itself",
}
MONITORING = [
    Resource("monitoring.coreos.com", "v1", "podmonitors", "PodMonitor"),
    Resource("monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule"),
]
BRIEF = [ROOT / "README.md", ROOT / "charts" / "kubenexus" / "README.md"]
"""pages that show a part of the story"""


def commands() -> list[str]:
    """All commands of the story, from its first page to its last."""
    return [one for page in pages.installation() for block in pages.shell_blocks(page) for one in block.commands]


def plain(command: str) -> str:
    return " ".join(command.split())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reader sits: what looks like a clone."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("examples", "charts"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The reader's cluster: a control plane with kube-scheduler, kubelets, and the Prometheus operator's kinds."""
    folder, stopped = tmp_path_factory.mktemp("install"), threading.Event()
    with own_plane(folder / "plane", "scheduler") as plane:
        with Client.connect(str(plane.kubeconfig), agent="test") as client:
            for res in MONITORING:
                client.create(CUSTOM_RESOURCES, definition(res))
        kubelets = threading.Thread(target=cli.run, args=(plane.kubeconfig, folder, stopped))
        kubelets.start()
        yield plane.kubeconfig
        stopped.set()
        kubelets.join(60)


class Reader:
    """Types what the pages say, one command after the other."""

    def __init__(self, home: Path, kubeconfig: Path) -> None:
        self._home = home
        self._variables = {"KUBECONFIG": str(kubeconfig)}

    def type(self, command: str) -> None:
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._variables[name] = value
        elif not command.startswith(tuple(CANNOT_RUN)):
            done = self._run(command)
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        if command.startswith("helm install "):  # processes of one machine share its ports, with others besides
            command = f"{command} --set webhook.port={free_port()}"
        return run(command, self._home, **self._variables)


def test_pages_lead_to_a_gang_and_back(home: Path, kubeconfig: Path) -> None:
    reader = Reader(home, kubeconfig)
    with Client.connect(str(kubeconfig), agent="test") as client:
        for command in commands():
            reader.type(command)
            if command.startswith("helm test "):
                replicas_are_apart(client)
            if command.startswith("kubectl wait "):
                the_gang_has_run(client)
        assert client.list(RESOURCE_SLICES).items == []
        assert client.list(MUTATING_WEBHOOKS).items == []
        until(lambda: not client.list(PODS, SYSTEM_NAMESPACE).items, 60)


def replicas_are_apart(client: Client) -> None:
    """Neither node has a zone, and there is one for each replica."""
    for component in ("scheduler", "webhook"):
        pods = client.list(PODS, SYSTEM_NAMESPACE, label_selector=f"app.kubernetes.io/component={component}").items
        assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == 2, component


def the_gang_has_run(client: Client) -> None:
    workers = client.list(PODS, "default").items
    assert {pod["spec"]["schedulerName"] for pod in workers} == {SCHEDULER_NAME}
    assert len(workers) == client.get(JOBS, "quickstart", "default")["status"]["succeeded"] == 4


def test_every_exception_is_needed() -> None:
    assert [start for start in CANNOT_RUN if not any(one.startswith(start) for one in commands())] == []


@pytest.mark.parametrize("page", BRIEF, ids=pages.title)
def test_brief_pages_say_the_same(page: Path) -> None:
    story = {plain(command) for command in commands()}
    [block] = [block for block in pages.shell_blocks(page) if pages.installs(block)]
    assert [command for command in block.commands if plain(command) not in story] == []
