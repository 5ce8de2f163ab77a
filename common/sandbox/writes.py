"""Writing: the steps that every create, update, patch and deletion passes, in the order of the real server.

Nothing is locked while a write is worked out (admission may call webhooks that call back): it is computed from the
version seen and committed only if that is still the present one, else computed again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import Any, Final, Protocol

from kubenexus.common.kube.resources import NAMESPACES, NODES, PODS
from kubenexus.common.sandbox import deletion, lifecycle, pods
from kubenexus.common.sandbox.admission_match import AdmissionRequest
from kubenexus.common.sandbox.decoding import decode
from kubenexus.common.sandbox.deletion import DeleteOptions, Deletion
from kubenexus.common.sandbox.errors import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from kubenexus.common.sandbox.kinds import Catalogue, Kind
from kubenexus.common.sandbox.lifecycle import meta
from kubenexus.common.sandbox.patch import track_update
from kubenexus.common.sandbox.patching import Patch
from kubenexus.common.sandbox.store import Item, MovedError, Store
from kubenexus.common.sandbox.validation import apply_defaults, validate_create, validate_status, validate_update

Obj = dict[str, Any]
Clock = Callable[[], datetime]

IMMORTAL: Final = ("default", "kube-system", "kube-public")
_ATTEMPTS: Final = 20
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_ORPHAN_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or "
    "set propagationPolicy=Orphan to suppress this warning"
)


@dataclass(slots=True)
class Call:
    """Who writes and how. `warnings` collects what the client is told besides the answer."""

    user: str = "system:admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    manager: str = "sandbox"
    dry_run: bool = False
    validation: str = "Ignore"  # of unknown fields: Ignore, Warn or Strict
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Target:
    """What is written: an object, or one of its subresources. `namespace` is empty for cluster-scoped kinds."""

    kind: Kind
    namespace: str
    name: str
    subresource: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


class Admit(Protocol):
    """The admission chain, as far as writes need it."""

    def mutate(self, request: AdmissionRequest) -> tuple[Obj, list[str]]: ...

    def validate(self, request: AdmissionRequest) -> list[str]: ...


class Writes:
    """Changes the store, one object at a time. `committed` is told of every change after it happened."""

    def __init__(self, store: Store, catalogue: Catalogue, clock: Clock, seed: int | None = None) -> None:
        self._store = store
        self._catalogue = catalogue
        self._clock = clock
        self._random = Random(seed)
        self.admission: Admit | None = None
        self.committed: Callable[[Kind, Item | None, Item | None], None] = lambda *_: None

    def now(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    def create(self, kind: Kind, namespace: str, body: Any, call: Call) -> Item:
        """Store a new object; 404, 403, 409 or 422 when it may not be."""
        obj = self._understood(Target(kind, namespace, ""), body, call)
        if meta(obj).get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        return self._create(Target(kind, namespace, meta(obj).get("name", "")), obj, call, tracked=False)

    def _create(self, target: Target, obj: Obj, call: Call, *, tracked: bool) -> Item:
        kind, given = target.kind, target.name
        self._check_namespace(target)
        obj = self._mutate("CREATE", target, apply_defaults(kind.name, obj), None, call)
        for _ in range(_ATTEMPTS):
            target = replace(target, name=given or self._generated(obj))
            new = lifecycle.begin(kind, obj, target.namespace, target.name, str(uuid.uuid4()), self.now())
            if not tracked:
                new = track_update(kind.name, None, new, call.manager, self.now())
            if problems := validate_create(kind.name, kind.served(new)):
                raise invalid(kind.resource, target.name, problems)
            self._validate("CREATE", target, new, None, call)
            try:
                return self._commit(target, None, new, call)
            except MovedError:
                if given:
                    break
        taken = self._seen(target)
        raise already_exists(
            kind.resource, target.name, deleting=bool(taken and meta(taken.obj).get("deletionTimestamp"))
        )

    def _understood(self, target: Target, body: Any, call: Call) -> Obj:
        """The body as an object of the target's kind and place, in the form of storage."""
        kind = target.kind
        obj = lifecycle.check_type(kind, body, typed=kind.custom)
        obj, unknown = decode(kind, obj)
        if unknown and call.validation == "Strict":
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            about = f'{kind.name} in version "{kind.resource.version}" cannot be handled as a {kind.name}'
            raise bad_request(f"{about}: strict decoding error: {listed}")
        if call.validation == "Warn":
            call.warnings += [f'unknown field "{path}"' for path in unknown]
        return kind.stored(lifecycle.placed(kind, obj, target.namespace, target.name or None))

    def _generated(self, obj: Obj) -> str:
        prefix = meta(obj).get("generateName")
        return prefix[:58] + "".join(self._random.choices(_SUFFIX_LETTERS, k=5)) if prefix else ""

    def _check_namespace(self, target: Target) -> None:
        if not target.kind.resource.namespaced:
            return
        namespace = target.namespace
        place = self._store.get(self._catalogue[NAMESPACES].table, ("", namespace))
        if place is None:
            raise not_found(NAMESPACES, namespace)
        if meta(place.obj).get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            message = f"namespace {namespace} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
            raise forbidden(target.kind.resource, target.name, why, [cause])

    def update(self, target: Target, body: Any, call: Call) -> tuple[Item, bool]:
        """Replace an object, or its status; also whether it was created, as a few kinds allow."""
        new = self._understood(target, body, call)
        if target.kind.upsert and not target.subresource and self._seen(target) is None:
            return self._create(target, new, call, tracked=False), True

        def replaced(old: Obj) -> Obj:
            lifecycle.check_uid(target.kind, old, new)
            return new

        return self._modify(target, replaced, call), False

    def patch(self, target: Target, patch: Patch, call: Call) -> tuple[Item, bool]:
        """Patch an object, or its status; also whether it was created, which only server-side apply does."""
        kind = target.kind
        patch.check(kind)
        if patch.applies and not target.subresource and self._seen(target) is None:
            applied = self._understood(target, patch.first(kind, target.name, self.now()), call)
            return self._create(target, applied, call, tracked=True), True

        def patched(old: Obj) -> Obj:
            return self._understood(target, patch.to(kind, kind.served(old), target.subresource, self.now()), call)

        return self._modify(target, patched, call, tracked=patch.applies), False

    def _modify(self, target: Target, change: Callable[[Obj], Obj], call: Call, *, tracked: bool = False) -> Item:
        for _ in range(_ATTEMPTS):
            seen = self._present(target)
            new = change(seen.obj)
            lifecycle.check_version(target.kind, seen.obj, new)
            lifecycle.check_identity(target.kind, seen.obj, new)
            new = self._prepared(target, seen.obj, new, call, tracked=tracked)
            try:
                return self._replace(target, seen, new, call)
            except MovedError:
                continue
        raise conflict(target.kind.resource, target.name)

    def _prepared(self, target: Target, old: Obj, new: Obj, call: Call, *, tracked: bool) -> Obj:
        """A changed object, ready to be stored: defaults, admission, rules of the kind, validation."""
        kind, subresource = target.kind, target.subresource
        new = lifecycle.carry(kind, old, apply_defaults(kind.name, new), subresource)
        new = lifecycle.carry(kind, old, self._mutate("UPDATE", target, new, old, call), subresource)
        if not tracked:
            new = track_update(kind.name, old, new, call.manager, self.now(), subresource)
        validate = validate_status if subresource else validate_update
        if problems := validate(kind.name, kind.served(new), kind.served(old)):
            raise invalid(kind.resource, target.name, problems)
        self._validate("UPDATE", target, new, old, call)
        return new

    def _replace(self, target: Target, seen: Item, new: Obj, call: Call) -> Item:
        if deletion.finished(target.kind, new):
            self._commit(target, seen, None, call)
            return Item(new, seen.rv)
        return seen if new == seen.obj else self._commit(target, seen, new, call)  # no change, no new version

    def delete(self, target: Target, options: DeleteOptions, call: Call) -> tuple[Item, bool]:
        """Delete an object, or begin to: what is left of it and whether it is gone."""
        kind = target.kind
        if kind.resource == NAMESPACES and target.name in IMMORTAL:
            raise forbidden(kind.resource, target.name, "this namespace may not be deleted")
        if kind.orphans and options.propagation is None:
            call.warnings.append(_ORPHAN_WARNING)
        for _ in range(_ATTEMPTS):
            seen = self._present(target)
            planned = deletion.plan(kind, seen.obj, options, self._clock())
            self._mutate("DELETE", target, None, seen.obj, call)
            self._validate("DELETE", target, None, seen.obj, call)
            try:
                return self._carry_out(target, seen, planned, call)
            except MovedError:
                continue
        raise conflict(kind.resource, target.name)

    def _carry_out(self, target: Target, seen: Item, planned: Deletion, call: Call) -> tuple[Item, bool]:
        if planned.marked is not None:
            seen = self._commit(target, seen, planned.marked, call)
        if planned.remove:
            self._commit(target, seen, None, call)
        return seen, planned.remove

    def remove(self, kind: Kind, item: Item) -> None:
        """Take an object out of the store without asking anybody; for the server's own upkeep."""
        target = Target(kind, meta(item.obj).get("namespace", ""), meta(item.obj)["name"])
        self._commit(target, item, None, Call())

    def bind(self, namespace: str, name: str, binding: Obj, call: Call) -> None:
        """Assign a pod to a node, once and for all."""
        target = Target(self._catalogue[PODS], namespace, name, "binding")
        binding = self._mutate("CREATE", target, binding, None, call)
        node = pods.check_binding(binding, name)
        self._validate("CREATE", target, binding, None, call)
        for _ in range(_ATTEMPTS):
            seen = self._present(target)
            host = self._store.get(self._catalogue[NODES].table, ("", node))
            labels = (meta(host.obj).get("labels") or {}) if host else {}
            try:
                self._commit(target, seen, pods.bound(seen.obj, binding, node, labels, self.now()), call)
            except MovedError:
                continue
            return
        raise conflict(PODS, name)

    def admit_eviction(self, namespace: str, name: str, eviction: Obj, call: Call) -> Obj:
        """An Eviction as admission leaves it."""
        target = Target(self._catalogue[PODS], namespace, name, "eviction")
        eviction = self._mutate("CREATE", target, eviction, None, call)
        self._validate("CREATE", target, eviction, None, call)
        return eviction

    def _seen(self, target: Target) -> Item | None:
        return self._store.get(target.kind.table, target.key)

    def _present(self, target: Target) -> Item:
        item = self._seen(target)
        if item is None:
            raise not_found(target.kind.resource, target.name)
        return item

    def _mutate(self, operation: str, target: Target, obj: Obj | None, old: Obj | None, call: Call) -> Obj:
        if self.admission is None:
            return obj or old or {}
        admitted, warnings = self.admission.mutate(_request(operation, target, obj, old, call))
        call.warnings += warnings
        return admitted

    def _validate(self, operation: str, target: Target, obj: Obj | None, old: Obj | None, call: Call) -> None:
        if self.admission is not None:
            call.warnings += self.admission.validate(_request(operation, target, obj, old, call))

    def _commit(self, target: Target, seen: Item | None, obj: Obj | None, call: Call) -> Item:
        if call.dry_run:
            if seen is None and self._seen(target):
                raise MovedError
            return Item.draft(obj if obj is not None else seen.obj if seen else {})
        new = self._store.commit(target.kind.table, target.key, seen, obj)
        self.committed(target.kind, seen, new)
        return new or seen or Item.draft({})


def _request(operation: str, target: Target, obj: Obj | None, old: Obj | None, call: Call) -> AdmissionRequest:
    return AdmissionRequest(
        operation=operation,
        resource=target.kind.resource,
        subresource=target.subresource,
        namespace=target.namespace or None,
        name=target.name,
        obj=obj,
        old=old,
        dry_run=call.dry_run,
        user=call.user,
        groups=call.groups,
    )
