"""How a kubelet's topology manager makes up its mind: a model to hold our choices against.

Hint providers (CPUs, devices, memory) say which sets of NUMA nodes would do for what they manage, and which of these
they prefer; the manager merges one hint of each into the best common one. Its policies `restricted` and
`single-numa-node` admit a pod only if the result is preferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

from kubenexus.scheduler.devices.ask import Ask
from kubenexus.scheduler.devices.machine import Machine, cards
from kubenexus.scheduler.devices.occupancy import Occupancy

SINGLE = "single-numa-node"
Numa = frozenset[int]


class Hint(NamedTuple):
    """NUMA nodes that would do; None if any will."""

    numa: Numa | None
    preferred: bool


class Nodes(NamedTuple):
    """The NUMA nodes of a machine, and how far each is from each; `closest` prefers near ones to low ones."""

    ids: Sequence[int]
    distances: Mapping[int, Sequence[int]] = {}
    closest: bool = False

    def rank(self, numa: Numa) -> tuple[float, ...]:
        """Smaller is better: fewer nodes, then closer if that matters, then lower ones."""
        apart = [self.distances[one][other] for one in numa for other in numa] if self.closest else [0]
        return len(numa), sum(apart) / len(apart), sum(1 << number for number in numa)


Provider = Mapping[str, Sequence[Hint] | None] | None


def merge(providers: Iterable[Provider], nodes: Nodes, policy: str) -> Hint:
    """The merged hint."""
    hints = [one for provider in providers for one in _lists(provider)]
    if policy == SINGLE:
        hints = [[one for one in some if one.preferred and (one.numa is None or len(one.numa) == 1)] for some in hints]
    everything = frozenset(nodes.ids)
    enough = max((min(sizes) for some in hints if (sizes := [len(one.numa) for one in some if one.numa])), default=0)
    best: Hint | None = None
    for one in (_common(some, everything) for some in product(*hints)):
        best = _better(best, one, nodes.rank, enough)
    best = best or Hint(everything, preferred=False)
    return Hint(None, best.preferred) if policy == SINGLE and best.numa == everything else best


def _lists(provider: Provider) -> Iterator[Sequence[Hint]]:
    """The hints for each resource: anything will do where none were given, nothing where the list is empty."""
    if not provider:
        yield [Hint(None, preferred=True)]
        return
    for hints in provider.values():
        yield [Hint(None, preferred=True)] if hints is None else hints or [Hint(None, preferred=False)]


def _common(some: Sequence[Hint], everything: Numa) -> Hint:
    sets = [one.numa for one in some if one.numa is not None]
    agreed = all(one == sets[0] for one in sets) and all(one.preferred for one in some)
    return Hint(everything.intersection(*sets), agreed)


def _better(best: Hint | None, new: Hint, rank: Callable[[Numa], tuple[float, ...]], enough: int) -> Hint | None:
    """Which of two merged hints is better; of those that nobody prefers, one as large as the neediest provider."""
    if not new.numa or best is None or best.numa is None:
        return new if new.numa else best
    if best.preferred != new.preferred:
        return new if new.preferred else best
    had, has = len(best.numa), len(new.numa)
    narrower = new if rank(new.numa) < rank(best.numa) else best
    if best.preferred or had > enough:
        return narrower
    if had == enough or has > enough:
        return narrower if had == has else best
    return narrower if had == has else new if has > had else best


def admits(machine: Machine, occupancy: Occupancy, ask: Ask, policy: str) -> bool:
    """Whether a kubelet with this policy would take a pod onto a machine of which so much is taken."""
    places = range(len(machine.zones))
    suited = cards(machine, ask.vram)
    whole = [zone.room[0] // 1000 for zone in machine.zones]
    left = [free[0] // 1000 for free in occupancy.free]
    gpus = [(zone.gpus & suited).bit_count() for zone in machine.zones]
    free_gpus = [(zone.gpus & suited & (occupancy.gpus or 0)).bit_count() for zone in machine.zones]
    providers: list[Provider] = [
        {"cpu": _hints(places, whole, left, ask.exclusive)} if ask.exclusive else None,
        {"gpu": _hints(places, gpus, free_gpus, ask.gpus)} if ask.gpus else None,
    ]
    return merge(providers, Nodes(places), policy).preferred


def _hints(places: range, whole: Sequence[int], left: Sequence[int], wanted: int) -> list[Hint]:
    """The sets with enough left, those of the smallest size that could ever do being preferred."""
    every = [one for size in range(1, len(places) + 1) for one in combinations(places, size)]
    least = min((len(one) for one in every if sum(whole[place] for place in one) >= wanted), default=0)
    able = [one for one in every if sum(left[place] for place in one) >= wanted]
    return [Hint(frozenset(one), len(one) == least) for one in able]
