"""How good a set of NUMA nodes is for a pod, and how well it uses the memory of GPUs, from 0 to 100.

Fewer are always better than more. Sets of one size are told apart by how full they become, by the bandwidth that is
left for a pod that needs it, by how far they are from each other, and by the members of the pod's gang.
"""

from __future__ import annotations

from statistics import fmean
from typing import Final

from kubenexus.common.vocabulary import GangNumaSpread
from kubenexus.scheduler.devices.ask import NEUTRAL, Ask
from kubenexus.scheduler.devices.links import bits
from kubenexus.scheduler.devices.machine import CPU, MEMORY, RESOURCES, Amounts, Machine

FULLNESS, BANDWIDTH, CLOSENESS, COMPANY = 40, 25, 20, 15
"""percents of the score"""
LOCAL: Final = 10
"""the distance of a NUMA node from itself"""
PER_STEP: Final = 5
"""points lost for each step of distance beyond, at a neutral weight"""
UNTOLD: Final = 50
"""where there is nothing to go by"""
CPU_AT, MEMORY_AT = RESOURCES.index(CPU), RESOURCES.index(MEMORY)
_SHARES: Final = {CPU_AT: 60, MEMORY_AT: 40}
_PREFERRED: Final = 1.2
# Of a card's memory as much in use as this is worth so much: an exact fit leaves larger cards to those that need them.
_VRAM_SCORES: Final = ((0.95, 100), (0.70, 80), (0.50, 60), (0.30, 30))

Zones = tuple[int, ...]
"""positions of zones, ascending"""


def score(machine: Machine, free: tuple[Amounts, ...], ask: Ask, zones: Zones, members: Amounts) -> int:
    """How good these zones are, with so much free in each."""
    near = sum([members[place] for place in zones]) if members else 0
    share = (
        FULLNESS * fullness(machine, free, ask, zones)
        + BANDWIDTH * bandwidth(machine, free, ask, zones)
        + CLOSENESS * closeness(machine, zones, ask.distance_weight)
        + COMPANY * company(ask.spread, near)
    ) / 100
    if ask.away and any(machine.zones[place].id in ask.away for place in zones):
        share /= 2
    top, bottom = 100 // len(zones), 100 // (len(zones) + 1)
    return int(bottom + (top - bottom) * share / 100)


def fullness(machine: Machine, free: tuple[Amounts, ...], ask: Ask, zones: Zones) -> float:
    """How much of them is in use with the pod: an exact fit is best, since what is left whole serves the next."""
    used = total = 0.0
    for place, share in _SHARES.items():
        if place in ask.aligned:
            used += share * _use(machine, free, zones, place, ask.amounts[place])
            total += share
    found = 100 * used / total if total else UNTOLD
    if ask.near and all(machine.zones[place].id in ask.near for place in zones):
        found *= _PREFERRED
    return min(100.0, found)


def _use(machine: Machine, free: tuple[Amounts, ...], zones: Zones, resource: int, more: int = 0) -> float:
    """The share of a resource that is in use, with so much more."""
    size, left = 0, -more
    for place in zones:
        size += machine.zones[place].room[resource]
        left += free[place][resource]
    return 1 - max(0, left) / size if size else 1.0


def bandwidth(machine: Machine, free: tuple[Amounts, ...], ask: Ask, zones: Zones) -> float:
    """For a pod that lives on it: the memory bandwidth of the slowest, less where others use the memory too."""
    if not ask.memory_intensive:
        return UNTOLD
    known = [zone.bandwidth for zone in machine.zones if zone.bandwidth is not None]
    mine = [found for place in zones if (found := machine.zones[place].bandwidth) is not None]
    if len(mine) < len(zones):
        return UNTOLD
    return 100 * min(mine) / max(known) * (1 - _use(machine, free, zones, MEMORY_AT))


def distance(machine: Machine, zones: Zones) -> float | None:
    """The mean distance between them; None if it is unknown."""
    if len(zones) == 1:
        return LOCAL
    found = [machine.distances[one][other] for one in zones for other in zones if one != other]
    known = [far for far in found if far is not None]
    return None if len(known) < len(found) else fmean(known)


def closeness(machine: Machine, zones: Zones, weight: int = NEUTRAL) -> float:
    """100 for one zone alone, less the further several are from each other."""
    far = distance(machine, zones)
    if far is None:
        return UNTOLD
    return max(0.0, min(100.0, 100 - (far - LOCAL) * PER_STEP * weight / NEUTRAL))


def company(spread: GangNumaSpread | None, members: int) -> int:
    """How welcome a zone is that has so many members of the pod's gang."""
    match spread:
        case GangNumaSpread.PACKED:
            return 100 if members else 20
        case GangNumaSpread.BALANCED:
            return max(0, 100 - 20 * members)
        case GangNumaSpread.ISOLATED:
            return 0 if members else 100
    return UNTOLD


def memory_use(machine: Machine, gpus: int, wanted: int) -> int:
    """How well these cards are used by a pod that wants so much memory of each."""
    return vram_score(wanted, max(machine.vram[index] or 0 for index in bits(gpus)))


def vram_score(wanted: int, card: int) -> int:
    """How well a card of this size is used by a pod that wants so much of it."""
    share = wanted / card if card else 0.0
    return next((score for least, score in _VRAM_SCORES if share >= least), 0)
