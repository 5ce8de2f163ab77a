"""The choice of GPUs against NVIDIA's best-effort allocator, and the bandwidth of the rings it gets over time."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import combinations
from statistics import mean
from typing import Any, NamedTuple

import pytest

from kubenexus.scheduler.devices.choose import choose, worth
from kubenexus.scheduler.devices.links import Layout, bits, mask_of
from tests.gpu_layouts import gpus, linked
from tests.shared import SHARED, shared_file

Case = dict[str, Any]

PATHS = {"CrossCPU": "S", "SameCPU": "N", "HostBridge": "H", "MultiSwitch": "B", "SingleSwitch": "I"}
NVLINKS = {"SingleNVLINKLink": 1, "TwoNVLINKLinks": 2, "SingleNVLink": 1, "DoubleNVLink": 2, "PCIe": 0}

SEEDS = range(6)
JOBS = 1000
LARGEST = 5


# --- Sets ------------------------------------------------------------------------------------------------------------


def machine(name: str) -> Layout:
    described = json.loads(shared_file("conformance/gpu_sets.json").read_text(encoding="utf-8"))["topologies"][name]
    nvlinks, paths = {}, {}
    for key, kinds in described["links"].items():
        one, other = (int(number) for number in key.split("-"))
        nvlinks[one, other] = sum(NVLINKS.get(kind, 0) for kind in kinds)
        paths[one, other] = next((code for word, code in PATHS.items() if f"P2PLink{word}" in kinds), "?")
    return linked(described["gpus"], nvlinks, paths)


def outcomes() -> Iterator[Case]:
    """Single calls, and each step of the sequences from where the sequence stands."""
    data = json.loads((SHARED / "conformance/gpu_sets.json").read_text(encoding="utf-8"))
    yield from (case for case in data["single"] if case["policy"] == "best-effort")
    for sequence in data["sequences"]:
        if sequence["policy"] != "best-effort":
            continue
        available = set(range(data["topologies"][sequence["topology"]]["gpus"]))
        for number, step in enumerate(sequence["steps"]):
            place = {"id": f"{sequence['id']} {number + 1}", "topology": sequence["topology"], "required": []}
            yield {**step, **place, "available": sorted(available)}
            available -= set(step["expected"])


def parameters() -> list[Any]:
    if not (SHARED / "conformance/gpu_sets.json").exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="shared data conformance/gpu_sets.json is not here"))]
    return [pytest.param(case, id=case["id"]) for case in outcomes()]


@pytest.mark.parametrize("case", parameters())
def test_best_effort_sets(case: Case) -> None:
    layout = machine(case["topology"])
    found = choose(layout, mask_of(case["available"]), case["size"], mask_of(case["required"]))
    if not case["expected"]:
        assert found is None
    else:
        assert found is not None
        assert gpus(found.mask) in case["equivalent"]


def test_all_best_effort_outcomes_are_there() -> None:
    shared_file("conformance/gpu_sets.json")
    assert len(list(outcomes())) == 59


# --- Rings -----------------------------------------------------------------------------------------------------------

Pick = Callable[[Layout, int, int], int | None]


class Machine(NamedTuple):
    layout: Layout
    ring: dict[int, int]
    """the bandwidth of the best ring through each set"""


def ring_machine(name: str) -> Machine:
    described = json.loads(shared_file("conformance/gpu_rings.json").read_text(encoding="utf-8"))["arch"][name]
    pairs = {(int(key[0]), int(key[2])): NVLINKS[kind] for key, (_, kind) in described["edges"].items()}
    rings = {mask_of(map(int, name)): facts["ring_bw"] for name, facts in described["subsets"].items()}
    return Machine(linked(described["gpus"], pairs), rings)


def ours(layout: Layout, free: int, count: int) -> int | None:
    found = choose(layout, free, count)
    return found and found.mask


def lowest(_: Layout, free: int, count: int) -> int | None:
    indices = gpus(free)[:count]
    return mask_of(indices) if len(indices) == count else None


def greedy(layout: Layout, free: int, count: int) -> int | None:
    """The best links now, whatever that leaves."""
    sets = [mask_of(some) for some in combinations(bits(free), count)]
    return max(sets, key=lambda mask: worth(layout, mask), default=None)


def bandwidth(machine: Machine, pick: Pick, seed: int) -> float:
    """The mean of the rings that jobs of random size and lifetime get, one after the other; a job waits for room."""
    chance, now, free = random.Random(seed), 0.0, machine.layout.everything
    ends: list[tuple[float, int]] = []
    rings = []
    for _ in range(JOBS):
        size, life = chance.randint(1, LARGEST), chance.expovariate(1 / 6)
        now += chance.expovariate(1 / 2)
        while ends and ends[0][0] <= now:
            free |= heappop(ends)[1]
        while (mask := pick(machine.layout, free, size)) is None:
            now, freed = heappop(ends)
            free |= freed
        free &= ~mask
        heappush(ends, (now + life, mask))
        rings += [machine.ring[mask]] if size > 1 else []
    return mean(rings)


@pytest.mark.parametrize("name", ["dgx-v", "dgx-p", "summit"])
def test_rings_over_time_are_faster_than_those_of_simpler_choices(name: str) -> None:
    machine = ring_machine(name)
    ahead = {pick: [bandwidth(machine, ours, seed) - bandwidth(machine, pick, seed) for seed in SEEDS]
             for pick in (lowest, greedy)}  # fmt: skip
    assert all(mean(gains) > 0 for gains in ahead.values()), ahead
    assert min(ahead[lowest]) > 0
    assert sum(gain > 0 for gain in ahead[greedy]) > len(SEEDS) / 2
