"""What the agent may do in a cluster, as the rules of its ClusterRole: enough for every part, and no more.

RBAC cannot say "its own Node only"; an admission policy has to. There is no right to list or watch Nodes: an agent
reads the one it runs on.
"""

from __future__ import annotations

from typing import Any, Final

from kubenexus.common.kube.resources import NODES, RESOURCE_SLICES, Resource

NODE_RESOURCE_TOPOLOGIES: Final = Resource(
    "topology.node.k8s.io", "v1alpha2", "noderesourcetopologies", "NodeResourceTopology", namespaced=False
)

SLICE_VERBS: Final = ("list", "watch", "create", "update", "delete")


def _rule(res: Resource, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [res.group], "resources": [res.plural], "verbs": list(verbs)}


RULES: Final = (
    _rule(NODES, "get", "patch"),
    _rule(RESOURCE_SLICES, *SLICE_VERBS),
    # What an agent of other settings left is taken back.
    _rule(NODE_RESOURCE_TOPOLOGIES, "get", "delete"),
)
NRT_RULES: Final = (_rule(NODE_RESOURCE_TOPOLOGIES, "create", "patch"),)
"""besides, where NodeResourceTopologies are published"""

CLEANUP_RULES: Final = (
    _rule(NODES, "list", "patch"),
    _rule(RESOURCE_SLICES, "list", "delete"),
    _rule(NODE_RESOURCE_TOPOLOGIES, "get", "delete"),
)
"""of `kubenexus cleanup --all`, which goes over every Node"""
