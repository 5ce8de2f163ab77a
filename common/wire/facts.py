"""Every fact of a topology: its name on the wire, how its value is written, and how it is read back.

One table per kind of device drives annotation and slices alike. A value is written as a JSON scalar; reading takes any
JSON at all and gives back the value or raises `MangledError`, so what is wrong becomes unknown and nothing else does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from kubenexus.common import cpulist
from kubenexus.common.quantity import INT64_MAX
from kubenexus.common.topology import Gpu, Health, Nic, NodeTopology, NumaNode, NvlinkKind
from kubenexus.common.vocabulary import MAX_NUMA_ID as MAX_ID

Obj = dict[str, Any]
Scalar = int | str
Reasons = dict[str, str]
"""Fact → why it is unknown, as in `NodeTopology.unknowns`."""


class MangledError(ValueError):
    """A value that nobody can have meant; the text says why."""


@dataclass(frozen=True, slots=True)
class Form:
    """How the values of a fact are written.

    `narrow` turns the written value into what a slice attribute may carry (`None`: it cannot), `widen` undoes that as
    far as it goes.
    """

    slot: Literal["int", "string", "version", "bool"]
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = lambda value: value
    narrow: Callable[[Any], Scalar | None] = lambda written: written
    widen: Callable[[Any], Any] = lambda attribute: attribute


@dataclass(frozen=True, slots=True)
class Fact:
    """A field of a device, its name on the wire, its form, and where in a slice it stands.

    `annotation` means not in a slice at all: what only the annotation carries.
    """

    field: str
    name: str
    form: Form
    place: Literal["attribute", "capacity", "name", "annotation"] = "attribute"


def text_of(raw: Any) -> str:
    if isinstance(raw, str):
        return raw
    raise MangledError(f"{shown(raw)} is not text")


def shown(raw: Any) -> str:
    text = repr(raw)
    return text if len(text) <= 64 else text[:61] + "..."


def number(low: int, high: int = INT64_MAX) -> Form:
    def read(raw: Any) -> int:
        if type(raw) is int and low <= raw <= high:
            return raw
        raise MangledError(f"{shown(raw)} is not a whole number from {low} to {high}")

    return Form("int", read)


def choice(choices: type[StrEnum]) -> Form:
    def read(raw: Any) -> StrEnum:
        if raw in tuple(choices):
            return choices(raw)
        raise MangledError(f"{shown(raw)} is none of {', '.join(choices)}")

    return Form("string", read, write=str)


def matching(pattern: str, what: str, *, narrow: str = "(?s:.*)") -> Form:
    """Text of one shape; a slice carries only what also matches `narrow`, in 64 bytes."""

    whole, part = re.compile(pattern), re.compile(narrow)

    def read(raw: Any) -> str:
        if whole.fullmatch(text_of(raw)):
            return text_of(raw)
        raise MangledError(f"{shown(raw)} is not {what}")

    return Form("string", read, narrow=lambda text: short_text(text) if part.fullmatch(text) else None)


def short_text(text: str) -> str | None:
    """The text, if a slice attribute has room for it."""
    return text if len(text.encode(errors="surrogatepass")) <= 64 and text.isprintable() else None


def _read_flag(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    raise MangledError(f"{shown(raw)} is neither true nor false")


def _read_cpus(raw: Any) -> tuple[int, ...]:
    try:
        return cpulist.parse(text_of(raw))
    except cpulist.CpuListError as error:
        raise MangledError(str(error)) from None


def _read_distances(raw: Any) -> tuple[int | None, ...]:
    if not re.fullmatch(r"[0-9]{0,5}(_[0-9]{0,5})*", text_of(raw)):
        raise MangledError(f"{shown(raw)} is not a row of distances")
    return tuple(int(item) if item else None for item in raw.split("_"))


def _write_distances(row: Iterable[int | None]) -> str:
    return "_".join("" if distance is None else str(distance) for distance in row)


def semver(version: str) -> str | None:
    """A dotted version as the semantic version that slices ask for: `580.105.08` is `580.105.8`, `9.0` is `9.0.0`."""
    match = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?", version)
    return ".".join(str(int(part or 0)) for part in match.groups()) if match else None


ID = number(0, MAX_ID)
COUNT = number(0)
AMOUNT = number(1)
TEXT = matching("(?s:.+)", "text")
FLAG = Form("bool", _read_flag)
CPUS = Form("string", _read_cpus, cpulist.encode_label, short_text)
DISTANCES = Form("string", _read_distances, _write_distances, short_text)
LINKS = matching("[0-9a-z]+", "a row of base-36 link counts")
CLASSES = matching(r"[XIBHNS?]*", "a row of pair classes")
PEERS = matching("[01?]+", "a row of yes and no")
BUS_ID = matching("(?s:.+)", "text", narrow=r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
DRIVER = Form("version", TEXT.read, narrow=semver)
VERSION = Form("version", TEXT.read, narrow=semver, widen=lambda version: str(version).removesuffix(".0"))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of device: its `name` in pools and devices, its `field` of a topology. The first fact tells them apart."""

    name: str
    field: Literal["numa", "gpus", "nics"]
    device: type[NumaNode] | type[Gpu] | type[Nic]
    facts: tuple[Fact, ...]

    @property
    def key(self) -> Fact:
        return self.facts[0]

    def of(self, topology: NodeTopology) -> tuple[Any, ...] | None:
        """The devices of this kind."""
        devices: tuple[Any, ...] | None = getattr(topology, self.field)
        return devices

    def label(self, device: Any) -> str:
        """A device's name: `gpu-3`."""
        return f"{self.name}-{getattr(device, self.key.field)}"


NUMA = Kind(
    "numa",
    "numa",
    NumaNode,
    (
        Fact("id", "numaNode", ID),
        Fact("cpus", "cpus", CPUS),
        Fact("cpu_count", "cpuCount", COUNT),
        Fact("threads_per_core", "threadsPerCore", AMOUNT),
        Fact("l3_count", "l3Count", COUNT),
        Fact("die_count", "dieCount", COUNT, "annotation"),
        Fact("cluster_count", "clusterCount", COUNT, "annotation"),
        Fact("package", "package", COUNT),
        Fact("nearest_cpu_node", "nearestCpuNode", ID),
        Fact("read_bandwidth", "readBandwidthMBps", AMOUNT),
        Fact("read_latency", "readLatencyNs", AMOUNT),
        Fact("distances", "distances", DISTANCES),
        Fact("memory", "memory", COUNT, "capacity"),
        Fact("hugepages_2mi", "hugepages2Mi", COUNT, "capacity"),
        Fact("hugepages_1gi", "hugepages1Gi", COUNT, "capacity"),
    ),
)

GPU = Kind(
    "gpu",
    "gpus",
    Gpu,
    (
        Fact("index", "index", ID),
        Fact("minor", "minor", COUNT),
        Fact("uuid", "uuid", TEXT),
        Fact("product", "productName", TEXT),
        Fact("architecture", "architecture", TEXT),
        Fact("compute_capability", "cudaComputeCapability", VERSION),
        Fact("driver", "driverVersion", DRIVER),
        Fact("numa", "numaNode", ID),
        Fact("numa_source", "numaSource", TEXT),
        Fact("memory_numa", "gpuMemoryNumaNode", ID),
        Fact("cpus", "cpus", CPUS),
        Fact("pci_bus_id", "pciBusID", BUS_ID),
        Fact("pcie_root", "pcieRoot", TEXT),
        Fact("pcie_switch", "pcieSwitch", TEXT),
        Fact("pcie_gen", "pcieGen", AMOUNT),
        Fact("pcie_width", "pcieWidth", AMOUNT),
        Fact("nvlink_version", "nvlinkVersion", VERSION),
        Fact("nvlinks", "nvlinkLinks", COUNT),
        Fact("peer_links", "nvlinkPeerLinks", LINKS),
        Fact("peer_classes", "peerClasses", CLASSES),
        Fact("p2p", "p2p", PEERS, "annotation"),
        Fact("fabric_clique", "fabricClique", TEXT),
        Fact("mig", "migEnabled", FLAG),
        Fact("health", "health", choice(Health)),
        Fact("memory", "memory", AMOUNT, "capacity"),
    ),
)

NIC = Kind(
    "nic",
    "nics",
    Nic,
    (
        Fact("index", "index", ID, "name"),
        Fact("rdma_name", "rdmaName", TEXT),
        Fact("if_name", "ifName", TEXT),
        Fact("link_layer", "linkLayer", TEXT),
        Fact("rate_gbps", "rateGbps", AMOUNT),
        Fact("numa", "numaNode", ID),
        Fact("pci_bus_id", "pciBusID", BUS_ID),
        Fact("pcie_root", "pcieRoot", TEXT),
        Fact("pcie_switch", "pcieSwitch", TEXT),
        Fact("gpu_classes", "gpuClasses", CLASSES),
    ),
)

KINDS = (NUMA, GPU, NIC)

MACHINE = (
    Fact("threads_per_core", "threadsPerCore", AMOUNT),
    Fact("l3_count", "l3Count", COUNT),
    Fact("nvlink", "nvlink", choice(NvlinkKind)),
)


def write_facts(facts: Iterable[Fact], thing: object) -> dict[str, Scalar]:
    """What is known of a device or a machine, by wire name. A value that could not be read back is not written."""
    written: dict[str, Scalar] = {}
    for fact in facts:
        value = getattr(thing, fact.field)
        if value is not None:
            scalar = fact.form.write(value)
            if _reads_back(fact, scalar, value):
                written[fact.name] = scalar
    return written


def _reads_back(fact: Fact, scalar: Any, value: Any) -> bool:
    try:
        return bool(fact.form.read(scalar) == value)
    except MangledError:
        return False


def read_facts(facts: Iterable[Fact], raw: Mapping[str, Any], where: str, reasons: Reasons) -> dict[str, Any]:
    """The readable facts among `raw`, by field; the others go to `reasons`, under `where` and their name."""
    values: dict[str, Any] = {}
    for fact in facts:
        if fact.name in raw:
            try:
                values[fact.field] = fact.form.read(raw[fact.name])
            except MangledError as problem:
                reasons[f"{where}{fact.name}"] = str(problem)
    return values
