"""What the webhook may do in a cluster: the rules of its ClusterRole, and of the Role in its own namespace."""

from __future__ import annotations

from typing import Any, Final

from kubenexus.common.gangs import OWNER_RESOURCES

Rule = dict[str, Any]

SECRET: Final = "kubenexus-webhook-certs"
CONFIGURATION: Final = "kubenexus-webhook"


def _watches() -> list[Rule]:
    groups = dict.fromkeys(group for group, _ in OWNER_RESOURCES)
    plurals = {group: [plural for its, plural in OWNER_RESOURCES if its == group] for group in groups}
    return [{"apiGroups": [group], "resources": plurals[group], "verbs": ["list", "watch"]} for group in groups]


RULES: Final[tuple[Rule, ...]] = (
    {"apiGroups": [""], "resources": ["namespaces", "nodes"], "verbs": ["list", "watch"]},
    *_watches(),
)


def certificate_rules(configuration: str = CONFIGURATION) -> tuple[Rule, ...]:
    """Cluster-wide, and only where the webhook manages its certificates: to say whom API servers are to trust."""
    return (
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            "resourceNames": [configuration],
            "verbs": ["get", "patch"],
        },
    )


def secret_rules(secret: str = SECRET) -> tuple[Rule, ...]:
    """In the webhook's namespace, and only where it manages its certificates. No name can be asked for at creation."""
    return (
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get", "update"]},
    )
