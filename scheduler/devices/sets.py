"""The sets of NUMA nodes that have room for a pod, and which of them is best. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Final, NamedTuple

from kubenexus.common.vocabulary import NumaPolicy
from kubenexus.scheduler.devices.ask import Ask
from kubenexus.scheduler.devices.choose import Choice, choose
from kubenexus.scheduler.devices.machine import Amounts, Machine, cards
from kubenexus.scheduler.devices.occupancy import Occupancy
from kubenexus.scheduler.devices.score import Zones, company, distance

ONE_ZONE: Final = frozenset((NumaPolicy.SINGLE_NUMA, NumaPolicy.ISOLATED))
MOST_SETS: Final = 1024
"""of one size; where there would be more, only neighbourhoods are looked at"""
_NO_GPUS: Final = Choice(0, 100, 100)
Candidate = tuple[Zones, Choice]
_Key = tuple[float, ...]


class Room(NamedTuple):
    """What a machine has for a pod."""

    open: Zones
    """the zones that it may have"""
    free: tuple[Amounts, ...]
    """by zone; of CPUs only whole ones, if it gets these to itself"""
    gpus: int
    """those that will do"""
    gpus_here: int
    """how many must be in its zones"""


def room_for(machine: Machine, occupancy: Occupancy, ask: Ask) -> Room:
    """What is there for the pod as things are."""
    able = [place for place in _wanted(machine, ask) if not occupancy.closed >> place & 1]
    if ask.policy is not NumaPolicy.ISOLATED:
        return _room(tuple(able), occupancy.free, ask, machine, occupancy.gpus)
    empty = tuple(place for place in able if _can_empty(occupancy, place))
    return _room(empty, occupancy.unheld, ask, machine, occupancy.gpus)


def full_room(machine: Machine, ask: Ask) -> Room:
    """What would be there if the machine were empty."""
    rooms = tuple(zone.room for zone in machine.zones)
    return _room(tuple(_wanted(machine, ask)), rooms, ask, machine, machine.layout.everything)


def _room(able: Zones, free: tuple[Amounts, ...], ask: Ask, machine: Machine, gpus: int | None) -> Room:
    if ask.exclusive:
        free = tuple((left[0] // 1000 * 1000, *left[1:]) for left in free)
    needed = ask.gpus if ask.aligned_gpus and gpus is not None else 0
    return Room(able, free, (gpus or 0) & cards(machine, ask.vram, ask.largest), needed)


def _wanted(machine: Machine, ask: Ask) -> Iterable[int]:
    """The zones that the pod does not avoid; a wish to avoid one is binding if it wants just one."""
    if not ask.away or ask.policy not in ONE_ZONE:
        return range(len(machine.zones))
    return (place for place, zone in enumerate(machine.zones) if zone.id not in ask.away)


def _can_empty(occupancy: Occupancy, place: int) -> bool:
    """Whether nobody has anything of its own there, and all that is shared has room in the other zones."""
    if occupancy.held >> place & 1:
        return False
    others = [left for other, left in enumerate(occupancy.unheld) if other != place]
    return all(amount <= sum(left[resource] for left in others) for resource, amount in enumerate(occupancy.shared))


def holds(machine: Machine, room: Room, ask: Ask, zones: Zones) -> bool:
    """Whether these zones together have all that must come from them."""
    for resource in ask.aligned:
        wanted = ask.amounts[resource]
        if wanted and sum([room.free[place][resource] for place in zones]) < wanted:
            return False
    return (room.gpus & gpus_in(machine, zones)).bit_count() >= room.gpus_here


def gpus_in(machine: Machine, zones: Zones) -> int:
    mask = 0
    for place in zones:
        mask |= machine.zones[place].gpus
    return mask


def sets(machine: Machine, able: Zones, size: int) -> Iterator[Zones]:
    """The sets of so many zones. Of very many only those of neighbours: each zone with the closest to it."""
    if comb(len(able), size) <= MOST_SETS:
        yield from combinations(able, size)
        return
    for place in able:
        row = machine.distances[place]
        nearest = sorted(able, key=lambda other: (other != place, row[other] or 0, other))
        yield tuple(sorted(nearest[:size]))


@lru_cache(maxsize=1 << 14)
def least(machine: Machine, ask: Ask) -> int | None:
    """The smallest number of NUMA nodes of the empty machine that can hold the pod; None if all together cannot."""
    room = full_room(machine, ask)
    sizes = range(1, 2 if ask.policy in ONE_ZONE else len(machine.zones) + 1)
    found = (size for size in sizes if any(holds(machine, room, ask, one) for one in sets(machine, room.open, size)))
    return next(found, None)


def best(
    machine: Machine, room: Room, ask: Ask, members: Amounts, sizes: range, around: Zones = ()
) -> Candidate | None:
    """The best set of one of these sizes that has room and contains certain zones, and the pod's GPUs.

    More zones are better than fewer only if these would tear the GPUs apart.
    """
    torn: list[Candidate] = []
    for size in sizes:
        able = [zones for zones in sets(machine, room.open, size) if holds(machine, room, ask, zones)]
        if around:
            able = [zones for zones in able if set(around) <= set(zones)]
        found = [(zones, choice_for(machine, room, ask, zones)) for zones in able]
        whole = [one for one in found if not _is_torn(machine, one[1])]
        if whole:
            return _first(machine, room, ask, members, whole)
        torn += found
    return _first(machine, room, ask, members, torn) if torn else None


def _first(machine: Machine, room: Room, ask: Ask, members: Amounts, found: list[Candidate]) -> Candidate:
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda one: _key(machine, room, ask, one[0], one[1], members))


def _is_torn(machine: Machine, choice: Choice) -> bool:
    """Whether no island has all of these GPUs."""
    return choice.mask != 0 and all(choice.mask & ~island for island in machine.layout.islands)


def choice_for(machine: Machine, room: Room, ask: Ask, zones: Zones) -> Choice:
    """The pod's GPUs: in its zones, or else anywhere if they need not be there."""
    if not ask.gpus:
        return _NO_GPUS
    near = choose(machine.layout, room.gpus & gpus_in(machine, zones), ask.gpus)
    return near or choose(machine.layout, room.gpus, ask.gpus) or _NO_GPUS


def _key(machine: Machine, room: Room, ask: Ask, zones: Zones, choice: Choice, members: Amounts) -> _Key:
    """What is compared, the smallest being best; the last of it is different for every set."""
    chosen = [machine.zones[place] for place in zones]
    ids = [zone.id for zone in chosen]
    return (
        len(zones),
        len(ask.away.intersection(ids)),
        -company(ask.spread, sum([members[place] for place in zones]) if members else 0),
        -choice.quality,
        (distance(machine, zones) or 0) if ask.distance_weight and len(zones) > 1 else 0,
        -len(ask.near.intersection(ids)),
        (room.gpus & gpus_in(machine, zones)).bit_count(),
        -min([zone.bandwidth or 0 for zone in chosen]) if ask.memory_intensive else 0,
        sum([room.free[place][0] / (machine.zones[place].room[0] or 1) for place in zones]),
        sum([room.free[place][1] / (machine.zones[place].room[1] or 1) for place in zones]),
        -sum([zone.nics for zone in chosen]) if ask.gpus else 0,
        *zones,
    )
