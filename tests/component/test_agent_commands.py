"""`kubenexus agent --once` and `kubenexus cleanup` as people type them, on both API servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubenexus.agent.publish.rights import NODE_RESOURCE_TOPOLOGIES
from kubenexus.common import cli, logs
from kubenexus.common import vocabulary as v
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import NotFound
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import CUSTOM_RESOURCES, NODES, RESOURCE_SLICES
from kubenexus.common.sandbox.machine_tree import write_machine
from tests.agents import SMALL_DGX, labels, notes, own_node, slices
from tests.servers import Server
from tests.stub_server import until


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client.connect(str(server.kubeconfig), agent="test") as made:
        yield made


@pytest.fixture
def node(client: Client) -> Iterator[str]:
    with own_node(client, labels={"kubernetes.io/os": "linux"}) as name:
        yield name


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("machine")
    write_machine(SMALL_DGX, root)
    return root


@pytest.fixture
def publish(server: Server, machine: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `kubenexus agent --once` on the machine and returns the exit code."""
    monkeypatch.setattr(logs, "configure", lambda *_: None)  # the test's own logging stays

    def run(node: str, *words: str) -> int:
        common = ["agent", "--once", "--root", str(machine), "--kubeconfig", str(server.kubeconfig)]
        return cli.main([*common, "--node-name", node, *words])

    return run


def cleanup(server: Server, *words: str) -> int:
    return cli.main(["cleanup", "--kubeconfig", str(server.kubeconfig), *words])


def test_once_publishes_and_cleanup_leaves_nothing(
    server: Server, client: Client, node: str, publish: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert publish(node) == 0
    count = len(labels(client, node))
    assert labels(client, node)[v.GPU_COUNT] == "8"
    assert slices(client, node).keys() == {"numa", "gpu", "nic"}
    assert cleanup(server, "--node", node) == 0
    assert capsys.readouterr().out == f"{node}: removed {count} labels, 1 annotation, 3 slices\n"
    metadata = client.get(NODES, node)["metadata"]
    assert (labels(client, node), notes(client, node), slices(client, node)) == ({}, {}, {})
    assert metadata["labels"]["kubernetes.io/os"] == "linux"
    assert not {v.AGENT_NUMA_MANAGER, v.AGENT_GPU_MANAGER} & {entry["manager"] for entry in metadata["managedFields"]}
    assert cleanup(server, "--node", node) == 0
    assert capsys.readouterr().out == f"{node}: nothing to remove\n"


@pytest.mark.parametrize("server", ["sandbox"], indirect=True)  # others are at work on the real one
def test_cleanup_of_all_reaches_slices_of_nodes_that_are_gone(
    server: Server, client: Client, node: str, publish: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(node)
    spec = {"driver": v.DRA_DRIVER, "nodeName": "gone", "pool": {"name": "gone/gpu", "resourceSliceCount": 1}}
    client.create(RESOURCE_SLICES, {"metadata": {"name": "kubenexus-gpu-gone"}, "spec": spec})
    assert cleanup(server, "--all") == 0
    out = capsys.readouterr().out
    assert f"{node}: removed " in out
    assert "gone (gone): removed 1 slice\n" in out
    assert client.list(RESOURCE_SLICES, field_selector=f"spec.driver={v.DRA_DRIVER}").items == []


def test_a_node_that_is_not_there_is_said(server: Server, publish: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert publish("nobody-home") == 2
    assert (
        "there is no Node nobody-home; name the Node that this machine is with --node-name." in capsys.readouterr().err
    )
    assert cleanup(server, "--node", "nobody-home") == 2
    assert "there is no Node nobody-home; name one with --node, or take --all." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(["--publish", "labels,lables"], "use some of labels,annotation,slices,nrt", id="an unknown part"),
        pytest.param(["--interval", "0"], "0 is not a number of seconds above 0", id="no interval"),
        pytest.param(["--root", "/nowhere"], "there is no folder sys in /nowhere", id="no machine"),
        pytest.param(["--kubeconfig", "/nowhere"], "the kubeconfig /nowhere cannot be used", id="no cluster"),
    ],
)
def test_bad_words_are_refused_in_one_sentence(
    publish: Any, words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert publish("n1", *words) == 2
    captured = capsys.readouterr()
    assert error in captured.err
    assert captured.err.count("\n") <= 20  # argparse shows the usage as well
    assert "Traceback" not in captured.err


# NodeResourceTopology

NRT = NODE_RESOURCE_TOPOLOGIES
LOOSE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": str(NRT), "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
    "spec": {
        "group": NRT.group,
        "scope": "Cluster",
        "names": {"plural": NRT.plural, "kind": NRT.kind, "singular": "noderesourcetopology", "listKind": "X"},
        "versions": [{"name": NRT.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": LOOSE}}],
    },
}


@pytest.fixture
def nrt_served(client: Client) -> Iterator[None]:
    client.create(CUSTOM_RESOURCES, DEFINITION)
    until(lambda: served(client))
    yield
    client.delete(CUSTOM_RESOURCES, str(NRT))
    until(lambda: not served(client))


def served(client: Client) -> bool:
    try:
        client.list(NRT)
    except NotFound:
        return False
    return True


def test_nrt_is_left_out_where_it_is_not_served(node: str, publish: Any, client: Client) -> None:
    assert publish(node, "--publish=labels,nrt") == 0
    assert labels(client, node)


@pytest.mark.usefixtures("nrt_served")
def test_nrt_is_published_taken_back_and_left_to_another_writer(node: str, publish: Any, client: Client) -> None:
    """One test, because all tests of a session have one definition."""
    assert publish(node, "--publish=nrt") == 0
    first = client.get(NRT, node)
    assert [zone["name"] for zone in first["zones"]] == ["node-0", "node-1"]
    assert publish(node, "--publish=nrt") == 0
    assert client.get(NRT, node)["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert publish(node) == 0
    with pytest.raises(NotFound):
        client.get(NRT, node)

    theirs = {"apiVersion": NRT.api_version, "kind": NRT.kind, "metadata": {"name": node}, "zones": []}
    client.patch(NRT, node, theirs, kind=PatchType.APPLY, manager="another-updater")
    assert (publish(node, "--publish=nrt"), publish(node)) == (0, 0)
    assert client.get(NRT, node)["zones"] == []
