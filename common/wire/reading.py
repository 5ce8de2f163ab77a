"""One topology from everything that a node's objects say about it.

Sources in order: our slices, our annotation, our labels, GPU Feature Discovery's labels, NVIDIA's slices. The first
that knows a fact decides it. Our three carry the hash of the state they describe. Where slices and annotation have the
same, the annotation is taken, because it loses nothing; where two of ours differ, the later one is of another state, is
left aside, and that is a problem to report.

What is promised about mangled values: reading never raises. A value outside the grammar of its fact, or in
contradiction to another value of the same source (a CPU list and its count, ids and their count, a row and its mask or
its number of GPUs, a device's name and number), is unknown, with a reason; the other facts stay. In the annotation any
change at all is noticed by the hash. A label or attribute changed into another well-formed value that contradicts
nothing is not mangled: it is a statement, like a label written by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubenexus.common.topology import Gpu, NodeTopology, nvlink_kind
from kubenexus.common.vocabulary import DRA_DRIVER, TOPOLOGY_SNAPSHOT
from kubenexus.common.wire import build
from kubenexus.common.wire.annotation import decode_annotation
from kubenexus.common.wire.facts import GPU, KINDS, MACHINE, NUMA, Fact, Kind, MangledError, Reasons
from kubenexus.common.wire.foreign import decode_nvidia_slice, feature_discovery, nvidia_gpus
from kubenexus.common.wire.labels import decode_labels
from kubenexus.common.wire.slices import SlicePart, decode_slice


@dataclass(frozen=True, slots=True)
class Reading:
    """A topology, the sources it came from in the order they were used, and what is wrong between them."""

    topology: NodeTopology
    sources: tuple[str, ...]
    problems: tuple[str, ...]
    digest: str | None
    """the hash of the state that was read"""


@dataclass(frozen=True, slots=True)
class _Source:
    name: str
    topology: NodeTopology
    digest: str | None = None


def read_slice(obj: Any) -> SlicePart | None:
    """What one ResourceSlice contributes: small enough to keep for every node. `None`: nothing."""
    return decode_slice(obj) or decode_nvidia_slice(obj)


def read_topology(
    labels: Mapping[str, Any],
    annotations: Mapping[str, Any],
    slices: Iterable[SlicePart | None] = (),
    *,
    gpus: int = 0,
) -> Reading:
    """What is known of the node with these labels, annotations and slices (each as `read_slice` gave it).

    `gpus` is how many it gives to pods: labels that describe GPUs and do not count them are about these. The topology's
    `unknowns` say why facts are unknown; `problems` are about whole sources.
    """
    parts = [part for part in slices if part is not None]
    labels = {key: text for key, text in labels.items() if isinstance(text, str)}
    problems: list[str] = []
    own = (_from_slices(parts, problems), _from_annotation(annotations, problems), _from_labels(labels, gpus))
    sources = _coherent([source for source in own if source], problems)
    sources += _foreign(labels, parts)
    topology = NodeTopology()
    used = []
    for source in sources:
        filled = _filled(topology, source.topology)
        if filled != topology:
            used.append(source.name)
        topology = filled
    digest = next((source.digest for source in sources if source.digest), None)
    return Reading(_without_stale_reasons(topology), tuple(used), tuple(problems), digest)


def _without_stale_reasons(topology: NodeTopology) -> NodeTopology:
    """A fact that one source could not tell and another could is known."""
    if not topology.unknowns:
        return topology
    known = {
        f"{kind.label(device)}.{fact.name}"
        for kind in KINDS
        for device in kind.of(topology) or ()
        for fact in kind.facts
        if getattr(device, fact.field) is not None
    }
    return replace(topology, unknowns={fact: why for fact, why in topology.unknowns.items() if fact not in known})


def _from_slices(parts: Iterable[SlicePart], problems: list[str]) -> _Source | None:
    ours = sorted((part for part in parts if part.driver == DRA_DRIVER), key=lambda part: part.generation)
    newest = {part.kind.name: part for part in ours}
    if not newest:
        return None
    digests = {part.digest for part in newest.values() if part.digest}
    if len(digests) > 1:
        problems.append(f"the slices are of different states: {', '.join(sorted(digests))}")
    reasons: Reasons = {}
    for part in newest.values():
        reasons |= part.reasons
    found = {kind.field: newest[kind.name].devices if kind.name in newest else None for kind in KINDS}
    topology = _derived(build.topology(**found, reasons=reasons))
    return _Source("slices", topology, "+".join(sorted(digests)) or None)


def _derived(topology: NodeTopology) -> NodeTopology:
    """Machine-wide facts that follow from the devices'."""
    threads = {node.threads_per_core for node in topology.cpu_nodes}
    known = max((count for count in threads if count is not None), default=None)
    return replace(
        topology,
        threads_per_core=None if None in threads else known,
        nvlink=nvlink_kind(topology.gpus) if topology.gpus else None,
    )


def _from_annotation(annotations: Mapping[str, Any], problems: list[str]) -> _Source | None:
    text = annotations.get(TOPOLOGY_SNAPSHOT)
    if not isinstance(text, str):
        return None
    try:
        topology, digest = decode_annotation(text)
    except MangledError as problem:
        problems.append(f"annotation {TOPOLOGY_SNAPSHOT} is not used: {problem}")
        return None
    return _Source("annotation", topology, digest)


def _from_labels(labels: Mapping[str, str], gpus: int) -> _Source:
    counted = feature_discovery(labels, {})
    topology, digest = decode_labels(labels, gpus if counted is None else len(counted))
    return _Source("labels", topology, digest)


def _foreign(labels: Mapping[str, str], parts: list[SlicePart]) -> Iterable[_Source]:
    reasons: Reasons = {}
    yield _Source("GPU Feature Discovery", NodeTopology(gpus=feature_discovery(labels, reasons), unknowns=reasons))
    reasons = {}
    yield _Source("NVIDIA slices", NodeTopology(gpus=nvidia_gpus(parts, reasons), unknowns=reasons))


def _coherent(sources: list[_Source], problems: list[str]) -> list[_Source]:
    """Those of the first source's state, or of none; no slices where the annotation has their state whole."""
    first = next((source for source in sources if source.digest), None)
    kept = []
    for source in sources:
        if first is None or source.digest in (None, first.digest):
            kept.append(source)
        else:
            left, right = f"{source.digest} ({source.name})", f"{first.digest} ({first.name})"
            problems.append(f"two states are published, {left} and {right}; {source.name} left aside")
    whole = len(kept) > 1 and kept[1].name == "annotation" and kept[1].digest == kept[0].digest
    return kept[1:] if whole else kept


def _filled(base: NodeTopology, other: NodeTopology) -> NodeTopology:
    """`base`, and what only `other` knows."""
    changes = _news(MACHINE, base, other)
    for kind in KINDS:
        mine, theirs = kind.of(base), kind.of(other)
        if theirs is not None:
            changes[kind.field] = theirs if mine is None else _filled_devices(kind, mine, theirs)
    return replace(base, **changes, unknowns={**other.unknowns, **base.unknowns})


def _filled_devices(kind: Kind, mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Two lists of the same devices are joined one by one; in different lists only GPUs of one identity are."""
    same = [kind.label(device) for device in mine] == [kind.label(device) for device in theirs]
    joined = []
    for place, device in enumerate(mine):
        twin = theirs[place] if same else None
        if kind is GPU and (twin is None or _are_one(device, twin) is False):
            twin = next((other for other in theirs if _are_one(device, other)), None)
        joined.append(_filled_device(kind, device, twin) if twin else device)
    return tuple(joined)


def _are_one(one: Gpu, other: Gpu) -> bool | None:
    """Whether two descriptions are of one GPU; `None` where they have no identity in common."""
    for identity in ("uuid", "pci_bus_id"):
        if getattr(one, identity) and getattr(other, identity):
            return bool(getattr(one, identity) == getattr(other, identity))
    return None


def _filled_device(kind: Kind, device: Any, twin: Any) -> Any:
    changes = _news(kind.facts, device, twin)
    if kind is NUMA and device.cpu_count not in (None, twin.cpu_count):
        changes.pop("cpus", None)
    return replace(device, **changes) if changes else device


def _news(facts: Iterable[Fact], one: Any, other: Any) -> dict[str, Any]:
    """The facts that `other` knows and `one` does not, by field."""
    unknown = (fact.field for fact in facts if getattr(one, fact.field) is None)
    return {field: value for field in unknown if (value := getattr(other, field)) is not None}
