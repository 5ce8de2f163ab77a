"""Rules about what a pod may say of itself: its tenant and tier, where it was placed, and which gang it is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import Gang, Invalid, OwnerStore, PodFacts, Waiting, resolve
from kubenexus.common.tenants import RANK, claimed_tier
from kubenexus.webhook.findings import Finding, deny, warn
from kubenexus.webhook.subject import Subject

_LONGEST: Final = 100
PLACED: Final = (v.NUMA_ASSIGNED, v.GPU_ASSIGNED, v.TOPOLOGY_HASH)


def tier(pod: Subject) -> Iterator[Finding]:
    """A pod may be of a lower tier than its namespace, never of a higher one."""
    claims = [claimed_tier(values) for values in (pod.facts.labels, pod.facts.annotations)]
    highest = max((claim for claim in claims if claim), key=RANK.__getitem__, default=None)
    if highest is None:
        return
    if pod.namespace is None:
        yield warn("tier", f"namespace {pod.facts.namespace} is not known yet: {v.TENANT_TIER} was not checked.")
    elif RANK[highest] > RANK[pod.namespace.tier]:
        yield deny(
            "tier",
            f"{v.TENANT_TIER} is {highest}, above {pod.namespace.tier}, the tier of namespace {pod.namespace.name}: "
            "lower or remove it, or let an administrator raise the namespace.",
        )


def granted_tier(pod: Subject) -> Iterator[Finding]:
    """A tier that is misspelt on the namespace grants nothing, which nobody would notice."""
    labels = pod.namespace.labels if pod.namespace else {}
    if pod.namespace and v.TENANT_TIER in labels and claimed_tier(labels) is None:
        said = f"tier {labels[v.TENANT_TIER]!r} of namespace {pod.namespace.name} is not known"
        yield warn("tier", f"{said}, so its pods are {pod.namespace.tier}: tell an administrator.")


def tenant(pod: Subject) -> Iterator[Finding]:
    """A pod counts for the tenant of its namespace."""
    claim = pod.facts.labels.get(v.TENANT_NAME)
    if claim is not None and pod.namespace is not None and claim != pod.namespace.tenant:
        yield deny(
            "tenant",
            f"{v.TENANT_NAME} is {claim[:63]!r}, but namespace {pod.namespace.name} belongs to {pod.namespace.tenant}: "
            "remove it.",
        )


def placed(pod: Subject) -> Iterator[Finding]:
    """Only the scheduler says where a pod was placed; a new pod was placed nowhere."""
    for key in PLACED:
        if key in pod.facts.annotations and not pod.is_placed:
            yield deny("placed", written_by_scheduler(key))


def written_by_scheduler(key: str) -> str:
    return f"{key} is written by the scheduler when it places a pod: remove it."


def same_gang(old: Subject, new: Subject) -> Iterator[Finding]:
    """A pod stays in the gang that it was created in: what has been decided about the gang counted it.

    Controllers adopt pods and let them go; that is not a change of what the pod says.
    """
    before, after = _identity(old.facts), _identity(replace(new.facts, owner=old.facts.owner))
    if before != after:
        yield deny(
            "same-gang",
            f"the gang of a pod cannot be changed (it was {_short(before)}, now {_short(after)}): "
            "delete the pod and create it anew.",
        )


def _short(identity: str) -> str:
    """For a sentence; names of others' gangs may have any length."""
    return identity if len(identity) <= _LONGEST else f"{identity[: _LONGEST - 1]}…"


def _identity(pod: PodFacts) -> str:
    """The gang by what the pod itself carries: its owner may have been resized or deleted in the meantime."""
    match resolve(pod, OwnerStore()):
        case Gang(key=key, min_available=size):
            return f"{key.id} of {size}"
        case Waiting(owner=owner):
            return f"that of {owner}"
        case Invalid():
            return "malformed"
        case _:
            return "none"
