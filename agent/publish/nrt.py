"""The topology as a NodeResourceTopology (topology.node.k8s.io/v1alpha2), for schedulers that read that. Pure.

Off by default: its `available` is only as good as what the kubelet's PodResources socket tells. Without that it equals
what there is, and memory that is shared is never subtracted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kubenexus.agent.allocations import GPU_RESOURCE
from kubenexus.agent.publish.rights import NODE_RESOURCE_TOPOLOGIES
from kubenexus.common.topology import NodeTopology, NumaNode
from kubenexus.common.wire import Allocations, KubeletSettings

Obj = dict[str, Any]


def encode_nrt(
    topology: NodeTopology, node_name: str, node_uid: str, allocations: Allocations | None, kubelet: KubeletSettings
) -> Obj:
    """The object to apply: a zone for each NUMA node with CPUs, with its distances and resources; the kubelet's policy
    and scope as far as they are known."""
    taken = _taken(topology, allocations)
    owner = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node_uid}
    attributes = _attributes(kubelet)
    return {
        "apiVersion": NODE_RESOURCE_TOPOLOGIES.api_version,
        "kind": NODE_RESOURCE_TOPOLOGIES.kind,
        "metadata": {"name": node_name, "ownerReferences": [owner]},
        **({"attributes": attributes} if attributes else {}),
        "zones": [_zone(topology, node, taken) for node in topology.cpu_nodes],
    }


def _attributes(kubelet: KubeletSettings) -> list[Obj]:
    known = {"topologyManagerPolicy": kubelet.policy, "topologyManagerScope": kubelet.scope}
    return [{"name": name, "value": str(word)} for name, word in known.items() if word is not None]


def _zone(topology: NodeTopology, node: NumaNode, taken: Counter[tuple[int, str]]) -> Obj:
    distances = ((far.id, topology.distance(node.id, far.id)) for far in topology.cpu_nodes)
    resources = {
        "cpu": node.cpu_count,
        "memory": node.memory,
        GPU_RESOURCE: len(topology.gpus_by_numa.get(node.id, ())) or None,
    }
    return {
        "name": f"node-{node.id}",
        "type": "Node",
        "costs": [{"name": f"node-{far}", "value": cost} for far, cost in distances if cost is not None],
        "resources": [
            _resource(name, amount, taken[node.id, name]) for name, amount in resources.items() if amount is not None
        ],
    }


def _resource(name: str, amount: int, taken: int) -> Obj:
    left = max(amount - taken, 0)
    return {"name": name, "capacity": str(amount), "allocatable": str(amount), "available": str(left)}


def _taken(topology: NodeTopology, allocations: Allocations | None) -> Counter[tuple[int, str]]:
    """How many CPUs and GPUs of each NUMA node pods have to themselves."""
    taken: Counter[tuple[int, str]] = Counter()
    home = {cpu: node.id for node in topology.cpu_nodes for cpu in node.cpus or ()}
    for given in (allocations or {}).values():
        taken.update((home[cpu], "cpu") for cpu in given.cpus if cpu in home)
        gpus = (topology.gpu(index) for index in given.gpus)
        taken.update((gpu.numa, GPU_RESOURCE) for gpu in gpus if gpu and gpu.numa is not None)
    return taken
