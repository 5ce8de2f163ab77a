"""Which kinds an API server serves, and as what resources: for kinds that a cluster may or may not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import NotFound
from kubenexus.common.kube.resources import Resource

Obj = dict[str, Any]


def discover(client: Client, kinds: Collection[tuple[str, str]]) -> list[Resource]:
    """The resources of those of the (API group, kind) pairs that the server has, each in one version.

    Raises ApiError.
    """
    wanted = {group for group, _ in kinds}
    found: dict[tuple[str, str], Resource] = {}
    for group in client.request("GET", "/apis").get("groups") or []:
        name = group.get("name")
        for version in _versions(group) if name in wanted else ():
            for res in _resources(client, name, version):
                if (name, res.kind) in kinds:
                    found.setdefault((name, res.kind), res)
    return list(found.values())


def _versions(group: Obj) -> Iterable[str]:
    """The preferred one first. Others count as well: operators that share a group need not share versions."""
    every = [group.get("preferredVersion"), *(group.get("versions") or ())]
    return dict.fromkeys(one["version"] for one in every if one and one.get("version"))


def _resources(client: Client, group: str, version: str) -> Iterator[Resource]:
    try:
        listed: Obj = client.request("GET", f"/apis/{group}/{version}")
    except NotFound:  # the group went in this moment
        return
    for one in listed.get("resources") or ():
        if "/" not in one.get("name", "/") and {"list", "watch"} <= set(one.get("verbs") or ()):
            yield Resource(group, version, one["name"], one.get("kind", ""), namespaced=bool(one.get("namespaced")))
