"""What the controllers know: every object, found by name, by uid, by owner, or by node. Kept current by the runner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from kubenexus.common.kube.resources import PODS, Resource

Obj = dict[str, Any]
Ref = tuple[Resource, str, str]
"""Resource, namespace (empty for cluster-scoped objects) and name."""


class View:
    """All objects at one moment, with the few indexes that keep a reconcile independent of the size of the cluster."""

    def __init__(self) -> None:
        self.served: set[tuple[str, str]] = set()
        """apiVersion and kind of everything that is known completely."""
        self._objects: defaultdict[Resource, dict[tuple[str, str], Obj]] = defaultdict(dict)
        self._by_uid: dict[str, Ref] = {}
        self._dependents: defaultdict[str, dict[Ref, None]] = defaultdict(dict)
        self._on_node: defaultdict[str, dict[Ref, None]] = defaultdict(dict)

    def put(self, res: Resource, obj: Obj) -> None:
        """Take in a new or changed object."""
        ref = reference(res, obj)
        if (old := self.find(ref)) is not None:
            self._unindex(ref, old)
        self._objects[res][ref[1:]] = obj
        self._by_uid[obj["metadata"]["uid"]] = ref
        for owner in owners(obj):
            self._dependents[owner["uid"]][ref] = None
        if res == PODS and (node := obj["spec"].get("nodeName")):
            self._on_node[node][ref] = None

    def drop(self, res: Resource, obj: Obj) -> None:
        """Forget a deleted object."""
        ref = reference(res, obj)
        if (old := self._objects[res].pop(ref[1:], None)) is not None:
            self._unindex(ref, old)

    def _unindex(self, ref: Ref, obj: Obj) -> None:
        self._by_uid.pop(obj["metadata"]["uid"], None)
        for owner in owners(obj):
            self._dependents[owner["uid"]].pop(ref, None)
        if ref[0] == PODS:
            self._on_node[obj["spec"].get("nodeName") or ""].pop(ref, None)

    def find(self, ref: Ref) -> Obj | None:
        return self._objects[ref[0]].get(ref[1:])

    def get(self, res: Resource, namespace: str | None, name: str) -> Obj | None:
        return self.find((res, namespace or "", name))

    def all(self, res: Resource, namespace: str | None = None) -> Iterator[Obj]:
        """Every object of a kind, or those of one namespace."""
        for (space, _), obj in self._objects[res].items():
            if namespace is None or space == namespace:
                yield obj

    def by_uid(self, uid: str) -> tuple[Ref, Obj] | None:
        ref = self._by_uid.get(uid)
        obj = self.find(ref) if ref else None
        return (ref, obj) if ref and obj is not None else None

    def dependents(self, uid: str) -> list[tuple[Ref, Obj]]:
        """The objects that name this uid as an owner."""
        found = ((ref, self.find(ref)) for ref in self._dependents.get(uid, ()))
        return [(ref, obj) for ref, obj in found if obj is not None]

    def controlled(self, owner: Obj, res: Resource) -> list[Obj]:
        """The objects of a kind that this one controls, oldest first."""
        uid = owner["metadata"]["uid"]
        mine = [obj for ref, obj in self.dependents(uid) if ref[0] == res and controller_uid(obj) == uid]
        return sorted(mine, key=lambda obj: (obj["metadata"].get("creationTimestamp", ""), obj["metadata"]["name"]))

    def pods_on(self, node: str) -> list[Obj]:
        found = (self.find(ref) for ref in self._on_node.get(node, ()))
        return [pod for pod in found if pod is not None]


def reference(res: Resource, obj: Obj) -> Ref:
    meta = obj["metadata"]
    return res, meta.get("namespace", ""), meta["name"]


def owners(obj: Obj) -> list[Obj]:
    found: list[Obj] = obj["metadata"].get("ownerReferences") or []
    return found


def controller_uid(obj: Obj) -> str:
    """The uid of the object's controller; empty if it has none."""
    return next((str(each["uid"]) for each in owners(obj) if each.get("controller")), "")
