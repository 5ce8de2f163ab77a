"""What tests of the agent share: a Node of their own, and the agent as a program."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubenexus.agent.publish.targets import own_slices
from kubenexus.common import wire
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import NotFound
from kubenexus.common.kube.resources import NODES, RESOURCE_SLICES
from kubenexus.common.sandbox.machines import MACHINES
from kubenexus.common.topology import NodeTopology
from kubenexus.common.vocabulary import DOMAIN
from tests.contract.objects import node as node_object
from tests.contract.objects import unique

Obj = dict[str, Any]

SMALL_DGX = replace(MACHINES["dgx-h100"], cores_per_numa=2)
"""with few CPUs, whose files would be most of the work"""


@contextlib.contextmanager
def own_node(client: Client, **metadata: Any) -> Iterator[str]:
    """The name of a Node that exists while the test runs, and whose slices go with it."""
    name = unique("agent")
    client.create(NODES, node_object(name, **metadata))
    yield name
    doomed = [(RESOURCE_SLICES, slice_["metadata"]["name"]) for slice_ in slices(client, name).values()]
    for res, each in [*doomed, (NODES, name)]:
        with contextlib.suppress(NotFound):  # the test or the garbage collector may have been there before
            client.delete(res, each)


def slices(client: Client, node_name: str) -> dict[str, Obj]:
    """The slices of a node by kind."""
    found = client.list(RESOURCE_SLICES, field_selector=own_slices(node_name)).items
    return {slice_["spec"]["pool"]["name"].rpartition("/")[2]: slice_ for slice_ in found}


def generations(client: Client, node_name: str) -> dict[str, int]:
    return {kind: slice_["spec"]["pool"]["generation"] for kind, slice_ in slices(client, node_name).items()}


def labels(client: Client, node_name: str) -> dict[str, str]:
    """Our labels on a Node."""
    return _ours(client, node_name, "labels")


def notes(client: Client, node_name: str) -> dict[str, str]:
    return _ours(client, node_name, "annotations")


def _ours(client: Client, node_name: str, field: str) -> dict[str, str]:
    found = client.get(NODES, node_name)["metadata"].get(field) or {}
    return {key: value for key, value in found.items() if key.partition("/")[0].endswith(DOMAIN)}


def reading(client: Client, node_name: str) -> wire.Reading:
    """What a scheduler reads of the node."""
    parts = [wire.read_slice(slice_) for slice_ in slices(client, node_name).values()]
    return wire.read_topology(labels(client, node_name), notes(client, node_name), parts)


def topology(client: Client, node_name: str) -> NodeTopology:
    """The topology a scheduler reads, without reasons for what it does not know."""
    return replace(reading(client, node_name).topology, unknowns={})


def versions(client: Client, node_name: str) -> tuple[Obj, dict[str, str]]:
    """Changes with every write of ours: the Node's managedFields, and the versions of its slices."""
    fields = client.get(NODES, node_name)["metadata"]["managedFields"]
    ours = {entry["manager"]: entry for entry in fields if entry["manager"].startswith("kubenexus")}
    return ours, {kind: each["metadata"]["resourceVersion"] for kind, each in slices(client, node_name).items()}


@contextlib.contextmanager
def program(*words: object, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`kubenexus agent` with these words, until the end of the block; what it logs goes to a file."""
    command = [str(Path(sys.executable).with_name("kubenexus")), "agent", *map(str, words)]
    with log.open("ab") as output, subprocess.Popen(command, stderr=output, env=os.environ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(20)
