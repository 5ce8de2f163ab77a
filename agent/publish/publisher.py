"""The applier: makes what stands on the API server what is wanted, and writes nothing where it is already so."""

from __future__ import annotations

from typing import Any

from kubenexus.agent.publish import ownership
from kubenexus.agent.publish.memory import GpuMemory, Look, Published
from kubenexus.agent.publish.targets import Cache, NodeMetadata, Nrt, Slices, Target, Write
from kubenexus.agent.publish.wanted import Findings, Part, Wanted, wanted
from kubenexus.common import logs, metrics, wire
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    StatusError,
)
from kubenexus.common.kube.resources import NODES
from kubenexus.common.vocabulary import AGENT_GPU_MANAGER, AGENT_NUMA_MANAGER, GPU_STALE

log = logs.get(__name__)

Obj = dict[str, Any]

# Refusals of one write, which say nothing about the next; after any other error the server is left in peace.
ONE_WRITE = (Forbidden, Conflict, AlreadyExists, Invalid, BadRequest, NotFound)


class NodeGone(Exception):  # noqa: N818 (the name says what happened)
    """There is no such Node; `seen` tells whether there was one before."""

    def __init__(self, name: str, seen: bool) -> None:
        super().__init__(f"there is no Node {name}")
        self.seen = seen


class Publisher:
    """Publishes the looks at one machine as those of one Node.

    Every call reads the Node first, so that a Node that was replaced is met with its new uid and a foreign edit undone.
    `cached_slices` gives a copy of the node's slices that somebody keeps true, or None: then the server is asked.
    """

    def __init__(
        self,
        client: Client,
        node_name: str,
        parts: frozenset[Part],
        stale_after: float,
        cached_slices: Cache = lambda: None,
    ) -> None:
        self._client = client
        self._name = node_name
        self._parts = parts
        self._memory = GpuMemory(stale_after)
        self._slices = Slices(client, node_name, publish=Part.SLICES in parts, cache=cached_slices)
        self._targets: tuple[Target, ...] = (NodeMetadata(client), self._slices, Nrt(client))
        self._seen = False
        self._omitted: frozenset[str] = frozenset()

    def publish(self, look: Look, now: float) -> int:
        """Writes what differs and returns how many writes that took.

        Raises NodeGone, or the first ApiError once everything else was tried: what may not be written must not keep
        the rest from being written.
        """
        node = self._node()
        findings = self._memory.settle(look, now, lambda: self._published(node))
        want = wanted(findings, self._parts, self._name, node["metadata"]["uid"])
        self._report(findings, want)
        refusals: list[ApiError] = []
        written = sum(self._bring(target, node, want, refusals) for target in self._targets)
        if refusals:
            raise refusals[0]
        return written

    def _node(self) -> Obj:
        try:
            node = self._client.get(NODES, self._name)
        except NotFound as error:
            raise NodeGone(self._name, self._seen) from error
        self._seen = True
        return node

    def _bring(self, target: Target, node: Obj, want: Wanted, refusals: list[ApiError]) -> int:
        try:
            return sum(self._carry_out(write, refusals) for write in target.writes(node, want))
        except ONE_WRITE as error:  # while reading what is there
            refusals.append(error)
            return 0

    def _carry_out(self, write: Write, refusals: list[ApiError]) -> bool:
        try:
            write.do()
        except ApiError as error:
            metrics.AGENT_WRITES.labels(write.what, "failed").inc()
            if not isinstance(error, ONE_WRITE):
                raise
            refusals.append(error)
            return False
        metrics.AGENT_WRITES.labels(write.what, "ok").inc()
        return True

    def _published(self, node: Obj) -> Published:
        """What an agent before us left on the Node."""
        metadata = node["metadata"]
        ours = (ownership.held(node, manager).labels for manager in (AGENT_NUMA_MANAGER, AGENT_GPU_MANAGER))
        keys = frozenset().union(*ours)
        labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key in keys}
        try:
            slices = [wire.read_slice(slice_) for slice_ in self._slices.live()]
        except StatusError:
            slices = []
        reading = wire.read_topology(labels, metadata.get("annotations") or {}, slices)
        return Published(reading.topology, stale=labels.get(GPU_STALE) == "true")

    def _report(self, findings: Findings, want: Wanted) -> None:
        topology = findings.topology
        usable = len(topology.usable_gpus)
        metrics.AGENT_GPUS.labels("usable").set(usable)
        metrics.AGENT_GPUS.labels("lost").set(len(topology.gpus or ()) - usable)
        metrics.AGENT_NUMA_NODES.labels("cpu").set(len(topology.cpu_nodes))
        metrics.AGENT_NUMA_NODES.labels("memory").set(len(topology.memory_nodes))
        metrics.AGENT_UNKNOWN_FACTS.set(len(topology.unknowns))
        metrics.AGENT_GPU_STALE.set(findings.gpu_stale)
        for sentence in sorted(set(want.omitted) - self._omitted):
            log.info("a fact has no room and is in the annotation only", fact=sentence)
        self._omitted = frozenset(want.omitted)
