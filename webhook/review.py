"""From an AdmissionReview to its answer. Pure, and total: any JSON gets a valid answer, any error admits the pod."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kubenexus.webhook.cluster import AskedOnce, Cluster
from kubenexus.webhook.contradictions import gang_sizes
from kubenexus.webhook.findings import Finding, cut
from kubenexus.webhook.mutate import Step, mutation, operations
from kubenexus.webhook.subject import Subject, mapping
from kubenexus.webhook.validate import is_judged, judge

Obj = dict[str, Any]

_MOST_WARNINGS: Final = 10


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is the AdmissionReview to send. `rule` names what denied the pod, from a bounded set, for metrics."""

    body: Obj
    patched: bool = False
    denied: bool = False
    rule: str = ""
    error: str = ""


def answer(review: object, cluster: Cluster, *, mutate: bool) -> Answer:
    """The answer to a review: of the mutating webhook, or of the validating one. Never raises."""
    request = mapping(mapping(review).get("request"))
    uid = request.get("uid")
    uid = uid if isinstance(uid, str) else ""
    try:
        return _mutated(uid, request, cluster) if mutate else _validated(uid, request, cluster)
    except Exception as error:  # noqa: BLE001 (a mistake of ours must not keep anybody's pod from running)
        told = f"{type(error).__name__}: {error}"
        warning = f"KubeNexus admitted the pod unchecked, after an internal error: {told}"
        return Answer(_body(uid, warnings=[warning]), error=told)


def _mutated(uid: str, request: Obj, cluster: Cluster) -> Answer:
    pod = _pod(request, "object") if request.get("operation") == "CREATE" else None
    if pod is None:
        return Answer(_body(uid))
    steps, warnings = mutation(Subject.of(pod, _namespace(request), cluster))
    if not steps:
        return Answer(_body(uid, warnings=warnings))
    patch = base64.b64encode(json.dumps(operations(pod, steps)).encode()).decode()
    body = _body(uid, warnings=warnings, patchType="JSONPatch", patch=patch, auditAnnotations=_audit(steps))
    return Answer(body, patched=True)


def _validated(uid: str, request: Obj, cluster: Cluster) -> Answer:
    subject, before = _subjects(request, cluster)
    if subject is None or not is_judged(subject):
        return Answer(_body(uid))
    findings = judge(subject, before)
    warnings = [finding.text for finding in findings if not finding.denies]
    denials = [finding for finding in findings if finding.denies]
    if denials:
        return Answer(_denial(uid, denials, warnings), denied=True, rule=denials[0].rule)
    if before is None:
        warnings.extend(_about_new(subject, is_real=request.get("dryRun") is not True))
    return Answer(_body(uid, warnings=warnings))


def _about_new(pod: Subject, *, is_real: bool) -> Iterator[str]:
    """What only a pod that is going to be there is told; one that is not must not be remembered."""
    if is_real:
        yield from (finding.text for finding in gang_sizes(pod))
    if verdict := pod.cluster.verdict(pod.pod):
        yield verdict


# --- Reading the request ---------------------------------------------------------------------------------------------


def _subjects(request: Obj, cluster: Cluster) -> tuple[Subject | None, Subject | None]:
    """The pod that is created or changed, and what it was before; None for what is neither."""
    pod, operation = _pod(request, "object"), request.get("operation")
    if pod is None or operation not in ("CREATE", "UPDATE") or _is_leaving(pod):
        return None, None
    namespace = _namespace(request)
    if operation == "CREATE":
        return Subject.of(pod, namespace, cluster), None
    old = _pod(request, "oldObject")
    if old is None:
        return None, None
    cluster = replace(cluster, owners=AskedOnce(cluster.owners))
    return Subject.of(pod, namespace, cluster), Subject.of(old, namespace, cluster)


def _pod(request: Obj, key: str) -> Obj | None:
    """The pod in a request; None where it is about something else, a subresource included."""
    kind = mapping(request.get("kind"))
    if kind.get("kind") != "Pod" or kind.get("group") or request.get("subResource"):
        return None
    pod = request.get(key)
    return pod if isinstance(pod, dict) else None


def _is_leaving(pod: Obj) -> bool:
    """Being deleted: nothing may stand in the way of that."""
    return mapping(pod.get("metadata")).get("deletionTimestamp") is not None


def _namespace(request: Obj) -> str:
    namespace = request.get("namespace")
    return namespace if isinstance(namespace, str) else ""


# --- Writing the answer ----------------------------------------------------------------------------------------------


def _denial(uid: str, denials: Sequence[Finding], warnings: Iterable[str]) -> Obj:
    message = " ".join(finding.text for finding in denials)
    status = {"status": "Failure", "code": 403, "reason": "Forbidden", "message": _sendable(message)}
    rules = ",".join(sorted({finding.rule for finding in denials}))
    return _body(uid, warnings=warnings, allowed=False, status=status, auditAnnotations={"denied": rules})


def _body(uid: str, *, warnings: Iterable[str] = (), allowed: bool = True, **extra: object) -> Obj:
    response = {"uid": uid, "allowed": allowed, **extra}
    if told := [_sendable(cut(warning)) for warning in warnings][:_MOST_WARNINGS]:
        response["warnings"] = told
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _audit(steps: Iterable[Step]) -> dict[str, str]:
    """By the name of each thing: its value and the reason."""
    return {step.what: _sendable(f"{next(iter(step.fields.values()))} ({step.why})") for step in steps}


def _sendable(text: str) -> str:
    """The text without what UTF-8 cannot carry."""
    return text.encode("utf-8", "replace").decode()
