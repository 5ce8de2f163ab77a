"""One line per kind: its API version, the grammar of its names, its scope and its checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubenexus.common.sandbox.validation import dra_claims, dra_slices, events, pods, policy, webhooks, workloads
from kubenexus.common.sandbox.validation.field import Field, Obj
from kubenexus.common.sandbox.validation.grammar import Grammar, dns_label, dns_subdomain

Check = Callable[[Field, Field], None]


def _nothing(new: Field, old: Field) -> None:
    """A kind without rules of its own."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one kind. Checks get the new and the stored object; the latter is absent on creation."""

    api_version: str
    check: Check = _nothing
    check_status: Check = _nothing
    name: Grammar = dns_subdomain
    namespaced: bool | None = True

    @property
    def built_in(self) -> bool:
        return bool(self.api_version)


CUSTOM = Rules("", namespaced=None)
_WEBHOOKS = Rules("admissionregistration.k8s.io/v1", webhooks.webhooks, namespaced=False)
_DRA = "resource.k8s.io/v1"
KINDS = {
    "Pod": Rules("v1", pods.pod, pods.pod_status),
    "Node": Rules("v1", policy.node, policy.node_status, namespaced=False),
    "Namespace": Rules("v1", name=dns_label, namespaced=False),
    "Secret": Rules("v1", policy.data_keys),
    "ConfigMap": Rules("v1", policy.data_keys),
    "ServiceAccount": Rules("v1"),
    "Service": Rules("v1", name=dns_label),
    "PersistentVolume": Rules("v1", namespaced=False),
    "PersistentVolumeClaim": Rules("v1", policy.volume_claim),
    "Event": Rules("v1", events.event),
    "Lease": Rules("coordination.k8s.io/v1", policy.lease),
    "PriorityClass": Rules("scheduling.k8s.io/v1", policy.priority_class, namespaced=False),
    "PodDisruptionBudget": Rules("policy/v1", policy.disruption_budget),
    "StorageClass": Rules("storage.k8s.io/v1", policy.storage_class, namespaced=False),
    "CSINode": Rules("storage.k8s.io/v1", policy.csi_node, namespaced=False),
    "ResourceSlice": Rules(_DRA, dra_slices.resource_slice, namespaced=False),
    "ResourceClaim": Rules(_DRA, dra_claims.resource_claim, dra_claims.resource_claim_status),
    "ResourceClaimTemplate": Rules(_DRA, dra_claims.resource_claim_template),
    "DeviceClass": Rules(_DRA, dra_claims.device_class, namespaced=False),
    "Job": Rules("batch/v1", workloads.job),
    "Deployment": Rules("apps/v1", workloads.deployment),
    "ReplicaSet": Rules("apps/v1", workloads.replica_set),
    "StatefulSet": Rules("apps/v1", workloads.stateful_set, name=dns_label),
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "CustomResourceDefinition": Rules("apiextensions.k8s.io/v1", namespaced=False),
}
_MODERN_EVENT = Rules("events.k8s.io/v1", events.event)


def rules_for(kind: str, obj: Obj) -> Rules:
    """The rules of a built-in kind, or of a custom resource."""
    rules = KINDS.get(kind, CUSTOM)
    version = obj.get("apiVersion", rules.api_version)
    if kind == "Event" and version == _MODERN_EVENT.api_version:
        return _MODERN_EVENT
    return rules if version == rules.api_version else CUSTOM
