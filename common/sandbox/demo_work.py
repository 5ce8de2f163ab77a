"""The work of the demo: example manifests, the scheduler that places them, and what became of each pod."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubenexus.common.cli import CommandError
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import DEPLOYMENTS, JOBS, PODS, Resource
from kubenexus.common.vocabulary import (
    GANG_MIN_AVAILABLE,
    GANG_NAME,
    NUMA_POLICY,
    REQUIRE_CLIQUE,
    SIMULATED_RUN_TIME,
    NumaPolicy,
)

Obj = dict[str, Any]
Work = tuple[Resource, Obj]
NAMESPACE = "default"
PATIENCE_SECONDS = 60.0
TRAIN_SECONDS = 6
GPU = "nvidia.com/gpu"


def container(gpus: int = 0, **requests: str) -> Obj:
    resources = {**requests, **({GPU: str(gpus)} if gpus else {})}
    return {"name": "main", "image": "example/work:1", "resources": {"requests": resources, "limits": resources}}


def training(name: str, workers: int, seconds: int, **notes: str) -> Work:
    """An indexed Job whose workers take eight GPUs each: a gang, though nobody says so."""
    work = _template(name, container(8, cpu="64", memory="512Gi"), seconds, notes, restartPolicy="Never")
    size = {"parallelism": workers, "completions": workers, "completionMode": "Indexed"}
    return JOBS, _object(JOBS, name, {**size, "template": work})


def first_wave(workers: int) -> Iterator[Work]:
    """A pair of GPUs, an HPC pod, a service, a pod that no machine can hold, and a training that fills a clique."""
    pair = container(2, cpu="8", memory="64Gi")
    yield PODS, _pod("pair", pair, {NUMA_POLICY: NumaPolicy.SINGLE_NUMA})
    hpc = container(cpu="24", memory="64Gi")
    yield PODS, _pod("hpc", hpc, {NUMA_POLICY: NumaPolicy.ISOLATED})
    service = {"replicas": 3, "selector": {"matchLabels": {"app": "serve"}}}
    service["template"] = _template("serve", container(cpu="2", memory="4Gi"))
    yield DEPLOYMENTS, _object(DEPLOYMENTS, "serve", service)
    yield PODS, _pod("greedy", container(16, cpu="4"))
    yield training("train", workers, TRAIN_SECONDS, **{REQUIRE_CLIQUE: "true"})


def misspelt() -> Obj:
    """A pod whose author meant a number."""
    made = _pod("misspelt", container(cpu="1"))
    made["metadata"]["labels"] = {GANG_NAME: "team", GANG_MIN_AVAILABLE: "abc"}
    return made


def _pod(name: str, work: Obj, notes: Obj | None = None) -> Obj:
    template = _template(name, work, notes=notes)
    made = _object(PODS, name, template["spec"])
    made["metadata"] |= template["metadata"]
    return made


def _template(app: str, work: Obj, seconds: int | None = None, notes: Obj | None = None, **spec: str) -> Obj:
    lasts = {} if seconds is None else {SIMULATED_RUN_TIME: str(seconds)}
    return {
        "metadata": {"labels": {"app": app}, "annotations": {**(notes or {}), **lasts}},
        "spec": {"containers": [work], **spec},
    }


def _object(res: Resource, name: str, spec: Obj) -> Obj:
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": res.api_version, "kind": res.kind, "metadata": meta, "spec": spec}


@contextmanager
def scheduler(kubeconfig: Path) -> Iterator[None]:
    """The scheduler as a process of its own, until the block ends."""
    words = ["scheduler", "--kubeconfig", str(kubeconfig), "--metrics-port", "0"]
    command = [sys.executable, "-m", "kubenexus.common.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def submit(client: Client, *work: Work) -> None:
    for res, obj in work:
        client.create(res, obj)


def await_pods(client: Client, what: str, settled: Callable[[list[Obj]], bool]) -> list[Obj]:
    """The pods by name, once they are as expected."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        pods = client.list(PODS, NAMESPACE).items
        if settled(pods):
            return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
        time.sleep(0.1)
    raise CommandError(f"{what} did not come about within {PATIENCE_SECONDS:.0f} s; please report it.")


def members(pods: list[Obj], app: str) -> list[Obj]:
    return [pod for pod in pods if pod["metadata"].get("labels", {}).get("app") == app]


def placed(pods: list[Obj]) -> bool:
    return bool(pods) and all(pod["spec"].get("nodeName") for pod in pods)


def answered(pods: list[Obj]) -> bool:
    return bool(pods) and all(pod["spec"].get("nodeName") or verdict(pod) for pod in pods)


def verdict(pod: Obj) -> str:
    """Why the scheduler has not placed the pod, if it said so."""
    conditions = pod["status"].get("conditions") or ()
    words = (one.get("message", "") for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False")
    return next(words, "")
