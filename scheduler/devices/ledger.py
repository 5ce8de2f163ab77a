"""Who has what of every machine in the cluster, and which place a pod would get on each.

Nodes with equal machines of which the same is taken are of one *kind*: a question is answered once for all of them.
What is taken of a node is counted when somebody asks, and again after a pod or the node changed; so ordinary pods cost
nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kubenexus.common import vocabulary as v
from kubenexus.common.objects import NodeView, PodView
from kubenexus.common.wire import Given
from kubenexus.scheduler.devices.ask import Ask, gang_of, gpus_of
from kubenexus.scheduler.devices.fit import Fit, Refused, fit
from kubenexus.scheduler.devices.machine import NOTHING, RESOURCES, UNKNOWN, Amounts, Machine
from kubenexus.scheduler.devices.occupancy import Occupancy, occupy
from kubenexus.scheduler.devices.residents import (
    Needs,
    Resident,
    isolated,
    missed,
    needs_of,
    numa_of,
    resident,
)
from kubenexus.scheduler.devices.sources import Known, Sources

Kinds = npt.NDArray[np.int32]
Nodes = npt.NDArray[np.intp]
STALE: Final = -1
# Kinds come and go with pods; when there are very many all are forgotten. Asks come from templates.
_MAX_KINDS: Final = 1 << 16
_MAX_SHEETS: Final = 256
_MAX_REMEMBERED: Final = 4096


class Slot(Protocol):
    """One node, and the pods on it."""

    @property
    def view(self) -> NodeView | None: ...
    @property
    def pods(self) -> Mapping[str, PodView]: ...


class Changes(Protocol):
    """Which nodes changed, in order."""

    @property
    def position(self) -> int: ...
    def since(self, position: int, /) -> set[int] | None: ...


class Cluster(Protocol):
    """What the ledger is about. `size` is the number of columns, which may exceed that of the slots."""

    @property
    def slots(self) -> Sequence[Slot]: ...
    @property
    def changes(self) -> Changes: ...
    @property
    def size(self) -> int: ...


class Spot(NamedTuple):
    """A kind of node: its machine and what is taken of it."""

    machine: Machine
    occupancy: Occupancy


class Answers(NamedTuple):
    """What a pod would get on some nodes: `found[which[i]]` on the i-th of them, whose kind is `spots[kinds[i]]`."""

    found: list[Fit | Refused]
    which: Nodes
    spots: list[Spot]
    kinds: Kinds

    def spot(self, number: int) -> Spot:
        return self.spots[int(self.kinds[number])]


class _Sheet:
    """What is known of one ask: answers, each distinct one once, and which of them holds for a kind."""

    def __init__(self) -> None:
        self.found: list[Fit | Refused] = []
        self.of_kind: Kinds = np.zeros(0, dtype=np.int32)
        self._numbers: dict[Fit | Refused, int] = {}

    def grow(self, kinds: int) -> None:
        if len(self.of_kind) < kinds:
            more = np.full(max(kinds, 2 * len(self.of_kind)) - len(self.of_kind), STALE, dtype=np.int32)
            self.of_kind = np.concatenate([self.of_kind, more])

    def set(self, kind: int, answer: Fit | Refused) -> int:
        number = self._numbers.get(answer)
        if number is None:
            number = self._numbers[answer] = len(self.found)
            self.found.append(answer)
        self.of_kind[kind] = number
        return number


_NOWHERE: Final = Spot(UNKNOWN, occupy(UNKNOWN, (), NOTHING, whole_gpus=False))


class Ledger:
    """The machines of a cluster, and what is taken of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.sources = Sources()
        self.misses = 0
        """how many pods a kubelet gave something else than they had been assigned"""
        self._missed: set[str] = set()
        self._cluster = cluster
        self.gpu_resources: tuple[str, ...] = v.GPU_RESOURCES
        """the extended resources that count whole GPUs"""
        self._position = 0
        self._kinds: Kinds = np.zeros(0, dtype=np.int32)
        self._spots: list[Spot] = []
        self._numbers: dict[Spot, int] = {}
        self._sheets: dict[tuple[Ask, Amounts], _Sheet] = {}
        self._taken: dict[int, tuple[PodView, Needs]] = {}

    def recognise(self, gpu_resources: Iterable[str]) -> None:
        """Extended resources that count whole GPUs, besides those that are known already."""
        more = [name for name in gpu_resources if name not in self.gpu_resources]
        if more:
            self.gpu_resources = (*self.gpu_resources, *more)
            self._kinds[:] = STALE
            self._taken.clear()

    # Asking

    def known(self, node: int) -> Known | None:
        """What is known of a node's machine; None if the node is not there."""
        slots = self._cluster.slots
        view = slots[node].view if node < len(slots) else None
        return None if view is None else self.sources.of(view)

    def clique(self, view: NodeView) -> str | None:
        """The NVLink clique of a node, whoever tells it: a fact of nodes that changes with their slices."""
        labels = view.meta.labels
        return self.sources.of(view).clique or labels.get(v.GPU_CLIQUE) or labels.get(v.NVIDIA_CLIQUE) or None

    def spot(self, node: int) -> Spot:
        """The machine of a node, and what is taken of it now."""
        self._refresh()
        return self._spots[self._kind(node)]

    def place(self, ask: Ask, node: int) -> Fit | Refused:
        """What a pod would get on one node."""
        self._refresh()
        return self._place(ask, node)

    def places(self, ask: Ask, nodes: Nodes) -> Answers:
        """What a pod would get on each of these nodes."""
        self._refresh()
        for node in nodes[self._kinds[nodes] == STALE].tolist():
            self._kind(node)
        kinds = self._kinds[nodes]
        if ask.spread is not None:
            found = [self._place(ask, node) for node in nodes.tolist()]
            return Answers(found, np.arange(len(nodes)), self._spots, kinds)
        sheet = self._sheet(ask)
        for number in np.flatnonzero(sheet.of_kind[kinds] == STALE).tolist():
            self._answer(sheet, int(kinds[number]), ask)
        return Answers(*_distinct(sheet.found, sheet.of_kind[kinds]), self._spots, kinds)

    def _place(self, ask: Ask, node: int) -> Fit | Refused:
        kind, members = self._kind(node), self._members(node, ask)
        sheet = self._sheet(ask, members)
        return sheet.found[self._answer(sheet, kind, ask, members)]

    def _sheet(self, ask: Ask, members: Amounts = ()) -> _Sheet:
        sheet = self._sheets.pop((ask, members), None) or _Sheet()
        self._sheets[ask, members] = sheet  # the one asked last is forgotten last
        if len(self._sheets) > _MAX_SHEETS:
            del self._sheets[next(iter(self._sheets))]
        sheet.grow(len(self._spots))
        return sheet

    def _answer(self, sheet: _Sheet, kind: int, ask: Ask, members: Amounts = ()) -> int:
        """The number of an answer in its sheet."""
        known = int(sheet.of_kind[kind])
        return sheet.set(kind, fit(*self._spots[kind], ask, members)) if known == STALE else known

    def _members(self, node: int, ask: Ask) -> Amounts:
        """How many pods of its gang are in each zone of a node, if it cares."""
        known = None if ask.spread is None else self.known(node)
        if known is None:
            return ()
        counts = [0] * len(known.machine.zones)
        for pod in self._cluster.slots[node].pods.values():
            numa = numa_of(pod, known.given(pod))
            if numa and gang_of(pod) == ask.gang:
                for place in known.machine.positions(numa):
                    counts[place] += 1
        return tuple(counts) if any(counts) else ()

    # Counting

    def _refresh(self) -> None:
        """Know which nodes have to be counted again."""
        changes, size = self._cluster.changes, self._cluster.size
        same = len(self._kinds) == size and len(self._spots) < _MAX_KINDS
        if same and self._position == changes.position:
            return
        changed = changes.since(self._position) if same else None
        if changed is None:
            self._kinds = np.full(size, STALE, dtype=np.int32)
            self._spots, self._numbers, self._sheets = [], {}, {}
        for node in changed or ():
            self._kinds[node] = STALE
        self._position = changes.position

    def _kind(self, node: int) -> int:
        kind = int(self._kinds[node])
        if kind == STALE:
            kind = self._number(self._count(node))
            self._kinds[node] = kind
        return kind

    def _number(self, spot: Spot) -> int:
        known = self._numbers.get(spot)
        if known is None:
            known = self._numbers[spot] = len(self._spots)
            self._spots.append(spot)
        return known

    def _count(self, node: int) -> Spot:
        known = self.known(node)
        if known is None or not (known.machine.zones or known.machine.gpus):
            return _NOWHERE
        slot = self._cluster.slots[node]
        managed = bool(known.machine.kubelet and known.machine.kubelet.memory)
        residents: list[Resident] = []
        others: list[Amounts] = []
        for pod in slot.pods.values():
            needs = self._needs(pod)
            given = self._given(pod, known) if known.allocations else None
            one = resident(pod, needs, given, managed_memory=managed)
            if one is None:
                others.append(needs.amounts)
            else:
                residents.append(one)
        shared = tuple(map(sum, zip(*others, strict=True))) if others else NOTHING
        whole = self._whole_gpus(slot, known.machine)
        return Spot(known.machine, occupy(known.machine, residents, shared, whole_gpus=whole))

    def _needs(self, pod: PodView) -> Needs:
        """What a pod takes. Pods of a template share their usage, and so this."""
        known = self._taken.get(id(pod.usage))
        if known is None or known[0].spec.needs is not pod.spec.needs:
            if len(self._taken) >= _MAX_REMEMBERED:
                self._taken.clear()
            # Holding the pod, and with it the usage, whose id nobody else gets.
            known = self._taken[id(pod.usage)] = pod, needs_of(pod, self.gpu_resources)
        return known[1]

    def _given(self, pod: PodView, known: Known) -> Given | None:
        given = known.given(pod)
        if given is not None and pod.uid not in self._missed and missed(pod, given):
            if len(self._missed) >= _MAX_REMEMBERED:
                self._missed.clear()
            self._missed.add(pod.uid)
            self.misses += 1
        return given

    def _whole_gpus(self, slot: Slot, machine: Machine) -> bool:
        """Whether GPUs are given out whole: not if they are shared in time or cut up, so that there seem to be more."""
        if machine.gpus is None or slot.view is None:
            return False
        count = gpus_of(slot.view.allocatable, self.gpu_resources)
        return count <= machine.gpus and bool(machine.layout.gpus or not count)

    # Isolated pods

    def closed(self, pod: PodView, node: int) -> dict[str, int]:
        """What nobody else may have because an isolated pod is on a node: the rest of its NUMA nodes, by resource."""
        known = self.known(node) if isolated(pod) else None
        numa = numa_of(pod, known.given(pod)) if known else ()
        if known is None or not numa:
            return {}
        machine, view = known.machine, self._cluster.slots[node].view
        zones = [machine.zones[place] for place in machine.positions(numa)]
        rest = {name: sum(zone.room[place] for zone in zones) for place, name in enumerate(RESOURCES)}
        gpus = sum(zone.gpus.bit_count() for zone in zones)
        names = [name for name in self.gpu_resources if view and view.allocatable.get(name)][:1]
        rest |= dict.fromkeys(names, gpus)
        left = {name: amount - pod.usage.requests.get(name, 0) for name, amount in rest.items()}
        return {name: amount for name, amount in left.items() if amount > 0}


def _distinct(found: list[Fit | Refused], which: Kinds) -> tuple[list[Fit | Refused], Nodes]:
    """The answers that there are for some nodes, and for each node the place of its own; quicker than sorting."""
    there = np.zeros(len(found), dtype=np.bool_)
    there[which] = True
    return [found[number] for number in np.flatnonzero(there).tolist()], (np.cumsum(there) - 1)[which]
