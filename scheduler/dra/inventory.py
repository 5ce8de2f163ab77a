"""All devices of the cluster, and which of them a node can use. Kept up to date slice by slice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubenexus.common.objects import Reach, ResourceSliceView
from kubenexus.scheduler.dra.pools import Device, NodePool, PoolId, Slice, build_pool


@dataclass(frozen=True, slots=True, eq=False)
class Reachable:
    """What a node can use: the same object until a slice that concerns the node, or the node's labels, change.

    `devices` are those that may be given away, in the order in which they are tried. `problem` says why nothing can
    be said about the node at all.
    """

    pools: tuple[NodePool, ...]
    devices: tuple[Device, ...]
    alike: bool
    """whether nodes with like devices have like answers: all devices are plain, and no pool has a problem"""
    problem: str = ""

    def pool(self, wanted: PoolId) -> NodePool:
        return next(pool for pool in self.pools if pool.id == wanted)


class Inventory:
    """The slices of the cluster by name."""

    def __init__(self) -> None:
        self._slices: dict[str, Slice] = {}
        self._local: dict[str, dict[str, Slice]] = {}
        self._shared: dict[str, Slice] = {}
        self._pools: dict[PoolId, dict[str, Slice]] = {}
        self._reachable: dict[str, tuple[Mapping[str, str], Reachable]] = {}
        self.version = 0
        """grows with every change"""

    def set(self, view: ResourceSliceView) -> None:
        """A slice came or changed."""
        known = self._slices.get(view.name)
        if known is not None and known.view == view:
            return
        self.remove(view.name)
        made = self._slices[view.name] = Slice(view)
        self._home(made)[view.name] = made
        self._pools.setdefault(made.pool, {})[view.name] = made
        self._forget(made)

    def remove(self, name: str) -> None:
        """A slice went, if it was there."""
        known = self._slices.pop(name, None)
        if known is None:
            return
        self._forget(known)
        del self._home(known)[name], self._pools[known.pool][name]

    def reachable(self, name: str, labels: Mapping[str, str]) -> Reachable:
        """What a node can use."""
        known = self._reachable.get(name)
        if known is not None and (known[0] is labels or known[0] == labels):
            return known[1]
        found = self._gather(name, labels)
        self._reachable[name] = labels, found
        return found

    def _home(self, one: Slice) -> dict[str, Slice]:
        return self._local.setdefault(one.local, {}) if one.local else self._shared

    def _forget(self, changed: Slice) -> None:
        """Drop what is kept of nodes that the change of a slice may concern: all that slices of its pool are for."""
        self.version += 1
        homes = {one.local for one in self._pools[changed.pool].values()} | {changed.local}
        if "" in homes:
            self._reachable.clear()
        for home in homes:
            self._reachable.pop(home, None)

    def _gather(self, name: str, labels: Mapping[str, str]) -> Reachable:
        candidates = [*self._local.get(name, {}).values(), *self._shared.values()]
        for one in candidates:
            if problem := _unreadable(one):
                return Reachable((), (), alike=False, problem=problem)
        newest: dict[PoolId, list[Slice]] = {}
        for one in candidates:
            if one.concerns(name, labels):
                _add(newest, one)
        built = (self._build(slices, name, labels) for slices in newest.values())
        pools = sorted((pool for pool in built if pool is not None), key=lambda pool: (pool.conditional, pool.id))
        devices = tuple(device for pool in pools for device in pool.devices)
        alike = all(device.plain for device in devices) and not any(pool.problem for pool in pools)
        return Reachable(tuple(pools), devices, alike)

    def _build(self, slices: list[Slice], name: str, labels: Mapping[str, str]) -> NodePool | None:
        """The pool of these slices of one generation; None if a newer one has nothing for the node any more."""
        pool = slices[0].view.pool
        if len(slices) == pool.slices:
            return build_pool(slices, slices, name, labels)
        everything = self._pools[slices[0].pool].values()
        if any(one.view.pool.generation > pool.generation for one in everything):
            return None
        same = [one for one in everything if one.view.pool.generation == pool.generation]
        return build_pool(slices, same, name, labels)


def _add(newest: dict[PoolId, list[Slice]], one: Slice) -> None:
    slices = newest.setdefault(one.pool, [])
    if slices and one.view.pool.generation > slices[0].view.pool.generation:
        slices.clear()
    if not slices or one.view.pool.generation == slices[0].view.pool.generation:
        slices.append(one)


def _unreadable(one: Slice) -> str:
    """What is wrong with the node selectors of a slice; nobody can say whom it concerns then."""
    reaches: Iterable[Reach] = [device.reach for device in one.devices] if one.view.per_device else [one.view.reach]
    selectors = (reach.selector for reach in reaches)
    errors = (error for selector in selectors if selector is not None for error in selector.errors)
    error = next(errors, "")
    return f"the ResourceSlice {one.view.name} has a node selector that cannot be read: {error}" if error else ""
