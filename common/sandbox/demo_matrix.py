"""What went where, drawn: a row for each node, a box for each of its NUMA nodes, and in it who has which GPU. Pure.

Behind a bar stand the pods that have the NUMA node's CPUs and memory only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_uppercase
from typing import Any

from kubenexus.common.topology import NodeTopology
from kubenexus.common.vocabulary import GPU_ASSIGNED, NUMA_ASSIGNED

Obj = dict[str, Any]
FREE = "·"


def matrix(nodes: dict[str, NodeTopology], pods: Sequence[Obj]) -> Iterator[str]:
    """Lines for people; only pods with NUMA nodes or GPUs of their own are in it."""
    seated = [pod for pod in pods if _running(pod) and (_ids(pod, GPU_ASSIGNED) or _ids(pod, NUMA_ASSIGNED))]
    letters = dict(zip((pod["metadata"]["name"] for pod in seated), _letters(), strict=False))
    width = max(map(len, nodes), default=0)
    for name, topology in nodes.items():
        here = [pod for pod in seated if pod["spec"]["nodeName"] == name]
        yield f"  {name:<{width}}  {'  '.join(_boxes(topology, here, letters))}"
    yield ""
    yield from (f"  {letters[pod['metadata']['name']]}  {_words(pod)}" for pod in seated)


def _letters() -> Iterator[str]:
    yield from ascii_uppercase
    yield from (f"{one}{two}" for one in ascii_uppercase for two in ascii_uppercase)


def _boxes(topology: NodeTopology, pods: Sequence[Obj], letters: dict[str, str]) -> Iterator[str]:
    def letter(pod: Obj) -> str:
        return letters[pod["metadata"]["name"]]

    owners = {gpu: letter(pod) for pod in pods for gpu in _ids(pod, GPU_ASSIGNED)}
    for numa in topology.cpu_nodes:
        gpus = [gpu.index for gpu in topology.usable_gpus if gpu.numa == numa.id]
        guests = [pod for pod in pods if numa.id in _ids(pod, NUMA_ASSIGNED) and not _ids(pod, GPU_ASSIGNED)]
        cells = " ".join(owners.get(gpu, FREE) for gpu in gpus)
        yield f"{numa.id}[{' | '.join(filter(None, (cells, ' '.join(map(letter, guests))))) or ' '}]"


def _words(pod: Obj) -> str:
    meta, numa, gpus = pod["metadata"], _ids(pod, NUMA_ASSIGNED), _ids(pod, GPU_ASSIGNED)
    parts = [f"{meta['name']} on {pod['spec']['nodeName']}"]
    parts += [f"NUMA {', '.join(map(str, numa))}"] if numa else []
    parts += [f"GPUs {', '.join(map(str, gpus))}"] if gpus else []
    return "; ".join(parts)


def _running(pod: Obj) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ("Succeeded", "Failed")


def _ids(pod: Obj, key: str) -> list[int]:
    text = pod["metadata"].get("annotations", {}).get(key, "")
    return [int(part) for part in text.split(",")] if text else []
