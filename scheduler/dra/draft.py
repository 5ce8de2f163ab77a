"""What a search has chosen so far, on top of what is in use."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

from kubenexus.common.objects.reading import Amounts
from kubenexus.scheduler.dra.ask import Ask, Option
from kubenexus.scheduler.dra.capacity import fits
from kubenexus.scheduler.dra.constraints import Tracker
from kubenexus.scheduler.dra.counters import Counters
from kubenexus.scheduler.dra.in_use import InUse
from kubenexus.scheduler.dra.inventory import Reachable
from kubenexus.scheduler.dra.pools import Device, DeviceId
from kubenexus.scheduler.dra.suits import Suit


class Against(Enum):
    """Why a device that is free cannot be taken."""

    COUNTERS = "counters"
    CONSTRAINTS = "constraints"
    ROOM = "room"


class Taken(NamedTuple):
    """A device that was chosen for an option of a claim's request; `counted` if it drew on counters for it."""

    claim: int
    option: Option
    device: Device
    portion: Amounts | None
    counted: bool


class Draft:
    """The devices chosen so far. They are released in the reverse order of taking."""

    def __init__(self, ask: Ask, reachable: Reachable, in_use: InUse) -> None:
        self._in_use = in_use
        self._whole: dict[DeviceId, list[int]] = {}
        self._shares: dict[DeviceId, list[Amounts]] = {}
        self._counters = Counters(reachable, in_use)
        self._trackers = [tuple(Tracker(one) for one in claim.constraints) for claim in ask.claims]
        self.sizes = [0] * len(ask.claims)
        """devices of each claim"""

    def is_free(self, claim: int, option: Option, device: Device) -> bool:
        """Whether nobody else has a device. An administrator only must not get it twice in one claim."""
        chosen = self._whole.get(device.id)
        if option.request.admin:
            return chosen is None or claim not in chosen
        if chosen or device.id not in self._in_use.taken:
            return not chosen
        # What was given out in shares stays so until they are gone, whatever the slice says now.
        return device.view.shareable and not self._in_use.whole(device.id)

    def is_allowed(self, claim: int, option: Option, device: Device) -> bool:
        """Whether no constraint of the claim is against one more device."""
        return all(tracker.allows(option, device) for tracker in self._trackers[claim])

    def has_room(self, device: Device, wanted: Suit) -> bool:
        """Whether enough is left of a device that is shared."""
        if not wanted.portion:
            return True
        mine = self._shares.get(device.id, ())
        return fits(wanted.portion, device.view.capacity.values(), self._in_use.consumed(device.id), *mine)

    def take(self, claim: int, option: Option, device: Device, wanted: Suit) -> Taken | Against:
        """Choose a device that is free, if nothing is against it."""
        counted = self._must_draw(device)
        if counted and not self._counters.has(device):
            return Against.COUNTERS
        if not self.is_allowed(claim, option, device):
            return Against.CONSTRAINTS
        if not self.has_room(device, wanted):
            return Against.ROOM
        if counted:
            self._counters.take(device)
        for tracker in self._trackers[claim]:
            tracker.add(option, device)
        if device.view.shareable:
            self._shares.setdefault(device.id, []).append(wanted.portion or {})
        else:
            self._whole.setdefault(device.id, []).append(claim)
        self.sizes[claim] += 1
        return Taken(claim, option, device, wanted.portion, counted)

    def release(self, taken: Taken) -> None:
        """Undo the latest `take`."""
        device = taken.device
        chosen: dict[DeviceId, list[Amounts]] | dict[DeviceId, list[int]]
        chosen = self._shares if device.view.shareable else self._whole
        chosen[device.id].pop()
        if not chosen[device.id]:
            del chosen[device.id]
        for tracker in self._trackers[taken.claim]:
            tracker.remove(taken.option)
        if taken.counted:
            self._counters.take(device, -1)
        self.sizes[taken.claim] -= 1

    def state(self, claim: int) -> Hashable:
        """What matters to a claim of the devices that it has itself."""
        return self.sizes[claim], tuple(tracker.state for tracker in self._trackers[claim])

    def _must_draw(self, device: Device) -> bool:
        """Whether a device has to draw on counters. For a shared one, whoever had a share first has drawn for all."""
        shared = device.id in self._shares or self._in_use.shared(device.id)
        return bool(device.view.counters) and not (device.view.shareable and shared)
