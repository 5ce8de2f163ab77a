"""Pods that count on a node before the watch says so, with all that they take besides. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kubenexus.scheduler.actions import Astray, Bind, Bound, Prepared, Unbound, Undone
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.engine.plugin import Taken
from kubenexus.scheduler.plugins.dynamic_resources import ClaimDecision
from kubenexus.scheduler.preparing import Ready, readiness

PREPARE_SECONDS: Final = 600.0
"""how long volumes and devices may take to be ready until the pod is tried anew"""


@dataclass(frozen=True, slots=True)
class Assumed:
    """A pod's bind, and what the pod takes besides room."""

    bind: Bind
    taken: tuple[Taken, ...] = ()


class Assumptions:
    """By the pod's uid, from the decision until the watch confirms it or it is forgotten."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pods: dict[str, Assumed] = {}
        self._deadlines: dict[str, float] = {}
        """of pods whose volumes or devices are waited for"""
        self._ending: set[str] = set()
        """pods whose claims are just giving devices back"""
        self._kept: dict[str, tuple[ClaimDecision, ...]] = {}
        """of pods that could not be bound, and keep their devices for the next time"""
        self._unsettled: dict[int, tuple[Bind, ClaimDecision]] = {}
        """by the identity of a bind that is on its way, though its pod went: devices that claims may get"""

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def bind(self, uid: str) -> Bind | None:
        """Where a pod is assumed to be."""
        found = self._pods.get(uid)
        return None if found is None else found.bind

    def add(self, bind: Bind, taken: tuple[Taken, ...]) -> None:
        self._pods[bind.pod.uid] = Assumed(bind, taken)

    def end(self, uid: str) -> None:
        """The pod will not be bound there; it counts there until its claims have given their devices back."""
        self._ending.add(uid)

    def is_ending(self, uids: Iterable[str]) -> bool:
        """Whether one of these pods is about to lose its place."""
        return bool(self._ending) and not self._ending.isdisjoint(uids)

    def confirm(self, uid: str) -> None:
        """The watch tells that the pod is there."""
        for kept in self.kept(uid):  # somebody else has bound it
            kept.forget(self._objects)
        self._drop(uid)

    def kept(self, uid: str) -> tuple[ClaimDecision, ...]:
        """What a pod kept that could not be bound, each once: it is the pod's again, or nobody's."""
        return self._kept.pop(uid, ())

    def forget(self, uid: str) -> None:
        """The pod is not placed any more. Devices that its claims may get just now stay taken until one knows."""
        for kept in self.kept(uid):
            kept.forget(self._objects)
        waits = uid in self._deadlines
        assumed = self._drop(uid)
        for one in reversed(assumed.taken if assumed else ()):
            if not isinstance(one, ClaimDecision):
                one.forget(self._objects)
            elif assumed is not None and not waits:
                self._unsettled[id(assumed.bind)] = assumed.bind, one

    def fail(self, uid: str, *, keep_devices: bool) -> None:
        """The pod was not bound there. What it took is free again, its devices perhaps not."""
        assumed = self._drop(uid)
        for one in reversed(assumed.taken if assumed else ()):
            if keep_devices and isinstance(one, ClaimDecision):
                self._kept[uid] = (one, *self._kept.get(uid, ()))
            else:
                one.forget(self._objects)

    def settle(self, outcome: Bound | Astray | Unbound | Undone | Prepared) -> bool:
        """A bind of a pod that is not assumed there has ended. Whether devices are free that it might have taken.

        If its claims have them by now, the watch tells, and tells when they are given back.
        """
        _, devices = self._unsettled.pop(id(outcome.bind), (None, None))
        if devices is None or not isinstance(outcome, Unbound | Undone):
            return False
        devices.forget(self._objects)
        return True

    def _drop(self, uid: str) -> Assumed | None:
        self._deadlines.pop(uid, None)
        self._ending.discard(uid)
        return self._pods.pop(uid, None)

    # Waiting for volumes and devices

    def wait(self, uid: str, now: float) -> None:
        """What the pod needs is written; now it has to become ready."""
        self._deadlines[uid] = now + PREPARE_SECONDS

    def due(self) -> float | None:
        """When somebody has waited for too long."""
        return min(self._deadlines.values(), default=None)

    def waited(self, now: float) -> Iterator[tuple[Bind, str]]:
        """The binds for which waiting is over; with a reason those that cannot be."""
        for uid, deadline in list(self._deadlines.items()):
            bind = self._pods[uid].bind
            found = readiness(bind, self._objects)
            if found is Ready.NOT_YET and now >= deadline:
                found = f"its volumes and devices were not ready after {PREPARE_SECONDS:.0f} seconds"
            if found is not Ready.NOT_YET:
                del self._deadlines[uid]
                yield bind, "" if found is Ready.YES else str(found)
