"""Keeps a View equal to the store: takes in the changes of all kinds up to one common version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kubenexus.common.kube.resources import Resource
from kubenexus.common.sandbox.controllers.view import View
from kubenexus.common.sandbox.kinds import Kind
from kubenexus.common.sandbox.registry import Registry
from kubenexus.common.sandbox.store import CompactedError

Obj = dict[str, Any]


class Step(NamedTuple):
    """One change of one object; None means absent."""

    res: Resource
    old: Obj | None
    new: Obj | None


class Feed:
    """The view and how far each table has been taken in. A half-seen state would make owners look absent."""

    def __init__(self, registry: Registry) -> None:
        self.view = View()
        self._registry = registry
        self._kinds: dict[str, Kind] = {}
        self._taken: dict[str, int] = {}
        self._version = 0

    def take_in(self) -> list[Step]:
        """Bring the view up to date; what happened since the last time, in the order of each table."""
        target = self._registry.store.rv
        if target == self._version:
            return []
        for kind in self._registry.catalogue:
            self._kinds.setdefault(kind.table, kind)
        self.view.served = {(kind.resource.api_version, kind.name) for kind in self._registry.catalogue}
        steps = [step for kind in self._kinds.values() for step in self._table(kind, target)]
        for step in steps:
            self._apply(step)
        self._version = target
        # A table that had to be read anew is further than the others, which now have to catch up.
        return steps if max(self._taken.values()) <= target else steps + self.take_in()

    def _table(self, kind: Kind, target: int) -> Iterator[Step]:
        taken = self._taken.get(kind.table, 0)
        try:
            changes = self._registry.store.changes(kind.table, taken, 0)
        except CompactedError:
            yield from self._read_anew(kind)
            return
        self._taken[kind.table] = max(taken, target)
        for change in changes:
            if change.rv <= target:
                old, new = change.old, change.new
                yield Step(kind.resource, old.obj if old else None, new.obj if new else None)

    def _read_anew(self, kind: Kind) -> Iterator[Step]:
        items, self._taken[kind.table] = self._registry.store.items(kind.table)
        present = {item.obj["metadata"]["uid"]: item.obj for item in items}
        known = {obj["metadata"]["uid"]: obj for obj in self.view.all(kind.resource)}
        for uid in known.keys() - present.keys():
            yield Step(kind.resource, known[uid], None)
        for uid, obj in present.items():
            yield Step(kind.resource, known.get(uid), obj)

    def _apply(self, step: Step) -> None:
        if step.new is not None:
            self.view.put(step.res, step.new)
        elif step.old is not None:
            self.view.drop(step.res, step.old)
