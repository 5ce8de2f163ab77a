"""What every topology survives: three carriers, an API server's grammar, and values that were mangled on the way."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kubenexus.common import wire
from kubenexus.common.cpulist import encode_label
from kubenexus.common.sandbox.validation import apply_defaults, grammar, validate_create
from kubenexus.common.topology import Gpu, NodeTopology, NumaNode
from kubenexus.common.vocabulary import (
    DOMAIN,
    DRA_DRIVER,
    KUBELET_CPU,
    KUBELET_MEMORY,
    KUBELET_OPTIONS,
    KUBELET_POLICY,
    KUBELET_RESERVED,
    KUBELET_SCOPE,
    TOPOLOGY_SNAPSHOT,
)
from kubenexus.common.wire import Kind, MangledError
from kubenexus.common.wire.kubelet import OPTIONS, CpuPolicy, MemoryPolicy, TopologyPolicy, TopologyScope
from tests.property.topologies import numa_lists, topologies

Obj = dict[str, Any]

KUBELET_LABELS = (KUBELET_POLICY, KUBELET_SCOPE, KUBELET_CPU, KUBELET_MEMORY, KUBELET_OPTIONS, KUBELET_RESERVED)

patient = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def slices_of(topology: NodeTopology, node: str = "n1") -> list[Obj]:
    return wire.encode_slices(topology, node, "uid-1", 3)[0]


def from_slices(slices: Iterable[Any]) -> NodeTopology:
    return wire.read_topology({}, {}, map(wire.read_slice, slices)).topology


# --- round trips -----------------------------------------------------------------------------------------------------


@patient
@given(topologies())
def test_the_annotation_gives_back_the_very_same_topology(topology: NodeTopology) -> None:
    assert wire.decode_annotation(wire.encode_annotation(topology)) == (topology, wire.topology_hash(topology))


@given(
    st.builds(
        wire.KubeletSettings,
        st.none() | st.sampled_from(TopologyPolicy),
        st.none() | st.sampled_from(TopologyScope),
        st.none() | st.sampled_from(CpuPolicy),
        st.none() | st.sampled_from(MemoryPolicy),
        st.frozensets(st.sampled_from(sorted(OPTIONS))),
        st.frozensets(st.integers(0, 255), max_size=12).map(lambda cpus: tuple(sorted(cpus))),
    )
)
def test_labels_give_back_the_settings_of_a_kubelet(settings: wire.KubeletSettings) -> None:
    labels = wire.encode_kubelet(settings)
    reserved = settings.reserved if KUBELET_RESERVED in labels else ()
    assert wire.decode_kubelet(labels) == settings._replace(reserved=reserved)
    assert reserved or len(encode_label(settings.reserved)) not in range(1, 64)
    assert not any(map(grammar.label_value, labels.values()))


@given(st.dictionaries(st.sampled_from(KUBELET_LABELS), st.text(max_size=70)))
def test_labels_of_any_text_are_a_kubelet_s_words_or_nothing(labels: dict[str, str]) -> None:
    settings = wire.decode_kubelet(labels)
    again = wire.decode_kubelet(wire.encode_kubelet(settings))
    assert again in (settings, settings._replace(reserved=()))


@patient
@given(topologies(), st.randoms(use_true_random=False))
def test_the_order_of_discovery_does_not_show(topology: NodeTopology, random: Any) -> None:
    shuffled: Obj = {kind.field: _shuffled(kind.of(topology), random) for kind in wire.KINDS}
    assert wire.canonical_json(replace(topology, **shuffled)) == wire.canonical_json(topology)


def _shuffled(devices: tuple[Any, ...] | None, random: Any) -> tuple[Any, ...] | None:
    return None if devices is None else tuple(random.sample(devices, len(devices)))


@patient
@given(topologies())
def test_slices_give_back_all_that_fits_into_them(topology: NodeTopology) -> None:
    decoded = from_slices(slices_of(topology))
    for kind in wire.KINDS:
        devices, found = kind.of(topology), kind.of(decoded)
        if devices is None:
            assert found is None
            continue
        expected = [_as_slice(kind, device, devices) for device in devices]
        kept = sorted(expected, key=lambda device: kind is wire.NUMA and device.memory_only)[:64]
        assert found == tuple(sorted(kept, key=lambda device: getattr(device, kind.key.field)))


def _as_slice(kind: Kind, device: Any, devices: tuple[Any, ...]) -> Any:
    """The device without what the slice format has no room for."""
    values = {fact.field: getattr(device, fact.field) for fact in kind.facts}
    for field, value in values.items():
        if isinstance(value, str) and (len(value.encode()) > 64 or not value.isprintable()):
            values[field] = None
    if values.get("pci_bus_id") and not re.fullmatch(r"[0-9a-f]{4}:..:..\..", values["pci_bus_id"]):
        values["pci_bus_id"] = None
    if values.get("cpus") and len(encode_label(values["cpus"])) > 64:
        values["cpus"] = None
    if kind is wire.GPU:
        values |= _gpu_as_slice(device, devices)
    if kind is wire.NUMA:
        too_long = len("_".join("" if n is None else str(n) for n in device.distances or ())) > 64
        values["distances"] = None if too_long or len(devices) > 64 else device.distances
    if kind is wire.GPU and len(devices) > 64:
        values |= {"peer_links": None, "peer_classes": None}
    return kind.device(**values)


def _gpu_as_slice(gpu: Gpu, gpus: tuple[Gpu, ...]) -> Obj:
    drivers = {"580.105.08": "580.105.8", "535.54.03": "535.54.3", "470.82": "470.82.0"}
    lost = {peer.index for peer in gpus if not peer.usable}
    row = gpu.peer_links
    if row is not None:
        row = "".join("0" if gpu.index in lost or i in lost else digit for i, digit in enumerate(row))
    return {"driver": drivers.get(gpu.driver or ""), "peer_links": row}


@patient
@given(numa_lists())
def test_labels_give_back_the_cpu_nodes(numa: tuple[NumaNode, ...]) -> None:
    topology = NodeTopology(numa=numa)
    labels, omitted = wire.encode_labels(topology)
    assume(not omitted)
    decoded = wire.decode_labels(labels)[0]
    assert not decoded.unknowns
    assert [node.id for node in decoded.memory_nodes] == [node.id for node in topology.memory_nodes]
    for node, found in zip(topology.cpu_nodes, decoded.cpu_nodes, strict=True):
        assert (found.id, found.cpus, found.cpu_count) == (node.id, node.cpus, node.cpu_count)
        assert (found.memory, found.read_bandwidth) == (node.memory, node.read_bandwidth)
        if len(topology.cpu_nodes) <= 8:
            ids = [other.id for other in topology.cpu_nodes]
            assert [decoded.distance(node.id, i) for i in ids] == [topology.distance(node.id, i) for i in ids]


@patient
@given(topologies())
def test_gpu_labels_give_back_what_all_gpus_share(topology: NodeTopology) -> None:
    decoded = wire.decode_labels(wire.encode_labels(topology)[0])[0]
    assert len(decoded.gpus or ()) == len(topology.gpus or ())
    for gpu, found in zip(topology.gpus or (), decoded.gpus or (), strict=True):
        assert found.numa == gpu.numa
        assert not gpu.usable or found.memory in (None, gpu.memory)
    assert decoded.nvlink == (topology.nvlink if topology.gpus else None)


# --- what the API server takes ---------------------------------------------------------------------------------------


@patient
@given(topologies(), st.sampled_from(["n1", "ip-10-0-0-1.eu.compute.internal", "a" * 250 + ".bc"]))
def test_every_slice_is_valid(topology: NodeTopology, node: str) -> None:
    for obj in slices_of(topology, node):
        assert validate_create("ResourceSlice", apply_defaults("ResourceSlice", obj)) == []
        for device in obj["spec"].get("devices", []):
            assert len(device["attributes"]) + len(device.get("capacity", {})) <= 32
            assert device["taints"]


@patient
@given(topologies())
def test_every_label_is_valid(topology: NodeTopology) -> None:
    labels, omitted = wire.encode_labels(topology)
    for key, value in labels.items():
        assert grammar.qualified_name(key) == grammar.label_value(value) == []
    assert all(DOMAIN in sentence and sentence.partition(": ")[0] not in labels for sentence in omitted)


# --- mangled values --------------------------------------------------------------------------------------------------


@patient
@given(topologies(), st.data())
def test_any_edit_of_the_annotation_is_noticed(topology: NodeTopology, data: st.DataObject) -> None:
    edited = _edited(wire.encode_annotation(topology), data, st.characters())
    reading = wire.read_topology({}, {TOPOLOGY_SNAPSHOT: edited})
    if reading.problems:
        assert reading.topology == NodeTopology()
    else:
        assert replace(reading.topology, unknowns={}) == replace(topology, unknowns={})


@patient
@given(topologies(), st.data())
def test_a_mangled_label_makes_facts_unknown_and_never_different(topology: NodeTopology, data: st.DataObject) -> None:
    labels = wire.encode_labels(topology)[0]
    key = data.draw(st.sampled_from(sorted(labels)))
    mangled = {**labels, key: _edited(labels[key], data, st.sampled_from("!%xy é,;"), insert_only=True)}
    before, after = (wire.read_topology(source, {}).topology for source in (labels, mangled))
    _assert_no_new_number(before, after)


@patient
@given(topologies(), st.data())
def test_a_mangled_slice_makes_facts_unknown_and_never_different(topology: NodeTopology, data: st.DataObject) -> None:
    slices = slices_of(topology)
    before = from_slices(slices)
    leaves = list(_leaves(slices, ()))
    assume(leaves)
    path = data.draw(st.sampled_from(leaves))
    junk = data.draw(st.sampled_from(["!junk%", -1, 1.5, [], {}, True, 10**30, "\udc80"]))
    assume(path[-1] != "bool" or junk is not True)
    mangled = copy.deepcopy(slices)
    _set(mangled, path, junk)
    _assert_no_new_number(before, from_slices(mangled))


def _edited(text: str, data: st.DataObject, characters: st.SearchStrategy[str], *, insert_only: bool = False) -> str:
    at = data.draw(st.integers(0, len(text)))
    cut = 0 if insert_only else data.draw(st.integers(0, 3))
    return text[:at] + data.draw(characters) + text[at + cut :]


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, (dict, list)):
            yield from _leaves(item, (*path, key))
        else:
            yield (*path, key)


def _set(value: Any, path: tuple[Any, ...], junk: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = junk


def _assert_no_new_number(before: NodeTopology, after: NodeTopology) -> None:
    """Every number, list and row in `after` is the one in `before`, or unknown; so is the number of devices.

    Only NUMA nodes without CPUs may be forgotten by themselves: labels have their own list of them.
    """
    for kind in wire.KINDS:
        was = {kind.label(device): device for device in kind.of(before) or ()}
        now = {kind.label(device): device for device in kind.of(after) or ()}
        if kind.of(after) is not None:
            missing = [was[label] for label in was.keys() - now.keys()]
            assert all(kind is wire.NUMA and device.memory_only for device in missing)
        for fact in kind.facts:
            for label, device in now.items():
                new, old = getattr(device, fact.field), getattr(was[label], fact.field)
                assert fact.form in OTHERWISE or new is None or new == old, (label, fact.name)
    nodes = [node.id for node in after.numa or ()]
    for near, far in product(nodes, nodes):
        assert after.distance(near, far) in (None, before.distance(near, far))
    for field in ("threads_per_core", "l3_count", "nvlink"):
        assert getattr(after, field) in (None, getattr(before, field))


# Compared in another way, or free text: any text is well-formed.
_OTHER_FIELDS = ("uuid", "driver", "pci_bus_id", "nvlink_version", "distances")
OTHERWISE = {fact.form for kind in wire.KINDS for fact in kind.facts if fact.field in _OTHER_FIELDS}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON, st.dictionaries(st.text(), st.text()))
def test_no_json_at_all_makes_a_reader_raise(value: Any, labels: dict[str, str]) -> None:
    slice_like = {"spec": {"driver": DRA_DRIVER, "pool": {"name": "n/gpu"}, "devices": value}}
    parts = [wire.read_slice(value), wire.read_slice(slice_like)]
    annotation = json.dumps(value)
    wire.read_topology(labels, {TOPOLOGY_SNAPSHOT: annotation}, parts)
    with pytest.raises(MangledError):
        wire.decode_annotation(annotation)
