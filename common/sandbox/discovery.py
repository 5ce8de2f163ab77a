"""Discovery: which groups, versions and resources there are, in the old form and in the aggregated one. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kubenexus.common.kube.resources import PODS
from kubenexus.common.sandbox.kinds import VERBS, Kind

Obj = dict[str, Any]

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION: Obj = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.4+kubenexus-sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "CPython",
    "platform": "linux/amd64",
}
_CREATED = {"binding": ("", "v1", "Binding"), "eviction": ("policy", "v1", "Eviction")}


def subresources(kind: Kind) -> list[str]:
    """What lies below an object of this kind."""
    own = ["status"] if kind.status else []
    return own + (list(_CREATED) if kind.resource == PODS else [])


def _groups(kinds: Iterable[Kind]) -> dict[str, dict[str, list[Kind]]]:
    groups: dict[str, dict[str, list[Kind]]] = defaultdict(lambda: defaultdict(list))
    for kind in kinds:
        groups[kind.resource.group][kind.resource.version].append(kind)
    return groups


def core_versions() -> Obj:
    """/api"""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(kinds: Iterable[Kind]) -> Obj:
    """/apis"""
    named = [_group(group, versions) for group, versions in _groups(kinds).items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": named}


def group(kinds: Iterable[Kind], name: str) -> Obj | None:
    """/apis/<group>"""
    versions = _groups(kinds).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(name, versions) if name and versions else None


def _group(name: str, versions: Iterable[str]) -> Obj:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(kinds: Iterable[Kind], group: str, version: str) -> Obj | None:
    """/api/v1 and /apis/<group>/<version>"""
    here = [kind for kind in kinds if (kind.resource.group, kind.resource.version) == (group, version)]
    if not here:
        return None
    listed = [
        entry for kind in here for entry in (_resource(kind), *(_subresource(kind, sub) for sub in subresources(kind)))
    ]
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": listed}


def _resource(kind: Kind) -> Obj:
    entry: Obj = {
        "name": kind.resource.plural,
        "singularName": kind.singular or kind.name.lower(),
        "namespaced": kind.resource.namespaced,
        "kind": kind.name,
        "verbs": list(VERBS),
    }
    for key, values in (("shortNames", kind.short_names), ("categories", kind.categories)):
        if values:
            entry[key] = list(values)
    return entry


def _subresource(kind: Kind, name: str) -> Obj:
    entry = {
        "name": f"{kind.resource.plural}/{name}",
        "singularName": "",
        "namespaced": kind.resource.namespaced,
    }
    if name not in _CREATED:
        return entry | {"kind": kind.name, "verbs": ["get", "patch", "update"]}
    group, version, created = _CREATED[name]
    origin = {"group": group, "version": version} if group else {}
    return entry | origin | {"kind": created, "verbs": ["create"]}


def aggregated(kinds: Iterable[Kind], *, core: bool) -> Obj:
    """/api and /apis in one answer each, as kubectl asks for it."""
    items = [
        {
            "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
            "versions": [
                {"version": version, "resources": [_described(kind) for kind in here], "freshness": "Current"}
                for version, here in versions.items()
            ],
        }
        for name, versions in _groups(kinds).items()
        if core is (name == "")
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _described(kind: Kind) -> Obj:
    res = kind.resource
    entry: Obj = {
        "resource": res.plural,
        "responseKind": {"group": res.group, "version": res.version, "kind": res.kind},
        "scope": "Namespaced" if res.namespaced else "Cluster",
        "singularResource": kind.singular or kind.name.lower(),
        "verbs": list(VERBS),
        "shortNames": list(kind.short_names),
        "categories": list(kind.categories),
    }
    below = [_described_below(kind, name) for name in subresources(kind)]
    return entry | ({"subresources": below} if below else {})


def _described_below(kind: Kind, name: str) -> Obj:
    res = kind.resource
    group, version, shown = _CREATED.get(name, (res.group, res.version, res.kind))
    verbs = ["create"] if name in _CREATED else ["get", "patch", "update"]
    return {
        "subresource": name,
        "responseKind": {"group": group, "version": version, "kind": shown},
        "verbs": verbs,
    }
