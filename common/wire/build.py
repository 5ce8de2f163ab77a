"""From facts that were read one by one to a topology: what contradicts itself is unknown, with the reason.

Each value was well-formed on its own. Here they meet: a device must have its number, and no other the same; a CPU list
must have as many CPUs as the count says; a row must have one entry for each device it speaks of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kubenexus.common.topology import Gpu, Nic, NodeTopology, NumaNode
from kubenexus.common.wire.facts import Kind, Reasons


def devices(kind: Kind, entries: Iterable[Mapping[str, Any]], reasons: Reasons) -> tuple[Any, ...] | None:
    """The devices that these facts (by field) describe, or `None`: one without its number makes all uncountable."""
    found: dict[int, Any] = {}
    for values in entries:
        key = values.get(kind.key.field)
        if key is None or key in found:
            reasons[kind.name] = "one has no readable number" if key is None else f"number {key} stands twice"
            return None
        found[key] = kind.device(**_agreeing(values, f"{kind.name}-{key}", reasons))
    return tuple(found.values())


def _agreeing(values: Mapping[str, Any], label: str, reasons: Reasons) -> dict[str, Any]:
    cpus, count = values.get("cpus"), values.get("cpu_count")
    if cpus is None or count is None or len(cpus) == count:
        return dict(values)
    reasons[f"{label}.cpus"] = f"{len(cpus)} CPUs are listed and {count} counted"
    return {field: value for field, value in values.items() if field not in ("cpus", "cpu_count")}


def topology(
    *,
    numa: tuple[NumaNode, ...] | None,
    gpus: tuple[Gpu, ...] | None,
    nics: tuple[Nic, ...] | None,
    reasons: Reasons,
    **machine: Any,
) -> NodeTopology:
    """A topology whose rows fit its devices; rows that do not are unknown."""
    width = max((gpu.index + 1 for gpu in gpus), default=0) if gpus is not None else None
    return NodeTopology(
        numa=numa if numa is None else tuple(_fit_numa(node, len(numa), reasons) for node in numa),
        gpus=gpus if gpus is None else tuple(_fit_gpu(gpu, width, reasons) for gpu in gpus),
        nics=nics if nics is None else tuple(_fit_nic(nic, width, reasons) for nic in nics),
        unknowns=reasons,
        **machine,
    )


def _fit_numa(node: NumaNode, width: int, reasons: Reasons) -> NumaNode:
    if node.distances is None or len(node.distances) == width:
        return node
    reasons[f"numa-{node.id}.distances"] = f"{len(node.distances)} distances for {width} NUMA nodes"
    return replace(node, distances=None)


def _fit_gpu(gpu: Gpu, width: int | None, reasons: Reasons) -> Gpu:
    bad: dict[str, Any] = {}
    for field, name, own in (("peer_links", "nvlinkPeerLinks", "0"), ("peer_classes", "peerClasses", "X")):
        row = getattr(gpu, field)
        if row is not None and (len(row) != width or row[gpu.index] != own):
            reasons[f"gpu-{gpu.index}.{name}"] = f"{row!r} is no row of GPU {gpu.index} among {width}"
            bad[field] = None
    return replace(gpu, **bad) if bad else gpu


def _fit_nic(nic: Nic, width: int | None, reasons: Reasons) -> Nic:
    if nic.gpu_classes is None or width is None or len(nic.gpu_classes) == width:
        return nic
    reasons[f"nic-{nic.index}.gpuClasses"] = f"{len(nic.gpu_classes)} classes for {width} GPUs"
    return replace(nic, gpu_classes=None)
