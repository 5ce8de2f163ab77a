"""What tests of the running scheduler share: a scheduler in a thread, a sandbox with nodes, and what to ask of it."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kubenexus.common import quantity
from kubenexus.common.config import Profile, SchedulerConfiguration
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.resources import EVENTS, NODES, PODS
from kubenexus.common.objects import pod_requests
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.vocabulary import SCHEDULER_NAME
from kubenexus.scheduler.process import Scheduler
from tests.stub_server import until

Obj = dict[str, Any]

ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110"}
ZONE = "topology.kubernetes.io/zone"
POOL = "test-pool"
"""label of the nodes that belong to one test, where several share a server"""


class Cluster:
    """An API server as a test of the scheduler sees it. Its pods ask for `scheduler_name`."""

    def __init__(self, client: Client, namespace: str = "default", scheduler_name: str = SCHEDULER_NAME) -> None:
        self.client, self.namespace, self.scheduler_name = client, namespace, scheduler_name

    def add_nodes(self, *names: str, labels: Obj | None = None, annotations: Obj | None = None, **room: str) -> None:
        for name in names:
            hostname = {"kubernetes.io/hostname": name}
            meta = {"name": name, "labels": {**hostname, **(labels or {})}, "annotations": annotations or {}}
            self.client.create(
                NODES, {"metadata": meta, "status": {"allocatable": ROOM | room, "capacity": ROOM | room}}
            )

    def add_pod(self, name: str, *, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> Obj:
        meta = {"name": name, "namespace": self.namespace, "labels": labels or {}}
        wanted = {"schedulerName": self.scheduler_name, **spec}
        return self.client.create(PODS, {"metadata": meta, "spec": pod_spec(cpu, **wanted)})

    def pool(self) -> list[str]:
        """The names of this test's nodes."""
        mine = self.client.list(NODES, label_selector=f"{POOL}={self.namespace}").items
        return [node["metadata"]["name"] for node in mine]

    def pods(self) -> list[Obj]:
        return self.client.list(PODS, self.namespace).items

    def pod(self, name: str) -> Obj:
        return self.client.get(PODS, name, self.namespace)

    def node_of(self, name: str) -> str:
        found: str = self.pod(name)["spec"].get("nodeName", "")
        return found

    def condition(self, name: str, kind: str = "PodScheduled") -> Obj:
        found = self.pod(name)["status"].get("conditions") or ()
        return next((one for one in found if one["type"] == kind), {})

    def events(self, name: str, reason: str) -> list[Obj]:
        every = self.client.list(EVENTS, self.namespace).items
        return [one for one in every if one["regarding"].get("name") == name and one["reason"] == reason]

    def bound(self) -> int:
        return sum(1 for pod in self.pods() if pod["spec"].get("nodeName"))

    def await_node(self, *names: str, seconds: float = 15.0) -> None:
        until(lambda: all(self.node_of(name) for name in names), seconds)

    def await_pending(self, name: str, text: str = "", seconds: float = 15.0) -> str:
        """The message of a pod that the scheduler says has no place."""
        until(
            lambda: self.condition(name).get("status") == "False" and text in self.condition(name)["message"], seconds
        )
        message: str = self.condition(name)["message"]
        return message

    def overcommitted(self) -> dict[str, list[str]]:
        """Nodes with more pods than they have room for."""
        used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for pod in self.pods():
            if pod["spec"].get("nodeName") and pod["status"]["phase"] not in ("Succeeded", "Failed"):
                for resource, amount in (pod_requests(pod) | {"pods": 1}).items():
                    used[pod["spec"]["nodeName"]][resource] += amount
        rooms = {node["metadata"]["name"]: node["status"]["allocatable"] for node in self.client.list(NODES).items}
        return {
            name: over
            for name, amounts in used.items()
            if (over := [key for key, amount in amounts.items() if amount > _amount(key, rooms[name].get(key, "0"))])
        }


def _dead(*_: object, **__: object) -> Any:
    raise ApiError("this process is dead")


def _cut(*_: object, **__: object) -> None:
    raise OSError("this process is dead")


def _amount(resource: str, text: str) -> int:
    return quantity.milli(text) if resource == "cpu" else quantity.value(text)


def pod_spec(cpu: str = "1", **spec: Any) -> Obj:
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
    return {"schedulerName": SCHEDULER_NAME, "containers": [container], **spec}


def profiles(*names: str) -> SchedulerConfiguration:
    return SchedulerConfiguration(profiles=tuple(Profile(scheduler_name=name) for name in names))


@contextlib.contextmanager
def connected(box: Sandbox, folder: Path) -> Iterator[Cluster]:
    path = folder / "kubeconfig"
    box.write_kubeconfig(path)
    with Client.connect(str(path)) as client:
        yield Cluster(client)


class Running:
    """A scheduler in a thread of its own, with a client of its own, as a process would have."""

    def __init__(self, kubeconfig: Path, config: SchedulerConfiguration, identity: str = "test", **more: Any) -> None:
        self.client = Client.connect(str(kubeconfig), connections=64)
        self.scheduler = Scheduler(self.client, config, identity, **{"elect": False, **more})
        self._thread = threading.Thread(target=self.scheduler.run, name=f"scheduler-{identity}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.scheduler.stop()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.client.close()

    def kill(self) -> None:
        """As if the process died: from now on nothing that it does reaches the server, and it hands nothing over."""
        self.client._send = _dead  # type: ignore[method-assign]
        for line in self.scheduler._hands._courier._lines:
            line.send = _cut  # type: ignore[method-assign]
        self.stop()

    def die_after(self, binds: int) -> None:
        """As if the process died once so many binds have left it; `kill` buries it."""
        left = iter(range(binds))

        def mortal(send: Callable[..., None]) -> Callable[..., None]:
            def send_if_alive(headers: dict[str, str]) -> None:
                if next(left, None) is None:
                    self.client._send = _dead  # type: ignore[method-assign]
                    _cut()
                send(headers)

            return send_if_alive

        for line in self.scheduler._hands._courier._lines:
            line.send = mortal(line.send)  # type: ignore[method-assign]

    def validate(self) -> None:
        """The engine's columns are what its views say. Only once it has stopped."""
        self.scheduler.desk.state.validate()


@contextlib.contextmanager
def scheduling(kubeconfig: Path, config: SchedulerConfiguration | None = None, **more: Any) -> Iterator[Running]:
    running = Running(kubeconfig, config or SchedulerConfiguration(), **more)
    try:
        yield running
    finally:
        running.stop()
    running.validate()
