"""Claims for devices and the devices themselves, as tables that keep count of what is in use.

What was decided counts before it is written. Old news of a claim may still arrive then: it does not take the devices
back. They are the claim's until the server says what it has, or until whoever decided withdraws it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from kubenexus.common.objects import PodView, ResourceClaimView, ResourceSliceView
from kubenexus.scheduler.dra import Grant, Held, InUse, Inventory, PoolId
from kubenexus.scheduler.engine.changes import ChangeLog
from kubenexus.scheduler.engine.table import Table


class Granted(NamedTuple):
    """What a claim is given; `unready` are those of its devices that their driver prepares before a pod is bound."""

    grant: Grant
    unready: tuple[str, ...] = ()

    def given_to(self, claim: ResourceClaimView) -> ResourceClaimView:
        """The claim as it is once that is written."""
        return replace(claim, allocation=self.grant.allocation, unready=self.unready)


class Claims(Table[ResourceClaimView]):
    """ResourceClaims by `namespace/name`."""

    def __init__(self) -> None:
        super().__init__()
        self.in_use = InUse()
        self.pools = ChangeLog[PoolId]()
        """those of which devices were taken or given back"""
        self._granted: dict[str, tuple[str, Granted]] = {}
        """with the uid of the claim"""

    def set(self, key: str, value: ResourceClaimView) -> None:
        uid, granted = self._granted.get(key, ("", None))
        if granted is not None and value.allocation is None and value.meta.uid == uid:
            value = granted.given_to(value)
        else:
            self._granted.pop(key, None)
        self._keep(key, value)

    def remove(self, key: str) -> None:
        self._granted.pop(key, None)
        self._hold(key, ())
        super().remove(key)

    def of(self, pod: PodView) -> Iterator[ResourceClaimView]:
        """The claims of a pod that are there."""
        for name in dict.fromkeys(one.claim for one in pod.resource_claims):
            if (claim := self.get(f"{pod.namespace}/{name}")) is not None:
                yield claim

    def wanting(self, pod: PodView) -> tuple[ResourceClaimView, ...]:
        """Those of a pod's claims that have no devices."""
        return tuple(claim for claim in self.of(pod) if claim.allocation is None)

    def grant(self, key: str, granted: Granted) -> None:
        """A claim that has no devices has these from now on, though nobody has written it yet."""
        claim = self[key]
        self._granted[key] = claim.meta.uid, granted
        self._keep(key, granted.given_to(claim))

    def unwritten(self, key: str) -> Grant | None:
        """What a claim was given, if the server does not say so yet: whoever uses the claim first writes it."""
        _, granted = self._granted.get(key, ("", None))
        return None if granted is None else granted.grant

    def withdraw(self, key: str, granted: Granted) -> None:
        """It was not written after all, unless the server says otherwise by now."""
        known = self._granted.get(key)
        if known is not None and known[1] is granted:
            del self._granted[key]
            self._keep(key, replace(self[key], allocation=None, unready=()))

    def _keep(self, key: str, value: ResourceClaimView) -> None:
        self._hold(key, value.allocation.devices if value.allocation else ())
        super().set(key, value)

    def _hold(self, key: str, devices: Held) -> None:
        before = self.in_use.hold(key, devices)
        if before != devices:
            for pool in {PoolId(one.driver, one.pool) for one in (*before, *devices)}:
                self.pools.add(pool)


class Slices(Table[ResourceSliceView]):
    """ResourceSlices by name."""

    def __init__(self) -> None:
        super().__init__()
        self.inventory = Inventory()

    def set(self, key: str, value: ResourceSliceView) -> None:
        self.inventory.set(value)
        super().set(key, value)

    def remove(self, key: str) -> None:
        self.inventory.remove(key)
        super().remove(key)
