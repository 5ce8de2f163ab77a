#!/usr/bin/env python3
"""What the edges cost: a pod event decoded and projected, a bind over TLS, the scheduler's imports.

    .venv/bin/python hack/bench/client.py

Times vary from machine to machine and with what else runs on it; each line shows the target beside what was measured.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Semaphore
from typing import Any

import orjson
from kubernetes.client import Configuration

from kubenexus.common.kube.auth import Access
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.courier import Courier
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.mirror import Mirror
from kubenexus.common.kube.request import Request, prepare
from kubenexus.common.kube.resources import PODS
from kubenexus.common.objects import PodView, project_pod
from kubenexus.common.sandbox.tls import server_context

Obj = dict[str, Any]

EVENTS = 4000
BINDS = 1600
CONNECTIONS = 16
SCHEDULER = "kubernetes.config numpy prometheus_client yaml " + " ".join(
    f"kubenexus.common.{name}"
    for name in ("objects", "logs", "metrics", "serve", "kube.client", "kube.reflector", "kube.leader", "kube.events")
)


def main() -> None:
    lines = [
        json.dumps({"type": "ADDED", "object": pod(number)}, separators=(",", ":")).encode() for number in range(EVENTS)
    ]
    show(f"pod event of {len(lines[0])} bytes, decoded and projected", project(lines), 40, "µs")
    micros, kept = mirror(lines)
    show("the same, with the reflector's bookkeeping", micros, None, "µs")
    show("kept of it", kept, 2048, "bytes")
    show(f"client CPU per bind, {CONNECTIONS} connections", binding(by_client), 300, "µs")
    show("the same by courier, as the scheduler binds", binding(by_courier), 300, "µs")
    show("resident after importing the scheduler's dependencies", imports(), 70, "MB")


def show(what: str, measured: float, target: float | None, unit: str) -> None:
    verdict = "" if target is None else f"target {target:5.0f}   {'ok' if measured <= target else 'MISSED'}"
    print(f"{what:60s} {measured:8.1f} {unit:6s} {verdict}".rstrip(), flush=True)


def project(lines: list[bytes]) -> float:
    """Microseconds of CPU per event, while pods of the same templates are known, as in a cluster."""
    views: dict[str, PodView] = {}

    def once() -> float:
        start = time.process_time()
        for line in lines:
            view = project_pod(orjson.loads(line)["object"])
            views[view.uid] = view
        return time.process_time() - start

    return min(once() for _ in range(5)) / EVENTS * 1e6


def mirror(lines: list[bytes]) -> tuple[float, float]:
    """Microseconds of CPU and bytes kept per event."""
    best = min(feed(lines)[1] for _ in range(5))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept_by, _ = feed(lines)
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(kept_by.cache) == EVENTS
    return best / EVENTS * 1e6, kept / EVENTS


def feed(lines: list[bytes]) -> tuple[Mirror[PodView], float]:
    mirror = Mirror(project_pod)
    mirror.listed([([], "1")], 0.0)
    start = time.process_time()
    for line in lines:
        mirror.line(line)
    return mirror, time.process_time() - start


def binding(measure: Callable[[Access], float]) -> float:
    """Microseconds of CPU that this process spends on one bind."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (url, ca_file):
        settings = Configuration(host=url, ssl_ca_cert=ca_file)
        settings.api_key["BearerToken"] = "Bearer x"
        return measure(Access(lambda: settings)) / BINDS * 1e6


def by_client(access: Access) -> float:
    """Seconds of CPU for all binds, each of many threads making its share one after the other."""
    with Client(access) as client, ThreadPoolExecutor(CONNECTIONS) as pool:

        def share(first: int) -> None:
            for number in range(first, BINDS, CONNECTIONS):
                client.call(bind(number))

        def once() -> float:
            start = time.process_time()
            list(pool.map(share, range(CONNECTIONS)))
            return time.process_time() - start

        once()  # connects
        return min(once() for _ in range(5))


def by_courier(access: Access) -> float:
    """The same by one thread that speaks on all connections."""
    courier = Courier(access, "bench", CONNECTIONS)

    def once() -> float:
        start, answers = time.process_time(), Semaphore(0)
        for number in range(BINDS):
            courier.send(Errand(number, answers))
        for _ in range(BINDS):
            answers.acquire()
        return time.process_time() - start

    courier.start()
    once()  # connects
    best = min(once() for _ in range(5))
    courier.stop()
    access.close()
    return best


class Errand:
    """One bind for the courier."""

    def __init__(self, number: int, answers: Semaphore) -> None:
        self._number, self._answers = number, answers

    def request(self) -> Request:
        return bind(self._number)

    def done(self, error: ApiError | None) -> None:
        assert error is None, error
        self._answers.release()


def bind(number: int) -> Request:
    name = f"web-{number}"
    meta = {"name": name, "uid": f"0000-{number}", "annotations": {"numa": "0", "gpus": "0,1,2,3"}}
    target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % 100}"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
    return prepare("POST", PODS, "default", name, subresource="binding", body=body)


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """A server in a process of its own that says yes to everything: its address and the file of its CA."""
    command = [sys.executable, __file__, "serve", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            url, ca_file = process.stdout.readline().split()
            yield url, ca_file
        finally:
            process.terminate()


async def serve(folder: Path) -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server_context(folder))
    print(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", folder / "ca.crt", flush=True)
    await server.serve_forever()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    body = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
    head = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    date = b"Audit-Id: 8b1e6b3c-98f1-4c5e-a1ee-4a1f8d7c0a11\r\nCache-Control: no-cache, private\r\nDate: now\r\n\r\n"
    try:
        while True:
            request = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(request.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0))
            writer.write(head + date + body)
    except asyncio.IncompleteReadError:
        writer.close()


def imports() -> float:
    """Megabytes resident in a process that has imported what the scheduler needs."""
    script = f"import {', '.join(SCHEDULER.split())}\nprint(open('/proc/self/statm').read().split()[1])"
    pages = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return int(pages) * 4096 / 1e6


def pod(number: int) -> Obj:
    """One of thousands of pods: 50 applications in 20 namespaces on 500 nodes."""
    names = {
        "@app": f"web-{number % 50}",
        "@namespace": f"team-{number % 20}",
        "@node": f"node-{number % 500}",
        "@number": f"{number:05d}",
        "@version": str(1000 + number),
        "@address": f"10.1.{number // 250}.{number % 250}",
    }
    text = POD
    for name, value in names.items():
        text = text.replace(name, value)
    made: Obj = json.loads(text)
    return made


# A pod as busy clusters are full of: owned by a ReplicaSet, running, with all that the API server adds.
POD = """
{"kind": "Pod", "apiVersion": "v1",
 "metadata": {
  "name": "@app-7d9c5b6f4d-@number", "generateName": "@app-7d9c5b6f4d-", "namespace": "@namespace",
  "uid": "2c7f4a6e-0d1b-4e55-9c0e-0000000@number", "resourceVersion": "@version",
  "creationTimestamp": "2026-11-01T10:00:00Z",
  "labels": {"app": "@app", "tier": "backend", "pod-template-hash": "7d9c5b6f4d"},
  "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
  "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "@app-7d9c5b6f4d",
   "uid": "9f1c4a6e-0d1b-4e55-9c0e-00000000@app", "controller": true, "blockOwnerDeletion": true}]},
 "spec": {
  "volumes": [{"name": "kube-api-access-abcde", "projected": {"defaultMode": 420, "sources": [
   {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
   {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
   {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}}],
  "containers": [
   {"name": "main", "image": "registry.example.com/team/@app:1.4.2",
    "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
    "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}}],
    "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
    "volumeMounts": [{"name": "kube-api-access-abcde",
     "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}],
    "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
    "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent"},
   {"name": "proxy", "image": "registry.example.com/mesh/proxy:2.1.0",
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent"}],
  "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
  "serviceAccountName": "@app", "serviceAccount": "@app", "nodeName": "@node", "securityContext": {},
  "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": true,
  "preemptionPolicy": "PreemptLowerPriority", "tolerations": [
   {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
   {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]},
 "status": {
  "phase": "Running", "hostIP": "10.0.0.1", "podIP": "@address", "podIPs": [{"ip": "@address"}],
  "startTime": "2026-11-01T10:00:00Z", "qosClass": "Burstable", "conditions": [
   {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-11-01T10:00:00Z"},
   {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T10:00:00Z"},
   {"type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-11-01T10:00:00Z"},
   {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-01T10:00:00Z"}],
  "containerStatuses": [
   {"name": "main", "state": {"running": {"startedAt": "2026-11-01T10:00:00Z"}}, "lastState": {}, "ready": true,
    "restartCount": 0, "image": "registry.example.com/team/@app:1.4.2", "started": true,
    "imageID": "registry.example.com/team/@app@sha256:00000000000000000000000000000000",
    "containerID": "containerd://11111111111111111111111111111111"},
   {"name": "proxy", "state": {"running": {"startedAt": "2026-11-01T10:00:00Z"}}, "lastState": {}, "ready": true,
    "restartCount": 0, "image": "registry.example.com/mesh/proxy:2.1.0", "started": true,
    "imageID": "registry.example.com/mesh/proxy@sha256:00000000000000000000000000000000",
    "containerID": "containerd://22222222222222222222222222222222"}]}}
"""


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(Path(sys.argv[2])))
    else:
        main()
