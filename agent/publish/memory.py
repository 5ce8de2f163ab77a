"""The GPUs of the last probe that worked, told again while probes fail. Pure.

A probe that hangs or crashes says nothing about the GPUs: what was known stays, and after a while it is marked stale.
That there are no GPUs, or no driver, is an answer and no failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kubenexus.agent.publish.wanted import Findings
from kubenexus.common.topology import NodeTopology
from kubenexus.common.wire import UNTOLD, Allocations, KubeletSettings

FAILED_PROBES = frozenset(("error", "hung", "crashed"))


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a machine: its topology, how the NVML probe ended, what the kubelet gave to pods and is set to."""

    topology: NodeTopology
    probe: str
    allocations: Allocations | None = None
    kubelet: KubeletSettings = UNTOLD


@dataclass(frozen=True, slots=True)
class Published:
    """What stands on the Node from before we started: its GPUs, and whether they were called stale."""

    topology: NodeTopology
    stale: bool


class GpuMemory:
    """Settles what to tell of the GPUs. `published` is asked at most once, when the very first probes fail."""

    def __init__(self, stale_after: float) -> None:
        self._stale_after = stale_after
        self._last: Published | None = None
        self._told_at: float | None = None

    def settle(self, look: Look, now: float, published: Callable[[], Published]) -> Findings:
        if look.probe not in FAILED_PROBES:
            self._last, self._told_at = Published(look.topology, stale=False), now
            return Findings(look.topology, gpu_stale=False, allocations=look.allocations, kubelet=look.kubelet)
        if self._last is None:
            self._last = published()
        if self._told_at is None:
            self._told_at = now
        stale = self._last.stale or now - self._told_at >= self._stale_after
        topology = _with_gpus(look.topology, self._last.topology)
        return Findings(topology, stale, look.allocations, look.kubelet)


def _with_gpus(fresh: NodeTopology, last: NodeTopology) -> NodeTopology:
    """`fresh` with the GPUs of `last`; what the PCI bus tells is better than nothing."""
    if not last.gpus:
        return fresh
    reasons = {fact: why for fact, why in fresh.unknowns.items() if not fact.startswith("gpu")}
    reasons |= {fact: why for fact, why in last.unknowns.items() if fact.startswith("gpu")}
    return replace(fresh, gpus=last.gpus, nvlink=last.nvlink, unknowns=reasons)
