"""NUMA nodes with the kernel's own ids: CPUs, memory, huge pages, distances, bandwidth and latency."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kubenexus.agent.discovery.cpu import Cpus
from kubenexus.agent.discovery.files import Files
from kubenexus.common.topology import NumaNode
from kubenexus.common.vocabulary import MAX_NUMA_ID

NODES = "sys/devices/system/node"
LOCAL_DISTANCE = 10


def read_numa(files: Files, cpus: Cpus, unknowns: dict[str, str]) -> tuple[NumaNode, ...]:
    """All online NUMA nodes. A machine without any (NUMA off in the kernel, s390) is one node with everything."""
    folders = {id_: folder for id_, folder in files.numbered(NODES, "node") if id_ <= MAX_NUMA_ID}
    online = files.cpus(f"{NODES}/online") or tuple(folders)
    ids = [id_ for id_ in online if id_ in folders]
    if not ids:
        return (_whole_machine(files, cpus),)
    nodes = [_read_node(files, folders[id_], id_, cpus) for id_ in ids]
    rows = {id_: _distances(files, folders[id_], id_, online, unknowns) for id_ in ids}
    merged = _merged(nodes, cpus)
    placed = [replace(node, distances=_row(rows[node.id], merged)) for node in merged]
    return tuple(node if node.cpus != () else _with_nearest(files, node, placed) for node in placed)


def _whole_machine(files: Files, cpus: Cpus) -> NumaNode:
    memory = memory_total(files, "proc/meminfo")
    whole = NumaNode(id=0, cpus=cpus.online or None, memory=memory, distances=(LOCAL_DISTANCE,))
    return _with_cpu_facts(whole, cpus)


def _read_node(files: Files, folder: str, id_: int, cpus: Cpus) -> NumaNode:
    listed = files.cpus(f"{folder}/cpulist")
    if listed is None:
        listed = files.cpumap(f"{folder}/cpumap")
    node = NumaNode(
        id=id_,
        cpus=None if listed is None else cpus.usable(listed),
        memory=memory_total(files, f"{folder}/meminfo"),
        hugepages_2mi=files.number(f"{folder}/hugepages/hugepages-2048kB/nr_hugepages"),
        hugepages_1gi=files.number(f"{folder}/hugepages/hugepages-1048576kB/nr_hugepages"),
        read_bandwidth=_from_best_cpu(files, folder, "read_bandwidth"),
        read_latency=_from_best_cpu(files, folder, "read_latency"),
    )
    return _with_cpu_facts(node, cpus)


def _with_cpu_facts(node: NumaNode, cpus: Cpus) -> NumaNode:
    if not node.cpus:
        return node
    return replace(
        node,
        package=cpus.package_of(node.cpus),
        threads_per_core=cpus.threads_per_core,
        l3_count=cpus.l3_count(node.cpus),
        die_count=cpus.die_count(node.cpus),
        cluster_count=cpus.cluster_count(node.cpus),
    )


def memory_total(files: Files, path: str) -> int | None:
    """MemTotal in bytes, of `/proc/meminfo` or of a node's file, whose lines begin with `Node 0`."""
    match = re.search(r"MemTotal:\s*([0-9]{1,15}) kB", files.text(path) or "")
    return int(match[1]) * 1024 if match else None


def _from_best_cpu(files: Files, folder: str, fact: str) -> int | None:
    """From the firmware's table, for the best CPUs (access1); 0 means unknown.

    Old kernels have access0 alone: the best initiator of any sort, which may be a GPU where access1 stands beside it.
    """
    for access in ("access1", "access0"):
        if files.exists(f"{folder}/{access}"):
            return files.number(f"{folder}/{access}/initiators/{fact}") or None
    return None


Row = dict[int, int]
"""A row of distances by node id."""


def _distances(files: Files, folder: str, id_: int, online: Sequence[int], unknowns: dict[str, str]) -> Row | None:
    """The kernel's row: one column for each online node in ascending order, whatever the ids are."""
    row = (files.text(f"{folder}/distance") or "").split()
    if len(row) == len(online) and all(re.fullmatch(r"[0-9]{1,5}", item) for item in row):
        return dict(zip(online, map(int, row), strict=True))
    if row:
        unknowns[f"numa-{id_}.distances"] = f"the row is not one number for each of {len(online)} online nodes"
    return None


def _row(row: Row | None, nodes: Iterable[NumaNode]) -> tuple[int, ...] | None:
    return None if row is None else tuple(row[node.id] for node in nodes)


def _merged(nodes: Iterable[NumaNode], cpus: Cpus) -> list[NumaNode]:
    """Nodes that share CPUs are one, with the lowest id: no CPU is in two places, so the firmware's table is bogus."""
    found: list[NumaNode] = []
    for node in nodes:
        same = [other for other in found if not set(other.cpus or ()).isdisjoint(node.cpus or ())]
        apart = [other for other in found if other not in same]
        whole = _with_cpu_facts(_union([*same, node]), cpus) if same else node
        found = sorted([*apart, whole], key=lambda node: node.id)
    return found


def _union(nodes: Sequence[NumaNode]) -> NumaNode:
    return replace(
        nodes[0],
        cpus=tuple(sorted({cpu for node in nodes for cpu in node.cpus or ()})),
        memory=_sum(node.memory for node in nodes),
        hugepages_2mi=_sum(node.hugepages_2mi for node in nodes),
        hugepages_1gi=_sum(node.hugepages_1gi for node in nodes),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)


def _with_nearest(files: Files, node: NumaNode, nodes: Sequence[NumaNode]) -> NumaNode:
    """Tells for a node of memory alone which node with CPUs is nearest: by the firmware's word, else by distance."""
    near = {other.id: column for column, other in enumerate(nodes) if other.cpus}
    for access in ("access1", "access0"):
        linked = [id_ for id_, _ in files.numbered(f"{NODES}/node{node.id}/{access}/initiators", "node") if id_ in near]
        if len(linked) == 1:
            return replace(node, nearest_cpu_node=linked[0])
    row = node.distances
    ranked = [] if row is None else sorted((row[column] or 0, id_) for id_, column in near.items())
    return replace(node, nearest_cpu_node=ranked[0][1]) if ranked else node
