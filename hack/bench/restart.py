#!/usr/bin/env python3
"""How a scheduler takes over a large cluster on a real API server: how long it reads, and whether it knows the same.

    .venv/bin/python hack/bench/restart.py                              # 100 nodes, 1,000 running pods
    .venv/bin/python hack/bench/restart.py --nodes 1000 --pods 10000

A first scheduler reads the cluster and places some pods of its own; then it ends and a second one starts. Both must
have the same books, and must send the same further pods to the same nodes.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hack.bench.e2e import make_node, make_pod, parallel, plane, pod_name, say  # noqa: E402
from hack.control_plane import binaries, cluster  # noqa: E402
from hack.control_plane.processes import wait_for  # noqa: E402
from kubenexus.common.config import SchedulerConfiguration  # noqa: E402
from kubenexus.common.kube.client import Client  # noqa: E402
from kubenexus.common.kube.mirror import Added  # noqa: E402
from kubenexus.common.kube.resources import NODES, PODS  # noqa: E402
from kubenexus.common.objects import project_pod  # noqa: E402
from kubenexus.common.vocabulary import SCHEDULER_NAME  # noqa: E402
from kubenexus.scheduler.actions import POD, Bind, Heard  # noqa: E402
from kubenexus.scheduler.desk import Desk  # noqa: E402
from kubenexus.scheduler.process import Scheduler  # noqa: E402

NEW, PROBES = 200, 100
"""pods that the first scheduler places itself, and pods that both are asked about in the end"""
PATIENCE = 300.0


@contextmanager
def scheduling(kubeconfig: Path, name: str) -> Iterator[Scheduler]:
    """A scheduler in a thread of its own, from its start to its end. Says how long the first list took."""
    with Client.connect(str(kubeconfig), connections=64) as client:
        scheduler = Scheduler(client, SchedulerConfiguration(), name, elect=False)
        thread = threading.Thread(target=scheduler.run, daemon=True)
        began = time.monotonic()
        thread.start()
        wait_for(lambda: scheduler.ready() is None and scheduler.desk.synced, PATIENCE)
        print(f"{name}: knows everything after {time.monotonic() - began:.1f} s")
        yield scheduler
        scheduler.stop()
        thread.join(60)


def books(desk: Desk) -> dict[str, Any]:
    """The pods of every node, and what they use."""
    state = desk.state
    rows = sorted((state.resource(row), row) for row in range(len(state.used)))
    return {
        state.name(node): (sorted(state.slots[node].pods), [(name, int(state.used[row][node])) for name, row in rows])
        for node in state.live()
    }


def decisions(desk: Desk) -> list[str]:
    """Where a scheduler that has ended would send further pods."""
    now = time.monotonic()
    for number in range(PROBES):
        name = pod_name(number, "probe")
        obj = make_pod(name, SCHEDULER_NAME)
        obj["metadata"] |= {"namespace": "default", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        view = project_pod(obj)
        desk.hear(Heard(POD, Added(view.uid, view)), now)
    while desk.decide(now) is not None:
        pass
    return [f"{one.pod.name} to {one.node}" for one in desk.take() if isinstance(one, Bind)]


def populate(client: Client, nodes: int, pods: int) -> None:
    say(f"creating {nodes:,} nodes and {pods:,} running pods")
    parallel(nodes, lambda number: client.create(NODES, make_node(number)))

    def run(number: int) -> None:
        obj = make_pod(pod_name(number, "running"), "somebody")
        obj["spec"]["nodeName"] = make_node(number % nodes)["metadata"]["name"]
        client.create(PODS, obj, "default")

    parallel(pods, run)


def settled(desk: Desk, count: int) -> bool:
    return len(desk.queue) == 0 and sum(len(slot.pods) for slot in desk.state.slots) == count


def compare(plane_up: cluster.Cluster, client: Client, nodes: int, pods: int) -> bool:
    populate(client, nodes, pods)
    with scheduling(plane_up.kubeconfig, "first") as first:
        parallel(NEW, lambda number: client.create(PODS, make_pod(pod_name(number), SCHEDULER_NAME), "default"))
        wait_for(lambda: settled(first.desk, pods + NEW), PATIENCE)
    with scheduling(plane_up.kubeconfig, "second") as second:
        pass
    for one in (first, second):
        one.desk.state.validate()
    same = {"books": books(first.desk) == books(second.desk), "decisions": _same_decisions(first.desk, second.desk)}
    for what, equal in same.items():
        print(f"{what}: {'the same' if equal else 'DIFFERENT'}")
    print(f"memory of this process, with both: {psutil.Process().memory_info().rss / 1e6:.0f} MB")
    return all(same.values())


def _same_decisions(first: Desk, second: Desk) -> bool:
    found = decisions(first)
    return len(found) == PROBES and found == decisions(second)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=1000)
    arguments = parser.parse_args()
    if arguments.pods + NEW + PROBES > 100 * arguments.nodes:
        parser.error("more than 100 pods for each node do not fit")
    try:
        with plane() as (up, client):
            return 0 if compare(up, client, arguments.nodes, arguments.pods) else 1
    except (binaries.MissingError, cluster.StartError) as problem:
        print(problem, file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
