"""Pods of the chart as processes, with the arguments, environment, files and tokens they ask for.

What a pod mounts is laid out below a folder that stands for the root of its container. Processes share the machine's
network: a port that is taken is replaced by a free one, in the arguments as well.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hack.control_plane.processes import free_port
from kubenexus.agent.discovery.nvml import RECORDING
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import NotFound
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS

Obj = dict[str, Any]

PROGRAM = Path(sys.executable).with_name("kubenexus")
DIRECT = urllib.request.build_opener(
    urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl._create_unverified_context())
)
"""by no proxy, and without a look at certificates, as a kubelet does"""


class MountError(Exception):
    """A pod cannot start yet; the text says why."""


@dataclass(frozen=True, slots=True)
class Running:
    """A container that runs."""

    container: Obj
    process: subprocess.Popen[bytes]
    log: Path
    ports: dict[str, int]
    """by name; where the process really listens"""

    @property
    def ready(self) -> bool:
        """Whether its probes succeed; a container without any is ready when it runs."""
        probes = [name for name in ("readinessProbe", "livenessProbe") if name in self.container]
        return self.process.poll() is None and all(map(self.passes, probes))

    def passes(self, probe: str) -> bool:
        """Whether this probe of the container succeeds, as it is written."""
        get = self.container[probe]["httpGet"]
        url = f"{get.get('scheme', 'HTTP').lower()}://127.0.0.1:{self.ports[get['port']]}{get['path']}"
        return page(url) is not None

    def metrics(self) -> str:
        return page(f"http://127.0.0.1:{self.ports['metrics']}/metrics") or ""


def ready_status(pod: Obj) -> Obj:
    """The status of a pod that is ready. API servers find webhooks by the address."""
    address = own_address()
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")],
        "containerStatuses": [_container_status(one, {"running": {}}) for one in pod["spec"]["containers"]],
    }


def ended_status(pod: Obj, failed: bool) -> Obj:
    """The status of a pod that has ended."""
    reason = {"exitCode": int(failed), "reason": "Error" if failed else "Completed"}
    return {
        "phase": "Failed" if failed else "Succeeded",
        "conditions": [{"type": kind, "status": "False"} for kind in ("ContainersReady", "Ready")],
        "containerStatuses": [_container_status(one, {"terminated": reason}) for one in pod["spec"]["containers"]],
    }


def _container_status(container: Obj, state: Obj) -> Obj:
    shown = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
    return {**shown, "ready": "running" in state, "started": "running" in state, "state": state}


@cache
def own_address() -> str:
    """An address of this machine that may stand in a pod's status: not one of loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        return str(probe.getsockname()[0])


def page(url: str) -> str | None:
    """What a server says, or None when that is not a success."""
    try:
        with DIRECT.open(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:  # urllib's errors are, too
        return None


class Ports:
    """Who has which port of this machine; a process that was started a moment ago does not listen yet."""

    def __init__(self) -> None:
        self._taken: dict[int, subprocess.Popen[bytes]] = {}

    def pick(self, port: int) -> int:
        """The port, or another one where it is taken."""
        holder = self._taken.get(port)
        return port if (holder is None or holder.poll() is not None) and _is_free(port) else free_port()

    def give(self, ports: Iterable[int], process: subprocess.Popen[bytes]) -> None:
        self._taken |= dict.fromkeys(ports, process)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


class Kubelet:
    """One node. `host` is the root of its file system; nodes of one machine share its ports."""

    def __init__(
        self, client: Client, kubeconfig: Path, node: str, host: Path, folder: Path, ports: Ports | None = None
    ) -> None:
        self._client, self._kubeconfig, self._ports = client, kubeconfig, ports or Ports()
        self.node, self._host, self._folder = node, host, folder

    def start(self, pod: Obj) -> Running:
        """The process of a pod that is bound to this node. Raises MountError."""
        folder = Path(tempfile.mkdtemp(dir=self._folder, prefix=f"{pod['metadata']['name']}-"))
        root, [container] = folder / "root", pod["spec"]["containers"]
        root.mkdir(parents=True)
        for mount in container.get("volumeMounts", []):
            volume = next(each for each in pod["spec"]["volumes"] if each["name"] == mount["name"])
            self._mount(pod, volume, root / mount["mountPath"].lstrip("/"))
        if (self._host / RECORDING).exists() and (root / "host").exists():
            shutil.copy(self._host / RECORDING, root / "host")  # what a driver on this host would answer
        ports = {port["name"]: self._ports.pick(port["containerPort"]) for port in container.get("ports", [])}
        words = [_ported(self._inside(root, word), container, ports) for word in container["args"]]
        env = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(self._credentials(pod, folder)),
            **self._env(container, pod),
        }
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen([PROGRAM, *words], stdout=output, stderr=output, env=env, cwd=root)
        self._ports.give(ports.values(), process)
        return Running(container, process, log, ports)

    def bind(self, pod: Obj) -> Obj:
        """The pod on this node, as a scheduler would put it there."""
        meta = pod["metadata"]
        target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        if not pod["spec"].get("nodeName"):
            self._client.create(
                PODS, {"metadata": {"name": meta["name"]}, "target": target}, meta["namespace"], subresource="binding"
            )
        return self._client.get(PODS, meta["name"], meta["namespace"])

    def _mount(self, pod: Obj, volume: Obj, at: Path) -> None:
        at.parent.mkdir(parents=True, exist_ok=True)
        if "hostPath" in volume:
            source = self._host / volume["hostPath"]["path"].lstrip("/")
            if not source.exists() or source.is_dir() != (volume["hostPath"]["type"] == "Directory"):
                raise MountError(f"{volume['hostPath']['path']} of the host is not what the pod wants")
            shutil.copytree(source, at, symlinks=True) if source.is_dir() else shutil.copy(source, at)
            return
        at.mkdir()
        if "configMap" in volume:
            found = self._client.get(CONFIG_MAPS, volume["configMap"]["name"], pod["metadata"]["namespace"])
            files = {name: text.encode() for name, text in found["data"].items()}
        elif "secret" in volume:
            found = self._client.get(SECRETS, volume["secret"]["secretName"], pod["metadata"]["namespace"])
            files = {name: base64.b64decode(text) for name, text in found["data"].items()}
        else:
            assert "emptyDir" in volume
            files = {}
        for name, content in files.items():
            (at / name).write_bytes(content)

    def _inside(self, root: Path, word: str) -> str:
        """An argument whose path, if it has one, is that of the same file outside of the container."""
        flag, equals, value = word.partition("=")
        inside = root / value.lstrip("/")
        return f"{flag}={inside}" if equals and value.startswith("/") and inside.exists() else word

    def _env(self, container: Obj, pod: Obj) -> dict[str, str]:
        named = {each["name"]: each for each in container.get("env", [])}
        values = {name: each["value"] for name, each in named.items() if "value" in each}
        for name, each in named.items():
            if "valueFrom" in each:
                assert each["valueFrom"] == {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}
                values[name] = pod["spec"]["nodeName"]
        return values

    def _credentials(self, pod: Obj, folder: Path) -> Path:
        """A kubeconfig with a token for the pod's account, bound to the pod, as a kubelet would mount one."""
        config = json.loads(self._kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token(self._client, pod)}
        path = folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def tell(self, pod: Obj, status: Obj) -> None:
        """Write the pod's status."""
        meta = pod["metadata"]
        self._client.patch(
            PODS, meta["name"], {"status": status}, meta["namespace"], kind=PatchType.STRATEGIC, subresource="status"
        )

    def remove(self, pod: Obj) -> None:
        """Containers of a pod that is being deleted are gone: so is the pod."""
        with contextlib.suppress(NotFound):
            self._client.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], grace_seconds=0)


def _ported(word: str, container: Obj, ports: dict[str, int]) -> str:
    """An argument that ends with a port of the container, with the one that is used."""
    for port in container.get("ports", []):
        word = re.sub(rf"(?<=[=:]){port['containerPort']}$", str(ports[port["name"]]), word)
    return word


def token(client: Client, pod: Obj) -> str:
    """A token for the account of a pod, which says for which pod, and on which node, it was made."""
    meta, account = pod["metadata"], pod["spec"]["serviceAccountName"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    ask = {"metadata": {"name": account}, "spec": {"boundObjectRef": bound}}
    made = client.create(SERVICE_ACCOUNTS, ask, meta["namespace"], subresource="token")
    return str(made["status"]["token"])
