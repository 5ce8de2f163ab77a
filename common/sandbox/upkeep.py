"""What follows from a change without anybody asking: namespaces empty themselves, definitions make kinds.

Called after each commit, on the thread that made it. (The real server leaves this to controllers; here it is done by
the time the client has its answer.)
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from kubenexus.common.kube.resources import CUSTOM_RESOURCES, NAMESPACES
from kubenexus.common.sandbox.deletion import DeleteOptions
from kubenexus.common.sandbox.errors import ApiError
from kubenexus.common.sandbox.kinds import Catalogue, Kind
from kubenexus.common.sandbox.store import Item, MovedError, Store
from kubenexus.common.sandbox.writes import Call, Target, Writes

Obj = dict[str, Any]


class Upkeep:
    """Watches over the commits of one `Writes`."""

    def __init__(self, store: Store, catalogue: Catalogue, writes: Writes) -> None:
        self._store = store
        self._catalogue = catalogue
        self._writes = writes
        self._defining = threading.Lock()

    def after(self, kind: Kind, old: Item | None, new: Item | None) -> None:
        if kind.resource == CUSTOM_RESOURCES:
            self._definition(old, new)
        elif kind.resource == NAMESPACES:
            if new is not None and _ending(new):
                self._empty(new.obj["metadata"]["name"])
        elif kind.resource.namespaced and old is None and new is not None:
            self._check_in(kind, new)
        elif kind.resource.namespaced and new is None and old is not None:
            self._finish(old.obj["metadata"]["namespace"])

    # namespaces

    def _empty(self, namespace: str) -> None:
        """Delete all that lives in a namespace, then the namespace itself if nothing holds on."""
        for kind in self._namespaced():
            for item in self._store.items(kind.table, namespace)[0]:
                self._turn_out(kind, item)
        self._finish(namespace)

    def _check_in(self, kind: Kind, item: Item) -> None:
        """What was let in while its namespace began to end leaves again."""
        home = self._store.get(self._catalogue[NAMESPACES].table, ("", item.obj["metadata"]["namespace"]))
        if home is None or _ending(home):
            self._turn_out(kind, item)

    def _turn_out(self, kind: Kind, item: Item) -> None:
        target = Target(kind, item.obj["metadata"]["namespace"], item.obj["metadata"]["name"])
        with suppress(
            ApiError
        ):  # gone already, or refused by a webhook: then the namespace stays, as in a real cluster
            self._writes.delete(target, DeleteOptions(propagation="Background"), Call())

    def _finish(self, namespace: str) -> None:
        kind = self._catalogue[NAMESPACES]
        item = self._store.get(kind.table, ("", namespace))
        if item is None or not _ending(item) or item.obj["metadata"].get("finalizers"):
            return
        if any(self._store.items(each.table, namespace)[0] for each in self._namespaced()):
            return
        try:
            self._writes.remove(kind, item)
        except MovedError:
            self._finish(namespace)

    def _namespaced(self) -> list[Kind]:
        return list({kind.table: kind for kind in self._catalogue if kind.resource.namespaced}.values())

    # definitions

    def _definition(self, old: Item | None, new: Item | None) -> None:
        table = self._catalogue[CUSTOM_RESOURCES].table
        served = [kind for kind in self._catalogue if kind.custom]
        with self._defining:  # the later reader is the later writer
            self._catalogue.define([item.obj for item in self._store.items(table)[0]])
        if new is None and old is not None:
            self._forget_objects(old.obj, served)

    def _forget_objects(self, definition: Obj, served: list[Kind]) -> None:
        """The objects of a definition go with it."""
        spec = definition["spec"]
        for kind in served:
            if (kind.resource.group, kind.resource.plural) == (spec["group"], spec["names"]["plural"]):
                for item in self._store.items(kind.table)[0]:
                    self._writes.remove(kind, item)


def _ending(item: Item) -> bool:
    return bool(item.obj["metadata"].get("deletionTimestamp"))
