"""Room held for pods that do not exist yet, or that were to be bound and could not be.

A Spark driver starts only if its executors will have room, too. A gang of which some members are bound keeps what it
gave the others, or somebody else would take it and the gang would run by halves.

What is held is booked by placeholders, so that every plugin counts it. They give way to the pods that they stand for,
and are gone when these have come, when the pod that they were held for is gone, or when their time is over. Nothing of
this is written down anywhere: after a restart it is held anew, from the drivers that run; gangs of which a part runs
are then tried before others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from kubenexus.common.gangs import GangKey, Reservation
from kubenexus.common.objects import Labels, PodSpecView, PodView, Usage
from kubenexus.scheduler.engine.footprints import CPU, MEMORY
from kubenexus.scheduler.engine.state import State

LONGEST: Final = 600.0
"""seconds that room is held"""
_PREFIX: Final = "held-room/"
# There is no pod to evict behind a placeholder; whoever wants its room may evict the pod that it is held for.
_HIGHEST: Final = 2**31 - 1
# What a pod is taken to need whose maker does not say.
_USUAL: Final = {CPU: 1000, MEMORY: 750_000_000}


def is_placeholder(pod: PodView) -> bool:
    return pod.uid.startswith(_PREFIX)


def placeholders(driver: PodView, reservation: Reservation, count: int) -> tuple[PodView, ...]:
    """Pods that book room where the driver's own rules let it go, each as large as reserved."""
    requests = {**_USUAL, **reservation.requests}
    usage = Usage(requests, requests[CPU], requests[MEMORY])
    needs = replace(driver.spec.needs, usage=usage, exclusive_cpus=0)
    key = driver.spec.key + repr(sorted(requests.items())).encode()
    spec = _firm(replace(driver.spec, key=key, needs=needs))
    bare = driver._replace(
        node="", phase="Pending", labels=Labels(), annotations=Labels(), owner=None, volume_claims=()
    )
    alike = bare._replace(spec=spec, usage=usage)
    return tuple(
        alike._replace(uid=f"{_PREFIX}{driver.uid}/{number}", name=f"{driver.name}-held-{number}")
        for number in range(count)
    )


def _firm(spec: PodSpecView) -> PodSpecView:
    """The same, but nobody can evict such a pod. The key tells it from the template's own."""
    return replace(spec, key=spec.key + b" held", priority=_HIGHEST)


def stand_in_of(uid: str) -> str:
    """The uid of the placeholder that stands where a pod was to be bound."""
    return f"{_PREFIX}{uid}"


class _Hold(NamedTuple):
    """What a placeholder is booked for: it goes with the pod `owner`, and at the latest at a time."""

    owner: str
    until: float


class Holds:
    """What is held, by the gang that it is held for."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._holds: dict[GangKey, dict[str, _Hold]] = {}

    def of(self, gang: GangKey) -> tuple[str, ...]:
        """The placeholders that stand for members of this gang."""
        return tuple(self._holds.get(gang, ()))

    def keep(self, gang: GangKey, owner: str, uids: Iterable[str], now: float) -> None:
        """These placeholders are booked for the gang from now on, for as long as the pod `owner` is there."""
        for uid in uids:
            self._holds.setdefault(gang, {})[uid] = _Hold(owner, now + LONGEST)

    def keep_place(self, gang: GangKey, pod: PodView, node: str, now: float) -> None:
        """A member was to be bound there, which failed: what it was given stays its own until it is placed again."""
        uid = stand_in_of(pod.uid)
        self._state.place(pod._replace(uid=uid, spec=_firm(pod.spec)), node)
        self.keep(gang, pod.uid, [uid], now)

    def drop(self, gang: GangKey, uids: Iterable[str]) -> bool:
        """These placeholders are not needed any more. Whether room became free."""
        holds = self._holds.get(gang, {})
        freed = False
        for uid in uids:
            if holds.pop(uid, None) is not None and self._state.home(uid) is not None:
                self._state.remove(uid)
                freed = True
        if not holds:
            self._holds.pop(gang, None)
        return freed

    def release(self, owner: str) -> bool:
        """The pod that room was held for is gone. Whether room became free."""
        return self._drop_where(lambda hold: hold.owner == owner)

    def expire(self, now: float) -> bool:
        """Give up what was held too long. Whether room became free."""
        return self._drop_where(lambda hold: hold.until <= now)

    def due(self) -> float | None:
        return min((hold.until for holds in self._holds.values() for hold in holds.values()), default=None)

    def _drop_where(self, over: Callable[[_Hold], bool]) -> bool:
        found = {gang: [uid for uid, hold in holds.items() if over(hold)] for gang, holds in self._holds.items()}
        freed = [self.drop(gang, uids) for gang, uids in found.items() if uids]
        return any(freed)
