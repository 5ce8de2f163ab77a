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
        """by node, slices for that node alone"""
        self._shared: dict[str, Slice] = {}
        """all others"""
        self._pools: dict[PoolId, dict[str, Slice]] = {}
        self._reachable: dict[str, tuple[Mapping[str, str], Reachable]] = {}

    def set(self, view: ResourceSliceView) -> None:
        """A slice came or changed."""
        known = self._slices.get(view.name)
        if known is not None and known.view == view:
            return
        self.remove(view.name)
        made = self._slices[view.name] = Slice(view)
        self._pools.setdefault(made.pool, {})[view.name] = made
        self._home(made)[view.name] = made
        self._forget(made.pool)

    def remove(self, name: str) -> None:
        """A slice went, if it was there."""
        known = self._slices.pop(name, None)
        if known is None:
            return
        self._forget(known.pool)
        del self._home(known)[name], self._pools[known.pool][name]

    def reachable(self, name: str, labels: Mapping[str, str]) -> Reachable:
        """What a node can use."""
        known = self._reachable.get(name)
        if known is not None and (known[0] is labels or known[0] == labels):
            return known[1]
        found = self._gather(name, labels)
        self._reachable[name] = labels, found
        return found

    def users(self, pool: PoolId) -> frozenset[str] | None:
        """The nodes that may use devices of a pool, so that it may matter to them what is taken from it; None: any."""
        slices = self._pools.get(pool, {}).values()
        names = frozenset(one.view.reach.node for one in slices if not one.view.counters)
        return None if "" in names else names

    def _home(self, one: Slice) -> dict[str, Slice]:
        node = one.view.reach.node
        return self._local.setdefault(node, {}) if node else self._shared

    def _forget(self, changed: PoolId) -> None:
        """Drop what is kept of the nodes that a pool is for; of all, where a selector cannot be read."""
        slices = self._pools[changed].values()
        nodes = {one.view.reach.node for one in slices}
        if any(map(_unreadable, slices)):
            self._reachable.clear()
        elif "" in nodes:
            kept = self._reachable.items()
            nodes = {name for name, (labels, _) in kept if any(one.concerns(name, labels) for one in slices)}
        for node in nodes:
            self._reachable.pop(node, None)

    def _gather(self, name: str, labels: Mapping[str, str]) -> Reachable:
        candidates = [*self._local.get(name, {}).values(), *self._shared.values()]
        problem = next(filter(None, map(_unreadable, candidates)), "")
        if problem:
            return Reachable((), (), alike=False, problem=problem)
        found: dict[PoolId, list[Slice]] = {}
        for one in candidates:
            if one.concerns(name, labels):
                found.setdefault(one.pool, []).append(one)
        built = (self._build(slices, name, labels) for slices in found.values())
        pools = sorted((pool for pool in built if pool is not None), key=lambda pool: (pool.conditional, pool.id))
        devices = tuple(device for pool in pools for device in pool.devices)
        alike = all(device.plain for device in devices) and not any(pool.problem for pool in pools)
        return Reachable(tuple(pools), devices, alike)

    def _build(self, concerned: list[Slice], name: str, labels: Mapping[str, str]) -> NodePool | None:
        """A pool, given its slices for a node; None if a newer generation has none for it any more.

        Counters of a pool are needed wherever it is used.
        """
        everything = self._pools[concerned[0].pool].values()
        relevant = [*concerned, *(one for one in everything if one.view.counters and one not in concerned)]
        newest = max(one.view.pool.generation for one in relevant)
        relevant = [one for one in relevant if one.view.pool.generation == newest]
        if len(relevant) == relevant[0].view.pool.slices:
            return build_pool(relevant, relevant, name, labels)
        if any(one.view.pool.generation > newest for one in everything):
            return None
        return build_pool(relevant, [one for one in everything if one.view.pool.generation == newest], name, labels)


def _unreadable(one: Slice) -> str:
    """What is wrong with the node selectors of a slice; nobody can say whom it concerns then."""
    reaches: Iterable[Reach] = [device.reach for device in one.devices] if one.view.per_device else [one.view.reach]
    selectors = (reach.selector for reach in reaches)
    errors = (error for selector in selectors if selector is not None for error in selector.errors)
    error = next(errors, "")
    return f"the ResourceSlice {one.view.name} has a node selector that cannot be read: {error}" if error else ""
