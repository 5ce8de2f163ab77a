"""What the scheduler may do in a cluster: the rules of its ClusterRole, and of the Role for its Lease."""

from __future__ import annotations

from typing import Any, Final

from kubenexus.common.gangs import OWNER_RESOURCES
from kubenexus.common.vocabulary import LEASE_NAME
from kubenexus.scheduler.intake import WATCHED

Rule = dict[str, Any]


def _watches() -> list[Rule]:
    """Everything that is looked at, what may own a gang included: a cluster need not have it."""
    pairs = dict.fromkeys([*((res.group, res.plural) for res in WATCHED), *OWNER_RESOURCES])
    groups = dict.fromkeys(group for group, _ in pairs)
    plurals = {group: [plural for one, plural in pairs if one == group] for group in groups}
    return [{"apiGroups": [group], "resources": plurals[group], "verbs": ["list", "watch"]} for group in groups]


def _rule(group: str, resource: str, *verbs: str) -> Rule:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


RULES: Final = (
    *_watches(),
    _rule("", "pods", "get", "delete"),
    _rule("", "pods/binding", "create"),
    _rule("", "pods/status", "patch"),
    _rule("", "persistentvolumes", "get", "update"),
    _rule("", "persistentvolumeclaims", "get", "update"),
    _rule("resource.k8s.io", "resourceclaims", "get", "update"),
    _rule("resource.k8s.io", "resourceclaims/status", "update"),
    # Since 1.36 allocations and reservations need this right beside that on the status.
    _rule("resource.k8s.io", "resourceclaims/binding", "update"),
    _rule("events.k8s.io", "events", "create", "patch"),
)


def lease_rules(name: str = LEASE_NAME) -> tuple[Rule, ...]:
    """In the namespace of the Lease only. No name can be asked for at creation."""
    return (
        _rule("coordination.k8s.io", "leases", "create"),
        {**_rule("coordination.k8s.io", "leases", "get", "update"), "resourceNames": [name]},
    )
