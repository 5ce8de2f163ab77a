"""Room held for pods that do not exist yet: a Spark driver starts only if its executors will have room, too.

What is held is booked by placeholders, so that every plugin counts it. They give way to the pods that they stand for,
and are gone when these have come, when the pod that they were held for is gone, or when their time is over. Nothing of
this is written down anywhere: after a restart it is held anew, from the drivers that run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kubenexus.common.gangs import GangKey, Reservation
from kubenexus.common.objects import Labels, PodView, Usage
from kubenexus.scheduler.engine.state import CPU, MEMORY, State

LONGEST: Final = 600.0
"""seconds that room is held"""
_PREFIX: Final = "held-room/"
# What a pod is taken to need whose maker does not say.
_USUAL: Final = {CPU: 1000, MEMORY: 750_000_000}


def is_placeholder(pod: PodView) -> bool:
    return pod.uid.startswith(_PREFIX)


def placeholders(driver: PodView, reservation: Reservation, count: int) -> tuple[PodView, ...]:
    """Pods that book room where the driver's own rules let it go, each as large as reserved."""
    requests = {**_USUAL, **reservation.requests}
    usage = Usage(requests, requests[CPU], requests[MEMORY])
    needs = replace(driver.spec.needs, usage=usage, exclusive_cpus=0)
    spec = replace(driver.spec, key=driver.spec.key + repr(sorted(requests.items())).encode(), needs=needs)
    bare = driver._replace(
        node="", phase="Pending", labels=Labels(), annotations=Labels(), owner=None, volume_claims=()
    )
    alike = bare._replace(spec=spec, usage=usage)
    return tuple(
        alike._replace(uid=f"{_PREFIX}{driver.uid}/{number}", name=f"{driver.name}-held-{number}")
        for number in range(count)
    )


@dataclass(slots=True)
class _Hold:
    driver: str
    until: float
    uids: list[str]


class Holds:
    """What is held, by the gang that it is held for."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._holds: dict[GangKey, _Hold] = {}

    def of(self, gang: GangKey) -> tuple[str, ...]:
        """The placeholders that stand for members of this gang."""
        hold = self._holds.get(gang)
        return () if hold is None else tuple(hold.uids)

    def keep(self, gang: GangKey, driver: str, uids: tuple[str, ...], now: float) -> None:
        """These placeholders are booked for the gang from now on."""
        if uids:
            self._holds[gang] = _Hold(driver, now + LONGEST, list(uids))

    def settle(self, gang: GangKey, members: int) -> bool:
        """So many members of the gang have got their places: as many placeholders go. Whether room became free."""
        hold = self._holds.get(gang)
        if hold is None:
            return False
        going, hold.uids = hold.uids[:members], hold.uids[members:]
        freed = [uid for uid in going if self._state.home(uid) is not None]
        for uid in freed:
            self._state.remove(uid)
        if not hold.uids:
            del self._holds[gang]
        return bool(freed)

    def release(self, driver: str) -> bool:
        """The pod that room was held for is gone. Whether room became free."""
        return self._drop([gang for gang, hold in self._holds.items() if hold.driver == driver])

    def expire(self, now: float) -> bool:
        """Give up what was held too long. Whether room became free."""
        return self._drop([gang for gang, hold in self._holds.items() if hold.until <= now])

    def due(self) -> float | None:
        return min((hold.until for hold in self._holds.values()), default=None)

    def _drop(self, gangs: list[GangKey]) -> bool:
        freed = [self.settle(gang, len(self._holds[gang].uids)) for gang in gangs]
        return any(freed)
