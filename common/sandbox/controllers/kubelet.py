"""The kubelet of every node: accepts or rejects bound pods, runs them for as long as they say, and lets them go. Pure.

A pod runs for the seconds in its annotation SIMULATED_RUN_TIME and then succeeds, whatever its restartPolicy. Without
it a pod that restarts always runs until it is deleted, and any other for `DEFAULT_RUN_SECONDS`. A deleted pod ends at
once: its containers obey the first signal, or its node is no longer there. Nothing is really run, mounted or probed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from kubenexus.common.kube.resources import NODES, PODS
from kubenexus.common.sandbox.controllers import kubelet_numa
from kubenexus.common.sandbox.controllers.kubelet_fit import rejection
from kubenexus.common.sandbox.controllers.pods import is_deleting, is_terminal, phase
from kubenexus.common.sandbox.controllers.view import View
from kubenexus.common.sandbox.controllers.writes import (
    Delete,
    Patch,
    Wake,
    Write,
    after,
    set_condition,
    stamp,
    status,
)
from kubenexus.common.vocabulary import SIMULATED_RUN_TIME

Obj = dict[str, Any]

KUBELET_ANNOTATION: Final = "sandbox.local/kubelet"
"""On a Node: `none` leaves its pods and its status alone."""
DEFAULT_RUN_SECONDS: Final = 1.0
MAX_RUN_SECONDS: Final = 10 * 365 * 86_400.0


def reconcile_node(_view: View, node: Obj, now: datetime) -> Iterator[Write]:
    """A node that says nothing about being ready is ready."""
    conditions: list[Obj] = (node.get("status") or {}).get("conditions") or []
    if _runs(node) and not any(each["type"] == "Ready" for each in conditions):
        ready = set_condition(conditions, now, "Ready", True, "KubeletReady", "kubelet is posting ready status")
        ready[-1]["lastHeartbeatTime"] = stamp(now)
        yield from status(NODES, node, {"conditions": ready})


def reconcile_pod(view: View, pod: Obj, now: datetime) -> Iterator[Write]:
    """The next step in the life of a bound pod."""
    host = pod["spec"].get("nodeName")
    node = view.get(NODES, None, host) if host else None
    if not host or (node is not None and not _runs(node)):
        return
    if is_deleting(pod):
        if pod["metadata"].get("deletionGracePeriodSeconds") != 0:
            yield Delete(PODS, pod, grace_seconds=0)
    elif node is None:
        return
    elif phase(pod) == "Pending":
        yield from _admit(view, node, pod, now)
    elif not is_terminal(pod) and (end := _end(pod)):
        if now >= end:
            yield from status(PODS, pod, _finished(pod, now))
        else:
            yield Wake(end)


def _runs(node: Obj) -> bool:
    return bool(node["metadata"].get("annotations", {}).get(KUBELET_ANNOTATION) != "none")


def _admit(view: View, node: Obj, pod: Obj, now: datetime) -> Iterator[Write]:
    others = [each for each in view.pods_on(node["metadata"]["name"]) if phase(each) == "Running"]
    aligned = kubelet_numa.align(node, pod, others)
    refused = kubelet_numa.REJECTION if aligned is None else rejection(node, pod, others)
    if refused:
        text = f"Pod was rejected: {refused.message}"
        failed = {"phase": "Failed", "reason": refused.reason, "message": text, "startTime": stamp(now)}
        yield from status(PODS, pod, failed)
        return
    started: Obj = {"status": _running(node, pod, now)}
    if aligned:
        started["metadata"] = {"annotations": {kubelet_numa.ALLOCATION_ANNOTATION: kubelet_numa.encode(aligned)}}
    yield Patch(PODS, pod, started, "status")


def _running(node: Obj, pod: Obj, now: datetime) -> Obj:
    address = _address(pod["metadata"]["uid"])
    host = next((each["address"] for each in node["status"].get("addresses") or () if each["type"] == "InternalIP"), "")
    host = host or _address(node["metadata"]["uid"])
    spec = pod["spec"]
    running = {"running": {"startedAt": stamp(now)}}
    done = _completed(stamp(now), now)
    inits = [
        _container(each, running if each.get("restartPolicy") == "Always" else done)
        for each in spec.get("initContainers") or ()
    ]
    conditions: list[Obj] = pod["status"].get("conditions") or []
    for kind in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"):
        conditions = set_condition(conditions, now, kind, True)
    return {
        "phase": "Running",
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": stamp(now),
        "observedGeneration": pod["metadata"].get("generation"),
        "conditions": conditions,
        "containerStatuses": [_container(each, running) for each in spec["containers"]],
        **({"initContainerStatuses": inits} if inits else {}),
    }


def _finished(pod: Obj, now: datetime) -> Obj:
    conditions: list[Obj] = pod["status"].get("conditions") or []
    for kind in ("ContainersReady", "Ready"):
        conditions = set_condition(conditions, now, kind, False, "PodCompleted")
    conditions = set_condition(conditions, now, "Initialized", True, "PodCompleted")
    state = _completed(pod["status"]["startTime"], now)
    return {
        "phase": "Succeeded",
        "conditions": conditions,
        "containerStatuses": [_container(each, state) for each in pod["spec"]["containers"]],
    }


def _container(container: Obj, state: Obj) -> Obj:
    running = "running" in state
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "containerID": "sandbox://" + container["name"],
        "ready": running,
        "started": running,
        "restartCount": 0,
        "lastState": {},
        "state": state,
    }


def _completed(started: str, now: datetime) -> Obj:
    times = {"startedAt": started, "finishedAt": stamp(now)}
    return {"terminated": {"exitCode": 0, "reason": "Completed", **times}}


def _end(pod: Obj) -> datetime | None:
    """When the pod will have run its time; None if it runs until it is deleted."""
    text = pod["metadata"].get("annotations", {}).get(SIMULATED_RUN_TIME, "")
    forever = pod["spec"].get("restartPolicy", "Always") == "Always"
    seconds = _seconds(text, None if forever else DEFAULT_RUN_SECONDS)
    started = pod["status"].get("startTime")
    return after(started, seconds) if started and seconds is not None else None


def _seconds(text: str, default: float | None) -> float | None:
    """A run time that can be read; anything else is as if it were absent."""
    try:
        seconds = float(text)
    except ValueError:
        return default
    return seconds if 0 <= seconds <= MAX_RUN_SECONDS else default


def _address(uid: str) -> str:
    """An address in 10.0.0.0/8, the same for the same object; two objects may share one, nothing listens there."""
    a, b, c = hashlib.sha256(uid.encode()).digest()[:3]
    return f"10.{a}.{b}.{c}"
