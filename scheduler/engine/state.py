"""What the cluster looks like, as columns: one per node, all nodes in every array.

A node that is deleted while pods still name it stays as a ghost: not `alive`, but its usage counts should it return.
Its column is given to another node once the last pod is gone. Every pod that has a node counts, whoever put it there,
from the moment we decide so.

Inside `checkpoint` … `rollback` pods can be placed and removed for a trial; the undo log brings everything back.
`validate` recomputes all of it from the views and compares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import numpy.typing as npt

from kubenexus.common.objects import Labels, NodeView, PodView, Usage
from kubenexus.scheduler.devices.ledger import Ledger
from kubenexus.scheduler.devices.sources import NodeSlice
from kubenexus.scheduler.dra import Allocator
from kubenexus.scheduler.engine.carried import CarriedTerms
from kubenexus.scheduler.engine.changes import ChangeLog
from kubenexus.scheduler.engine.counts import Counts, PodCounts, Question, kind_of
from kubenexus.scheduler.engine.domains import Totals
from kubenexus.scheduler.engine.facts import ImageIndex, NodeFacts
from kubenexus.scheduler.engine.footprints import CPU, MEMORY, PODS, SCORED_CPU, SCORED_MEMORY, Amounts, Footprints
from kubenexus.scheduler.engine.labels import LabelIndex, Mask
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.engine.waiting import Waiting

_FIRST_SIZE = 64


@dataclass(slots=True)
class NodeSlot:
    """What belongs to one node and is no number."""

    name: str
    view: NodeView | None = None
    pods: dict[str, PodView] = field(default_factory=dict)


class State:
    """The columns, and the only way to change them."""

    def __init__(self) -> None:
        self.slots: list[NodeSlot] = []
        self.labels = LabelIndex()
        self.facts = NodeFacts()
        self.images = ImageIndex()
        self.namespaces: dict[str, Labels] = {}
        self.objects = Objects()
        """what else plugins look up: volumes, claims, services, budgets"""
        self.devices = Ledger(self)
        """the NUMA nodes and GPUs of every node, and who has them"""
        objects = self.objects
        self.allocator = Allocator(objects.slices.inventory, objects.claims.in_use, objects.device_classes)
        """finds devices for claims"""
        self.waiting = Waiting()
        """what pods ask for that are in no column yet"""
        self.alive: Mask = np.zeros(0, dtype=np.bool_)
        self.alloc: Amounts = np.zeros((0, 0), dtype=np.int64)
        self.used: Amounts = np.zeros((0, 0), dtype=np.int64)
        self.tie: npt.NDArray[np.uint32] = np.zeros(0, dtype=np.uint32)
        """an even number per node that breaks ties, the same on every machine"""
        self.changes = ChangeLog[int]()
        """nodes whose columns changed"""
        self.nodes_version = 0
        """grows when a node comes, changes or goes"""
        self._index: dict[str, int] = {}
        self._free: list[int] = []
        self._rows: dict[str, int] = {}
        self._homes: dict[str, int] = {}
        self._closed: dict[str, dict[int, int]] = {}
        """by uid and row, what isolated pods keep others from"""
        self._counts = PodCounts()
        self._undo: list[tuple[int, PodView, int]] = []
        self._trials = 0
        self._emptied: set[int] = set()
        self._footprints = Footprints(self.row)
        self._grow(_FIRST_SIZE)
        for resource in (PODS, CPU, MEMORY, SCORED_CPU, SCORED_MEMORY):
            self.row(resource)

    # Looking

    @property
    def size(self) -> int:
        """Columns in every array, unused ones included."""
        return len(self.alive)

    def index(self, name: str) -> int | None:
        """The column of a node that is there now."""
        found = self._index.get(name)
        return found if found is not None and self.alive[found] else None

    def name(self, node: int) -> str:
        return self.slots[node].name

    def node(self, node: int) -> NodeView:
        view = self.slots[node].view
        assert view is not None, "only live nodes have a view"
        return view

    def live(self) -> Iterator[int]:
        return (int(node) for node in np.flatnonzero(self.alive))

    def row(self, resource: str) -> int:
        """The row of a resource in `alloc` and `used`; a new one has none of it anywhere."""
        known = self._rows.get(resource)
        if known is None:
            known = self._rows[resource] = len(self._rows)
            self._footprints.clear()
            empty = np.zeros((1, self.size), dtype=np.int64)
            self.alloc, self.used = np.concatenate([self.alloc, empty]), np.concatenate([self.used, empty])
            for node, slot in enumerate(self.slots):
                if slot.view is not None:
                    self.alloc[known, node] = slot.view.allocatable.get(resource, 0)
        return known

    def resource(self, row: int) -> str:
        """The resource that a row is about."""
        return next(name for name, known in self._rows.items() if known == row)

    def pods(self) -> Iterator[tuple[PodView, int]]:
        """Every pod that has a node, with it."""
        return ((pod, node) for node, slot in enumerate(self.slots) for pod in slot.pods.values())

    def home(self, uid: str) -> int | None:
        """The column of the node that a pod is on."""
        return self._homes.get(uid)

    def count(self, question: Question) -> Counts:
        """How many pods count on each node; kept up to date from now on. Read it, do not write to it."""
        return self._counts.ask(question)

    def totals(self, question: Question, key: str) -> Totals:
        """How many pods count in each domain of a label (see `Domains`); kept up to date, too. Only to be read."""
        return self._counts.ask_totals(question, key, self.labels.column(key).domains)

    @property
    def carried(self) -> CarriedTerms:
        """The affinity terms of all pods that have a node."""
        return self._counts.carried

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        return self.namespaces.get(namespace, {})

    # Changing

    def set_node(self, view: NodeView) -> int:
        """A node came or changed."""
        node = self._slot(view.meta.name)
        self.slots[node].view = view
        self.alive[node] = True
        for resource in view.allocatable:
            self.row(resource)
        for resource, row in self._rows.items():
            self.alloc[row, node] = view.allocatable.get(resource, 0)
        self.labels.set(node, view.meta.name, view.meta.labels)
        self.facts.set(node, view)
        self.images.set(node, view.images)
        self.objects.note_kubelet(view.meta.name, view.meta.labels)
        self._node_changed(node)
        return node

    def remove_node(self, name: str) -> None:
        node = self._index.get(name)
        if node is None:
            return
        self.slots[node].view = None
        self.alive[node] = False
        self.alloc[:, node] = 0
        self.labels.set(node, name, None)
        self.facts.set(node, None)
        self.images.set(node, ())
        self.objects.note_kubelet(name, {})
        self._node_changed(node)
        self._release(node)

    def set_slice(self, key: str, found: NodeSlice | None) -> None:
        """A ResourceSlice came, changed or (None) went."""
        for name in self.devices.sources.set_slice(key, found):
            if (node := self._index.get(name)) is not None:
                self.facts.set(node, self.slots[node].view)
                self._node_changed(node)

    def set_namespace(self, name: str, labels: Labels | None) -> None:
        """A namespace came, changed or (None) went. Questions about namespaces' labels start anew."""
        if self.namespaces.get(name) == labels:
            return
        self.namespaces.pop(name, None)
        if labels is not None:
            self.namespaces[name] = labels
        self._counts.forget()

    def place(self, pod: PodView, node_name: str) -> None:
        """The pod is on that node from now on, assumed or seen; wherever it was before, it is no more."""
        if not self._renew(pod, node_name):
            self.remove(pod.uid)
            self._put(pod, self._slot(node_name))

    def _renew(self, pod: PodView, node_name: str) -> bool:
        """Only keep the newer view, if that will do: the pod is there and takes what it took before.

        Every pod comes this way once it is bound, for the API server then gives it labels of its node's zone.
        """
        home = self._homes.get(pod.uid)
        if home is None or self._trials or self.slots[home].name != node_name:
            return False
        old = self.slots[home].pods[pod.uid]
        if old.usage != pod.usage or old.annotations != pod.annotations:
            return False
        self.slots[home].pods[pod.uid] = pod
        if kind_of(old) != kind_of(pod):
            self._counts.add(old, home, -1)
            self._counts.add(pod, home)
            self.changes.add(home)
        return True

    def remove(self, uid: str) -> None:
        node = self._homes.get(uid)
        if node is not None:
            self._take(self.slots[node].pods[uid], node)
            self._release(node)

    # Trying

    def checkpoint(self) -> int:
        """A mark to roll back to. Until then only pods may be placed and removed; marks are undone in reverse order."""
        self._trials += 1
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """Undo every placing and removing since the mark."""
        while len(self._undo) > mark:
            sign, pod, node = self._undo.pop()
            self._account(pod, node, -sign)
            self._release(node)
        self._end_trial()

    def keep(self, mark: int) -> None:
        """End the trial and let stand what was done; an outer trial can still undo it."""
        self._end_trial()
        if not self._trials:
            del self._undo[mark:]

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Whatever is placed and removed inside is undone at the end."""
        mark = self.checkpoint()
        try:
            yield
        finally:
            self.rollback(mark)

    def _end_trial(self) -> None:
        assert self._trials, "there is no trial to end"
        self._trials -= 1
        while self._emptied and not self._trials:
            self._release(self._emptied.pop())

    # Inside

    def _slot(self, name: str) -> int:
        node = self._index.get(name)
        if node is None:
            node = self._index[name] = self._free.pop() if self._free else self._new_column()
            self.slots[node] = NodeSlot(name)
            self.tie[node] = crc32(name.encode()) & ~1
        return node

    def _new_column(self) -> int:
        node = len(self.slots)
        self.slots.append(NodeSlot(""))
        if node >= self.size:
            self._grow(self.size + max(self.size // 4, _FIRST_SIZE))  # every array op is about unused columns, too
        return node

    def _release(self, node: int) -> None:
        """Give a ghost's column back once nothing is on it; after a trial, which may yet bring pods back."""
        slot = self.slots[node]
        if slot.view is not None or slot.pods:
            return
        if self._trials:
            self._emptied.add(node)
        elif self._index.get(slot.name) == node:
            del self._index[slot.name]
            self.slots[node] = NodeSlot("")
            self._free.append(node)

    def _grow(self, size: int) -> None:
        more = size - self.size
        self.alive = np.concatenate([self.alive, np.zeros(more, dtype=np.bool_)])
        self.tie = np.concatenate([self.tie, np.zeros(more, dtype=np.uint32)])
        self.alloc, self.used = (
            np.concatenate([array, np.zeros((len(array), more), dtype=np.int64)], axis=1)
            for array in (self.alloc, self.used)
        )
        self.labels.grow(size)
        self.facts.grow(size)
        self._counts.grow(size)

    def _node_changed(self, node: int) -> None:
        self.nodes_version += 1
        self.changes.add(node)
        for pod in self.slots[node].pods.values():  # the machine may be another than it was taken for
            if pod.annotations:
                self._close(pod, node, -1)
                self._close(pod, node, 1)

    def _put(self, pod: PodView, node: int) -> None:
        self._account(pod, node, 1)
        if self._trials:
            self._undo.append((1, pod, node))

    def _take(self, pod: PodView, node: int) -> None:
        self._account(pod, node, -1)
        if self._trials:
            self._undo.append((-1, pod, node))

    def _account(self, pod: PodView, node: int, sign: int) -> None:
        """Book a pod onto a node (1) or off it (-1): the one place where usage changes."""
        slot = self.slots[node]
        if sign > 0:
            slot.pods[pod.uid] = pod
            self._homes[pod.uid] = node
        else:
            del slot.pods[pod.uid], self._homes[pod.uid]
        if pod.annotations:
            self._close(pod, node, sign)
        footprint = self.footprint(pod.usage)  # before `used` is looked up: a new row makes a new array
        if sign > 0:
            self.used[:, node] += footprint
        else:
            self.used[:, node] -= footprint
        self._counts.add(pod, node, sign)
        self.changes.add(node)

    def _close(self, pod: PodView, node: int, sign: int) -> None:
        """Book what an isolated pod keeps others from (1), or no more (-1)."""
        kept = self.devices.closed(pod, node) if sign > 0 else {}
        rows = {self.row(name): amount for name, amount in kept.items()} or self._closed.pop(pod.uid, {})
        for row, amount in rows.items():
            self.used[row, node] += sign * amount
        if kept:
            self._closed[pod.uid] = rows

    def booking(self, pod: PodView) -> Amounts:
        """What a pod takes of the node that it is on, and keeps others from."""
        taken = self.footprint(pod.usage).copy()
        for row, amount in self._closed.get(pod.uid, {}).items():
            taken[row] += amount
        return taken

    def keepers(self, node: int) -> list[PodView]:
        """The isolated pods on a node, which keep others from more than they take."""
        return [pod for pod in self.slots[node].pods.values() if pod.uid in self._closed]

    def kept(self, row: int) -> Amounts:
        """How much of a resource isolated pods keep others from, by node."""
        homes = np.array([self._homes[uid] for uid in self._closed], dtype=np.intp)
        return np.bincount(homes, [rows.get(row, 0) for rows in self._closed.values()], self.size).astype(np.int64)

    def footprint(self, usage: Usage) -> Amounts:
        """What a pod adds to its node's column. Pods of a template share their usage, and so this."""
        return self._footprints.of(usage, self._rows.__len__)

    def validate(self) -> None:
        """Recompute everything from the views; AssertionError where the columns differ. For tests."""
        fresh = State()
        for key, found in self.devices.sources.slices.items():
            fresh.set_slice(key, found)
        for slot in self.slots:
            if slot.view is not None:
                fresh.set_node(slot.view)
        for slot in self.slots:
            for pod in slot.pods.values():
                fresh.place(pod, slot.name)
        for node, slot in enumerate(self.slots):
            self._compare(fresh, node, slot)

    def _compare(self, fresh: State, node: int, slot: NodeSlot) -> None:
        other = fresh._index.get(slot.name)
        assert (slot.view is not None) == bool(self.alive[node]), slot.name
        for resource, row in self._rows.items():
            mine = (int(self.alloc[row, node]), int(self.used[row, node]))
            twin = fresh.row(resource)
            theirs = (0, 0) if other is None else (int(fresh.alloc[twin, other]), int(fresh.used[twin, other]))
            assert mine == theirs, f"{slot.name} {resource}: {mine} kept, {theirs} recomputed"
        assert all(self._homes[uid] == node for uid in slot.pods), slot.name
        assert other is None or self.devices.spot(node) == fresh.devices.spot(other), slot.name
        for question, counts in self._counts.answers():
            expected = sum(question.weigh(pod) for pod in slot.pods.values())
            assert counts[node] == expected, f"{slot.name} {question}: {counts[node]} kept, {expected} recomputed"
