#!/usr/bin/env python3
"""How fast the engine decides about gangs and about pods with NUMA policies, on 5,000 nodes of eight GPUs.

    .venv/bin/python hack/bench/engine.py --gangs
    .venv/bin/python hack/bench/engine.py --gangs --nodes 500

No API server, one thread. Members are pods of an indexed Job: each has an index of its own among its labels. Nodes are
DGX-like, with what an agent publishes in their annotation; every second one is half full in a way of its own.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable, Iterator
from typing import Any

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.gangs import GangKey
from kubenexus.common.objects import PodView, project_node, project_pod
from kubenexus.common.topology import Gpu, Health, NodeTopology, NumaNode, link_row
from kubenexus.scheduler.engine.cycle import Cycle, Place
from kubenexus.scheduler.engine.gang import Call, Gangs, Placed, Refused
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.profiles import build_cycles

Obj = dict[str, Any]
GIB = 1 << 30
GPUS, CPUS, NODES = 8, 112, 5_000
PER_CLIQUE, PER_ZONE = 32, 1_000
SECONDS = 2.0


def topology() -> NodeTopology:
    """Two NUMA nodes, four GPUs each, all joined by NVSwitch."""
    numa = [
        NumaNode(
            id=i,
            cpus=tuple(range(i * CPUS // 2, (i + 1) * CPUS // 2)),
            memory=1024 * GIB,
            distances=((10, 21), (21, 10))[i],
        )
        for i in range(2)
    ]
    links = [link_row(0 if i == j else 18 for j in range(GPUS)) for i in range(GPUS)]
    classes = ["".join("X" if i == j else ("N" if i // 4 == j // 4 else "S") for j in range(GPUS)) for i in range(GPUS)]
    gpus = [
        Gpu(
            index=i,
            numa=i // 4,
            memory=80 * GIB,
            nvlinks=18,
            peer_links=links[i],
            peer_classes=classes[i],
            health=Health.OK,
            product="NVIDIA H100 80GB HBM3",
        )
        for i in range(GPUS)
    ]
    return NodeTopology(numa=tuple(numa), gpus=tuple(gpus), nics=())


def node(number: int, annotation: str) -> Obj:
    name = f"node-{number:05d}"
    labels = {
        "kubernetes.io/hostname": name,
        v.ZONE: f"zone-{number // PER_ZONE}",
        v.NVIDIA_CLIQUE: f"uuid.{number // PER_CLIQUE}",
    }
    amounts = {"cpu": str(CPUS), "memory": f"{2 * 1024}Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    meta = {"name": name, "labels": labels, "annotations": {v.TOPOLOGY_SNAPSHOT: annotation}}
    return {"metadata": meta, "status": {"allocatable": amounts, "capacity": amounts}}


def pod(name: str, gpus: int, cpu: int, notes: dict[str, str], job: str = "", index: int = 0) -> PodView:
    requests = {"cpu": str(cpu), "memory": f"{cpu}Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    containers = [{"name": "main", "image": "example/train:1", "resources": {"requests": requests, "limits": requests}}]
    labels = (
        {"job-name": job or name, "batch.kubernetes.io/job-completion-index": str(index)} if job else {"app": name[:6]}
    )
    meta = {"name": name, "uid": f"uid-{name}", "namespace": "default", "labels": labels, "annotations": notes}
    return project_pod({"metadata": meta, "spec": {"containers": containers}})


def cluster(size: int, *, busy: bool) -> tuple[State, Cycle]:
    """The nodes; if `busy`, every second one runs pods of its own, no two alike."""
    state = State()
    annotation = wire.encode_annotation(topology())
    for number in range(size):
        state.set_node(project_node(node(number, annotation)))
    for number in range(1, size, 2) if busy else ():
        notes = {v.NUMA_ASSIGNED: str(number % 4 // 2), v.GPU_ASSIGNED: str(number % 4)}
        state.place(pod(f"running-{number}", 1, 1 + number % 50, notes), f"node-{number:05d}")
    (cycle,) = build_cycles(SchedulerConfiguration(), state, Nominations()).values()
    return state, cycle


def call(job: str, count: int, gpus: int, cpu: int = 8) -> Call:
    members = tuple(pod(f"{job}-{i}", gpus, cpu, {}, job, i) for i in range(count))
    return Call(GangKey("default", job), job, members, count, count)


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    answer = action()
    return time.perf_counter() - start, answer


def learn(state: State) -> None:
    """Read what the nodes' annotations say, as the scheduler does when it starts."""
    for number in state.live():
        state.devices.known(number)


def cases(size: int) -> Iterator[tuple[str, float, float]]:
    """What was done, the seconds it took, and the seconds it may take at 5,000 nodes."""
    state, cycle = cluster(size, busy=False)
    gangs = Gangs(state, lambda _: cycle)
    many = min(512, size // 2)
    learn(state)
    gangs.decide(call("warm", 2, 8))
    seconds, answer = timed(lambda: gangs.decide(call("big", many, 8, 64)))
    assert isinstance(answer, Placed)
    yield f"a gang of {many} × 8 GPUs", seconds, 0.5
    while isinstance(gangs.decide(call(f"more-{len(list(state.pods()))}", many, 8, 64)), Placed):
        pass
    seconds, answer = timed(lambda: gangs.decide(call("late", many, 8, 64)))
    assert isinstance(answer, Refused)
    yield f"refusing another one, for which {answer.room:,} have room", seconds, 0.1
    seconds, answer = timed(lambda: gangs.decide(call("twin", many, 16, 64)))
    assert isinstance(answer, Refused)
    yield f"refusing a gang of {many} × 16 GPUs", seconds, 0.1
    state, cycle = cluster(size, busy=True)
    learn(state)
    gangs = Gangs(state, lambda _: cycle)
    calls = [call(f"gang{i}", 50, 1) for i in range(100 if size >= 1000 else 10)]
    seconds, answers = timed(lambda: [gangs.decide(one) for one in calls])
    assert all(isinstance(one, Placed) for one in answers)
    yield f"{len(calls)} gangs of 50 × 1 GPU", seconds, 5.0


def numa_rate(size: int, policy: str) -> float:
    """Decisions a second about pods with a NUMA policy, on nodes that all look different."""
    _, cycle = cluster(size, busy=True)
    pods = [pod(f"numa-{i}", 0, 4, {v.NUMA_POLICY: policy}) for i in range(20_000)]
    cycle.decide(pods[0])
    done, start = 0, time.perf_counter()
    for one in pods[1:]:
        assert isinstance(cycle.decide(one), Place)
        done += 1
        if time.perf_counter() - start > SECONDS:
            break
    return done / (time.perf_counter() - start)


def profile(size: int) -> None:
    """Where the time of the big gang goes."""
    state, cycle = cluster(size, busy=False)
    gangs, big = Gangs(state, lambda _: cycle), call("big", min(512, size // 2), 8, 64)
    recorder = cProfile.Profile()
    recorder.enable()
    gangs.decide(big)
    recorder.disable()
    pstats.Stats(recorder).sort_stats("tottime").print_stats(25)


def show(size: int) -> None:
    print(f"{size:,} nodes of {GPUS} GPUs")
    seconds, _ = timed(lambda: learn(cluster(size, busy=True)[0]))
    print(f"{seconds * 1000:9,.0f} ms  making and reading them; a scheduler does that when it starts")
    for what, seconds, target in cases(size):
        verdict = ("met" if seconds < target else "MISSED") if size == NODES else "targets are for 5,000 nodes"
        print(f"{seconds * 1000:9,.0f} ms  {what} (target {target * 1000:,.0f} ms: {verdict})")
    for policy in ("single-numa", "restricted", "best-effort"):
        rate = numa_rate(size, policy)
        verdict = ("met" if rate >= 2_000 else "MISSED") if size == NODES else "targets are for 5,000 nodes"
        print(f"{rate:9,.0f} /s  pods with policy {policy} (target 2,000/s: {verdict})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    (profile if options.profile else show)(options.nodes)
