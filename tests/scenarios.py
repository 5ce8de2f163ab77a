"""Scenarios on a server: what happens step by step, and where the API server then shows each pod to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.kube.resources import NODES, PODS, RESOURCE_SLICES
from kubenexus.common.topology import NodeTopology
from tests.builders import GPU, PodBuilder, node, pod
from tests.schedulers import Cluster, Obj
from tests.stub_server import until

PATIENCE = 20.0
ANNOTATION, LABELS, SLICES = "annotation", "labels", "slices"


class Seat(NamedTuple):
    """Where a pod is, as the API server shows it."""

    node: str
    numa: str = ""
    gpus: str = ""


@dataclass(frozen=True)
class Machine:
    """A node whose agent publishes this topology; `says` is how."""

    name: str
    topology: NodeTopology
    labels: Mapping[str, str] = field(default_factory=dict)
    says: str = ANNOTATION

    def join(self, cluster: Cluster) -> None:
        numa, gpus = self.topology.numa or (), self.topology.usable_gpus
        built = node(self.name).capacity(cpu=sum(one.cpu_count or 0 for one in numa))
        built.capacity(memory=sum(one.memory or 0 for one in numa), **({"gpu": len(gpus)} if gpus else {}))
        told = wire.encode_labels(self.topology)[0] if self.says == LABELS else {}
        for key, text in {**self.labels, **told}.items():
            built.label(key, text)
        if self.says == ANNOTATION:
            built.annotation(v.TOPOLOGY_SNAPSHOT, wire.encode_annotation(self.topology))
        uid = cluster.client.create(NODES, new(built.build()))["metadata"]["uid"]
        for one in wire.encode_slices(self.topology, self.name, uid)[0] if self.says == SLICES else ():
            cluster.client.create(RESOURCE_SLICES, one)


Expected = Seat | set[str] | str | None
"""A seat, nodes one of which the pod is on, words of the message that it waits with, or (None) no node yet."""


@dataclass(frozen=True)
class Step:
    """Nodes join, pods go and pods come; then everybody named is where they should be."""

    come: Sequence[PodBuilder] = ()
    go: Sequence[str] = ()
    join: Sequence[Machine] = ()
    then: Mapping[str, Expected] = field(default_factory=dict)
    also: Callable[[Mapping[str, Seat]], bool] = lambda _: True


def play(cluster: Cluster, steps: Sequence[Step]) -> None:
    """Everything in order. Whoever had no node yet after a step must not have got one by anything before it."""
    for number, step in enumerate(steps):
        for machine in step.join:
            machine.join(cluster)
        for name in step.go:
            cluster.client.delete(PODS, name, cluster.namespace, grace_seconds=0)
        for built in step.come:
            submit(cluster, built)
        for name, expected in step.then.items():
            _await(cluster, name, expected)
        if None in step.then.values():
            pass_by(cluster, f"passer-by-{number}")
        found = seats(cluster)
        for name, expected in step.then.items():
            assert _is(found.get(name), expected), f"step {number}: {name} at {found.get(name)}, not {expected}"
        assert step.also(found), f"step {number}: {found}"


def submit(cluster: Cluster, built: PodBuilder) -> None:
    cluster.client.create(PODS, new(built.build(), "status"))


def new(obj: Obj, *without: str) -> Obj:
    """What a user sends of an object."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in ("uid", "creationTimestamp")}
    return {key: value for key, value in obj.items() if key not in without} | {"metadata": meta}


def pass_by(cluster: Cluster, name: str) -> None:
    """A small pod gets its node. It came last, so that everybody who was to be decided before it has been."""
    submit(cluster, pod(name).cpu("1m"))
    until(lambda: name in seats(cluster), PATIENCE)


def seats(cluster: Cluster) -> dict[str, Seat]:
    """Everybody who has a node, in all namespaces."""
    bound = [one for one in cluster.client.list(PODS).items if one["spec"].get("nodeName")]
    return {one["metadata"]["name"]: _seat(one) for one in bound}


def check(cluster: Cluster, machines: Sequence[Machine]) -> None:
    """Nobody has what another has, everybody what was asked for, and all was decided on the published topology."""
    topologies = {one.name: one.topology for one in machines}
    taken: set[tuple[str, str]] = set()
    for obj in cluster.client.list(PODS).items:
        seat, notes = _seat(obj), obj["metadata"].get("annotations") or {}
        own = {(seat.node, index) for index in seat.gpus.split(",") if index}
        assert not own & taken, f"{obj['metadata']['name']} has a GPU of another pod: {sorted(own & taken)}"
        taken |= own
        if seat.numa or seat.gpus:
            assert notes.get(v.TOPOLOGY_HASH) == wire.topology_hash(topologies[seat.node])
            assert len(own) == _gpus(obj)
    assert cluster.overcommitted() == {}


def _gpus(obj: Obj) -> int:
    return sum(int(one.get("resources", {}).get("requests", {}).get(GPU, 0)) for one in obj["spec"]["containers"])


def _seat(obj: Obj) -> Seat:
    notes = obj["metadata"].get("annotations") or {}
    return Seat(obj["spec"].get("nodeName", ""), notes.get(v.NUMA_ASSIGNED, ""), notes.get(v.GPU_ASSIGNED, ""))


def _await(cluster: Cluster, name: str, expected: Expected) -> None:
    if isinstance(expected, str):
        cluster.await_pending(name, expected, PATIENCE)
    elif expected is not None:
        until(lambda: name in seats(cluster), PATIENCE)


def _is(seat: Seat | None, expected: Any) -> bool:
    if isinstance(expected, Seat):
        return seat == expected
    return seat.node in expected if isinstance(expected, set) and seat is not None else seat is None
