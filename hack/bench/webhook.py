#!/usr/bin/env python3
"""How fast pods are admitted: realistic reviews at a steady rate, over TLS connections that stay, to one worker.

    .venv/bin/python hack/bench/webhook.py
    .venv/bin/python hack/bench/webhook.py --rate 500 --seconds 30 --connections 16

The webhook watches a sandbox full of namespaces, Jobs and nodes. Connections stand before the clock starts. Requests go
out when they are due, whether or not earlier ones have been answered, and are timed from that moment. What /healthz
takes under the same load shows how much of it is HTTP and TLS. The machine may be shared with others: a process that
only sleeps notes when it wakes up too late, and the target is for answers that were not under way at such a moment.
"""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hack.bench.client import pod  # noqa: E402
from hack.control_plane.processes import free_port  # noqa: E402
from kubenexus.common.kube.client import Client  # noqa: E402
from kubenexus.common.kube.resources import JOBS, NAMESPACES, NODES  # noqa: E402
from kubenexus.common.sandbox import Sandbox  # noqa: E402
from kubenexus.common.vocabulary import INJECT, Inject  # noqa: E402

Obj = dict[str, Any]

TEAMS, JOBS_EACH, MACHINES = 20, 25, 200
REVIEWS = 200
P99_MS, RESIDENT_MB = 10.0, 80.0
STANDSTILL = 0.005
"""seconds by which a sleeper wakes up too late when others have the machine, not the webhook"""


class Span(NamedTuple):
    """By the clock that all processes of a machine share."""

    start: float
    end: float


@dataclass(slots=True)
class Load:
    """Sends messages at a rate over one connection, and notes how long each answer took."""

    connection: ssl.SSLSocket
    messages: Sequence[bytes]
    first: float
    period: float
    until: float
    answers: list[Span] = field(default_factory=list)
    wrong: int = 0

    def run(self) -> None:
        with self.connection as connection, connection.makefile("rb") as answers:
            due, number = self.first, 0
            while due < self.until:
                time.sleep(max(due - time.perf_counter(), 0))
                connection.sendall(self.messages[number % len(self.messages)])
                self.wrong += not _is_good(answers)
                self.answers.append(Span(due, time.perf_counter()))
                due, number = due + self.period, number + 1


def _connect(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), 30)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(plain)


def _is_good(answers: Any) -> bool:
    """Reads one answer."""
    status, length = answers.readline(), 0
    while (line := answers.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    body = answers.read(length)
    return b" 200 " in status and (b'"patch"' in body or body.endswith(b"ok\n"))


def drive(port: int, messages: list[bytes], options: argparse.Namespace) -> list[Span]:
    """From when to when each answer took."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connections = [_connect(port, context) for _ in range(options.connections)]
    start, period = time.perf_counter() + 0.2, options.connections / options.rate
    loads = [
        Load(one, messages[index:] + messages[:index], start + index / options.rate, period, start + options.seconds)
        for index, one in enumerate(connections)
    ]
    threads = [threading.Thread(target=load.run) for load in loads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong := sum(load.wrong for load in loads):
        sys.exit(f"{wrong} answers were wrong; the numbers would mean nothing.")
    return [answer for load in loads for answer in load.answers]


def oversleep(options: argparse.Namespace) -> list[Span]:
    """From when to when a process stood still that does nothing but sleep for a moment, again and again."""
    now = time.perf_counter()
    until, found = now + options.seconds, []
    while now < until:
        due = now + 1 / options.rate
        time.sleep(max(due - time.perf_counter(), 0))
        now = time.perf_counter()
        if now - due > STANDSTILL:
            found.append(Span(due, now))
    return found


def calm(answers: Sequence[Span], stalls: Sequence[Span]) -> list[Span]:
    """The answers during which the machine did not stand still."""
    return [one for one in answers if not any(one.start < stall.end and stall.start < one.end for stall in stalls)]


# --- The cluster -----------------------------------------------------------------------------------------------------


def populate(client: Client) -> list[Obj]:
    """Namespaces that ask for us, nodes, and Jobs, which are given back."""
    room = {"cpu": "128", "memory": "1024Gi", "pods": "110", "nvidia.com/gpu": "8"}
    for number in range(MACHINES):
        status = {"capacity": room, "allocatable": room}
        client.create(NODES, {"metadata": {"name": f"node-{number}"}, "status": status})
    made = []
    for team in range(TEAMS):
        labels = {INJECT: Inject.ENABLED}
        client.create(NAMESPACES, {"metadata": {"name": f"team-{team}", "labels": labels}})
        made += [client.create(JOBS, job(f"train-{number}", f"team-{team}")) for number in range(JOBS_EACH)]
    return made


def job(name: str, namespace: str) -> Obj:
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example/train:1"}]}
    shape = {"completionMode": "Indexed", "parallelism": 8, "completions": 8, "template": {"spec": spec}}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": shape}


def review(number: int, owner: Obj) -> bytes:
    """A request as an API server sends it, for a pod of the Job with two containers and a GPU."""
    made, meta = pod(number), owner["metadata"]
    del made["status"], made["spec"]["nodeName"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    made["metadata"] |= {"namespace": meta["namespace"], "ownerReferences": [reference]}
    made["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    user = {"username": "system:serviceaccount:kube-system:job-controller", "groups": ["system:authenticated"]}
    request = {
        "uid": f"705ab4f5-6393-11e8-b7cc-{number:012d}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": meta["namespace"],
        "operation": "CREATE",
        "userInfo": user,
        "object": made,
        "oldObject": None,
        "dryRun": False,
    }
    body = json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()
    head = f"POST /mutate?timeout=2s HTTP/1.1\r\nHost: webhook\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Content-Type: application/json\r\nAccept: application/json, */*\r\n\r\n" + body


@contextmanager
def webhook(kubeconfig: Path, folder: Path) -> Iterator[tuple[int, psutil.Process]]:
    """The program, ready: its port and its worker."""
    port, health = free_port(), free_port()
    command = [sys.executable, "-m", "kubenexus.common.cli", "webhook", "--kubeconfig", str(kubeconfig)]
    words = ["--namespace", "default", "--address", f"127.0.0.1:{port}", "--health", f"127.0.0.1:{health}"]
    with (folder / "log").open("wb") as log, subprocess.Popen([*command, *words], stderr=log) as process:
        try:
            _await_ready(health)
            (worker,) = psutil.Process(process.pid).children()
            yield port, worker
        finally:
            process.terminate()


def _await_ready(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    sys.exit("the webhook was not ready within a minute.")


# --- The report ------------------------------------------------------------------------------------------------------


def show(what: str, measured: float, target: float | None, unit: str) -> None:
    verdict = "" if target is None else f"target {target:5.0f}   {'ok' if measured <= target else 'MISSED'}"
    print(f"{what:60s} {measured:8.2f} {unit:6s} {verdict}".rstrip(), flush=True)


def at(answers: Sequence[Span], share: float) -> float:
    """Milliseconds within which this share of the answers came."""
    took = sorted(answer.end - answer.start for answer in answers)
    return took[min(int(len(took) * share), len(took) - 1)] * 1000


def measure(port: int, worker: psutil.Process, messages: list[bytes], options: argparse.Namespace) -> None:
    health = [b"GET /healthz HTTP/1.1\r\nHost: webhook\r\n\r\n"]
    # Processes of their own: the sandbox keeps this one busy now and then.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as senders:
        warm = argparse.Namespace(**{**vars(options), "seconds": 3.0})
        senders.submit(drive, port, messages, warm).result()
        before = sum(worker.cpu_times()[:2])
        sleeper = senders.submit(oversleep, options)
        answers = senders.submit(drive, port, messages, options).result()
        spent = sum(worker.cpu_times()[:2]) - before
        plain = senders.submit(drive, port, health, options).result()
    undisturbed = calm(answers, sleeper.result())
    print(f"{len(answers)} reviews of {len(messages[0])} bytes, {len(answers) / options.seconds:.0f} a second")
    for share in (0.5, 0.9, 0.99):
        show(f"p{share * 100:.0f}", at(answers, share), None, "ms")
    show("p99 of those during which the machine did not stand still", at(undisturbed, 0.99), P99_MS, "ms")
    show("left out for that", 100 - 100 * len(undisturbed) / len(answers), None, "%")
    show("p99 of /healthz at the same rate", at(plain, 0.99), None, "ms")
    show("p50 of a review against one of /healthz", at(answers, 0.5) / at(plain, 0.5), None, "times")
    show("CPU of the worker per review", spent / len(answers) * 1000, None, "ms")
    show("resident memory of the worker", worker.memory_info().rss / 1e6, RESIDENT_MB, "MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=500.0, help="reviews a second (default: 500)")
    parser.add_argument("--seconds", type=float, default=15.0, help="for how long (default: 15)")
    parser.add_argument("--connections", type=int, default=16, help="at once (default: 16)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Sandbox() as box:
        kubeconfig = box.write_kubeconfig(Path(folder) / "kubeconfig")
        with Client.connect(str(kubeconfig)) as client:
            owners = populate(client)
            messages = [review(number, owners[number % len(owners)]) for number in range(REVIEWS)]
            with webhook(kubeconfig, Path(folder)) as (port, worker):
                measure(port, worker, messages, options)


if __name__ == "__main__":
    main()
