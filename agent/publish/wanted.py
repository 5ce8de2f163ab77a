"""What should stand on the API server for a machine: the shares of the Node's labels and annotations, and slices. Pure.

Two managers hold the Node's metadata by server-side apply, so that what is no longer wanted vanishes: one the NUMA
facts and the annotations, the other the GPU facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kubenexus.agent.publish.nrt import encode_nrt
from kubenexus.common import wire
from kubenexus.common.topology import NodeTopology
from kubenexus.common.vocabulary import (
    AGENT_GPU_MANAGER,
    AGENT_NUMA_MANAGER,
    ALLOCATIONS,
    GPU_PREFIX,
    GPU_STALE,
    TOPOLOGY_SNAPSHOT,
)

Obj = dict[str, Any]


class Part(StrEnum):
    """What can be switched on and off; what is off is taken back."""

    LABELS = "labels"
    ANNOTATION = "annotation"
    SLICES = "slices"
    NRT = "nrt"


DEFAULT_PARTS = frozenset((Part.LABELS, Part.ANNOTATION, Part.SLICES))


@dataclass(frozen=True, slots=True)
class Share:
    """The labels and annotations of the Node that one manager holds."""

    manager: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Findings:
    """What is to be told of a machine. `allocations` is None where the kubelet does not tell."""

    topology: NodeTopology
    gpu_stale: bool = False
    allocations: wire.Allocations | None = None
    kubelet: wire.KubeletSettings = wire.UNTOLD


@dataclass(frozen=True, slots=True)
class Wanted:
    """What should be there. `omitted` are facts that no label or attribute has room for, as sentences."""

    shares: tuple[Share, ...]
    slices: tuple[Obj, ...]
    nrt: Obj | None
    omitted: tuple[str, ...]


NOTHING = Wanted((Share(AGENT_NUMA_MANAGER, {}, {}), Share(AGENT_GPU_MANAGER, {}, {})), (), None, ())


def wanted(findings: Findings, parts: frozenset[Part], node_name: str, node_uid: str) -> Wanted:
    """Everything that these parts say of the machine; generations of slices are for the planner to set."""
    topology = findings.topology
    labels, unlabelled = wire.encode_labels(topology) if Part.LABELS in parts else ({}, [])
    if Part.LABELS in parts:
        labels |= wire.encode_kubelet(findings.kubelet) | ({GPU_STALE: "true"} if findings.gpu_stale else {})
    slices, unsliced = wire.encode_slices(topology, node_name, node_uid) if Part.SLICES in parts else ([], [])
    return Wanted(
        shares=(
            Share(AGENT_NUMA_MANAGER, _of(labels, gpu=False), _annotations(findings, parts)),
            Share(AGENT_GPU_MANAGER, _of(labels, gpu=True), {}),
        ),
        slices=tuple(slices),
        nrt=_nrt(findings, node_name, node_uid) if Part.NRT in parts else None,
        omitted=(*unlabelled, *unsliced),
    )


def _nrt(findings: Findings, node_name: str, node_uid: str) -> Obj:
    return encode_nrt(findings.topology, node_name, node_uid, findings.allocations, findings.kubelet)


def _of(labels: Mapping[str, str], *, gpu: bool) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key.startswith(GPU_PREFIX) is gpu}


def _annotations(findings: Findings, parts: frozenset[Part]) -> dict[str, str]:
    if Part.ANNOTATION not in parts:
        return {}
    annotations = {TOPOLOGY_SNAPSHOT: wire.encode_annotation(findings.topology)}
    if findings.allocations is not None:
        annotations[ALLOCATIONS] = wire.encode_allocations(findings.allocations)
    return annotations
