"""Shows this machine's topology: NUMA nodes, GPUs, NVLink, PCIe and NICs. Needs no cluster.

examples:
  kubenexus topo                          the matrix, as nvidia-smi topo -m
  kubenexus topo -o tree                  packages, NUMA nodes and the PCIe tree
  kubenexus topo --root capture -o json   a captured machine: a folder that holds sys and proc
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kubenexus.agent.discovery.files import Files
from kubenexus.agent.discovery.host import describe, memory_doubt
from kubenexus.agent.discovery.nvml import OFF, recorded_or_asked
from kubenexus.agent.discovery.scan import scan
from kubenexus.agent.show.matrix import matrix
from kubenexus.agent.show.svg import svg
from kubenexus.agent.show.tree import tree
from kubenexus.common import wire
from kubenexus.common.cli import OK, CommandError
from kubenexus.common.topology import NodeTopology

# A slice names the uid of its Node, which a machine outside a cluster does not have.
NO_UID = "00000000-0000-0000-0000-000000000000"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", default="/", metavar="DIR", help="the folder that holds sys and proc (default: /)")
    parser.add_argument("--nvml", choices=("auto", "off"), default="auto", help="ask NVML about GPUs (default: auto)")
    parser.add_argument("--node-name", metavar="NAME", help="name in slices (default: this host's)")
    parser.add_argument("-o", "--output", choices=FORMATS, default="matrix", help="format (default: matrix)")


def run(args: argparse.Namespace) -> int:
    root = Path(args.root)
    if not (root / "sys").is_dir():
        raise CommandError(f"there is no folder sys in {args.root}; name the folder that holds sys and proc.")
    topology = scan(root, lambda: OFF if args.nvml == "off" else recorded_or_asked(root))
    print(FORMATS[args.output](topology, args), flush=True)
    return OK


def _matrix(topology: NodeTopology, _args: argparse.Namespace) -> str:
    return matrix(topology)


def _tree(topology: NodeTopology, args: argparse.Namespace) -> str:
    files = Files(args.root)
    doubt = memory_doubt(files, topology)
    unknowns = {**topology.unknowns, "numa.memory": doubt} if doubt else topology.unknowns
    return tree(replace(topology, unknowns=unknowns), describe(files))


def _svg(topology: NodeTopology, args: argparse.Namespace) -> str:
    return svg(topology, describe(Files(args.root)))


def _json(topology: NodeTopology, _args: argparse.Namespace) -> str:
    return json.dumps(json.loads(wire.encode_annotation(topology)), indent=2)


def _labels(topology: NodeTopology, _args: argparse.Namespace) -> str:
    labels, _ = wire.encode_labels(topology)
    return "\n".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _slices(topology: NodeTopology, args: argparse.Namespace) -> str:
    slices, _ = wire.encode_slices(topology, args.node_name or platform.node().lower(), NO_UID)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": slices}, indent=2)


FORMATS: dict[str, Callable[[NodeTopology, argparse.Namespace], str]] = {
    "matrix": _matrix,
    "tree": _tree,
    "svg": _svg,
    "json": _json,
    "labels": _labels,
    "slices": _slices,
}
