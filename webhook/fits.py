"""What would fit: whether any node of the cluster is large enough for a pod, if it were empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_GIB: Final = 2**30
_GPU: Final = "nvidia.com/gpu"


def largest_of(rooms: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The most that a single node has of each resource; cpu in milli, all others in units."""
    largest: dict[str, int] = {}
    for room in rooms:
        for resource, amount in room.items():
            largest[resource] = max(amount, largest.get(resource, 0))
    return largest


def verdict(requests: Mapping[str, int], largest: Mapping[str, int]) -> str | None:
    """Which request no node can ever meet, in one sentence; None if each alone fits, or if there are no nodes."""
    if not largest:
        return None
    for resource, amount in requests.items():
        most = largest.get(resource, 0)
        if amount > most:
            has = f"the largest has {_amount(resource, most)}" if most else "none has any"
            return f"needs {_amount(resource, amount)} {_named(resource)} on one node, {has}"
    return None


def _named(resource: str) -> str:
    return {"cpu": "CPUs", "memory": "of memory", _GPU: "GPUs"}.get(resource, resource)


def _amount(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount / 1000:g}"
    return f"{amount / _GIB:.4g}Gi" if resource == "memory" else str(amount)
