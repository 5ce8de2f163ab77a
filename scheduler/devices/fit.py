"""Which NUMA nodes and GPUs of a machine a pod gets, or why none: CPU, memory, huge pages and GPUs together. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kubenexus.common.vocabulary import NumaPolicy
from kubenexus.common.wire.kubelet import FULL_CORES
from kubenexus.scheduler.devices.ask import Ask
from kubenexus.scheduler.devices.choose import choose
from kubenexus.scheduler.devices.kubelet import foresee, refused_when_empty, splits_cores
from kubenexus.scheduler.devices.links import bits, mask_of
from kubenexus.scheduler.devices.machine import RESOURCES, Amounts, Machine, cards
from kubenexus.scheduler.devices.occupancy import Occupancy
from kubenexus.scheduler.devices.score import Zones, score
from kubenexus.scheduler.devices.sets import ONE_ZONE, Candidate, Room, best, choice_for, least, room_for


class Fit(NamedTuple):
    """A place on a machine."""

    numa: tuple[int, ...]
    """ids; empty if it is none in particular"""
    gpus: int
    """which; none if that is left to the kubelet"""
    score: int
    """how good the NUMA nodes are, from 0 to 100"""
    quality: int
    """how good the links between the GPUs are, from 0 to 100"""
    machine: Machine
    free: int | None
    """the GPUs that were free there, its own among them; None if nobody can tell"""


class Refused(NamedTuple):
    """No place, and (`hopeless`) none on the empty machine either, or none that anybody could tell."""

    hopeless: bool
    unknown: str = ""
    """what would have to be known"""
    kubelet: str = ""
    """what of the kubelet's settings stands in the way"""
    elsewhere: bool = False
    """it would not refuse the pod, but choose NUMA nodes that the pod must not have"""


def fit(machine: Machine, occupancy: Occupancy, ask: Ask, members: Amounts = ()) -> Fit | Refused:
    """The best place for a pod. `members` is how many pods of its gang are in each zone, empty for none anywhere.

    Of GPUs of several sizes it gets the smallest that will do, unless their links or NUMA nodes are worse.
    """
    found = _fit(machine, occupancy, ask, members)
    if not ask.vram or not isinstance(found, Fit):
        return found
    used = max((machine.vram[index] or 0 for index in bits(found.gpus)), default=0)
    for size in sorted({size for size in machine.vram if size and ask.vram <= size < used}):
        smaller = _fit(machine, occupancy, ask._replace(largest=size), members)
        if isinstance(smaller, Fit) and (len(smaller.numa), -smaller.quality) <= (len(found.numa), -found.quality):
            return smaller
    return found


def _fit(machine: Machine, occupancy: Occupancy, ask: Ask, members: Amounts) -> Fit | Refused:
    if machine.kubelet is not None and ask.heeded and occupancy.pins is not None:
        zones = foresee(machine, occupancy.pins, ask)
        if zones is not None:
            return _as_foreseen(machine, occupancy, ask, members, zones)
    if ask.policy is NumaPolicy.NONE:
        return _anywhere(machine, occupancy, ask)
    if ask.strict and (unknown := unknown_of(machine, occupancy, ask)):
        return Refused(hopeless=True, unknown=unknown)
    room = room_for(machine, occupancy, ask)
    found = best(machine, room, ask, members, _sizes(machine, ask))
    if found is not None:
        return _placed(machine, occupancy, room, ask, members, found)
    if ask.strict:
        return Refused(hopeless=least(machine, ask) is None)
    return _anywhere(machine, occupancy, ask)


def _as_foreseen(machine: Machine, occupancy: Occupancy, ask: Ask, members: Amounts, zones: Zones) -> Fit | Refused:
    """The place that the kubelet will choose, if it is one that the pod may have. There is no better one for it:
    whatever we chose instead, it would be in this one, and the next pod would be placed by a wrong account."""
    if not zones:
        hopeless = refused_when_empty(machine, ask, whole_gpus=occupancy.gpus is not None)
        return Refused(hopeless=hopeless, kubelet=_setting(machine, ask))
    if ask.strict and (unknown := unknown_of(machine, occupancy, ask)):
        return Refused(hopeless=True, unknown=unknown)
    room, is_open = room_for(machine, occupancy, ask), not occupancy.closed & mask_of(zones)
    if not ask.strict and is_open:
        return _placed(machine, occupancy, room, ask, members, (zones, choice_for(machine, room, ask, zones)))
    sizes = _sizes(machine, ask)
    found = best(machine, room, ask, members, sizes, zones) if ask.strict else None
    if found is not None:
        return _placed(machine, occupancy, room, ask, members, found)
    if ask.strict and best(machine, room, ask, members, sizes) is None:
        return Refused(hopeless=least(machine, ask) is None)
    return Refused(hopeless=False, kubelet=_setting(machine, ask), elsewhere=True)


def _placed(machine: Machine, occupancy: Occupancy, room: Room, ask: Ask, members: Amounts, found: Candidate) -> Fit:
    zones, choice = found
    rated = score(machine, room.free, ask, zones, members)
    return Fit(machine.ids(zones), choice.mask, rated, choice.quality, machine, occupancy.gpus)


def _setting(machine: Machine, ask: Ask) -> str:
    kubelet = machine.kubelet
    if kubelet is None:
        return ""
    return f"CPU option {FULL_CORES}" if splits_cores(kubelet, ask) else f"topology policy {kubelet.policy}"


def _anywhere(machine: Machine, occupancy: Occupancy, ask: Ask) -> Fit | Refused:
    """GPUs alone count, wherever they are. Where nobody can tell which are free, that is the kubelet's matter."""
    suited = cards(machine, ask.vram, ask.largest)
    if occupancy.gpus is None and ask.vram and not suited:
        return Refused(hopeless=True, unknown="" if machine.gpus else "GPUs")
    if occupancy.gpus is None or not ask.gpus:
        return Fit((), 0, 0, 0, machine, occupancy.gpus)
    choice = choose(machine.layout, occupancy.gpus & suited, ask.gpus)
    if choice is None:
        return Refused(hopeless=suited.bit_count() < ask.gpus)
    return Fit((), choice.mask, 0, choice.quality, machine, occupancy.gpus)


def unknown_of(machine: Machine, occupancy: Occupancy, ask: Ask) -> str:
    """What is not known of the machine, and would have to be for a strict policy."""
    if not machine.zones:
        return "NUMA nodes"
    if ask.gpus and ask.aligned_gpus and occupancy.gpus is None:
        return "GPUs"
    if ask.gpus and ask.aligned_gpus and machine.layout.gpus and not machine.homes(machine.layout.everything):
        return "GPUs' NUMA nodes"
    wanted = (RESOURCES[place] for place in ask.aligned if ask.amounts[place])
    return next((f"amounts of {name} by NUMA node" for name in wanted if name in machine.unknown), "")


def _sizes(machine: Machine, ask: Ask) -> range:
    """How many NUMA nodes the pod may have."""
    if ask.policy in ONE_ZONE:
        return range(1, 2)
    if ask.policy is NumaPolicy.BEST_EFFORT:
        return range(1, len(machine.zones) + 1)
    smallest = least(machine, ask)
    return range(0) if smallest is None else range(smallest, smallest + 1)
