"""What the API server fills in when an object arrives, kind by kind, as data where it can be.

Only what depends on the object alone: what admission plugins add (priority, tolerations, service account) is not here,
nor what needs a clock or an address.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable

from kubenexus.common.sandbox.validation.filling import Obj, Template, drop, ensure, fill, items
from kubenexus.common.sandbox.validation.pod_defaults import default_pod, default_template
from kubenexus.common.sandbox.validation.rules import rules_for

_MAX_INT32 = 2**31 - 1
_REQUEST: Template = {"allocationMode": "ExactCount", "tolerations": [{"operator": "Equal"}]}
_CLAIM: Template = {"devices": {"requests": [{"exactly": _REQUEST, "firstAvailable": [_REQUEST]}]}}
_VOLUME_CLAIM: Template = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "spec": {"volumeMode": "Filesystem"},
    "status": {"phase": "Pending"},
}
_RULE: Template = {"scope": "*"}
_WEBHOOK: Template = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "timeoutSeconds": 10,
    "rules": [_RULE],
    "clientConfig": {"service": {"port": 443}},
}
_NODE_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip

# Values stand for what is absent; maps and lists are walked where the object has them, a list's template in each item.
_TEMPLATES: dict[str, Template] = {
    "Deployment": {"spec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}},
    "ReplicaSet": {"spec": {"replicas": 1}},
    "StatefulSet": {"spec": {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"}},
    "Job": {"spec": {"completionMode": "NonIndexed", "suspend": False, "manualSelector": False}},
    "Service": {"spec": {"sessionAffinity": "None", "type": "ClusterIP", "ports": [{"protocol": "TCP"}]}},
    "Secret": {"type": "Opaque"},
    "PersistentVolume": {"spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}},
    "PersistentVolumeClaim": {"spec": {"volumeMode": "Filesystem"}},
    "StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "ResourceSlice": {"spec": {"pool": {"generation": 0}}},
    "ResourceClaim": {"spec": _CLAIM},
    "ResourceClaimTemplate": {"spec": {"spec": _CLAIM}},
    "MutatingWebhookConfiguration": {"webhooks": [{**_WEBHOOK, "reinvocationPolicy": "Never"}]},
    "ValidatingWebhookConfiguration": {"webhooks": [_WEBHOOK]},
}


def apply_defaults(kind: str, obj: Obj) -> Obj:
    """A copy of the object with the server's defaults, without fields behind gates that are off by default."""
    new = copy.deepcopy(obj)
    _drop_empty_metadata(new)
    if rules_for(kind, new).built_in:
        fill(new, _TEMPLATES.get(kind, {}))
        for step in _STEPS.get(kind, ()):
            step(new)
    return new


def _drop_empty_metadata(obj: Obj) -> None:
    """Empty labels, annotations and lists are not stored. An empty list of managers still says something."""
    meta = obj.get("metadata")
    if isinstance(meta, dict):
        empty = [name for name, value in meta.items() if value in (None, {}, []) and name != "managedFields"]
        obj["metadata"] = {name: value for name, value in meta.items() if name not in empty}


def _deployment(obj: Obj) -> None:
    strategy = ensure(obj, "spec", "strategy")
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        fill(ensure(strategy, "rollingUpdate"), {"maxUnavailable": "25%", "maxSurge": "25%"})


def _stateful_set(obj: Obj) -> None:
    strategy = ensure(obj, "spec", "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        ensure(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(strategy, {"rollingUpdate": {"partition": 0}})
    fill(ensure(obj, "spec", "persistentVolumeClaimRetentionPolicy"), {"whenDeleted": "Retain", "whenScaled": "Retain"})
    for claim in items(obj, "spec", "volumeClaimTemplates"):
        ensure(claim, "status")
        fill(claim, _VOLUME_CLAIM)


def _template(obj: Obj) -> None:
    default_template(ensure(obj, "spec", "template"))


def _labels_of_template(obj: Obj) -> None:
    labels = ensure(obj, "spec", "template", "metadata").get("labels")
    if labels and not ensure(obj, "metadata").get("labels"):
        obj["metadata"]["labels"] = copy.deepcopy(labels)


def _job(obj: Obj) -> None:
    spec = ensure(obj, "spec")
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
        fill(spec, {} if "completions" in spec else {"completions": 1})
    fill(spec, {"backoffLimit": _MAX_INT32 if spec.get("backoffLimitPerIndex") is not None else 6})
    fill(spec, {"podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"})


def _service(obj: Obj) -> None:
    spec = ensure(obj, "spec")
    if spec.get("type") != "ExternalName":
        fill(spec, {"internalTrafficPolicy": "Cluster"})
    for port in items(spec, "ports"):
        fill(port, {"targetPort": port.get("port")})


def _node(obj: Obj) -> None:
    status = ensure(obj, "status")
    if status.get("allocatable") is None and status.get("capacity") is not None:
        status["allocatable"] = copy.deepcopy(status["capacity"])
    fill(ensure(status, "daemonEndpoints", "kubeletEndpoint"), {"Port": 0})
    fill(ensure(status, "nodeInfo"), dict.fromkeys(_NODE_INFO, ""))


def _namespace(obj: Obj) -> None:
    meta = ensure(obj, "metadata")
    if meta.get("name"):
        ensure(meta, "labels")["kubernetes.io/metadata.name"] = meta["name"]


def _secret(obj: Obj) -> None:
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict):
        data = ensure(obj, "data")
        data |= {name: base64.b64encode(str(text).encode()).decode() for name, text in plain.items()}


def _claim(obj: Obj) -> None:
    _counts(items(obj, "spec", "devices", "requests"))


def _claim_template(obj: Obj) -> None:
    _counts(items(obj, "spec", "spec", "devices", "requests"))


def _counts(requests: list[Obj]) -> None:
    for request in requests:
        for one in [request.get("exactly"), *items(request, "firstAvailable")]:
            if isinstance(one, dict) and one.get("allocationMode") == "ExactCount" and not one.get("count"):
                one["count"] = 1


def _slice(obj: Obj) -> None:
    """Lists as attribute values and mappings to node resources are alpha: dropped without a word."""
    for device in items(obj, "spec", "devices"):
        drop(device, "nodeAllocatableResourceMappings")
        attributes = device.get("attributes")
        for attribute in attributes.values() if isinstance(attributes, dict) else ():
            drop(attribute, "bools", "ints", "strings", "versions")


def _webhooks(obj: Obj) -> None:
    for webhook in items(obj, "webhooks"):
        ensure(webhook, "namespaceSelector")
        ensure(webhook, "objectSelector")


def _definition(obj: Obj) -> None:
    spec = ensure(obj, "spec")
    names = ensure(spec, "names")
    kind = str(names.get("kind", ""))
    fill(names, {"singular": kind.lower(), "listKind": f"{kind}List"})
    fill(ensure(spec, "conversion"), {"strategy": "None"})


_STEPS: dict[str, tuple[Callable[[Obj], None], ...]] = {
    "Pod": (default_pod,),
    "Deployment": (_deployment, _template),
    "ReplicaSet": (_template, _labels_of_template),
    "StatefulSet": (_stateful_set, _template),
    "Job": (_job, _template, _labels_of_template),
    "Service": (_service,),
    "Node": (_node,),
    "Namespace": (_namespace,),
    "Secret": (_secret,),
    "ResourceClaim": (_claim,),
    "ResourceClaimTemplate": (_claim_template,),
    "ResourceSlice": (_slice,),
    "MutatingWebhookConfiguration": (_webhooks,),
    "ValidatingWebhookConfiguration": (_webhooks,),
    "CustomResourceDefinition": (_definition,),
}
