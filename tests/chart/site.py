"""A release of the chart on a real API server, as its tests use it: Helm, two nodes, and what can be seen of them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hack.control_plane import binaries
from hack.control_plane.processes import free_port
from kubenexus.agent.kubelet import CONFIG
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import LEASES, NAMESPACES, NODES, PODS
from kubenexus.common.sandbox.machine_tree import write_machine
from tests.agents import SMALL_DGX
from tests.chart.helm import Helm, finished
from tests.chart.kubelet import PATIENCE, Kubelet
from tests.contract.objects import unique
from tests.stub_server import until

Obj = dict[str, Any]

GPU_LABEL = {"nvidia.com/gpu.present": "true"}
ROOM = {"cpu": "32", "memory": "256Gi", "pods": "110"}


class Site:
    """A cluster with a GPU node and a plain one, and a release of the chart in a namespace of its own."""

    def __init__(self, client: Client, kubeconfig: Path, helm: Helm, folder: Path) -> None:
        self.client, self.kubeconfig, self.helm = client, kubeconfig, helm
        self.space, self.release = unique("nexus"), unique("kubenexus")
        self.ports = {name: free_port() for name in ("agent", "scheduler", "webhook", "metrics")}
        host = folder / "host"
        write_machine(SMALL_DGX, host)
        (host / "proc/driver/nvidia").mkdir(parents=True)
        (host / "var/lib/kubelet").mkdir(parents=True)
        (host / CONFIG).write_text("kind: KubeletConfiguration\ntopologyManagerPolicy: best-effort\n", encoding="utf-8")
        self.gpu, self.plain = (Kubelet(client, kubeconfig, unique(name), host, folder) for name in ("gpu", "plain"))

    def prepare(self) -> None:
        """What a cluster has before KubeNexus comes."""
        self.client.create(NAMESPACES, {"metadata": {"name": self.space}})
        for kubelet, labels in ((self.gpu, GPU_LABEL), (self.plain, {})):
            meta = {"name": kubelet.node, "labels": {"kubernetes.io/hostname": kubelet.node, **labels}}
            room = {**ROOM, "nvidia.com/gpu": "8"} if labels else ROOM
            self.client.create(NODES, {"metadata": meta, "status": {"allocatable": room, "capacity": room}})

    def helm_do(self, verb: str, *words: object) -> str:
        return self.helm.do(verb, self.release, *words, "--namespace", self.space, kubeconfig=self.kubeconfig)

    def settings(self) -> list[object]:
        """All processes are on one machine here, so that each needs ports of its own; the kubelet's file is read."""
        ports = {
            "agent.metricsPort": self.ports["agent"],
            "scheduler.metricsPort": self.ports["scheduler"],
            "webhook.port": self.ports["webhook"],
            "webhook.metricsPort": self.ports["metrics"],
        }
        settings = {**ports, "agent.kubeletConfig.enabled": "true"}
        return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]

    def pod(self, component: str, **labels: str) -> Obj:
        """A pod of a component, once its controller has made one; of several, the one that was made last."""
        wanted = {"app.kubernetes.io/component": component, **labels}
        selector = ",".join(f"{key}={value}" for key, value in wanted.items())
        found: list[Obj] = []

        def made() -> bool:
            pods = self.client.list(PODS, self.space, label_selector=selector).items
            found[:] = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
            return bool(found)

        until(made, PATIENCE)
        return max(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    @contextlib.contextmanager
    def while_helm(self, verb: str, *words: object) -> Iterator[Callable[[], str]]:
        """Helm at work while the block is; the function waits for its end and gives what it printed."""
        command = [verb, self.release, *words, "--namespace", self.space, "--timeout", "90s"]
        with self.helm.start(*command, kubeconfig=self.kubeconfig) as process:
            try:
                yield lambda: finished(process)
            finally:
                process.kill()

    def kubectl(self, *words: str) -> str:
        program = binaries.find("kubectl")
        assert program is not None
        command = [str(program), f"--kubeconfig={self.kubeconfig}", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def leader(self) -> str:
        """Which scheduler leads."""
        spec = self.client.get(LEASES, f"{self.release}-scheduler", self.space).get("spec") or {}
        return str(spec.get("holderIdentity", ""))

    def helm_test(self) -> str:
        """`helm test`, which must succeed; what its pod printed."""
        with self.while_helm("test") as ended:
            said = self.gpu.finish(self.pod("test"))
            assert "NOT OK" not in said, said
            assert "Succeeded" in ended()
        return said

    def uninstall(self) -> str:
        """`helm uninstall`, which must succeed; what its Job printed."""
        with self.while_helm("uninstall") as ended:
            said = self.plain.finish(self.pod("cleanup"))
            ended()
        return said

    def node_metadata(self) -> dict[str, Obj]:
        nodes = (self.client.get(NODES, kubelet.node)["metadata"] for kubelet in (self.gpu, self.plain))
        return {meta["name"]: {key: meta.get(key) for key in ("labels", "annotations")} for meta in nodes}
