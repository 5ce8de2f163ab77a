"""The work of the demo: example manifests, the scheduler that places them, and what became of each pod."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubenexus.common.cli import CommandError
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import DEPLOYMENTS, JOBS, PODS, Resource
from kubenexus.common.vocabulary import SCHEDULER_NAME, SIMULATED_RUN_TIME

Obj = dict[str, Any]
NAMESPACE = "default"
PATIENCE_SECONDS = 60.0
TRAIN, SERVE, GREEDY = "train", "serve", "greedy"


def container(**requests: str) -> Obj:
    resources = {name.replace("_", "/"): amount for name, amount in requests.items()}
    return {"name": "main", "image": "example/work:1", "resources": {"requests": resources, "limits": resources}}


def _template(app: str, work: Obj, seconds: int | None = None, **spec: str) -> Obj:
    notes = {} if seconds is None else {SIMULATED_RUN_TIME: str(seconds)}
    return {
        "metadata": {"labels": {"app": app}, "annotations": notes},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [work], **spec},
    }


def examples() -> Iterator[tuple[Resource, Obj]]:
    """A training Job, a service, and a pod that no machine can hold."""
    work = container(cpu="8", memory="64Gi", **{"nvidia.com_gpu": "4"})
    job = {
        "parallelism": 4,
        "completions": 4,
        "completionMode": "Indexed",
        "template": _template(TRAIN, work, seconds=2, restartPolicy="Never"),
    }
    yield JOBS, _object(JOBS, TRAIN, spec=job)
    service = {
        "replicas": 3,
        "selector": {"matchLabels": {"app": SERVE}},
        "template": _template(SERVE, container(cpu="2", memory="4Gi")),
    }
    yield DEPLOYMENTS, _object(DEPLOYMENTS, SERVE, spec=service)
    greedy = _template(GREEDY, container(cpu="4", **{"nvidia.com_gpu": "16"}))
    yield PODS, _object(PODS, GREEDY, spec=greedy["spec"])


def _object(res: Resource, name: str, spec: Obj) -> Obj:
    return {
        "apiVersion": res.api_version,
        "kind": res.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


@contextmanager
def scheduler(kubeconfig: Path) -> Iterator[None]:
    """The scheduler as a process of its own, until the block ends."""
    words = ["scheduler", "--kubeconfig", str(kubeconfig), "--no-leader-elect", "--metrics-port", "0"]
    command = [sys.executable, "-m", "kubenexus.common.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def submit_and_watch(client: Client) -> list[Obj]:
    """Submits the examples and waits until the Job is complete and every other pod has its answer; gives the pods."""
    for res, obj in examples():
        client.create(res, obj)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        pods = client.list(PODS, NAMESPACE).items
        if _settled(pods):
            return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
        time.sleep(0.1)
    raise CommandError(f"the examples were not placed within {PATIENCE_SECONDS:.0f} s; please report it.")


def _settled(pods: Sequence[Obj]) -> bool:
    answered = [pod for pod in pods if pod["spec"].get("nodeName") or verdict(pod)]
    finished = [pod for pod in pods if pod["status"].get("phase") == "Succeeded"]
    return len(pods) == len(answered) == 8 and len(finished) == 4


def verdict(pod: Obj) -> str:
    """Why the scheduler has not placed the pod, if it said so."""
    conditions = pod["status"].get("conditions") or ()
    words = (one.get("message", "") for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False")
    return next(words, "")
