"""Places and refusals in words that people understand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kubenexus.common.vocabulary import NumaPolicy
from kubenexus.scheduler.devices.ask import Ask
from kubenexus.scheduler.devices.fit import Refused, unknown_of
from kubenexus.scheduler.devices.kubelet import (
    CPUS,
    GPUS,
    MEMORY,
    Need,
    foresee,
    needs_of,
    sizes_of,
    splits_cores,
)
from kubenexus.scheduler.devices.ledger import Spot
from kubenexus.scheduler.devices.machine import CPU, RESOURCES, Kubelet, Machine, cards
from kubenexus.scheduler.devices.pins import Pins
from kubenexus.scheduler.devices.sets import room_for

_UNITS: Final = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"))


_GIVEN: Final = {CPUS: "CPUs", GPUS: "GPUs", MEMORY: "memory"}


def numa_reason(ask: Ask, refused: Refused) -> str:
    """Why a node has no NUMA nodes for a pod; empty if it does not insist on any, nor does the kubelet."""
    if refused.elsewhere:
        return f"node(s) whose kubelet ({refused.kubelet}) would choose NUMA nodes that the pod must not have"
    if refused.kubelet:
        return f"node(s) whose kubelet ({refused.kubelet}) would refuse the pod"
    if not ask.strict:
        return ""
    whose = f", which policy {ask.policy}{' of its namespace' if ask.inherited else ''} needs"
    if refused.unknown:
        return f"node(s) whose {refused.unknown} are not known{whose}"
    return _no_room(ask, hopeless=refused.hopeless) + (whose if ask.inherited else "")


def _no_room(ask: Ask, *, hopeless: bool) -> str:
    room = f"{'is large enough' if hopeless else 'has room'} for {wanted(ask)}"
    match ask.policy:
        case NumaPolicy.ISOLATED:
            return f"node(s) without a NUMA node{_other_than(ask)} that no other pod uses and that {room}"
        case NumaPolicy.RESTRICTED:
            if hopeless:
                return f"node(s) whose NUMA nodes are together not large enough for {wanted(ask)}"
            return f"node(s) without room for {wanted(ask)} in as few NUMA nodes as possible"
    return f"node(s) without a NUMA node{_other_than(ask)} that {room}"


def _other_than(ask: Ask) -> str:
    """Which NUMA nodes the pod must not have."""
    return f" other than {', '.join(map(str, sorted(ask.away)))} (to be avoided)" if ask.away else ""


def gpu_reason(ask: Ask, refused: Refused) -> str:
    """Why a node has no GPUs for a pod."""
    if refused.unknown:
        return f"node(s) whose {refused.unknown} are not known"
    return f"node(s) without {_gpus(ask, '' if refused.hopeless else 'free ')}"


def _gpus(ask: Ask, free: str = "") -> str:
    size = f" with {amount(ask.vram)} or more each" if ask.vram else ""
    return f"{ask.gpus} {free}GPU{'s' * (ask.gpus > 1)}{size}"


def wanted(ask: Ask) -> str:
    """What must come from the same NUMA nodes."""
    parts = [_piece(RESOURCES[place], ask.amounts[place]) for place in ask.aligned if ask.amounts[place]]
    if ask.gpus and ask.aligned_gpus:
        parts.append(_gpus(ask))
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "the pod"


def numa_detail(spot: Spot, ask: Ask) -> str:
    """`numa 0: 12 of 16 CPUs taken; numa 1: 1 of 2 GPUs free`: what each NUMA node lacks."""
    machine, pins = spot.machine, spot.occupancy.pins
    if ask.strict and unknown_of(*spot, ask):
        return ""
    foreseen = foresee(machine, pins, ask) if pins is not None else None
    if machine.kubelet is not None and pins is not None and foreseen == ():
        return _kubelet_detail(machine, machine.kubelet, pins, ask)
    if foreseen:
        return f"its kubelet would choose numa {', '.join(map(str, machine.ids(foreseen)))}; {_shortages(spot, ask)}"
    return _shortages(spot, ask)


def _shortages(spot: Spot, ask: Ask) -> str:
    return "; ".join(f"numa {zone.id}: {_shortage(spot, ask, place)}" for place, zone in enumerate(spot.machine.zones))


def _kubelet_detail(machine: Machine, kubelet: Kubelet, pins: Pins, ask: Ask) -> str:
    """What stops a kubelet: parts of cores, needs of different sizes, or what each NUMA node lacks in its account."""
    if splits_cores(kubelet, ask):
        return f"it gives out whole cores of {kubelet.threads} CPUs each"
    if kubelet.by_container and ask.parts:
        return "no NUMA nodes are left that would do for each of its containers"
    needs = needs_of(machine, pins, ask.whole)
    sizes = sizes_of(machine, needs)
    if len(set(sizes.values())) > 1:
        parts = (f"{_GIVEN[manager]} take {size or 'more than all'} NUMA node(s)" for manager, size in sizes.items())
        return ", ".join(parts)
    zones = (f"numa {zone.id}: {_untaken(machine, pins, needs, place)}" for place, zone in enumerate(machine.zones))
    return "; ".join(zones)


def _untaken(machine: Machine, pins: Pins, needs: list[Need], place: int) -> str:
    """What a kubelet has too little of in one NUMA node."""
    zone, left = machine.zones[place], pins.left[place]
    for kind, amount, _, _ in needs:
        if kind == GPUS:
            free, size = (zone.gpus & (pins.gpus or 0)).bit_count(), zone.whole.gpus
            if free < amount:
                return _gpus_free(free, size)
        elif kind == CPUS and left[0] < amount:
            return _too_little(CPU, 1000 * amount, zone.room[0], 1000 * left[0])
        elif kind >= MEMORY and left[kind - 1] < amount:
            return _too_little(RESOURCES[kind - 1], amount, zone.room[kind - 1], left[kind - 1])
    return "others have memory of it in another set of NUMA nodes" if pins.groups else "has room"


def gpu_detail(spot: Spot, ask: Ask) -> str:
    """`3 of 8 GPUs free`, or the size of GPUs that are too small."""
    machine, suited = spot.machine, cards(spot.machine, ask.vram)
    if not suited:
        return _too_small(machine)
    return f"{((spot.occupancy.gpus or 0) & suited).bit_count()} of {suited.bit_count()} GPUs free"


def _too_small(machine: Machine) -> str:
    sizes = sorted({size for index in machine.layout.gpus if (size := machine.vram[index]) is not None})
    if sizes:
        return f"its GPUs have {', '.join(map(amount, sizes))}"
    if machine.gpus is None:
        return ""
    return "it does not say how much memory its GPUs have" if machine.layout.gpus else "none can be given out whole"


def account(spot: Spot, resource: str, *, gpus: bool) -> str:
    """Where something that a node has too little of has gone, by NUMA node; empty if nobody knows."""
    machine, occupancy = spot
    if gpus:
        return "" if occupancy.gpus is None else _free_gpus(machine, occupancy.gpus)
    if resource not in RESOURCES or resource in machine.unknown:
        return ""
    place = RESOURCES.index(resource)
    rows = zip(machine.zones, occupancy.free, strict=True)
    return "; ".join(f"numa {zone.id}: {_taken(resource, zone.room[place], free[place])}" for zone, free in rows)


def _free_gpus(machine: Machine, free: int) -> str:
    everything = machine.layout.everything
    if machine.homes(everything) == 0:
        return f"{free.bit_count()} of {everything.bit_count()} GPUs free"
    zones = ((zone.id, zone.gpus) for zone in machine.zones if zone.gpus)
    return "; ".join(f"numa {id_}: {(free & gpus).bit_count()} of {gpus.bit_count()} GPUs free" for id_, gpus in zones)


def _too_little(resource: str, wanted: int, size: int, free: int) -> str:
    return f"only {_piece(resource, size)}" if wanted > size else _taken(resource, size, free)


def _taken(resource: str, size: int, free: int) -> str:
    return f"{_number(resource, size - free)} of {_piece(resource, size)} taken"


def _shortage(spot: Spot, ask: Ask, place: int) -> str:
    machine, occupancy = spot
    if occupancy.closed >> place & 1:
        return "belongs to an isolated pod"
    if machine.zones[place].id in ask.away and ask.policy is not NumaPolicy.RESTRICTED:
        return "to be avoided"
    if ask.policy is NumaPolicy.ISOLATED and occupancy.held >> place & 1:
        return "other pods have CPUs or GPUs there"
    crowded = ask.policy is NumaPolicy.ISOLATED and place not in room_for(*spot, ask).open
    return next(_lacks(spot, ask, place), "what pods share has no room elsewhere" if crowded else "has room")


def _lacks(spot: Spot, ask: Ask, place: int) -> Iterator[str]:
    """What one NUMA node has too little of; for a set of several, what it has."""
    room, full = room_for(*spot, ask), spot.machine.zones[place].room
    for resource in ask.aligned:
        need, free = ask.amounts[resource], spot.occupancy.free[place][resource]
        if need and need > room.free[place][resource]:
            told = _taken if ask.policy is NumaPolicy.RESTRICTED else partial(_too_little, wanted=need)
            yield told(RESOURCES[resource], size=full[resource], free=free)
    here = spot.machine.zones[place].gpus & cards(spot.machine, ask.vram)
    free_gpus = (room.gpus & here).bit_count()
    if free_gpus < room.gpus_here:
        yield _gpus_free(free_gpus, here.bit_count(), ask.vram)


def _gpus_free(free: int, size: int, vram: int = 0) -> str:
    return f"{free} of {size} GPUs free" if size else f"no GPUs{f' with {amount(vram)}' if vram else ''}"


def _piece(resource: str, number: int) -> str:
    if resource == CPU:
        return f"{_number(resource, number)} CPU{'s' * (number != 1000)}"
    return f"{_number(resource, number)} {resource}"


def _number(resource: str, number: int) -> str:
    if resource == CPU:
        return f"{number / 1000:.4g}"
    return amount(number)


def amount(number: int) -> str:
    """Bytes as people write them: `80Gi`."""
    return next((f"{number / size:.4g}{unit}" for size, unit in _UNITS if number >= size), str(number))
