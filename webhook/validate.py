"""The rules a pod must meet, all of them, and what they say together. Pure."""

from __future__ import annotations

from typing import Final

from kubenexus.webhook import claims, contradictions, values
from kubenexus.webhook.findings import Finding, Rule
from kubenexus.webhook.subject import Subject

RULES: Final[tuple[Rule, ...]] = (
    values.grammar,
    values.names,
    claims.tier,
    claims.granted_tier,
    claims.tenant,
    claims.placed,
    contradictions.gang,
    contradictions.gang_conflict,
    contradictions.gang_needed,
    contradictions.spread_and_packed,
    contradictions.isolated,
    contradictions.pinning,
    contradictions.aligned,
    contradictions.numa_ids,
    contradictions.two_names,
    contradictions.vram,
)


def is_judged(pod: Subject) -> bool:
    """Whether the pod is any business of ours: it asks for our scheduler, or for none where pods get ours."""
    return pod.scheduler in pod.cluster.schedulers or (pod.opted_in and not pod.is_for_others)


def judge(pod: Subject, before: Subject | None = None) -> list[Finding]:
    """What is wrong with a new pod; of one that is changed, only what the change made wrong.

    Whoever removes a finalizer must not be stopped by what was there all along.
    """
    if before is not None and (before.facts, before.spec) == (pod.facts, pod.spec):
        return []
    found = _findings(pod)
    if before is None:
        return found
    known = {finding.text for finding in _findings(before)}
    return [*claims.same_gang(before, pod), *(finding for finding in found if finding.text not in known)]


def _findings(pod: Subject) -> list[Finding]:
    """Each text once: a rule about a value and one about the gang it belongs to may have the same to say."""
    found: dict[str, Finding] = {}
    for rule in RULES:
        for finding in rule(pod):
            found.setdefault(finding.text, finding)
    return list(found.values())
