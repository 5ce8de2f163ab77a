"""The search for devices: claim by claim, request by request, device by device, each in its order, as kube-scheduler
does; the first way to satisfy all is taken. It does not recurse, and it ends: after so many steps it gives up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Final

from kubenexus.scheduler.dra.ask import MOST_DEVICES, Ask, NoDevices, Option, Place
from kubenexus.scheduler.dra.draft import Against, Draft, Taken
from kubenexus.scheduler.dra.in_use import InUse
from kubenexus.scheduler.dra.inventory import Reachable
from kubenexus.scheduler.dra.pools import Device
from kubenexus.scheduler.dra.suits import SPENT, Fault, Suit, face, suit

SHORT: Final = "cannot allocate all claims"
INVALID: Final = "invalid resource pools were encountered"
TOO_LONG: Final = NoDevices(
    "the search for devices took too many steps: ask for fewer devices, or with simpler constraints", fatal=True
)
UNFINISHED: Final = NoDevices(
    "looking for devices took too many steps before it came to this node: ask for fewer devices, or with simpler "
    "constraints and selectors",
    fatal=True,
)


class _Stop(Exception):  # noqa: N818
    """Ends the search."""

    def __init__(self, why: NoDevices) -> None:
        super().__init__(why.reason)
        self.why = why


def _wrong(reason: str, where: object = "") -> _Stop:
    return _Stop(NoDevices(reason, fatal=True, where=str(where)))


class _Level:
    """The `nth` device of a request: what was taken, where to look on, and which kinds of device were in vain."""

    __slots__ = ("claim", "futile", "nth", "number", "option", "place", "request", "start", "taken")

    def __init__(self, claim: int, request: int, number: int, option: Option, nth: int = 0, start: int = 0) -> None:
        self.claim = claim
        self.request = request
        self.number = number
        """of the option, among those of the request"""
        self.option = option
        self.nth = nth
        self.start = start
        self.place = -1
        self.taken: Taken | None = None
        self.futile: set[int] = set()


class Search:
    """One search on one node. `steps` is how many it took, each of them some microseconds."""

    def __init__(self, ask: Ask, reachable: Reachable, in_use: InUse, budget: int) -> None:
        self._ask = ask
        self._reachable = reachable
        self._devices = reachable.devices
        self._budget = budget
        self.steps = 0
        self._draft = Draft(ask, reachable, in_use)
        self._all: dict[Option, tuple[int, ...]] = {}
        self._least: list[list[int]] = []
        self._path: list[_Level] = []
        self._hopeless: set[Hashable] = set()
        self._each = 1 + max((len(claim.constraints) for claim in ask.claims), default=0) // 4
        """steps that it takes to look at a device: constraints are looked at with it"""
        self._stuck = False
        """whether it had to go back, so that it is worth looking ahead"""
        self._same_for_all = not any(option.request.admin for option in ask.options)
        """administrators get what others have, so that it matters who has what"""

    def run(self) -> tuple[Place, ...] | NoDevices:
        """Which devices the claims get, or why they cannot have any."""
        try:
            self._prepare()
            if self._walk():
                return tuple(self._places())
        except _Stop as stop:
            return stop.why
        invalid = any(pool.problem and not pool.incomplete for pool in self._reachable.pools)
        return NoDevices(INVALID if invalid else SHORT)

    def _places(self) -> Iterator[Place]:
        for one in self._path:
            assert one.taken is not None, "every level on the path has taken a device"
            yield Place(one.claim, one.option, one.place, one.taken.portion)

    def _walk(self) -> bool:
        level = self._open(0, 0)
        while level is not None:
            if self._advance(level):
                self._path.append(level)
                level = self._after(level)
            elif (level := self._retreat(level)) is None:
                return False
        return True

    def _prepare(self) -> None:
        """Find out which devices "all" are, and how many devices each claim needs at least, from each request on."""
        for option in self._ask.options:
            if option.request.count is None:
                self._all[option] = self._everything(option)
        for claim in self._ask.claims:
            least = [0]
            for options in reversed(claim.requests):
                least.append(least[-1] + min(self._needed(option) for option in options))
            if least[-1] > MOST_DEVICES:
                raise _wrong(f"a claim asks for {least[-1]} devices, and it can have {MOST_DEVICES} at most")
            self._least.append(least[::-1])

    def _everything(self, option: Option) -> tuple[int, ...]:
        unusable = next((pool for pool in self._reachable.pools if pool.problem), None)
        if unusable is not None:
            why = f"a pool cannot be used now: {unusable.problem}"
            raise _wrong(f"the request {option.name} asks for all devices, and {why}", unusable.id)
        found = ((number, self._suit(option, device)) for number, device in enumerate(self._devices))
        return tuple(number for number, one in found if one and self._draft.has_room(self._devices[number], one))

    def _needed(self, option: Option) -> int:
        count = option.request.count
        return len(self._all[option]) if count is None else count

    def _open(self, claim: int, request: int) -> _Level | None:
        """The first device of a request, or of those after it; None when all requests have their devices."""
        while claim < len(self._ask.claims):
            requests = self._ask.claims[claim].requests
            if request < len(requests):
                return _Level(claim, request, 0, requests[request][0])
            claim, request = claim + 1, 0
        return None

    def _after(self, level: _Level) -> _Level | None:
        """What comes after a device that was taken."""
        if level.nth + 1 == self._needed(level.option):
            return self._open(level.claim, level.request + 1)
        return _Level(level.claim, level.request, level.number, level.option, level.nth + 1, level.start)

    def _retreat(self, level: _Level) -> _Level | None:
        """What else can be tried when no device will do: the request's next option, or another device before."""
        options = self._ask.claims[level.claim].requests[level.request]
        if level.nth == 0 and level.number + 1 < len(options):
            return _Level(level.claim, level.request, level.number + 1, options[level.number + 1])
        if level.nth == 0 and self._same_for_all:
            self._hopeless.add(self._state(level))
        if not self._path:
            return None
        self._stuck = True
        before = self._path.pop()
        assert before.taken is not None, "every level on the path has taken a device"
        self._draft.release(before.taken)
        if not before.option.request.admin and not before.taken.device.view.shareable:
            before.futile.add(face(self._ask, before.taken.device))
        return before

    def _advance(self, level: _Level) -> bool:
        """Take the next device that will do. Of all devices, each has to."""
        if level.nth == 0 and not self._may_begin(level):
            return False
        if self._stuck and not self._may_do(level):
            return False
        numbers = self._all.get(level.option)
        stop = len(self._devices) if numbers is None else level.nth + 1
        while level.start < stop:
            level.place = level.start if numbers is None else numbers[level.start]
            level.start += 1
            if self._try(level, self._devices[level.place]):
                return True
        return False

    def _may_begin(self, level: _Level) -> bool:
        """Whether there is something to take, the claim will not get too large, and it was not in vain before."""
        needed = self._needed(level.option)
        later = self._least[level.claim][level.request + 1]
        if not 0 < needed <= MOST_DEVICES - later - self._draft.sizes[level.claim]:
            return False
        return not self._hopeless or level.start > 0 or self._state(level) not in self._hopeless

    def _may_do(self, level: _Level) -> bool:
        """Whether enough devices are left for a request, as far as one can tell of each by itself."""
        if level.option.request.count is None:
            return True
        missing = level.option.request.count - level.nth
        for device in self._devices[level.start :]:
            self._spend(self._each)
            if self._draft.is_free(level.claim, level.option, device) and self._might(level, device):
                missing -= 1
                if not missing:
                    return True
        return False

    def _might(self, level: _Level, device: Device) -> bool:
        if not self._draft.is_allowed(level.claim, level.option, device):
            return False
        return suit(self._ask, level.option, device) is not None

    def _state(self, level: _Level) -> Hashable:
        """What the devices chosen so far leave to a request and those after it: equal when as much is left."""
        self._spend(1 + 2 * len(self._path))
        chosen = Counter[Hashable]()
        for one in self._path:
            assert one.taken is not None, "every level on the path has taken a device"
            device, portion = one.taken.device, one.taken.portion
            if device.view.shareable:
                chosen[device.id, tuple((portion or {}).items())] += 1
            else:
                chosen[face(self._ask, device)] += 1
        return level.claim, level.request, frozenset(chosen.items()), self._draft.state(level.claim)

    def _try(self, level: _Level, device: Device) -> bool:
        self._spend(self._each)
        if not self._draft.is_free(level.claim, level.option, device):
            return False
        # What was in vain with one device is in vain with another that looks the same.
        if level.futile and not device.view.shareable and face(self._ask, device) in level.futile:
            return False
        found = self._suit(level.option, device)
        if found is None or found.tainted:
            return False
        self._spend(len(device.drawn) + len(found.portion or ()))
        taken = self._draft.take(level.claim, level.option, device, found)
        if taken is Against.CONSTRAINTS and level.option.request.count is None:
            raise _wrong(
                f"the request {level.option.name} asks for all devices, and a constraint is against one", device.id
            )
        level.taken = None if isinstance(taken, Against) else taken
        return level.taken is not None

    def _spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self._budget:
            raise _Stop(TOO_LONG)

    def _suit(self, option: Option, device: Device) -> Suit | None:
        found = suit(self._ask, option, device)
        if found is SPENT:
            raise _Stop(UNFINISHED)
        if isinstance(found, Fault):
            raise _wrong(found.reason, device.id)
        return found
