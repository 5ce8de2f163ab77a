"""The command `hack/kubelets`: two synthetic nodes for a control plane that has none, and their kubelets."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from hack.control_plane import cluster
from hack.kubelet.containers import Kubelet, Ports
from hack.kubelet.play import Kubelets, play
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import AlreadyExists
from kubenexus.common.kube.resources import NODES, Resource
from kubenexus.common.sandbox.demo import node_object
from kubenexus.common.sandbox.machine_tree import write_machine
from kubenexus.common.sandbox.machines import MACHINES, Machine

ABOUT = """Two synthetic nodes, one with eight GPUs, and their kubelets, until Ctrl-C.

Pods of the KubeNexus chart run as processes of this machine, with their accounts and arguments; all others only say
that they run, and that they end."""
EXAMPLE = """example:
  hack/control-plane up --with controller-manager,scheduler
  hack/kubelets
"""
# Few CPUs: their files would be most of the work.
FLEET = {"gpu-1": replace(MACHINES["dgx-h100"], cores_per_numa=8), "cpu-1": MACHINES["plain"]}
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
GPU_LABEL = {"nvidia.com/gpu.present": "true"}
"""what the NVIDIA GPU operator sets"""


def main(arguments: list[str] | None = None) -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="hack/kubelets", description=ABOUT, epilog=EXAMPLE, formatter_class=raw)
    default = cluster.instances() / "default" / "kubeconfig"
    parser.add_argument("--kubeconfig", type=Path, default=default, metavar="FILE",
                        help="of the control plane (default: %(default)s)")  # fmt: skip
    options = parser.parse_args(arguments)
    if not options.kubeconfig.exists():
        print(f"There is no {options.kubeconfig}; start one with hack/control-plane up.", file=sys.stderr)
        return 1
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with tempfile.TemporaryDirectory(prefix="kubenexus-kubelets-") as folder:
        run(options.kubeconfig, Path(folder), stopped)
    return 0


def run(kubeconfig: Path, folder: Path, stopped: threading.Event) -> None:
    """Join the nodes, and play their kubelets until the event."""
    with Client.connect(str(kubeconfig), agent="kubelets") as client:
        ports = Ports()
        kubelets = [
            Kubelet(client, kubeconfig, name, _join(client, name, machine, folder / name), folder / name, ports)
            for name, machine in FLEET.items()
        ]
        with contextlib.suppress(AlreadyExists):
            client.create(RUNTIME_CLASSES, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        _say(f"{', '.join(FLEET)} have joined; their kubelets run until Ctrl-C.")
        play(Kubelets(client, kubelets, _say), stopped.wait)


def _join(client: Client, name: str, machine: Machine, folder: Path) -> Path:
    """A new node; the root of its file system."""
    host = folder / "host"
    host.mkdir(parents=True)
    write_machine(machine, host)
    node = node_object(name, machine)
    node["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    if machine.gpu_numa:
        (host / "proc/driver/nvidia").mkdir(parents=True)
        node["metadata"]["labels"] |= GPU_LABEL
    with contextlib.suppress(AlreadyExists):
        client.create(NODES, node)
    return host


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
