"""Rights as they are granted by rendered roles, and as they are used by requests in the audit log of an API server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.chart.helm import Obj, of_kind

FORBIDDEN = 403


class Right(NamedTuple):
    """To do something with a resource; `namespace` and `name` are empty where they do not matter."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def covers(self, call: Right) -> bool:
        """Whether it allows a call."""
        same = self[:3] == call[:3]
        return same and self.namespace in ("", call.namespace) and self.name in ("", call.name)

    def __str__(self) -> str:
        words = (self.verb, f"{self.group}/{self.resource}".lstrip("/"), self.name)
        return " ".join(filter(None, words))


class Call(NamedTuple):
    """A request, and whether it was let through."""

    right: Right
    forbidden: bool


def rules(objects: list[Obj], account: tuple[str, str]) -> dict[str, list[Obj]]:
    """The rules that an account (namespace, name) has, by the namespace they are for; `` for all of them."""
    found: dict[str, list[Obj]] = {}
    roles = {_place(role): role["rules"] for role in of_kind(objects, "ClusterRole", "Role")}
    for binding in of_kind(objects, "ClusterRoleBinding", "RoleBinding"):
        if account in [(who["namespace"], who["name"]) for who in binding["subjects"]]:
            namespace, role = binding["metadata"].get("namespace", ""), binding["roleRef"]
            place = (role["kind"], namespace if role["kind"] == "Role" else "", role["name"])
            found.setdefault(namespace, []).extend(roles[place])
    return found


def _place(role: Obj) -> tuple[str, str, str]:
    meta = role["metadata"]
    return role["kind"], meta.get("namespace", ""), meta["name"]


def granted(objects: list[Obj], account: tuple[str, str]) -> set[Right]:
    """Every single right of an account."""
    return {
        Right(verb, group, resource, namespace, name)
        for namespace, some in rules(objects, account).items()
        for rule in some
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or [""]
    }


def used(log: Path, account: tuple[str, str]) -> set[Call]:
    """What an account has asked for, other than what the server offers to everybody."""
    user = ":".join(("system:serviceaccount", *account))
    return {_call(event) for event in _events(log) if event["user"]["username"] == user and "objectRef" in event}


def _events(log: Path) -> Iterator[Obj]:
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _call(event: Obj) -> Call:
    about = event["objectRef"]
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    right = Right(event["verb"], about.get("apiGroup", ""), resource, about.get("namespace", ""), about.get("name", ""))
    return Call(right, event.get("responseStatus", {}).get("code") == FORBIDDEN)


def missing(grants: Iterable[Right], calls: Iterable[Call]) -> list[str]:
    """Calls that were refused, or that no grant covers."""
    every = [*grants]
    return sorted(
        {str(call.right) for call in calls if call.forbidden or not any(one.covers(call.right) for one in every)}
    )


def superfluous(grants: Iterable[Right], calls: Iterable[Call]) -> list[str]:
    """Grants that no call needed."""
    every = [call.right for call in calls]
    return sorted({str(one) for one in grants if not any(one.covers(call) for call in every)})
