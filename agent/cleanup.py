"""Removes what the agent wrote: its labels and annotations on Nodes, its ResourceSlices and NodeResourceTopologies.

Stop the agents first, or they publish again. A label that somebody else wrote as well stays.

examples:
  kubenexus cleanup --node dgx-1   one Node
  kubenexus cleanup --all          the whole cluster
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kubenexus.agent.publish.ownership import held
from kubenexus.agent.publish.targets import NodeMetadata, Nrt, Slices, Target, own_slices
from kubenexus.agent.publish.wanted import NOTHING
from kubenexus.agent.run import add_kubeconfig, connect, default_node_name, sentence
from kubenexus.common.cli import OK, CommandError
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import ApiError, NotFound
from kubenexus.common.kube.resources import NODES, RESOURCE_SLICES
from kubenexus.common.vocabulary import AGENT_GPU_MANAGER, AGENT_NUMA_MANAGER

Obj = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--node", default=default_node_name(), metavar="NAME", help="default: $NODE_NAME, or this host")
    which.add_argument("--all", action="store_true", help="every Node, and slices of Nodes that are gone")
    add_kubeconfig(parser)


def run(args: argparse.Namespace) -> int:
    with connect(args.kubeconfig) as client:
        try:
            nodes = client.list(NODES).items if args.all else [client.get(NODES, args.node)]
            slices = _slices(client, None if args.all else args.node)
            for node in nodes:
                _clean(client, node, slices.pop(node["metadata"]["name"], []))
            for name, left in sorted(slices.items()):
                _delete(client, name, left)
        except NotFound as error:
            raise CommandError(f"there is no Node {args.node}; name one with --node, or take --all.") from error
        except ApiError as error:
            raise CommandError(f"{sentence(error)} Run it again to clean up the rest.") from error
    return OK


def _slices(client: Client, node_name: str | None) -> dict[str, list[Obj]]:
    """The slices of our driver by node; none where the server does not know slices."""
    found: defaultdict[str, list[Obj]] = defaultdict(list)
    try:
        for slice_ in client.list(RESOURCE_SLICES, field_selector=own_slices(node_name)).items:
            found[slice_["spec"].get("nodeName", "")].append(slice_)
    except NotFound:
        return {}
    return dict(found)


def _clean(client: Client, node: Obj, slices: list[Obj]) -> None:
    name = node["metadata"]["name"]
    before = [held(node, manager) for manager in (AGENT_NUMA_MANAGER, AGENT_GPU_MANAGER)]
    counts = {
        "label": sum(len(share.labels) for share in before),
        "annotation": sum(len(share.annotations) for share in before),
    }
    _carry_out(NodeMetadata(client), node)
    counts["slice"] = _carry_out(Slices(client, name, publish=False, cache=lambda: slices), node)
    counts["NodeResourceTopology"] = _carry_out(Nrt(client), node)
    _tell(name, counts)


def _carry_out(target: Target, node: Obj) -> int:
    writes = [*target.writes(node, NOTHING)]
    for write in writes:
        write.do()
    return len(writes)


def _delete(client: Client, node_name: str, slices: Iterable[Obj]) -> None:
    """The slices of a Node that is gone."""
    names = [slice_["metadata"]["name"] for slice_ in slices]
    for name in names:
        client.delete(RESOURCE_SLICES, name)
    _tell(f"{node_name} (gone)", {"slice": len(names)})


def _tell(node_name: str, counts: dict[str, int]) -> None:
    found = [f"{count} {what}{'s' if count > 1 else ''}" for what, count in counts.items() if count]
    print(f"{node_name}: {'removed ' + ', '.join(found) if found else 'nothing to remove'}")
