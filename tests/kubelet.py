"""How a kubelet's topology manager makes up its mind: a model to hold our choices against.

Hint providers (CPUs, devices, memory) say which sets of NUMA nodes would do for what they manage, and which of these
they prefer; the manager merges one hint of each into the best common one. Its policies `restricted` and
`single-numa-node` admit a pod only if the result is preferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

from kubenexus.scheduler.devices.ask import Ask, Part
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


def _hints(
    places: range, whole: Sequence[int], left: Sequence[int], wanted: int, spare: Sequence[int] = ()
) -> list[Hint]:
    """The sets with enough left, those of the smallest size that could ever do being preferred.

    What init containers had is spare: it is to be used again, so a set must contain all of it.
    """
    every = [one for size in range(1, len(places) + 1) for one in combinations(places, size)]
    least = min((len(one) for one in every if sum(whole[place] for place in one) >= wanted), default=0)
    spare = spare or [0 for _ in places]
    used = {place for place in places if spare[place]}
    able = [one for one in every if used <= set(one) and sum(left[place] + spare[place] for place in one) >= wanted]
    return [Hint(frozenset(one), len(one) == least) for one in able]


class Admission:
    """A kubelet that admits one pod: it asks its managers for hints, merges them, and gives, container by container or
    once for the pod. It begins with what our account says it has left."""

    def __init__(self, machine: Machine, occupancy: Occupancy) -> None:
        assert machine.kubelet is not None
        assert occupancy.pins is not None
        self.kubelet, self.pins = machine.kubelet, occupancy.pins
        self.places = range(len(machine.zones))
        self.cpus = [left[0] for left in self.pins.left]
        self.gpus = [(zone.gpus & (self.pins.gpus or 0)).bit_count() for zone in machine.zones]
        self.memory = [list(left[1:]) for left in self.pins.left]
        self.whole_cpus = [zone.whole.cpus for zone in machine.zones]
        self.whole_gpus = [zone.whole.gpus for zone in machine.zones]
        self.allocatable = [zone.room[1:] for zone in machine.zones]
        self.spare_cpus, self.spare_gpus = [0 for _ in self.places], [0 for _ in self.places]
        self.spare_memory: dict[Numa, list[int]] = {}
        self.groups = [frozenset(place for place in self.places if mask >> place & 1) for mask in self.pins.groups]
        distances = {place: [far or 0 for far in machine.distances[place]] for place in self.places}
        self.nodes = Nodes(self.places, distances, closest=self.kubelet.closest)

    def admits(self, ask: Ask) -> list[Numa | None] | None:
        """What each part of the pod gets; None if the pod is refused."""
        if any(part.cpus % self.kubelet.threads for part in ask.parts or [ask.whole]):
            return None
        parts = ask.parts if ask.parts and self.kubelet.by_container else (ask.whole,)
        found: list[Numa | None] = []
        for part in parts if self.kubelet.strict else ():
            hint = merge(self._providers(part), self.nodes, self.kubelet.policy)
            if not hint.preferred:
                return None
            hinted = any(self._providers(part))
            found.append((hint.numa or frozenset(self.places)) if hinted else None)
            self._give(part, sorted(hint.numa or self.places))
        return found

    def _providers(self, part: Part) -> list[Provider]:
        cpus = _hints(self.places, self.whole_cpus, self.cpus, part.cpus, self.spare_cpus)
        gpus = _hints(self.places, self.whole_gpus, self.gpus, part.gpus, self.spare_gpus)
        return [
            {"cpu": cpus} if part.cpus and self.kubelet.cpus else None,
            {"gpu": gpus} if part.gpus and any(self.whole_gpus) else None,
            self._memory(part) if self.kubelet.memory else None,
        ]

    def _memory(self, part: Part) -> Provider:
        kinds = [kind for kind, amount in enumerate(part.memory) if amount]
        every = [frozenset(one) for size in self.places for one in combinations(self.places, size + 1)]

        def enough(one: Numa, rows: Sequence[Sequence[int]], more: Sequence[int] = (0, 0, 0)) -> bool:
            return all(sum(rows[place][kind] for place in one) + more[kind] >= part.memory[kind] for kind in kinds)

        least = min((len(one) for one in every if enough(one, self.allocatable)), default=0)
        free = [one for one in every if all(one == group or one.isdisjoint(group) for group in self.groups)]
        able = [one for one in free if enough(one, self.memory, self.spare_memory.get(one, (0, 0, 0)))]
        return {str(kind): [Hint(one, len(one) == least) for one in able] for kind in kinds}

    def _give(self, part: Part, zones: Sequence[int]) -> None:
        for left, spare, wanted in (
            (self.cpus, self.spare_cpus, part.cpus if self.kubelet.cpus else 0),
            (self.gpus, self.spare_gpus, part.gpus if any(self.whole_gpus) else 0),
        ):
            for pool in (spare, left):
                for place in zones:
                    here = min(wanted, pool[place])
                    wanted -= here
                    pool[place] -= 0 if part.passing and pool is spare else here
                    spare[place] += here if part.passing and pool is left else 0
        if self.kubelet.memory and any(part.memory):
            self._give_memory(part, zones)

    def _give_memory(self, part: Part, zones: Sequence[int]) -> None:
        group = frozenset(zones)
        self.groups.append(group)
        spare = self.spare_memory.setdefault(group, [0, 0, 0])
        for kind, amount in enumerate(part.memory):
            again = min(amount, spare[kind])
            rest = amount - again
            for place in zones:
                here = min(rest, self.memory[place][kind])
                self.memory[place][kind] -= here
                rest -= here
            spare[kind] = max(spare[kind], amount) if part.passing else spare[kind] - again
