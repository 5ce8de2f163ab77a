"""Topology ↔ Node labels: what people select on, and what they may write by hand where no agent runs.

Labels carry less than the other two: one value for all GPUs where these agree, CPU nodes only, nothing over 63
characters. Which GPU is lost they do not say, so a reader who sees `lost` knows the health of none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubenexus.common import quantity, vocabulary
from kubenexus.common.cpulist import encode_label
from kubenexus.common.topology import Gpu, NodeTopology, NumaNode, NvlinkKind
from kubenexus.common.vocabulary import gpu_numa_alias, gpu_numa_label, numa_node_label
from kubenexus.common.wire import build
from kubenexus.common.wire.annotation import topology_hash
from kubenexus.common.wire.facts import AMOUNT, COUNT, CPUS, ID, NUMA, TEXT, Form, MangledError, Obj, Reasons, shown
from kubenexus.common.wire.facts import choice as one_of

MAX_DISTANCE_NODES = 8
"""Beyond this many CPU nodes there would be too many distance labels."""
MAX_GPUS = 1024

_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NUMA_FACT = re.compile(re.escape(vocabulary.NUMA_PREFIX) + r"node-(0|[1-9][0-9]{0,3})-(cpus|cpu-count|memory)")
_GPU_NUMA = re.compile(
    re.escape(vocabulary.GPU_PREFIX) + r"(?:gpu(0|[1-9][0-9]{0,3})-numa|numa-node-(0|[1-9][0-9]{0,3}))"
)
_NVLINK_BY_TOPOLOGY = {"nvswitch": NvlinkKind.NVSWITCH, "pcie": NvlinkKind.NONE}
_TOPOLOGY_BY_NVLINK = {NvlinkKind.NVSWITCH: "nvswitch", NvlinkKind.NONE: "pcie"}


def _digits(form: Form) -> Callable[[str], int]:
    """A reader of plain decimal digits."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", text):
            raise MangledError(f"{shown(text)} is not a whole number")
        number: int = form.read(int(text))
        return number

    return read


def _bytes(form: Form) -> Callable[[str], int]:
    """A reader of bytes, plain or as a quantity (`64Gi`)."""

    def read(text: str) -> int:
        try:
            amount = quantity.parse(text)
        except quantity.QuantityError as error:
            raise MangledError(str(error)) from None
        number: int = form.read(int(amount) if amount.denominator == 1 else text)
        return number

    return read


def _ids(text: str) -> tuple[int, ...]:
    """A reader of CPU and node lists; nobody writes an empty one."""
    if not text:
        raise MangledError("it is empty")
    numbers: tuple[int, ...] = CPUS.read(text)
    return numbers


_DISTANCE = _digits(ID)

# The facts of a CPU node: label suffix, field, how it is read, and whether zero is left out.
_NUMA_FACTS: tuple[tuple[str, str, Callable[[str], Any], bool], ...] = (
    ("cpus", "cpus", _ids, False),
    ("cpu-count", "cpu_count", _digits(COUNT), False),
    ("memory", "memory", _bytes(COUNT), False),
    ("bandwidth", "read_bandwidth", _digits(AMOUNT), True),
    ("latency", "read_latency", _digits(AMOUNT), True),
    ("hugepages-2Mi", "hugepages_2mi", _digits(COUNT), True),
    ("hugepages-1Gi", "hugepages_1gi", _digits(COUNT), True),
)


# --- writing ---------------------------------------------------------------------------------------------------------


def encode_labels(topology: NodeTopology) -> tuple[dict[str, str], list[str]]:
    """Every label of a topology, its hash among them, and a sentence for each that a label value cannot carry."""
    wanted = {**_numa_labels(topology), **_gpu_labels(topology)}
    wanted[vocabulary.TOPOLOGY_HASH_LABEL] = topology_hash(topology)
    known = {key: str(value) for key, value in wanted.items() if value is not None}
    labels = {key: value for key, value in known.items() if _VALUE.fullmatch(value)}
    return labels, [f"{key}: {shown(value)} is no label value" for key, value in known.items() if key not in labels]


def model_name(product: str) -> str:
    """A GPU's product name as a label value, the way GPU Feature Discovery also writes it: spaces become dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", product)[:63].strip("._-")


def _numa_labels(topology: NodeTopology) -> Obj:
    if topology.numa is None:
        return {}
    nodes = topology.cpu_nodes
    labels: Obj = {
        vocabulary.NUMA_NODE_COUNT: len(nodes),
        vocabulary.NUMA_NODE_IDS: encode_label(node.id for node in nodes) or None,
        vocabulary.NUMA_MEMORY_NODE_IDS: encode_label(node.id for node in topology.memory_nodes) or None,
        vocabulary.THREADS_PER_CORE: topology.threads_per_core,
        vocabulary.L3_COUNT: topology.l3_count,
        vocabulary.SNC: topology.snc if topology.snc != 1 else None,
    }
    for node in nodes:
        labels |= {numa_node_label(node.id, fact): value for fact, value in _numa_facts(node)}
    if len(nodes) <= MAX_DISTANCE_NODES:
        pairs = ((near.id, far.id) for near in nodes for far in nodes)
        labels |= {numa_node_label(a, f"distance-{b}"): topology.distance(a, b) for a, b in pairs}
    return labels


def _numa_facts(node: NumaNode) -> Iterable[tuple[str, Any]]:
    for fact, field, _, drop_zero in _NUMA_FACTS:
        value = getattr(node, field)
        if value is not None and not (drop_zero and value == 0):
            yield fact, encode_label(value) if field == "cpus" else value


def _gpu_labels(topology: NodeTopology) -> Obj:
    if not topology.gpus:
        return {}
    usable = topology.usable_gpus
    product = _common(gpu.product for gpu in usable)
    labels: Obj = {
        vocabulary.GPU_COUNT: len(usable),
        vocabulary.GPU_LOST: len(topology.gpus) - len(usable) or None,
        vocabulary.GPU_MODEL: model_name(product) if product else None,
        vocabulary.GPU_VRAM: _common(gpu.memory for gpu in usable),
        vocabulary.GPU_DRIVER: _common(gpu.driver for gpu in usable),
        vocabulary.GPU_CLIQUE: _common(gpu.fabric_clique for gpu in usable),
    }
    if topology.nvlink is not None:
        labels[vocabulary.GPU_NVLINK] = topology.nvlink
        labels[vocabulary.GPU_TOPOLOGY] = _TOPOLOGY_BY_NVLINK.get(topology.nvlink, "nvlink")
        if all(gpu.peer_links is not None for gpu in usable):
            labels[vocabulary.GPU_ISLAND_COUNT] = len(topology.islands)
    return labels | {gpu_numa_label(gpu.index): gpu.numa for gpu in topology.gpus}


def _common(values: Iterable[Any]) -> Any:
    """The one value that all have, else `None`."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


# --- reading ---------------------------------------------------------------------------------------------------------


class LabelReader:
    """Reads labels one by one; a value that cannot be read is a reason under the label's own name."""

    def __init__(self, labels: Mapping[str, str], reasons: Reasons) -> None:
        self.labels = labels
        self.reasons = reasons

    def get(self, key: str, read: Callable[[str], Any]) -> Any:
        text = self.labels.get(key)
        if text is None:
            return None
        try:
            return read(text)
        except MangledError as problem:
            self.reasons[key] = str(problem)
            return None

    def number(self, key: str) -> int | None:
        count: int | None = self.get(key, _digits(COUNT))
        return count


def decode_labels(labels: Mapping[str, str], gpus: int = 0) -> tuple[NodeTopology, str | None]:
    """What our labels say, written by the agent or by hand, and the hash of the state they belong to.

    `gpus` is how many there are if labels tell their model or memory but not their number.
    """
    reasons: Reasons = {}
    reader = LabelReader(labels, reasons)
    topology = build.topology(
        numa=_read_numa(reader),
        gpus=_read_gpus(reader, gpus),
        nics=None,
        reasons=reasons,
        threads_per_core=reader.get(vocabulary.THREADS_PER_CORE, _digits(AMOUNT)),
        l3_count=reader.get(vocabulary.L3_COUNT, _digits(COUNT)),
        nvlink=_read_nvlink(reader),
    )
    return topology, labels.get(vocabulary.TOPOLOGY_HASH_LABEL)


def _read_numa(reader: LabelReader) -> tuple[NumaNode, ...] | None:
    described = {int(match[1]) for match in map(_NUMA_FACT.fullmatch, reader.labels) if match}
    without_cpus = reader.get(vocabulary.NUMA_MEMORY_NODE_IDS, _ids) or ()
    listed = reader.get(vocabulary.NUMA_NODE_IDS, _ids)
    if listed is None and vocabulary.NUMA_MEMORY_NODE_IDS in reader.reasons:
        return None
    ids = sorted(described - set(without_cpus) if listed is None else listed)
    count = reader.number(vocabulary.NUMA_NODE_COUNT)
    if not ids and count is None:
        return None
    if count not in (None, len(ids)) or not described <= {*ids, *without_cpus}:
        reader.reasons["numa"] = f"labels count {count} NUMA nodes, name {ids} and describe {sorted(described)}"
        return None
    everything = sorted({*ids, *without_cpus})
    entries = [_read_node(reader, node, node in without_cpus, everything) for node in everything]
    return build.devices(NUMA, entries, reader.reasons)


def _read_node(reader: LabelReader, node: int, memory_only: bool, everything: Iterable[int]) -> Obj:
    found: Obj = {field: reader.get(numa_node_label(node, fact), read) for fact, field, read, _ in _NUMA_FACTS}
    if memory_only:
        found |= {"cpus": (), "cpu_count": 0}
    else:
        distances = tuple(reader.get(numa_node_label(node, f"distance-{far}"), _DISTANCE) for far in everything)
        found["distances"] = distances if any(distance is not None for distance in distances) else None
    return {"id": node, **{field: value for field, value in found.items() if value is not None}}


def _read_gpus(reader: LabelReader, given: int) -> tuple[Gpu, ...] | None:
    numa = _read_gpu_numa(reader)
    described = vocabulary.GPU_MODEL in reader.labels or vocabulary.GPU_VRAM in reader.labels
    total = _gpu_total(reader, numa, given if described else 0)
    if total is None:
        return None
    if reader.labels.get(vocabulary.GPU_LOST, "0") != "0":
        reader.reasons["gpu.health"] = "labels do not say which GPU is lost"
    common = {
        "product": reader.get(vocabulary.GPU_MODEL, TEXT.read),
        "memory": reader.get(vocabulary.GPU_VRAM, _bytes(AMOUNT)),
        "driver": reader.get(vocabulary.GPU_DRIVER, TEXT.read),
        "fabric_clique": reader.get(vocabulary.GPU_CLIQUE, TEXT.read),
    }
    return tuple(Gpu(index=index, numa=numa.get(index), **common) for index in range(total))


def _gpu_total(reader: LabelReader, numa: Mapping[int, int | None], given: int) -> int | None:
    """How many GPUs there are, lost ones included: as counted, else as many as have a NUMA label, or are given out."""
    described = max(numa, default=-1) + 1
    if vocabulary.GPU_COUNT in reader.labels:
        count = reader.number(vocabulary.GPU_COUNT)
        lost = reader.number(vocabulary.GPU_LOST) if vocabulary.GPU_LOST in reader.labels else 0
        total = None if count is None or lost is None else count + lost
    else:
        total = (described if len(numa) == described else None) if described else given or None
    if total is None or described <= total <= MAX_GPUS:
        return total
    reader.reasons["gpu"] = f"labels count {total} GPUs and describe {described}"
    return None


def _read_gpu_numa(reader: LabelReader) -> dict[int, int | None]:
    numa: dict[int, int | None] = {}
    for match in map(_GPU_NUMA.fullmatch, reader.labels):
        index = int(match[1] or match[2]) if match else None
        if index is not None and index not in numa:
            key = gpu_numa_label(index) if gpu_numa_label(index) in reader.labels else gpu_numa_alias(index)
            numa[index] = reader.get(key, _digits(ID))
    return numa


def _read_nvlink(reader: LabelReader) -> NvlinkKind | None:
    kind: NvlinkKind | None = reader.get(vocabulary.GPU_NVLINK, one_of(NvlinkKind).read)
    return kind or _NVLINK_BY_TOPOLOGY.get(reader.labels.get(vocabulary.GPU_TOPOLOGY, ""))
