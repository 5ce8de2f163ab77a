"""What nodes and ResourceSlices say of machines, read when it is asked for and kept until it changes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from kubenexus.common import vocabulary as v
from kubenexus.common.objects import NodeView, PodView
from kubenexus.common.wire import (
    Allocations,
    Given,
    MangledError,
    SlicePart,
    decode_allocations,
    decode_kubelet,
    read_slice,
    read_topology,
)
from kubenexus.scheduler.devices.machine import Machine, machine_of


class NodeSlice(NamedTuple):
    """What a ResourceSlice says of the machine of one node; nothing if `part` is None."""

    node: str
    part: SlicePart | None


def read_node_slice(obj: dict[str, Any]) -> NodeSlice:
    """What is kept of a raw ResourceSlice."""
    spec = obj.get("spec")
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    return NodeSlice(node if isinstance(node, str) else "", read_slice(obj) if node else None)


class Known(NamedTuple):
    """A node's machine, and who has what of it by the kubelet's word."""

    machine: Machine
    digest: str
    """the hash of the topology that was read; empty if it has none"""
    allocations: Allocations
    clique: str = ""
    """the NVLink clique that all its GPUs are in; empty if that is not known"""

    def given(self, pod: PodView) -> Given | None:
        """What the kubelet gave to a pod, if the agent says so."""
        return self.allocations.get(pod.uid) or self.allocations.get(pod.key) if self.allocations else None


class Sources:
    """The slices of all nodes, and the machines that were read."""

    def __init__(self) -> None:
        self._slices: dict[str, NodeSlice] = {}
        self._of_node: defaultdict[str, dict[str, SlicePart]] = defaultdict(dict)
        self._known: dict[str, tuple[NodeView, Known]] = {}

    def set_slice(self, key: str, found: NodeSlice | None) -> set[str]:
        """A slice came, changed or (None) went; the nodes of which other things are known now."""
        before = self._slices.pop(key, None)
        if found is not None and found.part is not None:
            self._slices[key] = found
        if before == self._slices.get(key):
            return set()
        if before is not None:
            del self._of_node[before.node][key]
        if found is not None and found.part is not None:
            self._of_node[found.node][key] = found.part
        changed = {one.node for one in (before, found) if one is not None}
        for node in changed:
            self._known.pop(node, None)
        return changed

    @property
    def slices(self) -> dict[str, NodeSlice]:
        """All that count, by the name of the slice."""
        return self._slices

    def of(self, view: NodeView) -> Known:
        """What is known of a node."""
        before = self._known.get(view.name)
        if before is None or before[0] is not view:
            same = before is not None and _says(before[0]) == _says(view)
            before = self._known[view.name] = view, before[1] if before and same else self._read(view)
        return before[1]

    def _read(self, view: NodeView) -> Known:
        meta, gpus = view.meta, sum(view.allocatable.get(name, 0) for name in v.GPU_RESOURCES)
        reading = read_topology(meta.labels, meta.annotations, self._of_node[view.name].values(), gpus=gpus)
        machine = machine_of(reading.topology, view.allocatable, decode_kubelet(meta.labels))
        cliques = {gpu.fabric_clique or "" for gpu in reading.topology.usable_gpus}
        clique = cliques.pop() if len(cliques) == 1 else ""
        return Known(machine, reading.digest or "", _allocations(meta.annotations.get(v.ALLOCATIONS)), clique)


def _says(view: NodeView) -> tuple[object, ...]:
    """What a machine is read from."""
    return view.meta.labels, view.meta.annotations, view.allocatable


def _allocations(text: str | None) -> Allocations:
    """What the agent says; nothing if that cannot be read, and then pods count where they were assigned."""
    try:
        return decode_allocations(text) if text else {}
    except MangledError:
        return {}
