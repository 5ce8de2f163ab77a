"""Publishing on both API servers: accepted, replaced, taken back, repaired, and quiet where nothing changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kubenexus.agent.publish.memory import Look
from kubenexus.agent.publish.publisher import NodeGone, Publisher
from kubenexus.agent.publish.wanted import DEFAULT_PARTS, Part
from kubenexus.common import vocabulary as v
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import Conflict, NotFound
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import NODES, RESOURCE_SLICES
from kubenexus.common.topology import Gpu, NodeTopology
from tests.agents import generations, labels, notes, own_node, reading, slices, topology, versions
from tests.contract.objects import node as node_object
from tests.machines import dgx1_v100, dgx_h100, gb200, numa_nodes, pairs_across_numa
from tests.servers import Server

NO_GPUS = NodeTopology(numa=numa_nodes((0, 1), (2, 3)), gpus=(), nics=())
HUNG = Look(replace(dgx_h100(), gpus=tuple(Gpu(index=i) for i in range(8)), nvlink=None), "hung")


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client.connect(str(server.kubeconfig), agent="test") as made:
        yield made


@pytest.fixture
def node(client: Client) -> Iterator[str]:
    with own_node(client, labels={"kubernetes.io/os": "linux"}) as name:
        yield name


def agent(client: Client, node: str, *parts: str) -> Publisher:
    return Publisher(client, node, frozenset(Part(part) for part in parts) or DEFAULT_PARTS, stale_after=900)


def ok(topology: NodeTopology) -> Look:
    return Look(topology, "ok")


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(dgx_h100(), id="nvswitch"),
        pytest.param(dgx_h100(lost=(3,)), id="a lost GPU"),
        pytest.param(dgx1_v100(), id="mesh"),
        pytest.param(pairs_across_numa(), id="pairs"),
        pytest.param(gb200(), id="34 NUMA nodes"),
        pytest.param(NO_GPUS, id="no GPUs"),
    ],
)
def test_what_is_published_is_accepted_and_read_back(client: Client, node: str, machine: NodeTopology) -> None:
    assert agent(client, node).publish(ok(machine), 0.0) >= 4
    assert topology(client, node) == machine
    assert reading(client, node).problems == ()
    assert generations(client, node) == {"numa": 1, "gpu": 1, "nic": 1}
    owner = client.get(NODES, node)["metadata"]["uid"]
    assert {s["metadata"]["ownerReferences"][0]["uid"] for s in slices(client, node).values()} == {owner}


def test_no_write_when_nothing_changed_nor_after_a_restart(client: Client, node: str) -> None:
    publisher = agent(client, node)
    publisher.publish(ok(dgx_h100()), 0.0)
    before = versions(client, node)
    assert [publisher.publish(ok(dgx_h100()), now) for now in range(5)] == [0] * 5
    assert agent(client, node).publish(ok(dgx_h100()), 0.0) == 0
    assert versions(client, node) == before


def test_another_state_replaces_the_old_one_and_leaves_the_rest(client: Client, node: str) -> None:
    publisher = agent(client, node)
    publisher.publish(ok(dgx_h100()), 0.0)
    publisher.publish(ok(replace(dgx_h100(), gpus=(), nics=(), nvlink=None)), 0.0)
    assert [key for key in labels(client, node) if key.startswith(v.GPU_PREFIX)] == []
    assert topology(client, node).gpus == ()
    assert generations(client, node) == {"numa": 1, "gpu": 2, "nic": 2}
    assert client.get(NODES, node)["metadata"]["labels"]["kubernetes.io/os"] == "linux"


def test_another_version_of_the_agent_leaves_nothing_behind(client: Client, node: str) -> None:
    """What an agent with other labels and slices wrote under our names goes when we come."""
    old = {"metadata": {"name": node, "labels": {f"{v.NUMA_PREFIX}retired": "1"}}, "apiVersion": "v1", "kind": "Node"}
    client.patch(NODES, node, old, kind=PatchType.APPLY, manager=v.AGENT_NUMA_MANAGER)
    spec = {"driver": v.DRA_DRIVER, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}
    client.create(RESOURCE_SLICES, {"metadata": {"name": f"retired-{node}"}, "spec": spec})
    agent(client, node).publish(ok(dgx_h100()), 0.0)
    assert f"{v.NUMA_PREFIX}retired" not in labels(client, node)
    assert slices(client, node).keys() == {"numa", "gpu", "nic"}


def test_labels_written_by_hand_are_taken_over(client: Client, node: str) -> None:
    by_hand = {"metadata": {"labels": {v.NUMA_NODE_COUNT: "99", v.GPU_COUNT: "1", f"{v.GPU_PREFIX}note": "mine"}}}
    client.patch(NODES, node, by_hand, kind=PatchType.MERGE, manager="kubectl-label")
    agent(client, node).publish(ok(dgx_h100()), 0.0)
    found = labels(client, node)
    assert (found[v.NUMA_NODE_COUNT], found[v.GPU_COUNT], found[f"{v.GPU_PREFIX}note"]) == ("2", "8", "mine")
    agent(client, node, "annotation").publish(ok(dgx_h100()), 0.0)
    assert labels(client, node) == {f"{v.GPU_PREFIX}note": "mine"}


@pytest.mark.parametrize("part", ["labels", "annotation", "slices"])
def test_what_is_switched_off_is_removed_once(client: Client, node: str, part: str) -> None:
    agent(client, node).publish(ok(dgx_h100()), 0.0)
    publisher = agent(client, node, *(DEFAULT_PARTS - {Part(part)}))
    assert publisher.publish(ok(dgx_h100()), 0.0) > 0
    there = {"labels": labels(client, node), "annotation": notes(client, node), "slices": slices(client, node)}
    assert {name for name, found in there.items() if not found} == {part}
    assert publisher.publish(ok(dgx_h100()), 0.0) == 0


@pytest.mark.parametrize("edit", ["value", "removal", "annotation"])
def test_a_foreign_edit_of_the_node_is_undone(client: Client, node: str, edit: str) -> None:
    publisher = agent(client, node)
    publisher.publish(ok(dgx_h100()), 0.0)
    changes = {
        "value": {"labels": {v.GPU_COUNT: "1"}},
        "removal": {"labels": {v.GPU_COUNT: None, v.NUMA_NODE_COUNT: None}},
        "annotation": {"annotations": {v.TOPOLOGY_SNAPSHOT: "{}"}},
    }
    client.patch(NODES, node, {"metadata": changes[edit]}, kind=PatchType.MERGE)
    assert publisher.publish(ok(dgx_h100()), 0.0) > 0
    assert topology(client, node) == dgx_h100()
    assert labels(client, node)[v.GPU_COUNT] == "8"


def test_wiped_slices_come_back_above_their_last_generation(client: Client, node: str) -> None:
    publisher = agent(client, node)
    publisher.publish(ok(dgx_h100()), 0.0)
    for slice_ in slices(client, node).values():
        client.delete(RESOURCE_SLICES, slice_["metadata"]["name"])
    assert publisher.publish(ok(dgx_h100()), 0.0) == 3
    assert generations(client, node) == {"numa": 2, "gpu": 2, "nic": 2}


def test_an_edited_slice_is_put_right(client: Client, node: str) -> None:
    publisher = agent(client, node)
    publisher.publish(ok(dgx_h100()), 0.0)
    name = slices(client, node)["gpu"]["metadata"]["name"]
    client.patch(RESOURCE_SLICES, name, {"spec": {"devices": [{"name": "gpu-0"}]}}, kind=PatchType.MERGE)
    assert publisher.publish(ok(dgx_h100()), 0.0) == 1
    assert (topology(client, node), generations(client, node)["gpu"]) == (dgx_h100(), 2)


def test_a_slice_that_changed_behind_the_cache_is_a_conflict_and_then_put_right(client: Client, node: str) -> None:
    cache = None
    publisher = Publisher(client, node, DEFAULT_PARTS, 900, lambda: cache)
    publisher.publish(ok(dgx_h100()), 0.0)
    cache = [*slices(client, node).values()]
    name = slices(client, node)["gpu"]["metadata"]["name"]
    client.patch(RESOURCE_SLICES, name, {"metadata": {"labels": {"x": "y"}}}, kind=PatchType.MERGE)
    with pytest.raises(Conflict):
        publisher.publish(ok(NO_GPUS), 0.0)
    assert labels(client, node)[v.NUMA_NODE_COUNT] == "2"  # the rest went through
    cache = None
    publisher.publish(ok(NO_GPUS), 0.0)
    assert topology(client, node) == NO_GPUS


def test_a_failed_probe_keeps_the_gpus(client: Client, node: str) -> None:
    publisher = agent(client, node)
    publisher.publish(ok(dgx_h100()), 0.0)
    assert publisher.publish(HUNG, 60.0) == 0
    assert publisher.publish(HUNG, 900.0) == 1
    assert labels(client, node)[v.GPU_STALE] == "true"
    assert topology(client, node) == dgx_h100()
    publisher.publish(ok(dgx_h100()), 960.0)
    assert v.GPU_STALE not in labels(client, node)


@pytest.mark.parametrize("parts", [["labels"], ["annotation"], ["slices"], ["labels", "annotation", "slices"]])
def test_a_failed_probe_keeps_the_gpus_of_an_agent_before(client: Client, node: str, parts: list[str]) -> None:
    agent(client, node, *parts).publish(ok(dgx_h100()), 0.0)
    before = topology(client, node).gpus
    agent(client, node, *parts).publish(HUNG, 0.0)
    assert topology(client, node).gpus == before


def test_stale_outlives_a_restart(client: Client, node: str) -> None:
    first = agent(client, node)
    first.publish(ok(dgx_h100()), 0.0)
    first.publish(HUNG, 900.0)
    assert agent(client, node).publish(HUNG, 0.0) == 0
    assert labels(client, node)[v.GPU_STALE] == "true"


def test_a_deleted_node_is_the_end_and_no_ghost_comes(client: Client, node: str) -> None:
    publisher = agent(client, node)
    publisher.publish(ok(dgx_h100()), 0.0)
    client.delete(NODES, node)
    with pytest.raises(NodeGone) as gone:
        publisher.publish(ok(NO_GPUS), 0.0)
    assert gone.value.seen
    with pytest.raises(NotFound):
        client.get(NODES, node)


def test_a_node_that_never_was_is_told_apart(client: Client) -> None:
    with pytest.raises(NodeGone) as gone:
        agent(client, "nobody-home").publish(ok(NO_GPUS), 0.0)
    assert not gone.value.seen


def test_a_replaced_node_is_published_anew(client: Client, node: str) -> None:
    publisher = agent(client, node)
    publisher.publish(ok(dgx_h100()), 0.0)
    client.delete(NODES, node)
    uid = client.create(NODES, node_object(node))["metadata"]["uid"]
    with contextlib.suppress(Conflict, NotFound):  # the garbage collector may be at the old slices
        publisher.publish(ok(dgx_h100()), 0.0)
    publisher.publish(ok(dgx_h100()), 0.0)
    assert topology(client, node) == dgx_h100()
    assert {s["metadata"]["ownerReferences"][0]["uid"] for s in slices(client, node).values()} == {uid}
