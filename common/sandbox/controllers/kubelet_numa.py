"""The kubelet's topology manager: which NUMA nodes a pod gets, if its node promises to align. Pure.

Modelled with pod scope and the static CPU and memory policies: exclusive CPUs and memory of Guaranteed pods and GPUs of
all pods come from the smallest set of NUMA nodes that could hold each of them on an empty machine, the first set with
room. `single-numa-node` wants that set to be one node. Other policies align nothing. What a pod got is kept in one of
its annotations, as a kubelet keeps it in its checkpoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, Final

import orjson

from kubenexus.common import cpulist, quantity
from kubenexus.common.objects import Qos, pod_resources
from kubenexus.common.sandbox.controllers.kubelet_fit import Rejection, allocatable
from kubenexus.common.vocabulary import NUMA_NODE_COUNT, NUMA_NODE_IDS, gpu_numa_alias, gpu_numa_label, numa_node_label

Obj = dict[str, Any]
Allocation = dict[int, dict[str, int]]
"""NUMA id → resource → amount, cpu in whole CPUs."""

POLICY_ANNOTATION: Final = "sandbox.local/topology-manager-policy"
"""On a Node: `none`, `best-effort`, `restricted` or `single-numa-node`, as the kubelet's flag."""
ALLOCATION_ANNOTATION: Final = "sandbox.local/numa-allocation"
"""On a Pod: the Allocation as JSON."""
GPU: Final = "nvidia.com/gpu"

REJECTION: Final = Rejection("TopologyAffinityError", "Resources cannot be allocated with Topology locality")


def align(node: Obj, pod: Obj, others: Iterable[Obj]) -> Allocation | None:
    """What the pod gets of each NUMA node, nothing where nothing is promised or asked for; None: rejected."""
    policy = node["metadata"].get("annotations", {}).get(POLICY_ANNOTATION)
    total = _machine(node)
    wanted = _wanted(pod)
    if policy not in ("restricted", "single-numa-node") or not total or not wanted:
        return {}
    sizes = {_smallest_size(total, name, amount) for name, amount in wanted.items()}
    if len(sizes) > 1 or 0 in sizes or (policy == "single-numa-node" and sizes != {1}):
        return None
    free = _free(total, others)
    fitting = (chosen for chosen in combinations(sorted(total), sizes.pop()) if _fits(free, chosen, wanted))
    chosen = next(fitting, None)
    return _taken(free, chosen, wanted) if chosen else None


def _machine(node: Obj) -> Allocation:
    """The NUMA nodes that have CPUs, by the node's labels; none if these do not tell."""
    labels = node["metadata"].get("labels") or {}
    count = allocatable(node).get(GPU, 0)
    gpus = Counter(labels.get(gpu_numa_label(i), labels.get(gpu_numa_alias(i))) for i in range(count))
    try:
        return {
            numa: {
                "cpu": int(labels[numa_node_label(numa, "cpu-count")]),
                "memory": quantity.value(labels[numa_node_label(numa, "memory")]),
                GPU: gpus[str(numa)],
            }
            for numa in _numa_ids(labels)
        }
    except (KeyError, ValueError):
        return {}


def _numa_ids(labels: Obj) -> tuple[int, ...]:
    if NUMA_NODE_IDS in labels:
        return cpulist.parse(labels[NUMA_NODE_IDS])
    return tuple(range(int(labels.get(NUMA_NODE_COUNT, 0))))


def _wanted(pod: Obj) -> dict[str, int]:
    """What the kubelet hands out by NUMA node: devices to anybody, CPUs and memory to those that get their own."""
    resources = pod_resources(pod)
    requests = resources.requests()
    wanted = {GPU: int(requests.get(GPU, 0)), "cpu": resources.exclusive_cpus()}
    if resources.qos() is Qos.GUARANTEED:
        wanted["memory"] = int(requests.get("memory", 0))
    return {name: amount for name, amount in wanted.items() if amount > 0}


def _smallest_size(total: Allocation, name: str, amount: int) -> int:
    """How many NUMA nodes it takes on an empty machine; 0 if all together are too few."""
    biggest = sorted((numa[name] for numa in total.values()), reverse=True)
    return next((size for size in range(1, len(biggest) + 1) if sum(biggest[:size]) >= amount), 0)


def _free(total: Allocation, others: Iterable[Obj]) -> Allocation:
    free = {numa: dict(amounts) for numa, amounts in total.items()}
    for numa, name, amount in (each for pod in others for each in _held(pod)):
        if numa in free:
            free[numa][name] = free[numa].get(name, 0) - amount
    return free


def _held(pod: Obj) -> Iterator[tuple[int, str, int]]:
    text = pod["metadata"].get("annotations", {}).get(ALLOCATION_ANNOTATION, "{}")
    for numa, amounts in orjson.loads(text).items():
        for name, amount in amounts.items():
            yield int(numa), name, amount


def _fits(free: Allocation, chosen: tuple[int, ...], wanted: dict[str, int]) -> bool:
    return all(sum(free[numa][name] for numa in chosen) >= amount for name, amount in wanted.items())


def _taken(free: Allocation, chosen: tuple[int, ...], wanted: dict[str, int]) -> Allocation:
    """The amounts from the first of the chosen NUMA nodes, the rest from the next."""
    taken: Allocation = {numa: {} for numa in chosen}
    for name, rest in wanted.items():
        for numa in chosen:
            taken[numa][name] = min(rest, free[numa][name])
            rest -= taken[numa][name]
    return taken


def encode(allocation: Allocation) -> str:
    """The annotation of a pod that got this."""
    return orjson.dumps(allocation, option=orjson.OPT_NON_STR_KEYS).decode()
