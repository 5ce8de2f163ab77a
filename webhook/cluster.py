"""What admission knows of the cluster beside the pod itself: its namespace, what stands behind it, what would fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import GangKey, Owners
from kubenexus.common.objects import NamespaceView
from kubenexus.common.tenants import granted_tier, tenant_of

Obj = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """A namespace as administrators labelled it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, view: NamespaceView) -> NamespaceFacts:
        return cls(view.name, view.meta.labels, view.meta.annotations)

    @property
    def opted_in(self) -> bool:
        return self.labels.get(v.INJECT) == v.Inject.ENABLED

    @property
    def tier(self) -> v.Tier:
        return granted_tier(self.labels)

    @property
    def tenant(self) -> str:
        return tenant_of(self.name, self.labels)


class Waiter(Protocol):
    """How look-ups go about what is not known yet."""

    def await_(self, look: Callable[[], T | None]) -> T | None:
        """What `look` finds."""
        ...


@dataclass(slots=True)
class Glance:
    """A waiter that does not wait; `missed` tells whether that would have been worth the while. For one thread."""

    missed: bool = False

    def await_(self, look: Callable[[], T | None]) -> T | None:
        found = look()
        self.missed = self.missed or found is None
        return found


class AskedOnce:
    """Owners as they were when first asked for: a pod before and after a change has the same, and may wait for it.

    For one request. Satisfies `Owners`.
    """

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._found: dict[tuple[str, ...], Obj | None] = {}

    def get(self, api_version: str, kind: str, namespace: str, name: str, uid: str) -> Obj | None:
        key = (api_version, kind, namespace, name, uid)
        if key not in self._found:
            self._found[key] = self._owners.get(*key)
        return self._found[key]


def _silent(_: Obj) -> str | None:
    return None


def _unseen(_: GangKey, __: int) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Look-ups in memory; none may call the API server.

    `namespace` answers None while a namespace is not known; it may wait a moment for its reflector to catch up.
    `verdict` is the scheduler's word on a pod that fits nowhere, in one short sentence, where it is to be had.
    `other_size` is another size than this one that a member gave its gang lately.
    `schedulers` are the names that are ours; the first is given to pods whose author chose none.
    """

    namespace: Callable[[str], NamespaceFacts | None]
    owners: Owners
    schedulers: tuple[str, ...] = (v.SCHEDULER_NAME,)
    verdict: Callable[[Obj], str | None] = _silent
    other_size: Callable[[GangKey, int], int | None] = _unseen
