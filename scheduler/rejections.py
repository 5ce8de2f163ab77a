"""Kubelets that refused a pod after it was bound: where its owner's pods are not sent again for a while. Pure.

The owner of a rejected pod makes the next one at once. The same state would send it to the same node, and so on in a
loop; a bar on that node for that owner breaks it. It grows while the kubelet keeps refusing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kubenexus.common.objects import PodView, project_pod
from kubenexus.scheduler.engine.table import Table

Obj = dict[str, Any]

FIRST, MOST = 30.0, 600.0
"""seconds that a bar lasts: doubling from the first to the longest"""
_REASONS: Final = frozenset(
    (
        "NodeAffinity",
        "NodePorts",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotSupported",
        "SMTAlignmentError",
        "TaintToleration",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "VolumeAttachmentLimitExceeded",
    )
)


class Rejection(NamedTuple):
    """A kubelet's refusal; `owner` is the uid of the pod's controller."""

    owner: str
    node: str
    reason: str


def read_rejection(obj: Obj) -> Rejection | None:
    """The refusal that a failed pod tells of; None if it ran, or if nobody will make another one."""
    status = obj.get("status") or {}
    reason = status.get("reason") or ""
    if reason not in _REASONS and not str(reason).startswith("OutOf"):
        return None
    pod: PodView = project_pod(obj)
    return Rejection(pod.owner.uid, pod.node, reason) if pod.owner and pod.node else None


class Bars:
    """Which nodes are barred for which owners. The table tells plugins: owner → node → the kubelet's reason."""

    def __init__(self, table: Table[Mapping[str, str]]) -> None:
        self._table = table
        self._ends: list[tuple[float, str, str]] = []
        self._last: dict[tuple[str, str], tuple[int, float]] = {}

    def add(self, rejection: Rejection, now: float) -> None:
        """Bar the node; if it refused this owner's pods before, for longer."""
        place = rejection.owner, rejection.node
        count, until = self._last.get(place, (0, 0.0))
        if now < until and count:  # several pods were on their way at once: one bar for all
            return
        length = min(MOST, FIRST * (1 << min(count, 10)))
        self._last[place] = count + 1, now + length
        heapq.heappush(self._ends, (now + length, *place))
        known = self._table.get(rejection.owner, {})
        self._table.set(rejection.owner, {**known, rejection.node: rejection.reason})

    def lift(self, now: float) -> bool:
        """Lift the bars whose time is over; whether there were any. What was long ago is forgotten."""
        lifted = False
        while self._ends and self._ends[0][0] <= now:
            _, owner, node = heapq.heappop(self._ends)
            lifted = True
            left = {name: why for name, why in self._table.get(owner, {}).items() if name != node}
            if left:
                self._table.set(owner, left)
            else:
                self._table.remove(owner)
        self._forget(now)
        return lifted

    def next_end(self) -> float | None:
        """When the next bar is lifted."""
        return self._ends[0][0] if self._ends else None

    def _forget(self, now: float) -> None:
        old: Iterable[tuple[str, str]] = [place for place, (_, until) in self._last.items() if until + MOST < now]
        for place in old:
            del self._last[place]
