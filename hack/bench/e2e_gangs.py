"""How long a gang of 8 waits on a real API server that is otherwise idle: created to bound, the whole gang.

    .venv/bin/python hack/bench/e2e.py --gangs                # 1,000 nodes of 8 GPUs, 100 gangs
    .venv/bin/python hack/bench/e2e.py --gangs 20 --nodes 100

Nodes are DGX-like, with what an agent publishes in their annotation. Gangs come one after the other, each when the one
before it is bound; when the nodes are full they are emptied. A gang's time begins with the request that creates
its first member and ends with the news that its last one has a node; how long it takes to create all members, which no
scheduler can change, is shown beside it. Scheduler, API server and this program share the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hack.bench.e2e import WRITERS, KubeNexus, Obj, Options, Watcher, empty, make_pod, parallel, plane, say
from hack.bench.gangs import GPUS, node, topology
from hack.control_plane.processes import wait_for
from kubenexus.common import wire
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import NAMESPACES, NODES, PODS
from kubenexus.common.vocabulary import GANG_MIN_AVAILABLE, GANG_NAME, SCHEDULER_NAME

SIZE = 8
GPU = "nvidia.com/gpu"
P50, P99 = 50.0, 150.0
"""milliseconds from creation to bound, at 1,000 nodes"""
TARGET_NODES = 1000
NAMESPACE = "gangs"
WARM_UP = 5
"""gangs that are not counted: the first ones meet cold caches on both sides"""


@dataclass(frozen=True, slots=True)
class Wait:
    """Milliseconds of one gang: until all of it was created, and until all of it was bound."""

    created: float
    bound: float


def member(gang: str, number: int) -> Obj:
    """A pod that takes all GPUs of a node."""
    pod = make_pod(f"{gang}-{number}", SCHEDULER_NAME)
    pod["metadata"]["labels"] |= {GANG_NAME: gang, GANG_MIN_AVAILABLE: str(SIZE)}
    resources = pod["spec"]["containers"][0]["resources"]
    resources["requests"][GPU] = str(GPUS)
    resources["limits"] = {GPU: str(GPUS)}
    return pod


class Bench:
    """A scheduler that is up, and gangs for it."""

    def __init__(self, client: Client, contender: KubeNexus, watcher: Watcher, timeout: float) -> None:
        self._client, self._contender, self._watcher, self._timeout = client, contender, watcher, timeout
        self._pool = ThreadPoolExecutor(WRITERS)

    def one(self, number: int) -> Wait:
        """Create a gang, as a controller does with several requests at once, and wait until it is bound."""
        gang = f"gang-{number:04d}"
        pods = [member(gang, index) for index in range(SIZE)]
        names = [pod["metadata"]["name"] for pod in pods]
        begin = time.monotonic()
        for _ in self._pool.map(lambda pod: self._client.create(PODS, pod, NAMESPACE), pods):
            pass
        created = time.monotonic()
        if not wait_for(lambda: self._watcher.has(names) or not self._contender.alive, self._timeout):
            raise TimeoutError(f"{gang} is not bound after {self._timeout:g} seconds")
        if not self._watcher.has(names):
            raise TimeoutError("the scheduler has ended")
        bound = max(self._watcher.bound[name] for name in names)
        return Wait(1e3 * (created - begin), 1e3 * (bound - begin))

    def all(self, count: int, room: int) -> Iterator[Wait]:
        """So many gangs one after the other; `room` of them fit at once."""
        for number in range(count):
            if number and number % room == 0:
                empty(self._client, NAMESPACE)
            yield self.one(number)


def measure(options: Options, count: int) -> list[Wait]:
    """The waits of so many gangs, and of a few before them that are left out."""
    with plane() as (up, client):
        say(f"Kubernetes {up.version}; creating {options.nodes:,} nodes of {GPUS} GPUs")
        annotation = wire.encode_annotation(topology())
        parallel(options.nodes, lambda number: client.create(NODES, node(number, annotation)))
        client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        contender = KubeNexus(up, client, options.flags)
        with Watcher(client, NAMESPACE) as watcher:
            contender.begin(NAMESPACE, 0)
            say(f"{count} gangs of {SIZE}, one after the other")
            try:
                bench = Bench(client, contender, watcher, options.timeout)
                return list(bench.all(WARM_UP + count, options.nodes // SIZE))[WARM_UP:]
            finally:
                contender.end()


def show(waits: list[Wait], nodes: int) -> None:
    print(f"{nodes:,} nodes, {len(waits)} gangs of {SIZE} × {GPUS} GPUs, one after the other")
    print(f"{'':22}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}")
    created, bound = sorted(one.created for one in waits), sorted(one.bound for one in waits)
    for what, values in (("all members created", created), ("all members bound", bound)):
        print(f"{what:22}{_at(values, 0.5):>9.1f}{_at(values, 0.99):>9.1f}{values[-1]:>9.1f}")
    for share, target in ((0.5, P50), (0.99, P99)):
        found = _at(bound, share)
        verdict = ("met" if found <= target else "MISSED") if nodes == TARGET_NODES else "is for 1,000 nodes"
        print(f"p{share * 100:g}: {found:.1f} ms, target {target:g} ms: {verdict}")


def _at(values: list[float], share: float) -> float:
    return values[min(int(len(values) * share), len(values) - 1)]
