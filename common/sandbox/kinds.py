"""The kinds that the sandbox serves, as data, and the catalogue that grows with every CustomResourceDefinition.

What distinguishes one kind from another in the generic machinery stands here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kubenexus.common.kube import resources as r
from kubenexus.common.kube.resources import Resource

Obj = dict[str, Any]
Reader = Callable[[Obj], str]

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, eq=False)
class Kind:
    """How one resource behaves.

    `status`: has a status subresource, so that writes see either the status or the rest. `generation`: counts changes
    of the specification. `unconditional`: an update may leave out the resourceVersion. `upsert`: an update of an absent
    object creates it. `shows_deleted`: a deletion answers with the object. `orphans`: dependents survive by default.
    """

    resource: Resource
    status: bool = False
    generation: bool = False
    unconditional: bool = True
    upsert: bool = False
    shows_deleted: bool = False
    orphans: bool = False
    custom: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    selectable: dict[str, Reader] = field(default_factory=dict)
    initial_status: Obj = field(default_factory=dict)
    columns: tuple[Obj, ...] = ()  # additionalPrinterColumns of a custom resource
    alias: dict[str, str] = field(default_factory=dict)  # field here → field in storage, for a second face of one table

    @cached_property
    def table(self) -> str:
        """Where the objects are kept; the two faces of events share one place, as do all versions of a kind."""
        return "events" if self.resource.kind == "Event" else f"{self.resource.plural}.{self.resource.group}"

    @property
    def name(self) -> str:
        return self.resource.kind

    @cached_property
    def fields(self) -> dict[str, Reader]:
        """Readers of the fields that a field selector may name."""
        scope = {"metadata.namespace": _at("metadata.namespace")} if self.resource.namespaced else {}
        return {"metadata.name": _at("metadata.name")} | scope | self.selectable

    def stored(self, obj: Obj) -> Obj:
        """An object of this face as it is kept: with its type, and with the field names of storage."""
        kept = {self.alias.get(key, key): value for key, value in obj.items()} if self.alias else obj
        return {**kept, "kind": self.resource.kind, "apiVersion": self.storage_version}

    def served(self, obj: Obj) -> Obj:
        """A kept object as this face shows it."""
        if obj.get("apiVersion") == self.resource.api_version:
            return obj
        back = {kept: shown for shown, kept in self.alias.items()}
        shown = {back.get(key, key): value for key, value in obj.items()}
        return shown | {"apiVersion": self.resource.api_version}

    @property
    def storage_version(self) -> str:
        return "v1" if self.alias else self.resource.api_version


def _at(path: str, empty: str = "") -> Reader:
    keys = path.split(".")

    def read(obj: Obj) -> str:
        value: Any = obj
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return str(value).lower()
        return empty if value is None else str(value)

    return read


def _paths(*paths: str, **renamed: str) -> dict[str, Reader]:
    return {path: _at(path) for path in paths} | {shown: _at(path) for shown, path in renamed.items()}


def _pod_ip(pod: Obj) -> str:
    addresses = pod.get("status", {}).get("podIPs") or [{}]
    return str(addresses[0].get("ip", ""))


_POD_FIELDS = {
    **_paths("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
    **_paths("status.phase", "status.nominatedNodeName"),
    "status.podIP": _pod_ip,
    "spec.hostNetwork": _at("spec.hostNetwork", "false"),
}
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_CORE_EVENT_FIELDS = {
    **{f"involvedObject.{key}": _at(f"involvedObject.{key}") for key in _REFERENCE},
    **_paths("reason", "reportingComponent", "type", source="source.component"),
}
_EVENT_FIELDS = {
    **{f"regarding.{key}": _at(f"involvedObject.{key}") for key in _REFERENCE},
    **_paths("reason", "type", reportingController="reportingComponent"),
}
_EVENT_ALIAS = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_PENDING = {"phase": "Pending"}
_REPLICAS = {"replicas": 0}
_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)


def _spec_kind(resource: Resource, **traits: Any) -> Kind:
    """A kind with status and generation, which most are that a controller works on."""
    return Kind(resource, status=True, generation=True, **traits)


BUILTIN = (
    _spec_kind(
        r.PODS,
        shows_deleted=True,
        short_names=("po",),
        categories=_ALL,
        selectable=_POD_FIELDS,
        initial_status=_PENDING,
    ),
    Kind(
        r.NODES,
        status=True,
        short_names=("no",),
        selectable={"spec.unschedulable": _at("spec.unschedulable", "false")},
    ),
    Kind(
        r.NAMESPACES,
        status=True,
        shows_deleted=True,
        short_names=("ns",),
        selectable=_paths("status.phase"),
        initial_status={"phase": "Active"},
    ),
    Kind(r.SECRETS, selectable=_paths("type")),
    Kind(r.CONFIG_MAPS, short_names=("cm",)),
    Kind(r.SERVICE_ACCOUNTS, shows_deleted=True, short_names=("sa",)),
    Kind(
        r.SERVICES,
        status=True,
        upsert=True,
        shows_deleted=True,
        short_names=("svc",),
        categories=_ALL,
        selectable=_paths("spec.clusterIP", "spec.type"),
        initial_status={"loadBalancer": {}},
    ),
    Kind(r.PERSISTENT_VOLUMES, status=True, shows_deleted=True, short_names=("pv",), initial_status=_PENDING),
    Kind(r.PERSISTENT_VOLUME_CLAIMS, status=True, shows_deleted=True, short_names=("pvc",), initial_status=_PENDING),
    Kind(r.CORE_EVENTS, upsert=True, short_names=("ev",), selectable=_CORE_EVENT_FIELDS),
    Kind(r.EVENTS, upsert=True, short_names=("ev",), selectable=_EVENT_FIELDS, alias=_EVENT_ALIAS),
    Kind(r.LEASES, upsert=True, unconditional=False),
    Kind(r.PRIORITY_CLASSES, generation=True, short_names=("pc",)),
    _spec_kind(r.POD_DISRUPTION_BUDGETS, unconditional=False, short_names=("pdb",)),
    Kind(r.STORAGE_CLASSES, shows_deleted=True, short_names=("sc",)),
    Kind(r.CSI_NODES, shows_deleted=True, unconditional=False),
    Kind(r.RESOURCE_SLICES, generation=True, shows_deleted=True, selectable=_paths("spec.nodeName", "spec.driver")),
    Kind(r.RESOURCE_CLAIMS, status=True, shows_deleted=True),
    Kind(r.RESOURCE_CLAIM_TEMPLATES, shows_deleted=True),
    Kind(r.DEVICE_CLASSES, generation=True, shows_deleted=True),
    _spec_kind(r.JOBS, orphans=True, categories=_ALL, selectable={"status.successful": _at("status.succeeded", "0")}),
    _spec_kind(r.DEPLOYMENTS, short_names=("deploy",), categories=_ALL),
    _spec_kind(r.REPLICA_SETS, short_names=("rs",), categories=_ALL, initial_status=_REPLICAS),
    _spec_kind(r.STATEFUL_SETS, short_names=("sts",), categories=_ALL, initial_status=_REPLICAS),
    Kind(r.MUTATING_WEBHOOKS, generation=True, unconditional=False, categories=_EXTENSIONS),
    Kind(r.VALIDATING_WEBHOOKS, generation=True, unconditional=False, categories=_EXTENSIONS),
    _spec_kind(r.CUSTOM_RESOURCES, unconditional=False, short_names=("crd", "crds"), categories=_EXTENSIONS),
)


def custom_kinds(definition: Obj) -> list[Kind]:
    """One kind per served version of a CustomResourceDefinition."""
    spec = definition["spec"]
    names = spec["names"]
    namespaced = spec["scope"] == "Namespaced"
    return [
        Kind(
            Resource(spec["group"], version["name"], names["plural"], names["kind"], namespaced),
            status="status" in (version.get("subresources") or {}),
            generation=True,
            unconditional=False,
            custom=True,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            singular=names.get("singular") or names["kind"].lower(),
            selectable=_paths(*(each["jsonPath"].lstrip(".") for each in version.get("selectableFields") or ())),
            columns=tuple(version.get("additionalPrinterColumns") or ()),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


class Catalogue:
    """Which kinds there are now. Readers need no lock: the map is replaced, never changed."""

    def __init__(self, kinds: Iterable[Kind] = BUILTIN) -> None:
        self._builtin = {_place(kind.resource): kind for kind in kinds}
        self._kinds = self._builtin

    def define(self, definitions: Iterable[Obj]) -> None:
        """Serve exactly these custom resources besides the built-in kinds."""
        custom = {_place(kind.resource): kind for each in definitions for kind in custom_kinds(each)}
        self._kinds = custom | self._builtin

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def __getitem__(self, res: Resource) -> Kind:
        return self._kinds[_place(res)]

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())


def _place(res: Resource) -> tuple[str, str, str]:
    return res.group, res.version, res.plural
