"""What the API server fills into pods and pod templates."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from kubenexus.common.objects import ProjectionError, pod_resources
from kubenexus.common.sandbox.validation.filling import Obj, Template, at, decimal, ensure, fill, items

_HTTP: Template = {"httpGet": {"scheme": "HTTP"}}
_PROBE: Template = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    "grpc": {"service": ""},
    **_HTTP,
}
_CONTAINER: Template = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "ports": [{"protocol": "TCP"}],
    "env": [{"valueFrom": {"fieldRef": {"apiVersion": "v1"}}}],
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": {"postStart": _HTTP, "preStop": _HTTP},
}
_FIELD_REFS: Template = {"items": [{"fieldRef": {"apiVersion": "v1"}}]}
_VOLUME: Template = {
    "secret": {"defaultMode": 0o644},
    "configMap": {"defaultMode": 0o644},
    "downwardAPI": {"defaultMode": 0o644, **_FIELD_REFS},
    "projected": {
        "defaultMode": 0o644,
        "sources": [{"serviceAccountToken": {"expirationSeconds": 3600}, "downwardAPI": _FIELD_REFS}],
    },
    "ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem"}}},
}
_POD_SPEC: Template = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "ephemeralContainers": [_CONTAINER],
    "volumes": [_VOLUME],
}


def default_template(template: Obj) -> None:
    """A pod template: what holds for every pod spec."""
    _pod_spec(ensure(template, "spec"))


def default_pod(pod: Obj) -> None:
    """A pod: all of a template's defaults, and requests where only limits are given."""
    spec = ensure(pod, "spec")
    _pod_spec(spec)
    fill(spec, {"enableServiceLinks": True})
    for container in _containers(spec):
        _requests_from_limits(container["resources"])
        if spec.get("hostNetwork"):
            for port in items(container, "ports"):
                fill(port, {"hostPort": port.get("containerPort")})
    if isinstance(at(spec, "resources", "limits"), dict):
        _pod_requests(pod, spec["resources"])


def _pod_spec(spec: Obj) -> None:
    fill(spec, _POD_SPEC)
    ensure(spec, "securityContext")
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in _containers(spec):
        ensure(container, "resources")
        fill(container, {"imagePullPolicy": _pull_policy(container.get("image"))})
    for volume in items(spec, "volumes"):
        if set(volume) <= {"name"}:
            volume["emptyDir"] = {}


def _containers(spec: Obj) -> list[Obj]:
    """Containers that can ask for resources."""
    return items(spec, "initContainers") + items(spec, "containers")


def _pull_policy(image: Any) -> str:
    """An image without tag, or with the tag `latest`, is pulled every time."""
    name, _, digest = str(image or "").partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or (not tag and not digest) else "IfNotPresent"


def _requests_from_limits(resources: Obj) -> None:
    if resources.get("limits"):
        fill(ensure(resources, "requests"), resources["limits"])


def _pod_requests(pod: Obj, resources: Obj) -> None:
    """Pod-level requests come from the containers' where these can be overcommitted, else from the pod's limits."""
    requests = ensure(resources, "requests")
    for name, amount in _container_requests(pod).items():
        if name in ("cpu", "memory"):
            fill(requests, {name: decimal(amount)})
    shared = {name: limit for name, limit in resources["limits"].items() if _at_pod_level(name)}
    fill(requests, shared)


def _container_requests(pod: Obj) -> dict[str, Fraction]:
    try:
        return dict(pod_resources(pod).container_requests())
    except ProjectionError:
        return {}  # validation says what is wrong


def _at_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")
