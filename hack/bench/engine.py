#!/usr/bin/env python3
"""How fast the engine decides: decisions per second by cluster size and kind of pod, and the time of a refusal.

    .venv/bin/python hack/bench/engine.py            # 100 to 10,000 nodes
    .venv/bin/python hack/bench/engine.py --quick    # 100 and 1,000 nodes
    .venv/bin/python hack/bench/engine.py --gangs    # gangs and NUMA policies, see gangs.py

No API server, one thread: pods that have been read already, nodes with some pods each, the default profile. Pods of one
template come in a row, as controllers make them. Times vary from machine to machine and with what else runs on it, so
the table also shows how the cost grows with the cluster.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hack.bench import gangs
from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.objects import PodView, project_node, project_pod
from kubenexus.scheduler.engine.cycle import Cycle, Park, Place
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.profiles import build_cycles

Obj = dict[str, Any]

SIZES = (100, 1_000, 5_000, 10_000)
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES, POOLS, APPS = 3, 10, 20
BURST = 50
"""pods of one template in a row"""
COMPLETIONS = 1_000
"""pods of an Indexed Job"""
NOMINATED = 50
"""pods that are promised a node, in the case of that name"""
RUNNING = 5
"""pods on each node before the first decision"""
MOST = 10_000
SECONDS = 2.0


class Target(NamedTuple):
    """What the issue asks for, at 5,000 nodes."""

    nodes: int
    rate: float


TARGETS = {"plain": Target(5_000, 10_000), "spread": Target(5_000, 2_000)}
VERDICT = 0.050


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one kind of pod on one size of cluster."""

    decisions: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.decisions / self.seconds

    @property
    def micros(self) -> float:
        return 1e6 / self.rate


# --- Clusters and pods


def node(number: int) -> Obj:
    name = f"node-{number:05d}"
    labels = {HOST: name, ZONE: f"zone-{number % ZONES}", "pool": f"pool-{number % POOLS}"}
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts, "capacity": amounts}}


def app_of(number: int) -> str:
    return f"app-{number // BURST % APPS}"


def pod(number: int, app: str = "", **spec: Any) -> Obj:
    """One of many: of some application, all of whose pods share a template."""
    app = app or app_of(number)
    requests = {"cpu": "100m", "memory": "256Mi"}
    containers = [{"name": "main", "image": f"registry.example/{app}:1", "resources": {"requests": requests}}]
    meta = {"name": f"{app}-{number}", "uid": f"uid-{number}", "namespace": "default", "labels": {"app": app}}
    return {"metadata": meta, "spec": {"containers": containers, **spec}}


def plain(number: int) -> Obj:
    return pod(number)


def affinity(number: int) -> Obj:
    """Required pools, and a preferred zone."""
    first = number // BURST
    pools = [f"pool-{(first + offset) % POOLS}" for offset in range(4)]
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": pools}]}]}
    zone = {"key": ZONE, "operator": "In", "values": [f"zone-{first % ZONES}"]}
    preferred = [{"weight": 10, "preference": {"matchExpressions": [zone]}}]
    rules = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    return pod(number, affinity={"nodeAffinity": rules})


def spread(number: int) -> Obj:
    """Even over zones, and rather not beside another of its kind."""
    selector = {"matchLabels": {"app": app_of(number)}}
    even = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    term = {"weight": 100, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": selector}}
    apart = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(number, topologySpreadConstraints=[even], affinity=apart)


def mixed(number: int) -> Obj:
    return (plain, affinity, spread)[number % 3](number)


def interleaved(number: int) -> Obj:
    """Plain pods, each of another template than the one before."""
    return pod(number, f"app-{number % APPS}")


def indexed(number: int) -> Obj:
    """Plain pods of Indexed Jobs: no two of a Job have the same labels."""
    made = pod(number, f"job-{number // COMPLETIONS}")
    made["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = str(number % COMPLETIONS)
    return made


KINDS: dict[str, Callable[[int], Obj]] = {
    "plain": plain,
    "affinity": affinity,
    "spread": spread,
    "mixed": mixed,
    "interleaved": interleaved,
    "indexed": indexed,
    "nominated": plain,
}


def impossible(number: int) -> Obj:
    """A shape of its own each time, so that no refusal is remembered from the last."""
    return pod(number, nodeSelector={"pool": f"pool-{number}"}, tolerations=[{"operator": "Exists"}])


# --- Measuring


def cluster(size: int, name: str) -> Cycle:
    """A cluster where pods of this kind run already."""
    state, nominations, kind = State(), Nominations(), KINDS[name]
    for number in range(size):
        state.set_node(project_node(node(number)))
    for number in range(RUNNING * size):
        state.place(project_pod(kind(10_000_000 + number)), f"node-{number % size:05d}")
    if name == "nominated":
        for number in range(NOMINATED):
            nominations.nominate(project_pod(kind(20_000_000 + number)), f"node-{number % size:05d}")
    (cycle,) = build_cycles(SchedulerConfiguration(), state, nominations).values()
    return cycle


def measure(size: int, name: str, seconds: float) -> Measured:
    """Decide for pods of a kind until there are enough or the time is over."""
    cycle = cluster(size, name)
    pods = [project_pod(KINDS[name](number)) for number in range(BURST + MOST)]
    decide(cycle, pods[:BURST], seconds)
    return decide(cycle, pods[BURST:], seconds)


def decide(cycle: Cycle, pods: Sequence[PodView], seconds: float) -> Measured:
    done, start = 0, time.perf_counter()
    for one in pods:
        assert isinstance(cycle.decide(one), Place), "there is room for all"
        done += 1
        if time.perf_counter() - start > seconds:
            break
    return Measured(done, time.perf_counter() - start)


def verdict(size: int, times: int = 10) -> float:
    """Seconds until an impossible pod of a shape not seen before has been refused with reasons: the slowest of some."""
    cycle = cluster(size, "plain")
    worst = 0.0
    for number in range(times):
        one = project_pod(impossible(1_000 + number))
        start = time.perf_counter()
        decision = cycle.decide(one)
        worst = max(worst, time.perf_counter() - start)
        assert isinstance(decision, Park), "no node is of that pool"
        assert decision.message.startswith(f"0/{size} nodes are available")
    return worst


def profile(size: int, kind: str, lines: int = 25) -> None:
    """Where the time goes."""
    cycle = cluster(size, kind)
    pods = [project_pod(KINDS[kind](number)) for number in range(MOST)]
    decide(cycle, pods[:120], SECONDS)
    recorder = cProfile.Profile()
    recorder.enable()
    decide(cycle, pods[120:], 2 * SECONDS)
    recorder.disable()
    pstats.Stats(recorder).sort_stats("tottime").print_stats(lines)


# --- Showing


def main() -> int:
    options = parser().parse_args()
    if options.gangs:
        gangs.show(500 if options.quick else gangs.NODES)
        return 0
    sizes = SIZES[:2] if options.quick else SIZES
    if options.profile:
        profile(1_000 if options.quick else 5_000, options.profile)
        return 0
    missed = [*show_rates(sizes, SECONDS / 2 if options.quick else SECONDS), *show_verdicts(sizes)]
    print(
        "\n" + "\n".join(missed or ["no target was missed" if len(sizes) == len(SIZES) else "targets need all sizes"])
    )
    return 0


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--quick", action="store_true", help="100 and 1,000 nodes only")
    parser.add_argument("--gangs", action="store_true", help="gangs and NUMA policies on GPU nodes instead")
    parser.add_argument("--profile", choices=tuple(KINDS), help="show where the time goes, for one kind of pod")
    return parser


def show_rates(sizes: Sequence[int], seconds: float) -> list[str]:
    """The table; what was missed comes back as sentences."""
    print(f"{'decisions/s':12}" + "".join(f"{size:>10,} nodes" for size in sizes) + "   cost grows")
    missed = []
    for name in KINDS:
        found = {size: measure(size, name, seconds) for size in sizes}
        rates = "".join(f"{one.rate:>16,.0f}" for one in found.values())
        first, last = found[sizes[0]], found[sizes[-1]]
        growth = f"× {last.micros / first.micros:.1f} for × {sizes[-1] // sizes[0]} nodes"
        target = TARGETS.get(name)
        wanted = f"   target {target.rate:,.0f} at {target.nodes:,}" if target else ""
        print(f"{name:12}{rates}   {growth}{wanted}", flush=True)
        if target and target.nodes in found and found[target.nodes].rate < target.rate:
            missed.append(
                f"MISSED: {name} at {target.nodes:,} nodes: {found[target.nodes].rate / target.rate:.0%} of target"
            )
    return missed


def show_verdicts(sizes: Sequence[int]) -> list[str]:
    found = {size: verdict(size) for size in sizes}
    shown = "".join(f"{seconds * 1e3:>13,.2f} ms" for seconds in found.values())
    print(f"{'refusal':12}{shown}   target {VERDICT * 1e3:.0f} ms")
    slow = [f"{size:,} nodes: {seconds * 1e3:.0f} ms" for size, seconds in found.items() if seconds > VERDICT]
    return [f"MISSED: refusal at {one}, target {VERDICT * 1e3:.0f} ms" for one in slow]


if __name__ == "__main__":
    raise SystemExit(main())
