#!/usr/bin/env python3
"""How fast GPUs are chosen on machines of several kinds, and what the choice is worth against simpler ones.

    .venv/bin/python hack/bench/gpus.py

*first* is the very first choice on a kind of machine (nothing is known of it yet), *new* one for a set of free GPUs not
seen before, *known* one for a set seen before. Times are of the processor and vary from one to another; the last column
shows how much a known choice saves. The second table replays one stream of jobs with three ways to choose.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import combinations, product
from statistics import mean, median
from typing import NamedTuple

from kubenexus.common.topology import Gpu, NodeTopology, link_row
from kubenexus.scheduler.devices.choose import choose, worth
from kubenexus.scheduler.devices.islands import islands
from kubenexus.scheduler.devices.links import Layout, bits, layout_of, mask_of

COUNTS = (1, 2, 3, 4, 8)
MASKS = 60
JOBS = 4_000
LIFE = 6.0
NEW_TARGET, KNOWN_TARGET = 1e-3, 1e-6

CUBE_MESH = {
    **dict.fromkeys([(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)], 1),
    **dict.fromkeys([(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)], 2),
}


class Measured(NamedTuple):
    """Seconds."""

    first: float
    new: float
    slowest: float
    known: float


# --- Machines


def machine(count: int, nvlinks: Callable[[int, int], int], *, switch: int = 1, numa_nodes: int = 2) -> Layout:
    """GPUs on PCIe switches of some size and NUMA nodes."""
    numa = [gpu * numa_nodes // count for gpu in range(count)]

    def path(one: int, other: int) -> str:
        if one // switch == other // switch:
            return "I"
        return "N" if numa[one] == numa[other] else "S"

    gpus = [
        Gpu(
            index=one,
            numa=numa[one],
            peer_links=link_row(0 if one == other else nvlinks(one, other) for other in range(count)),
            peer_classes="".join(path(one, other) for other in range(count)),
        )
        for one in range(count)
    ]
    return layout_of(NodeTopology(gpus=tuple(gpus)))


def machines() -> dict[str, Layout]:
    chance = random.Random(7)
    scattered = {pair: chance.choice([0, 0, 1, 2]) for pair in combinations(range(16), 2)}
    return {
        "8 behind NVSwitch": machine(8, lambda *_: 18),
        "8 in a cube mesh": machine(8, lambda a, b: CUBE_MESH.get((min(a, b), max(a, b)), 0)),
        "8 bridged in pairs": machine(8, lambda a, b: 4 * (a // 2 == b // 2)),
        "8 on PCIe switches": machine(8, lambda *_: 0, switch=2),
        "16 behind NVSwitch": machine(16, lambda *_: 6, switch=2),
        "16 on PCIe switches": machine(16, lambda *_: 0, switch=4),
        "16 at random": machine(16, lambda a, b: scattered[min(a, b), max(a, b)]),
    }


# --- Time


def measure(layout: Layout) -> Measured:
    chance = random.Random(1)
    masks = {mask_of(gpu for gpu in layout.gpus if chance.random() < 0.6) for _ in range(MASKS)}
    first = timed(layout, layout.everything, 2)
    new = [timed(layout, mask, count) for mask, count in product(masks, COUNTS) if mask.bit_count() >= count]
    return Measured(first, median(new), max(new), known(layout))


def timed(layout: Layout, free: int, count: int) -> float:
    start = time.process_time()
    choose(layout, free, count)
    return time.process_time() - start


def known(layout: Layout, times: int = 20_000) -> float:
    free, many = layout.everything, range(times)
    choose(layout, free, 2)
    start = time.process_time()
    for _ in many:
        choose(layout, free, 2)
    return (time.process_time() - start) / times


# --- Worth

Pick = Callable[[Layout, int, int], int]


def ours(layout: Layout, free: int, count: int) -> int:
    found = choose(layout, free, count)
    assert found is not None, "there is room"
    return found.mask


def lowest(_: Layout, free: int, count: int) -> int:
    return mask_of(sorted(bits(free))[:count])


def greedy(layout: Layout, free: int, count: int) -> int:
    return max(map(mask_of, combinations(bits(free), count)), key=lambda mask: worth(layout, mask))


def stream(layout: Layout, pick: Pick) -> Iterator[tuple[int, int]]:
    """The sets that jobs of random size and lifetime get, and what is free afterwards; a job waits for room."""
    chance, now, free = random.Random(3), 0.0, layout.everything
    ends: list[tuple[float, int]] = []
    for _ in range(JOBS):
        count, life = chance.choice([1, 1, 2, 2, 3, 4]), chance.expovariate(1 / LIFE)
        now += chance.expovariate(1 / 2)
        while ends and (ends[0][0] <= now or free.bit_count() < count):
            end, freed = heappop(ends)
            now, free = max(now, end), free | freed
        mask = pick(layout, free, count)
        free &= ~mask
        heappush(ends, (now + life, mask))
        yield mask, free


def links_and_islands(layout: Layout, pick: Pick) -> tuple[float, float]:
    """The mean worth of a link inside the sets of several GPUs, and of the islands of four that stay free."""
    links, fours = [], []
    for mask, free in stream(layout, pick):
        count = mask.bit_count()
        fours.append(islands(layout, free)[2])
        if count > 1:
            links.append(worth(layout, mask) / (count * (count - 1) / 2))
    return mean(links), mean(fours)


# --- Showing


def main() -> None:
    print(f"{'machine':22}{'first':>10}{'new p50':>10}{'new max':>10}{'known':>10}{'new / known':>13}")
    for name, layout in machines().items():
        first, new, slowest, again = measure(layout)
        late = "  over target" if again > KNOWN_TARGET or (new > NEW_TARGET and len(layout.gpus) <= 8) else ""
        times = (
            f"{first * 1e3:7.2f} ms{new * 1e3:7.3f} ms{slowest * 1e3:7.2f} ms{again * 1e6:7.2f} µs{new / again:13,.0f}"
        )
        print(f"{name:22}{times}{late}")
    print(f"\ntargets: new {NEW_TARGET * 1e3:g} ms with up to 8 GPUs, known {KNOWN_TARGET * 1e6:g} µs")
    print(f"\n{JOBS:,} jobs of 1 to 4 GPUs; links inside their sets and free islands of four, lowest indices = 1")
    print(f"{'machine':22}{'':>10}{'greedy':>10}{'ours':>10}")
    for name, layout in machines().items():
        if len(layout.gpus) > 8:
            continue
        plain, *others = (links_and_islands(layout, pick) for pick in (lowest, greedy, ours))
        for word, base, (his, own) in zip(("links", "fours"), plain, zip(*others, strict=True), strict=True):
            ratios = "".join(f"{value / base:10.2f}" if base else f"{'–':>10}" for value in (his, own))
            print(f"{name if word == 'links' else '':22}{word:>10}{ratios}")


if __name__ == "__main__":
    main()
