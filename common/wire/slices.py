"""Topology ↔ ResourceSlices of our own driver: one pool and one slice for each kind of device.

Slices are what the API server lets them be: strings of 64 bytes, 32 attributes and capacities, 64 devices (they are
tainted: they describe, nobody may claim them). What has no room is left out and reported; the annotation still has it.
The reader believes nothing that contradicts itself: a list and its count, a row and its mask, a name and its number.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubenexus.common import quantity
from kubenexus.common.topology import Gpu, NodeTopology, islands
from kubenexus.common.vocabulary import DRA_DRIVER, INFORMATIONAL_TAINT, TOPOLOGY_HASH_LABEL
from kubenexus.common.wire import build
from kubenexus.common.wire.annotation import topology_hash
from kubenexus.common.wire.facts import GPU, KINDS, NIC, NUMA, Fact, Kind, Obj, Reasons, read_facts, write_facts

STANDARD_DOMAIN = "resource.kubernetes.io"
MAX_DEVICES = 64
"""of a slice in which any device has a taint"""

_STANDARD = ("numaNode", "pciBusID", "pcieRoot")
_MASK_BITS = 63
_MAX_NAME = 253
_TAINT = {"key": INFORMATIONAL_TAINT, "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class SlicePart:
    """What one slice says: devices of one kind (`None`: not readable), and the hash of the state it belongs to."""

    driver: str
    pool: str
    generation: int
    kind: Kind
    devices: tuple[Any, ...] | None
    digest: str | None
    reasons: Reasons


# --- writing ---------------------------------------------------------------------------------------------------------


def encode_slices(
    topology: NodeTopology, node_name: str, node_uid: str, generation: int = 1
) -> tuple[list[Obj], list[str]]:
    """A slice for each kind that is known, empty where there is no such device; and what there was no room for."""
    omitted: list[str] = []
    digest = topology_hash(topology)
    slices = []
    for kind in KINDS:
        devices = kind.of(topology)
        if devices is not None:
            encoded = _encode_devices(kind, _presentable(kind, devices), omitted)
            slices.append(_slice(kind, encoded, node_name, node_uid, generation, digest))
    return slices, omitted


def slice_name(kind: Kind, node_name: str) -> str:
    """The name of a node's slice: `kubenexus-gpu-<node>`, shortened where the node's name is too long."""
    return _shortened(f"kubenexus-{kind.name}-{node_name}", _MAX_NAME)


def _slice(kind: Kind, devices: list[Obj], node_name: str, node_uid: str, generation: int, digest: str) -> Obj:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid, "controller": True}
    pool = f"{_shortened(node_name, _MAX_NAME - len(kind.name) - 1)}/{kind.name}"
    spec: Obj = {
        "driver": DRA_DRIVER,
        "nodeName": node_name,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": slice_name(kind, node_name),
            "labels": {TOPOLOGY_HASH_LABEL: digest},
            "ownerReferences": [owner],
        },
        "spec": {**spec, "devices": devices} if devices else spec,
    }


def _shortened(name: str, limit: int) -> str:
    if len(name) <= limit:
        return name
    return name[: limit - 13].rstrip("-.") + "-" + hashlib.sha256(name.encode()).hexdigest()[:12]


def _presentable(kind: Kind, devices: tuple[Any, ...]) -> tuple[Any, ...]:
    """The devices in the order in which they are cut off, lost GPUs without links to their peers."""
    if kind is NUMA:
        return tuple(sorted(devices, key=lambda node: (node.memory_only, node.id)))
    if kind is GPU:
        return tuple(replace(gpu, peer_links=_live_row(gpu, devices)) for gpu in devices)
    return devices


def _live_row(gpu: Gpu, gpus: Iterable[Gpu]) -> str | None:
    if gpu.peer_links is None:
        return None
    lost = {peer.index for peer in gpus if not peer.usable}
    return "".join("0" if gpu.index in lost or i in lost else digit for i, digit in enumerate(gpu.peer_links))


def _encode_devices(kind: Kind, devices: tuple[Any, ...], omitted: list[str]) -> list[Obj]:
    if len(devices) > MAX_DEVICES:
        omitted.append(f"{len(devices) - MAX_DEVICES} of {len(devices)} {kind.name} devices: a slice has {MAX_DEVICES}")
    domains = {index: island[0] for island in islands(devices) for index in island} if kind is GPU else {}
    return [_encode_device(kind, device, domains, omitted) for device in devices[:MAX_DEVICES]]


def _encode_device(kind: Kind, device: Any, domains: Mapping[int, int], omitted: list[str]) -> Obj:
    name = kind.label(device)
    written = write_facts(kind.facts, device)
    attributes: Obj = {"type": {"string": kind.name}, **_derived_attributes(kind, device, domains)}
    capacity: Obj = {}
    for fact in kind.facts:
        if fact.name not in written or fact.place in ("name", "annotation"):
            continue
        narrow = fact.form.narrow(written[fact.name])
        if narrow is None:
            omitted.append(f"{name} {fact.name}: an attribute has no room for it")
        elif fact.place == "capacity":
            capacity[fact.name] = _quantity(narrow)
        else:
            attributes[_qualified(fact.name)] = {fact.form.slot: narrow}
    if kind is NUMA and device.cpu_count is not None:
        capacity["cpu"] = _quantity(device.cpu_count)
    encoded = {"name": name, "attributes": attributes, "taints": [dict(_TAINT)]}
    return {**encoded, "capacity": capacity} if capacity else encoded


def _derived_attributes(kind: Kind, device: Any, domains: Mapping[int, int]) -> Obj:
    if kind is NUMA:
        return {} if device.cpu_count is None else {"memoryOnly": {"bool": device.memory_only}}
    if kind is NIC:
        return _mask("nearestGpuMask", device.nearest_gpus, len(device.gpu_classes or ""))
    health = {} if device.health else {"health": {"string": "unknown"}}
    if device.peer_links is None:
        return health
    domain = {"nvlinkDomain": {"int": domains[device.index]}} if device.index in domains else {}
    return {**health, **domain, **_mask("nvlinkPeerMask", _linked(device.peer_links), len(device.peer_links))}


def _linked(row: str) -> list[int]:
    return [index for index, digit in enumerate(row) if digit != "0"]


def _mask(name: str, indices: Iterable[int], width: int) -> Obj:
    return {name: {"int": sum(1 << index for index in indices)}} if 0 < width <= _MASK_BITS else {}


def _qualified(name: str) -> str:
    return f"{STANDARD_DOMAIN}/{name}" if name in _STANDARD else name


def _quantity(amount: int | str) -> Obj:
    return {"value": quantity.canonical(amount)}


# --- reading ---------------------------------------------------------------------------------------------------------


def decode_slice(obj: Any) -> SlicePart | None:
    """What a slice of our driver says, whoever wrote it; `None` for anything else."""
    spec = mapping(mapping(obj).get("spec"))
    pool, generation = pool_of(spec)
    kind = next((kind for kind in KINDS if pool.endswith(f"/{kind.name}")), None)
    if spec.get("driver") != DRA_DRIVER or kind is None:
        return None
    reasons: Reasons = {}
    digest = mapping(mapping(mapping(obj).get("metadata")).get("labels")).get(TOPOLOGY_HASH_LABEL)
    devices = _decode_devices(kind, spec, reasons)
    return SlicePart(DRA_DRIVER, pool, generation, kind, devices, digest if isinstance(digest, str) else None, reasons)


def pool_of(spec: Obj) -> tuple[str, int]:
    """The name and the generation of a slice's pool."""
    pool = mapping(spec.get("pool"))
    generation = pool.get("generation")
    return str(pool.get("name")), generation if type(generation) is int else 0


def _decode_devices(kind: Kind, spec: Obj, reasons: Reasons) -> tuple[Any, ...] | None:
    if mapping(spec.get("pool")).get("resourceSliceCount", 1) != 1:
        reasons[kind.name] = "its pool has more than the one slice we read"
        return None
    entries = spec.get("devices")
    if entries is None:
        return ()
    if not isinstance(entries, list):
        reasons[kind.name] = "its slice has no list of devices"
        return None
    if len(entries) >= MAX_DEVICES:
        reasons[kind.name] = f"its slice is full, so there may be more than {len(entries)}"
    return build.devices(kind, [_decode_device(kind, mapping(entry), reasons) for entry in entries], reasons)


def _decode_device(kind: Kind, entry: Obj, reasons: Reasons) -> Obj:
    label = str(entry.get("name"))
    raw = device_facts(kind, entry, DRA_DRIVER)
    if raw.get("health") == "unknown":
        del raw["health"]
    if kind is NUMA and "cpuCount" not in raw and "cpu" in mapping(entry.get("capacity")):
        raw["cpuCount"] = _capacity(entry, "cpu")
    values = read_facts(kind.facts, raw, f"{label}.", reasons)
    number = re.fullmatch(rf"{kind.name}-([0-9]{{1,5}})", label)
    named = int(number[1]) if number else None
    if named is None or values.setdefault(kind.key.field, named) != named:
        reasons[f"{label}.{kind.key.name}"] = "the device's name and its number differ"
        values.pop(kind.key.field, None)
    return _consistent(kind, values, mapping(entry.get("attributes")), f"{label}.", reasons)


def _consistent(kind: Kind, values: Obj, attributes: Obj, where: str, reasons: Reasons) -> Obj:
    """Drop what its redundant twin contradicts."""
    if kind is NUMA and "memoryOnly" in attributes:
        count = len(values["cpus"]) if "cpus" in values else values.get("cpu_count")
        if count is not None and mapping(attributes["memoryOnly"]).get("bool") is not (count == 0):
            reasons[f"{where}cpus"] = f"memoryOnly does not go with {count} CPUs"
            values = {field: value for field, value in values.items() if field not in ("cpus", "cpu_count")}
    if kind is GPU and "nvlinkPeerMask" in attributes and "peer_links" in values:
        mask = sum(1 << index for index in _linked(values["peer_links"]))
        if mapping(attributes["nvlinkPeerMask"]).get("int") != mask:
            reasons[f"{where}nvlinkPeerLinks"] = "nvlinkPeerMask does not go with it"
            values = {field: value for field, value in values.items() if field != "peer_links"}
    return values


def device_facts(kind: Kind, entry: Obj, driver: str) -> Obj:
    """The attributes and capacities of a device that are facts of this kind, by name, as scalars where they are any."""
    attributes: Obj = {}
    for name, attribute in mapping(entry.get("attributes")).items():
        domain, _, bare = name.rpartition("/")
        if domain in ("", driver, STANDARD_DOMAIN):
            attributes[bare] = attribute
    raw: Obj = {}
    for fact in kind.facts:
        if fact.place == "capacity":
            value = _capacity(entry, fact.name)
        else:
            value = _unwrapped(fact, attributes[fact.name]) if fact.name in attributes else None
        if value is not None:
            raw[fact.name] = value
    return raw


def _unwrapped(fact: Fact, attribute: Any) -> Any:
    """The scalar in an attribute; where there is none the attribute in a list, which every reader refuses."""
    slots = mapping(attribute)
    value = slots.get(fact.form.slot)
    if value is None and fact.form.slot == "version":
        value = slots.get("string")
    if value is None:
        return [attribute]
    return fact.form.widen(value) if isinstance(value, str) else value


def _capacity(entry: Obj, name: str) -> Any:
    """A capacity as a whole number; what is none stays as it is, for the reader to refuse."""
    text = mapping(mapping(entry.get("capacity")).get(name)).get("value")
    try:
        amount = quantity.parse(text) if text is not None else None
    except quantity.QuantityError:
        return text
    return int(amount) if amount is not None and amount.denominator == 1 else text


def mapping(raw: Any) -> Obj:
    """`raw`, if it is a JSON object at all."""
    return raw if isinstance(raw, dict) else {}
