#!/usr/bin/env python3
"""How fast pods are bound on a real API server: a bare flood of binds, kube-scheduler, and ours, in one run.

    .venv/bin/python hack/bench/e2e.py                              # 100 nodes, 500 pods
    .venv/bin/python hack/bench/e2e.py --nodes 1000 --pods 5000 --chart docs/bench-e2e.svg
    .venv/bin/python hack/bench/e2e.py --gangs                      # gangs of 8 on 1,000 GPU nodes: see e2e_gangs.py

Each contender finds all pods waiting and is measured from its first bind to its last; then pods are created at a steady
rate and it is measured how long each waits. All share this machine with the API server and with this program, which
watches; the flood, which decides nothing, shows what the server can take. Absolute numbers vary: look at the ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hack.bench.chart import Panel, draw  # noqa: E402
from hack.control_plane import binaries, cluster  # noqa: E402
from hack.control_plane.processes import Process, free_port, start, stop, wait_for  # noqa: E402
from kubenexus.common.kube.client import Client  # noqa: E402
from kubenexus.common.kube.errors import ApiError  # noqa: E402
from kubenexus.common.kube.resources import NAMESPACES, NODES, PODS  # noqa: E402
from kubenexus.common.vocabulary import SCHEDULER_NAME  # noqa: E402

Obj = dict[str, Any]

WRITERS = 8
FLOOD, KUBE, OURS = "bind flood", "kube-scheduler", "kubenexus"
AT_LEAST_KUBE, AT_LEAST_FLOOD = 2.0, 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """How much, and for how long."""

    nodes: int
    pods: int
    rate: float
    seconds: float
    timeout: float
    flags: tuple[str, ...]


@dataclass(slots=True)
class Result:
    """What one contender did; what cannot be said of it is None."""

    name: str
    bound: int = 0
    rate: float = 0.0
    cpu: float | None = None
    rss: float | None = None
    p50: float | None = None
    p99: float | None = None


class Watcher:
    """Notes when each pod of a namespace is first seen with a node. A thread of its own, until closed."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.bound: dict[str, float] = {}
        self.broken: ApiError | None = None
        listed = client.list(PODS, namespace)
        self._stream = client.watch(PODS, namespace, resource_version=listed.resource_version, server_timeout=3600)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.abort()
        self._thread.join(5)
        self._stream.close()

    def has(self, names: Iterable[str]) -> bool:
        """Whether all these pods have been seen with a node."""
        if self.broken:
            raise self.broken
        return all(name in self.bound for name in names)

    def _follow(self) -> None:
        try:
            for line in self._stream:
                now = time.monotonic()
                pod = orjson.loads(line)["object"]
                if pod.get("spec", {}).get("nodeName"):
                    self.bound.setdefault(pod["metadata"]["name"], now)
        except ApiError as error:
            self.broken = error


# --- Contenders


class Contender:
    """A program that schedules, or nothing: `begin` starts it, leaving the context ends it."""

    name = ""
    scheduler = "nobody"

    def __init__(self, plane: cluster.Cluster, client: Client, flags: Sequence[str]) -> None:
        self.plane, self.client, self.flags = plane, client, flags
        self.process: Process | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def begin(self, _namespace: str, _pods: int) -> None:
        log = self.plane.folder / f"{self.name.replace(' ', '-')}.log"
        self.process = start(self.name, self.command(), log)

    def end(self) -> None:
        if self.process:
            stop(self.process)

    def usage(self) -> tuple[float | None, float | None]:
        """Seconds of CPU so far, and megabytes resident."""
        if self.process is None:
            return None, None
        seen = psutil.Process(self.process.pid)
        times = seen.cpu_times()
        return times.user + times.system, seen.memory_info().rss / 1e6

    @property
    def alive(self) -> bool:
        return self.process is None or self.process.alive


class Flood(Contender):
    """Binds pods to nodes in turn, as fast as the server takes it, without deciding anything."""

    name = FLOOD

    def begin(self, namespace: str, pods: int) -> None:
        nodes = [one["metadata"]["name"] for one in self.client.list(NODES).items]
        names = [pod_name(number) for number in range(pods)]
        parallel(len(names), lambda number: self._bind(namespace, names[number], nodes[number % len(nodes)]), 16)

    def _bind(self, namespace: str, name: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.client.create(PODS, binding, namespace, subresource="binding")


class KubeScheduler(Contender):
    """Without the brake on requests that it has by default."""

    name, scheduler = KUBE, "default-scheduler"

    def command(self) -> list[str]:
        flags = {
            "kubeconfig": self.plane.kubeconfig,
            "leader-elect": "false",
            "bind-address": "127.0.0.1",
            "secure-port": free_port(),
            "cert-dir": self.plane.folder / "kube-scheduler",
            "profiling": "false",
            "kube-api-qps": 5000,
            "kube-api-burst": 5000,
        }
        return [str(binaries.find(KUBE)), *(f"--{flag}={value}" for flag, value in flags.items())]


class KubeNexus(Contender):
    name, scheduler = OURS, SCHEDULER_NAME

    def command(self) -> list[str]:
        kubeconfig = ["--kubeconfig", str(self.plane.kubeconfig)]
        return [
            sys.executable,
            "-m",
            "kubenexus.common.cli",
            "scheduler",
            *kubeconfig,
            "--no-leader-elect",
            *self.flags,
        ]


# --- Objects


def make_node(number: int) -> Obj:
    name = f"node-{number:05d}"
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts, "capacity": amounts}}


def pod_name(number: int, prefix: str = "pod") -> str:
    return f"{prefix}-{number:06d}"


def make_pod(name: str, scheduler: str) -> Obj:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}}}
    spec = {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name, "labels": {"app": "bench"}}, "spec": spec}


def parallel(count: int, action: Callable[[int], object], threads: int = WRITERS) -> None:
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(action, range(count)):
            pass


# --- Measuring


def compete(contender: Contender, options: Options) -> Result:
    """All pods at once, then a steady stream, in a namespace that is emptied afterwards."""
    client, result = contender.client, Result(contender.name)
    namespace = contender.name.replace(" ", "-")
    client.create(NAMESPACES, {"metadata": {"name": namespace}})
    say(f"{contender.name}: creating {options.pods:,} pods")
    names = [pod_name(number) for number in range(options.pods)]
    parallel(options.pods, lambda number: client.create(PODS, make_pod(names[number], contender.scheduler), namespace))
    say(f"{contender.name}: binding them")
    try:
        with Watcher(client, namespace) as watcher:
            contender.begin(namespace, options.pods)
            wait_for(lambda: watcher.has(names) or not contender.alive, options.timeout)
            burst = sorted(watcher.bound.values())
            result.bound = len(burst)
            result.rate = (len(burst) - 1) / (burst[-1] - burst[0]) if len(burst) > 1 else 0.0
            result.cpu, result.rss = contender.usage()
            if contender.process and result.bound == options.pods:
                say(f"{contender.name}: {options.rate:g} pods a second")
                result.p50, result.p99 = latencies(client, namespace, contender, watcher, options)
    finally:
        contender.end()
        empty(client, namespace)
    return result


def latencies(
    client: Client, namespace: str, contender: Contender, watcher: Watcher, options: Options
) -> tuple[float | None, float | None]:
    """Milliseconds from the request that creates a pod to the news that it is bound: median and 99th percentile."""
    count = int(options.rate * options.seconds)
    sent: dict[str, float] = {}
    begin = time.monotonic()

    def create(number: int) -> None:
        time.sleep(max(0.0, begin + number / options.rate - time.monotonic()))
        name = pod_name(number, "steady")
        sent[name] = time.monotonic()
        client.create(PODS, make_pod(name, contender.scheduler), namespace)

    parallel(count, create)
    wait_for(lambda: watcher.has(list(sent)) or not contender.alive, options.timeout)
    waits = sorted(1e3 * (watcher.bound[name] - at) for name, at in sent.items() if name in watcher.bound)
    return (waits[len(waits) // 2], waits[int(len(waits) * 0.99)]) if len(waits) == count > 0 else (None, None)


def empty(client: Client, namespace: str) -> None:
    """Delete the namespace's pods, so that the next contender finds free nodes."""
    names = [one["metadata"]["name"] for one in client.list(PODS, namespace).items]
    parallel(len(names), lambda number: client.delete(PODS, names[number], namespace, grace_seconds=0))


@contextlib.contextmanager
def plane() -> Iterator[tuple[cluster.Cluster, Client]]:
    """A control plane of our own, ended with us."""
    with tempfile.TemporaryDirectory(prefix="kubenexus-bench-") as folder:
        home = Path(folder) / "plane"
        up = cluster.up(home, owner=os.getpid(), say=say)
        try:
            with Client.connect(str(up.kubeconfig), connections=64) as client:
                yield up, client
        finally:
            cluster.down(home)


# --- Showing


def main() -> int:
    arguments = parser().parse_args()
    nodes = arguments.nodes or (100 if arguments.gangs is None else 1000)
    options = Options(
        nodes, arguments.pods, arguments.rate, arguments.seconds, arguments.timeout, tuple(arguments.flags)
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and end what we started
    if arguments.gangs is not None:
        return gangs(options, arguments.gangs)
    if options.pods > 100 * options.nodes:
        parser().error("more than 100 pods for each node do not fit")
    try:
        with plane() as (up, client):
            say(f"Kubernetes {up.version}; creating {options.nodes:,} nodes")
            parallel(options.nodes, lambda number: client.create(NODES, make_node(number)))
            contenders = [kind(up, client, options.flags) for kind in (Flood, KubeScheduler, KubeNexus)]
            results = [compete(one, options) for one in contenders]
    except (binaries.MissingError, cluster.StartError) as problem:
        print(problem, file=sys.stderr)
        return 1
    show(results, options)
    if arguments.chart:
        arguments.chart.write_text(chart(results, options), encoding="utf-8")
    return 0


def gangs(options: Options, count: int) -> int:
    """Whole gangs instead of single pods."""
    from hack.bench import e2e_gangs  # which is built on this module

    if options.nodes < e2e_gangs.SIZE or count < 1:
        parser().error(f"--gangs needs {e2e_gangs.SIZE} nodes and a gang")
    try:
        waits = e2e_gangs.measure(options, count)
    except (binaries.MissingError, cluster.StartError, TimeoutError) as problem:
        print(problem, file=sys.stderr)
        return 1
    e2e_gangs.show(waits, options.nodes)
    return 0


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--nodes", type=int, help="default: 100, with --gangs 1,000")
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--rate", type=float, default=50, help="pods a second in the steady part (default: 50)")
    parser.add_argument("--seconds", type=float, default=5, help="how long the steady part is (default: 5)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds to wait for the last pod (default: 300)")
    about = "gangs of 8 instead, one after the other (default: 100 of them)"
    parser.add_argument("--gangs", type=int, nargs="?", const=100, metavar="COUNT", help=about)
    parser.add_argument("--chart", type=Path, metavar="FILE", help="write the results as SVG, too")
    parser.add_argument("--flags", nargs=argparse.REMAINDER, default=[], help="for kubenexus scheduler; come last")
    return parser


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def show(results: Sequence[Result], options: Options) -> None:
    print(f"{options.nodes:,} nodes, {options.pods:,} pods, then {options.rate:g} pods/s for {options.seconds:g} s")
    print(f"{'':16}{'bound':>8}{'pods/s':>10}{'CPU s':>9}{'RSS MB':>9}{'p50 ms':>9}{'p99 ms':>9}")
    for one in results:
        cells = (one.cpu, one.rss, one.p50, one.p99)
        rest = "".join("        -" if value is None else f"{value:>9.1f}" for value in cells)
        print(f"{one.name:16}{one.bound:>8,}{one.rate:>10,.0f}{rest}")
    found = {one.name: one for one in results}
    for line in ratios(found[FLOOD], found[KUBE], found[OURS]):
        print(line)


def ratios(flood: Result, kube: Result, ours: Result) -> Iterator[str]:
    for other, wanted in ((kube, AT_LEAST_KUBE), (flood, AT_LEAST_FLOOD)):
        if other.rate:
            ratio = ours.rate / other.rate
            yield f"pods/s: {ratio:.2f} × {other.name}, target {wanted:g} ×: {'met' if ratio >= wanted else 'MISSED'}"
    if ours.rss and kube.rss:
        yield f"memory: {ours.rss / kube.rss:.2f} × {KUBE}, target < 1 ×: {'met' if ours.rss < kube.rss else 'MISSED'}"
    if ours.cpu and kube.cpu:
        yield f"CPU: {ours.cpu / kube.cpu:.2f} × {KUBE}"


def chart(results: Sequence[Result], options: Options) -> str:
    panels = [
        Panel("bound", "pods/s", {one.name: one.rate for one in results}),
        Panel("create to bound, median", "ms", {one.name: one.p50 for one in results}),
        Panel("create to bound, p99", "ms", {one.name: one.p99 for one in results}),
        Panel("memory", "MB", {one.name: one.rss for one in results}),
        Panel("CPU for all pods", "s", {one.name: one.cpu for one in results}),
    ]
    return draw(f"{options.nodes:,} nodes, {options.pods:,} pods, one machine, one run", panels)


if __name__ == "__main__":
    raise SystemExit(main())
