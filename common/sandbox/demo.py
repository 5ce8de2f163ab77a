"""Runs KubeNexus on a sandbox cluster in one process tree: an API server in a box, agents, and the scheduler.

The nodes are synthetic: a DGX H100, a DGX A100, a GB200 tray, a big EPYC server and a plain one, over and over. Each
agent discovers its own machine and publishes what it found; what you see is read back from the API server. Then the
scheduler places a Job, a Deployment and a pod that fits nowhere.

examples:
  kubenexus demo               shows what happens, and ends
  kubenexus demo --keep        stays, and prints the kubeconfig for kubectl
  kubenexus demo --nodes 12
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from kubenexus.common import cpulist, wire
from kubenexus.common.cli import OK, CommandError
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import NODES, RESOURCE_SLICES
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.sandbox.demo_work import scheduler, submit_and_watch, verdict
from kubenexus.common.sandbox.machine_tree import write_machine
from kubenexus.common.sandbox.machines import GIB, MACHINES, Machine

Obj = dict[str, Any]
MAX_NODES = 200


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=len(MACHINES), metavar="N", help="how many nodes (default: 5)")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running until Ctrl-C")


def run(args: argparse.Namespace) -> int:
    if not 1 <= args.nodes <= MAX_NODES:
        raise CommandError(f"--nodes is {args.nodes}; a sandbox takes 1 to {MAX_NODES} nodes.")
    with tempfile.TemporaryDirectory(prefix="kubenexus-demo-") as folder, Sandbox(controllers=True) as sandbox:
        kubeconfig = Path(folder) / "kubeconfig"
        sandbox.write_kubeconfig(kubeconfig)
        _say(f"A sandbox API server listens on {sandbox.url} (in memory, loopback only, not for production).")
        with Client.connect(str(kubeconfig)) as client:
            _join_nodes(client, Path(folder), kubeconfig, args.nodes)
            _show_nodes(client)
            with scheduler(kubeconfig):
                _say("The scheduler is running. A Job of 4 × 4 GPUs, a Deployment of 3 and a pod of 16 GPUs arrive:")
                _show_pods(submit_and_watch(client))
                if args.keep:
                    _keep(kubeconfig)
    return OK


def _join_nodes(client: Client, folder: Path, kubeconfig: Path, count: int) -> None:
    nodes = {
        f"{machine.name}-{number}": machine for number, machine in enumerate(islice(cycle(MACHINES.values()), count))
    }
    for name, machine in nodes.items():
        root = folder / name
        root.mkdir()
        write_machine(machine, root)
        client.create(NODES, node_object(name, machine))
    _say(f"{count} synthetic nodes have joined. Each runs an agent that reads its own /sys and NVML:")
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda name: _run_agent(name, folder / name, kubeconfig), nodes))


def node_object(name: str, machine: Machine) -> Obj:
    """A Node as its kubelet would register it: capacities, and nothing of what the agent finds out."""
    gpus = {"nvidia.com/gpu": str(len(machine.gpu_numa))} if machine.gpu_numa else {}
    capacity = {"cpu": str(machine.cpu_count), "memory": f"{machine.memory // GIB}Gi", "pods": "110", **gpus}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _run_agent(name: str, root: Path, kubeconfig: Path) -> None:
    words = ["agent", "--once", "--node-name", name, "--root", str(root), "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(
        [sys.executable, "-m", "kubenexus.common.cli", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise CommandError(f"the agent of {name} failed: {last[0]}")


def _show_nodes(client: Client) -> None:
    slices: dict[str, list[Obj]] = {}
    for item in client.list(RESOURCE_SLICES).items:
        slices.setdefault(item["spec"].get("nodeName", ""), []).append(item)
    rows = [_row(node, slices.get(node["metadata"]["name"], [])) for node in client.list(NODES).items]
    header = ("NODE", "CPUS", "NUMA", "MEMORY", "GPUS", "MODEL", "NVLINK", "ISLANDS", "NICS", "SLICES")
    _say(_table([header, *rows]))


def _row(node: Obj, slices: Sequence[Obj]) -> tuple[str, ...]:
    """What the API server holds of a node, decoded as the scheduler decodes it."""
    meta = node["metadata"]
    parts = [wire.read_slice(item) for item in slices]
    topology = wire.read_topology(meta.get("labels", {}), meta.get("annotations", {}), parts).topology
    gpus = topology.usable_gpus
    islands = [cpulist.format_list(island) for island in topology.islands]
    return (
        meta["name"],
        str(sum(numa.cpu_count or 0 for numa in topology.cpu_nodes)),
        f"{len(topology.cpu_nodes)}+{len(topology.memory_nodes)}"
        if topology.memory_nodes
        else str(len(topology.cpu_nodes)),
        f"{sum(numa.memory or 0 for numa in topology.cpu_nodes) // GIB} GiB",
        str(len(gpus)),
        (gpus[0].product or "?") if gpus else "-",
        str(topology.nvlink or "-"),
        " ".join(islands) or "-",
        str(len(topology.nics or ())),
        str(len(slices)),
    )


def _show_pods(pods: Sequence[Obj]) -> None:
    rows = [(pod["metadata"]["name"], pod["status"]["phase"], pod["spec"].get("nodeName") or "-") for pod in pods]
    _say(_table([("POD", "PHASE", "NODE"), *rows]))
    for pod in pods:
        if verdict(pod):
            _say(f"{pod['metadata']['name']} waits: {verdict(pod)}")


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _keep(kubeconfig: Path) -> None:
    _say(
        f"The cluster stays until Ctrl-C. In another terminal:\n\n  export KUBECONFIG={kubeconfig}\n  kubectl get nodes"
    )
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()


def _say(text: str) -> None:
    print(f"{text}\n", flush=True)
