"""NVLink as NVML tells it, link by link, turned into links between GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kubenexus.agent.discovery.nvml import NvmlGpu, NvmlLink
from kubenexus.agent.discovery.seats import Seat
from kubenexus.common.topology import Health, link_row

# NVML numbers the versions; 2.2 and 3.1 lie between the round ones.
VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
SWITCH = "switch"


def version(gpu: NvmlGpu | None) -> str | None:
    """The version of the links, if they agree."""
    found = {link.version for link in _links(gpu)}
    return VERSIONS.get(found.pop() or 0) if len(found) == 1 else None


def is_switched(seats: Sequence[Seat]) -> bool:
    return any(ends[SWITCH] for ends in _far_ends(seats).values())


def peer_rows(seats: Sequence[Seat]) -> dict[int, str]:
    """For each GPU whose links are known, a digit for every GPU: the links between the two.

    Through a switch every link leads to every peer, so two GPUs have as many as the one with fewer. A lost GPU has
    none.
    """
    ends = _far_ends(seats)

    def links(one: Seat, other: Seat) -> int:
        if one is other or not (one.index in ends and other.index in ends):
            return 0
        here, there = ends[one.index], ends[other.index]
        direct = max(here[other.address or ""], there[one.address or ""])
        return direct + min(here[SWITCH], there[SWITCH])

    return {seat.index: link_row(links(seat, other) for other in seats) for seat in seats if seat.index in ends}


def _far_ends(seats: Sequence[Seat]) -> dict[int, Counter[str]]:
    """For each working GPU whose links are known: how many lead to which address, or to a switch."""
    gpus = {seat.address for seat in seats}
    return {
        seat.index: Counter(end for link in _links(seat.nvml) if (end := _far_end(link, gpus)))
        for seat in seats
        if seat.health is Health.OK and seat.nvml and seat.nvml.links is not None
    }


def _far_end(link: NvmlLink, gpus: set[str | None]) -> str | None:
    """In a virtual machine the switch is out of sight: the far end has neither a kind nor the address of a GPU."""
    if link.remote == SWITCH or (link.remote is None and link.address not in gpus):
        return SWITCH
    return link.address


def _links(gpu: NvmlGpu | None) -> tuple[NvmlLink, ...]:
    return (gpu and gpu.links) or ()
