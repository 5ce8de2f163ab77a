"""What controllers ask of a pod. Pure."""

from __future__ import annotations

from typing import Any

from kubenexus.common.sandbox.controllers.writes import has_condition

Obj = dict[str, Any]


def phase(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def is_terminal(pod: Obj) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def is_deleting(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_active(pod: Obj) -> bool:
    """Counts as one of its controller's pods: neither finished nor on its way out."""
    return not is_terminal(pod) and not is_deleting(pod)


def is_ready(pod: Obj) -> bool:
    return has_condition(pod, "Ready")


def removal_rank(pod: Obj) -> tuple[bool, bool, bool, str]:
    """Sort key for scaling down: first those that lose least (unbound, not running, not ready), then the youngest."""
    bound = bool(pod["spec"].get("nodeName"))
    return bound, phase(pod) == "Running", is_ready(pod), _reversed(pod["metadata"].get("creationTimestamp", ""))


def _reversed(text: str) -> str:
    """Text that sorts in the opposite order."""
    return "".join(chr(0x10FFFF - ord(char)) for char in text)
