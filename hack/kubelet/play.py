"""The kubelets of all nodes, until they are told to stop: pods of the chart run as processes, all others only say so.

A pod of somebody else runs for as long as its annotation says, or for a few seconds; one that restarts always, until it
is deleted. Nothing is pulled, isolated, mounted for it or probed.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hack.kubelet.containers import Kubelet, MountError, Running, ended_status, ready_status
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import ApiError, NotFound
from kubenexus.common.kube.resources import PODS
from kubenexus.common.vocabulary import SIMULATED_RUN_TIME

Obj = dict[str, Any]

OURS = "/kubenexus"
"""how the repository of our image ends"""
LOOK_SECONDS = 0.3
RUN_SECONDS = 10.0
END_SECONDS = 30.0


@dataclass(slots=True)
class _Life:
    """What is known of a pod that was started."""

    pod: Obj
    kubelet: Kubelet
    began: float
    running: Running | None
    told: str = ""


class Kubelets:
    """Plays the kubelets of nodes, one look after the other."""

    def __init__(self, client: Client, kubelets: Iterable[Kubelet], say: Callable[[str], None]) -> None:
        self._client, self._say = client, say
        self._kubelets = {kubelet.node: kubelet for kubelet in kubelets}
        self._lives: dict[str, _Life] = {}
        self._problems: dict[str, str] = {}

    def look(self) -> None:
        """Bring every bound pod a step further."""
        pods = {pod["metadata"]["uid"]: pod for pod in self._client.list(PODS).items}
        for uid in self._lives.keys() - pods.keys():
            self._end(self._lives.pop(uid))
        for uid, pod in pods.items():
            try:
                self._step(uid, pod)
            except NotFound:
                continue  # it, or what it mounts, went in this moment or is yet to come
            except MountError as error:
                self._waits(pod, str(error))

    def _waits(self, pod: Obj, why: str) -> None:
        """Say so, once."""
        if self._problems.get(name(pod)) != why:
            self._problems[name(pod)] = why
            self._say(f"{name(pod)} waits: {why}")

    def stop(self) -> None:
        """End all processes."""
        for life in self._lives.values():
            self._end(life)

    def _step(self, uid: str, pod: Obj) -> None:
        kubelet, life = self._kubelets.get(pod["spec"].get("nodeName", "")), self._lives.get(uid)
        if kubelet is None:
            return
        if "deletionTimestamp" in pod["metadata"]:
            if life:
                self._end(self._lives.pop(uid))
            kubelet.remove(pod)
        elif life:
            self._follow(life)
        elif pod["status"].get("phase") == "Pending":
            self._lives[uid] = self._begin(kubelet, pod)

    def _begin(self, kubelet: Kubelet, pod: Obj) -> _Life:
        running = kubelet.start(pod) if is_ours(pod) else None
        if running:
            self._say(f"{name(pod)} runs on {kubelet.node}; its log is {running.log}")
        return _Life(pod, kubelet, time.monotonic(), running)

    def _follow(self, life: _Life) -> None:
        if life.running and life.running.process.poll() is not None and is_endless(life.pod):
            self._say(f"{name(life.pod)} has ended and is started again: {life.running.log.read_text()[-400:]}")
            life.running, life.told = life.kubelet.start(life.pod), ""
        phase = _phase_of(life) if life.running else _pretended(life.pod, time.monotonic() - life.began)
        if phase and phase != life.told:
            life.told = phase
            status = ready_status(life.pod) if phase == "Running" else ended_status(life.pod, phase == "Failed")
            life.kubelet.tell(life.pod, status)

    def _end(self, life: _Life) -> None:
        if life.running and life.running.process.poll() is None:
            life.running.process.send_signal(signal.SIGTERM)
            life.running.process.wait(END_SECONDS)


def is_ours(pod: Obj) -> bool:
    """Whether a pod is one of the chart: its one container has our image."""
    images = [container["image"].rpartition(":")[0] for container in pod["spec"]["containers"]]
    return len(images) == 1 and images[0].endswith(OURS)


def is_endless(pod: Obj) -> bool:
    return bool(pod["spec"].get("restartPolicy") == "Always")


def name(pod: Obj) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _phase_of(life: _Life) -> str:
    """Of a process; empty while it is not ready."""
    assert life.running is not None
    code = life.running.process.poll()
    if code is not None:
        return "Failed" if code else "Succeeded"
    return "Running" if life.told == "Running" or life.running.ready else ""


def _pretended(pod: Obj, age: float) -> str:
    """Of a pod that nobody runs."""
    told = (pod["metadata"].get("annotations") or {}).get(SIMULATED_RUN_TIME)
    endless = told is None and is_endless(pod)
    return "Running" if endless or age < float(told or RUN_SECONDS) else "Succeeded"


def play(kubelets: Kubelets, is_stopped: Callable[[float], bool]) -> None:
    """Look again and again; `is_stopped` waits so many seconds and says whether to end."""
    try:
        while not is_stopped(LOOK_SECONDS):
            try:
                kubelets.look()
            except ApiError as error:
                print(f"the API server does not answer: {error}", file=sys.stderr)
    finally:
        kubelets.stop()
