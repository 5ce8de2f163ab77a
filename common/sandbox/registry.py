"""The API server without the network: the same verbs, in process, as Python objects.

Controllers and tests use a `Registry` directly; the HTTP server is a thin layer over the same one. Objects handed out
are the caller's own, except those of `objects`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kubenexus.common.kube.resources import NAMESPACES, POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES, Resource
from kubenexus.common.sandbox import eviction as evictions
from kubenexus.common.sandbox.admission_builtin import SYSTEM_PRIORITY_CLASSES
from kubenexus.common.sandbox.deletion import DeleteOptions, plan
from kubenexus.common.sandbox.errors import ApiError, no_such_path
from kubenexus.common.sandbox.kinds import Catalogue, Kind
from kubenexus.common.sandbox.patching import Patch
from kubenexus.common.sandbox.pods import with_condition
from kubenexus.common.sandbox.reads import Query, Reads
from kubenexus.common.sandbox.store import Store
from kubenexus.common.sandbox.upkeep import Upkeep
from kubenexus.common.sandbox.watch import Watch
from kubenexus.common.sandbox.writes import Admit, Call, Clock, Target, Writes

Obj = dict[str, Any]

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def utc_now() -> datetime:
    """The default clock."""
    return datetime.now(UTC)


class Registry:
    """All objects of one sandbox. Thread-safe; every refusal is an `ApiError`."""

    def __init__(self, clock: Clock = utc_now, history: int = 20_000, seed: int | None = None) -> None:
        self.clock = clock
        self.store = Store(history)
        self.catalogue = Catalogue()
        self.reads = Reads(self.store)
        self.writes = Writes(self.store, self.catalogue, clock, seed)
        self.writes.committed = Upkeep(self.store, self.catalogue, self.writes).after
        for name in _NAMESPACES:
            self.create(NAMESPACES, None, {"metadata": {"name": name}})
        for each in SYSTEM_PRIORITY_CLASSES:
            self.create(PRIORITY_CLASSES, None, each)

    def admit_with(self, admission: Admit) -> None:
        """From now on every write passes this admission chain."""
        self.writes.admission = admission

    def kind(self, res: Resource) -> Kind:
        """How a resource behaves; 404 when it is not served (a custom one whose definition is gone)."""
        found = self.catalogue.find(res.group, res.version, res.plural)
        if found is None:
            raise no_such_path()
        return found

    def resources(self) -> list[Resource]:
        """Everything that is served now."""
        return [kind.resource for kind in self.catalogue]

    # reading

    def get(self, res: Resource, namespace: str | None, name: str) -> Obj:
        kind = self.kind(res)
        return kind.served(self.reads.get(kind, namespace or "", name).copy())

    def list(self, res: Resource, namespace: str | None = None, *, labels: str = "", fields: str = "") -> list[Obj]:
        """All objects of a namespace, or of all, sorted by namespace and name."""
        kind = self.kind(res)
        return [kind.served(item.copy()) for item in self.reads.page(kind, namespace, Query(labels, fields)).items]

    def objects(self, res: Resource, namespace: str | None = None) -> Iterable[Obj]:
        """Like `list`, but the stored objects themselves: quick to get, and never to be changed."""
        kind = self.catalogue.find(res.group, res.version, res.plural)
        return [item.obj for item in self.store.items(kind.table, namespace)[0]] if kind else []

    def watch(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        since: str = "",
    ) -> Watch:
        """(type, object) pairs; without `since` the present state comes first as ADDED."""
        return self.reads.watch(self.kind(res), namespace, Query(labels, fields, version=since))

    # writing

    def create(self, res: Resource, namespace: str | None, obj: Obj, *, call: Call | None = None) -> Obj:
        kind = self.kind(res)
        return kind.served(self.writes.create(kind, namespace or "", obj, call or Call()).copy())

    def update(
        self,
        res: Resource,
        namespace: str | None,
        name: str,
        obj: Obj,
        *,
        subresource: str = "",
        call: Call | None = None,
    ) -> Obj:
        kind = self.kind(res)
        item, _ = self.writes.update(Target(kind, namespace or "", name, subresource), obj, call or Call())
        return kind.served(item.copy())

    def patch(
        self,
        res: Resource,
        namespace: str | None,
        name: str,
        patch: Any,
        *,
        type: str = "merge",  # noqa: A002 (the word of the API)
        manager: str = "sandbox",
        force: bool = False,
        subresource: str = "",
        call: Call | None = None,
    ) -> Obj:
        """`type` is json, merge, strategic or apply."""
        kind = self.kind(res)
        target = Target(kind, namespace or "", name, subresource)
        item, _ = self.writes.patch(target, Patch(type, patch, manager, force), call or Call(manager=manager))
        return kind.served(item.copy())

    def delete(
        self,
        res: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        call: Call | None = None,
    ) -> Obj:
        """What is left of the object: being deleted, or as it was last."""
        kind = self.kind(res)
        options = DeleteOptions(uid, resource_version, grace_seconds, propagation)
        item, _ = self.writes.delete(Target(kind, namespace or "", name), options, call or Call())
        return kind.served(item.copy())

    def bind(self, namespace: str, name: str, binding: Obj, *, call: Call | None = None) -> None:
        """Assign a pod to a node as a Binding says; 409 when that is not possible any more."""
        self.writes.bind(namespace, name, binding, call or Call())

    def evict(self, namespace: str, name: str, eviction: Obj | None = None, *, call: Call | None = None) -> None:
        """Delete a pod if its disruption budget allows; 429 if not."""
        call = call or Call()
        eviction = eviction or {"metadata": {"name": name}}
        evictions.check_name(eviction, name)
        eviction = self.writes.admit_eviction(namespace, name, eviction, call)
        pod = self.get(PODS, namespace, name)
        asked = eviction.get("deleteOptions") or {}
        options = DeleteOptions.from_object(asked)
        call = replace(call, dry_run=call.dry_run or asked.get("dryRun") == ["All"])
        plan(self.kind(PODS), pod, options, self.clock())  # its preconditions come before any change
        if evictions.needs_budget(pod):
            self._spend_budget(namespace, pod, call)
        if not call.dry_run:
            marked = with_condition(pod, evictions.DISRUPTED, self.writes.now())
            self.patch(PODS, namespace, name, {"status": marked["status"]}, subresource="status", call=call)
        target = Target(self.kind(PODS), namespace, name)
        self.writes.delete(target, replace(options, resource_version=None), call)

    def _spend_budget(self, namespace: str, pod: Obj, call: Call) -> None:
        """Take one disruption from the pod's budget; somebody else's write to it at the same moment means once more."""
        while True:
            budget = evictions.budget_of(pod, self.objects(POD_DISRUPTION_BUDGETS, namespace))
            if budget is None or evictions.is_free(pod, budget):
                return
            meta = budget["metadata"]
            spent = budget | {"status": evictions.spend(budget, pod["metadata"]["name"], self.writes.now())}
            try:
                self.update(POD_DISRUPTION_BUDGETS, namespace, meta["name"], spent, subresource="status", call=call)
            except ApiError as error:
                if error.reason == "Conflict":
                    continue
                raise
            return
