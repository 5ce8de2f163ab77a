"""Every command that a page of the guide shows in a block is run, as a reader would.

A block with `kubectl`, or marked `sh cluster`, runs on a cluster with the nodes of examples/cluster.yaml, webhook and
scheduler; all others run anywhere. Marked `sh pending`, the answer is that pods stay pending. What cannot be run here
is named in BY_HAND, and stands in the README only. Blocks that install are run by test_install.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hack.control_plane import binaries
from kubenexus.common.cli import NEGATIVE, OK
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import LEASES, NODES, PODS
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.sandbox.demo_webhook import webhook
from kubenexus.common.vocabulary import GANG_MIN_AVAILABLE, SCHEDULER_NAME, SYSTEM_NAMESPACE
from tests.docs import examples, pages
from tests.docs.pages import ROOT, Block
from tests.schedulers import scheduling
from tests.stub_server import until

BLOCKS = [block for page in pages.guide() for block in pages.shell_blocks(page) if not pages.installs(block)]
BY_HAND = ("make ", "kubenexus demo --keep")
"""what builds and what stays; tests/component/test_demo runs the demo"""
REFUSALS = ("examples/simulate.yaml", "examples/webhook.yaml")
"""examples whose point is that something is refused"""


def is_by_hand(command: str) -> bool:
    return command.startswith(BY_HAND)


def on_cluster(block: Block) -> bool:
    return "cluster" in block.info or any(command.startswith("kubectl ") for command in block.commands)


def cases(*, cluster: bool) -> list[object]:
    """The blocks that are run, each with the page and its first command as id."""
    chosen = [one for one in BLOCKS if on_cluster(one) == cluster and not all(map(is_by_hand, one.commands))]
    return [pytest.param(block, id=f"{pages.title(block.page)}: {block.commands[0][:60]}") for block in chosen]


def expected(block: Block, command: str) -> int:
    """The exit code that the page promises."""
    negative = "pending" in block.info or command.endswith(REFUSALS)
    return NEGATIVE if negative and command.startswith("kubenexus ") else OK


def check(block: Block, folder: Path, **variables: str) -> None:
    for command in block.commands:
        if not is_by_hand(command):
            done = run(command, folder, **variables)
            assert done.returncode == expected(block, command), f"{command}: {done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the top of the tree, into which commands may write."""
    home = tmp_path_factory.mktemp("reader")
    for name in ("examples", "docs", "charts"):
        (home / name).symlink_to(ROOT / name)
    return home


def run(command: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """As typed, with our own programs found first."""
    tools = [str(Path(sys.executable).parent), str(home)]
    env = {**os.environ, "HOME": str(home), "PATH": ":".join([*tools, os.environ["PATH"]]), **variables}
    return subprocess.run(
        ["bash", "-c", command], cwd=home, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def test_only_the_readme_shows_what_is_not_run() -> None:
    pages_by_hand = {block.page for block in BLOCKS if any(map(is_by_hand, block.commands))}
    assert pages_by_hand == {ROOT / "README.md"}


def test_no_command_hides_in_an_indented_block() -> None:
    """Only fenced blocks are run."""
    hidden = [
        f"{pages.title(page)}: {line}"
        for page in pages.guide() + pages.installation()
        for line in pages.prose(page).splitlines()
        if line.startswith(("    kubenexus ", "    kubectl ", "    helm ", "    make ", "    hack/"))
    ]
    assert hidden == []


def test_every_kind_of_block_is_known() -> None:
    assert {block.info for block in BLOCKS} <= {("sh",), ("sh", "pending"), ("sh", "cluster")}


@pytest.mark.parametrize("block", cases(cluster=False))
def test_commands_run_without_a_cluster(block: Block, folder: Path) -> None:
    check(block, folder)


def shown() -> list[object]:
    """Blocks with what a page shows beneath them."""
    found: list[object] = []
    for page in pages.guide():
        for block, after in pairwise(pages.blocks(page)):
            if block.info in (("sh",), ("sh", "pending")) and after.info == ("text",):
                found.append(pytest.param(block, after.text, id=f"{pages.title(page)}: {block.commands[-1]}"))
    return found


@pytest.mark.parametrize(("block", "text"), shown())
def test_what_a_page_shows_is_what_is_printed(block: Block, text: str, folder: Path) -> None:
    printed = [run(command, folder).stdout for command in block.commands]
    assert " ".join(text.split()) in " ".join(printed[-1].split())


# --- On a cluster


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Path]:
    """A sandbox with the nodes of the examples, the webhook, and a scheduler that leads; its kubeconfig."""
    kubectl = binaries.find("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl: run `hack/control-plane build` once")
    (folder / "kubectl").symlink_to(kubectl)
    kubeconfig = folder / "kubeconfig"
    with Sandbox(controllers=True) as box:
        box.write_kubeconfig(kubeconfig)
        with Client.connect(str(kubeconfig)) as client:
            for node in examples.read(examples.CLUSTER):
                client.create(NODES, node)
            with webhook(box, client, kubeconfig, "default"), scheduling(kubeconfig, elect=True):
                until(lambda: [one for one in client.list(LEASES, SYSTEM_NAMESPACE).items if leader(one)], 60)
                yield kubeconfig


def leader(lease: dict[str, Any]) -> str:
    return str(lease["spec"].get("holderIdentity") or "")


@pytest.mark.parametrize("block", cases(cluster=True))
def test_commands_run_on_a_cluster(block: Block, folder: Path, cluster: Path) -> None:
    check(block, folder, KUBECONFIG=str(cluster))


def test_quick_start_ends_with_a_gang_that_has_run(folder: Path, cluster: Path) -> None:
    assert run("kubectl apply -f examples/quickstart.yaml", folder, KUBECONFIG=str(cluster)).returncode == 0
    with Client.connect(str(cluster)) as client:
        until(lambda: [pod["status"]["phase"] for pod in client.list(PODS, "default").items] == ["Succeeded"] * 4, 60)
        pods = client.list(PODS, "default").items
    assert {pod["spec"]["schedulerName"] for pod in pods} == {SCHEDULER_NAME}
    assert {pod["metadata"]["labels"][GANG_MIN_AVAILABLE] for pod in pods} == {"4"}
