"""Runs KubeNexus on a sandbox cluster in one process tree: an API server in a box, agents, webhook and scheduler.

The nodes are synthetic: eight DGX H100 of one NVLink clique, a DGX A100, a big EPYC server, a GB200 tray and a plain
one. Each agent discovers its own machine and publishes what it found; what you see is read back from the API server.
Then work arrives as users write it: the webhook completes the pods and refuses one that cannot be meant, and the
scheduler places them: a training gang, a pod on a pair of GPUs, an HPC pod that wants a NUMA node for itself, a
service, and a second gang that waits as a whole until there is room.

examples:
  kubenexus demo               shows what happens, and ends
  kubenexus demo --keep        stays, and prints the kubeconfig for kubectl
  kubenexus demo --nodes 20
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubenexus.common import cpulist, wire
from kubenexus.common.cli import OK, CommandError
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import NODES, RESOURCE_SLICES
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.sandbox.demo_matrix import matrix
from kubenexus.common.sandbox.demo_webhook import refusal, webhook
from kubenexus.common.sandbox.demo_work import (
    NAMESPACE,
    answered,
    await_pods,
    first_wave,
    members,
    misspelt,
    placed,
    scheduler,
    submit,
    training,
    verdict,
)
from kubenexus.common.sandbox.machine_tree import write_machine
from kubenexus.common.sandbox.machines import GIB, MACHINES, Machine
from kubenexus.common.topology import NodeTopology
from kubenexus.common.vocabulary import GANG_DISPLAY_NAME, GANG_MIN_AVAILABLE, NUMA_POLICY

Obj = dict[str, Any]
MAX_NODES = 200
OTHERS = ("dgx-a100", "epyc", "gb200", "plain")
CLIQUE = "8c1b7d52-90a6-4f0e-b1c3-6d2f5e7a9c10.0"
DEFAULT_NODES = 12


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=DEFAULT_NODES, metavar="N", help="how many nodes, at least 5")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running until Ctrl-C")


def run(args: argparse.Namespace) -> int:
    if not len(MACHINES) <= args.nodes <= MAX_NODES:
        raise CommandError(f"--nodes is {args.nodes}; the demo takes {len(MACHINES)} to {MAX_NODES} nodes.")
    with tempfile.TemporaryDirectory(prefix="kubenexus-demo-") as folder, Sandbox(controllers=True) as sandbox:
        kubeconfig = Path(folder) / "kubeconfig"
        sandbox.write_kubeconfig(kubeconfig)
        _say(f"A sandbox API server listens on {sandbox.url} (in memory, loopback only, not for production).")
        with Client.connect(str(kubeconfig)) as client:
            _join_nodes(client, Path(folder), kubeconfig, args.nodes)
            _show_nodes(client)
            with webhook(sandbox, client, kubeconfig, NAMESPACE), scheduler(kubeconfig):
                _play(client, args.nodes - len(OTHERS))
                if args.keep:
                    _keep(kubeconfig)
    return OK


def _play(client: Client, workers: int) -> None:
    """What happens, one scene after the other. There are as many training workers as there are DGX H100."""
    _say("Webhook and scheduler are running. A pod whose gang is to have 'abc' members is refused:")
    _say(f"  {refusal(client, misspelt())}")
    _say(
        f"Work arrives: a training Job of {workers} × 8 GPUs in one NVLink clique, a pod of 2 GPUs on one NUMA node, "
        "an HPC pod that wants a NUMA node for itself, a Deployment of 3, and a pod of 16 GPUs:"
    )
    submit(client, *first_wave(workers))
    pods = await_pods(client, "the placing of the examples", lambda pods: len(pods) == workers + 6 and answered(pods))
    _show_pods(pods)
    nodes = _topologies(client)
    _say("Who has which GPUs, in the NUMA nodes of each node:")
    _say("\n".join(matrix(nodes, pods)))
    submit(client, training("tune", 2, 60))
    pods = await_pods(client, "a verdict on the second gang", lambda pods: _all(pods, "tune", 2, answered))
    _say("A second training Job of 2 × 8 GPUs waits as a whole, and holds nothing meanwhile:")
    _say(f"  {next((verdict(pod) for pod in members(pods, 'tune') if verdict(pod)), 'it has its place already')}")
    pods = await_pods(client, "room for the second gang", lambda pods: _all(pods, "tune", 2, placed))
    _say("Workers of the first training end. As soon as there is room, the second starts with both of its workers:")
    _say("\n".join(matrix(nodes, pods)))


def _all(pods: list[Obj], app: str, count: int, condition: Callable[[list[Obj]], bool]) -> bool:
    found = members(pods, app)
    return len(found) == count and condition(found)


def fleet(count: int) -> dict[str, Machine]:
    """Machines by the names of their nodes: those of OTHERS, and for the rest DGX H100 that one NVLink switch joins."""
    h100 = MACHINES["dgx-h100"]
    assert h100.gpu is not None
    joined = replace(h100, gpu=replace(h100.gpu, clique=CLIQUE))
    names = {f"dgx-h100-{number}": joined for number in range(count - len(OTHERS))}
    return names | {name: MACHINES[name] for name in OTHERS}


def _join_nodes(client: Client, folder: Path, kubeconfig: Path, count: int) -> None:
    nodes = fleet(count)
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


def _slices(client: Client) -> dict[str, list[Obj]]:
    """What agents published, by node."""
    slices: dict[str, list[Obj]] = {}
    for item in client.list(RESOURCE_SLICES).items:
        slices.setdefault(item["spec"].get("nodeName", ""), []).append(item)
    return slices


def _topologies(client: Client) -> dict[str, NodeTopology]:
    slices = _slices(client)
    return {
        node["metadata"]["name"]: _topology(node, slices.get(node["metadata"]["name"], []))
        for node in client.list(NODES).items
    }


def _topology(node: Obj, slices: Sequence[Obj]) -> NodeTopology:
    """What the API server holds of a node, decoded as the scheduler decodes it."""
    meta, parts = node["metadata"], [wire.read_slice(item) for item in slices]
    return wire.read_topology(meta.get("labels", {}), meta.get("annotations", {}), parts).topology


def _show_nodes(client: Client) -> None:
    slices = _slices(client)
    rows = [_row(node, slices.get(node["metadata"]["name"], [])) for node in client.list(NODES).items]
    header = ("NODE", "CPUS", "NUMA", "MEMORY", "GPUS", "MODEL", "NVLINK", "ISLANDS", "NICS", "SLICES")
    _say(_table([header, *rows]))


def _row(node: Obj, slices: Sequence[Obj]) -> tuple[str, ...]:
    meta, topology = node["metadata"], _topology(node, slices)
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
    _say(_table([("POD", "PHASE", "NODE", "GANG", "NUMA POLICY"), *map(_pod_row, pods)]))
    for pod in pods:
        if verdict(pod):
            _say(f"{pod['metadata']['name']} waits: {verdict(pod)}")


def _pod_row(pod: Obj) -> tuple[str, ...]:
    meta, notes = pod["metadata"], pod["metadata"].get("annotations", {})
    members = meta.get("labels", {}).get(GANG_MIN_AVAILABLE)
    gang = f"{notes.get(GANG_DISPLAY_NAME, '?')}, {members} together" if members else "-"
    return meta["name"], pod["status"]["phase"], pod["spec"].get("nodeName") or "-", gang, notes.get(NUMA_POLICY, "-")


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
