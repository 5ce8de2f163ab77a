"""Which webhooks an admission request concerns: rules, objectSelector and namespaceSelector. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kubenexus.common.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS, Resource
from kubenexus.common.sandbox.selectors import matches_label_selector

Obj = dict[str, Any]
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One write on its way to storage: `obj` is None for DELETE, `old` for CREATE; `name` may be empty for CREATE."""

    operation: str
    resource: Resource
    subresource: str
    namespace: str | None
    name: str
    obj: Obj | None
    old: Obj | None
    dry_run: bool = False
    user: str = "system:admin"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")


def is_exempt(request: AdmissionRequest) -> bool:
    """Webhook configurations never pass through webhooks, or a broken one could not be repaired."""
    return request.resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)


def concerns(hook: Obj, request: AdmissionRequest, namespace_labels: Callable[[str], Labels]) -> bool:
    """Whether the webhook is to be called. The namespace is looked up only if nothing else rules the call out."""
    return (
        any(_rule_matches(rule, request) for rule in hook.get("rules", ()))
        and _object_matches(hook.get("objectSelector"), request)
        and _namespace_matches(hook.get("namespaceSelector"), request, namespace_labels)
    )


def _rule_matches(rule: Obj, request: AdmissionRequest) -> bool:
    scope = rule.get("scope", "*")
    return (
        scope in ("*", "Namespaced" if request.resource.namespaced else "Cluster")
        and _listed(request.operation, rule.get("operations", ()))
        and _listed(request.resource.group, rule.get("apiGroups", ()))
        and _listed(request.resource.version, rule.get("apiVersions", ()))
        and any(_resource_matches(text, request) for text in rule.get("resources", ()))
    )


def _listed(word: str, words: list[str]) -> bool:
    return "*" in words or word in words


def _resource_matches(text: str, request: AdmissionRequest) -> bool:
    plural, _, subresource = text.partition("/")
    return plural in ("*", request.resource.plural) and subresource in ("*", request.subresource)


def _object_matches(selector: Obj | None, request: AdmissionRequest) -> bool:
    return not selector or any(
        matches_label_selector(selector, labels_of(each)) for each in (request.obj, request.old) if each is not None
    )


def _namespace_matches(
    selector: Obj | None, request: AdmissionRequest, namespace_labels: Callable[[str], Labels]
) -> bool:
    if not selector or not (request.namespace or request.resource == NAMESPACES):
        return True
    if request.resource == NAMESPACES and request.obj is not None and not request.subresource:
        return matches_label_selector(selector, labels_of(request.obj))
    return matches_label_selector(selector, namespace_labels(request.namespace or request.name))


def labels_of(obj: Obj) -> Labels:
    labels: Labels = obj.get("metadata", {}).get("labels") or {}
    return labels
