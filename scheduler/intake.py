"""What the scheduler watches: a reflector for each kind that the server has, all telling one listener."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from kubenexus.common.kube import resources as r
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import NotFound
from kubenexus.common.kube.mirror import by_name, by_uid
from kubenexus.common.kube.reflector import Reflector
from kubenexus.common.kube.resources import Resource
from kubenexus.scheduler.actions import POD, REJECTED, Heard
from kubenexus.scheduler.rejections import read_rejection
from kubenexus.scheduler.world import kind_of, read

Obj = dict[str, Any]

NOT_FINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
WATCHED: Final = (
    r.PODS,
    r.NODES,
    r.NAMESPACES,
    r.SERVICES,
    r.REPLICATION_CONTROLLERS,
    r.REPLICA_SETS,
    r.STATEFUL_SETS,
    r.PERSISTENT_VOLUME_CLAIMS,
    r.PERSISTENT_VOLUMES,
    r.STORAGE_CLASSES,
    r.CSI_NODES,
    r.CSI_DRIVERS,
    r.CSI_STORAGE_CAPACITIES,
    r.VOLUME_ATTACHMENTS,
    r.POD_DISRUPTION_BUDGETS,
    r.RESOURCE_CLAIMS,
    r.DEVICE_CLASSES,
    r.RESOURCE_SLICES,
)
"""PriorityClasses are not among them: the API server writes the priority into each pod."""
PATIENCE: Final = 5.0
"""seconds for one question of `served`, which nobody can interrupt"""


def served(client: Client, wanted: Sequence[Resource] = WATCHED) -> list[Resource]:
    """Those of the resources that the API server has, by what it says itself. Raises ApiError."""
    known: dict[str, frozenset[str]] = {}
    for path in dict.fromkeys(res.base_path for res in wanted):
        try:
            found = client.request("GET", path, timeout=PATIENCE)
        except NotFound:
            found = {}
        known[path] = frozenset(one.get("name", "") for one in found.get("resources") or ())
    return [res for res in wanted if res.plural in known[res.base_path]]


class Intake:
    """The reflectors, from `start` to `stop`. `tell` is called from their threads."""

    def __init__(self, client: Client, resources: Sequence[Resource], tell: Callable[[Heard], None]) -> None:
        self._client, self._tell = client, tell
        self._reflectors = [self._reflector(res) for res in resources]
        self._reflectors.append(
            Reflector(
                client,
                r.PODS,
                read_rejection,
                lambda change: tell(Heard(REJECTED, change)),
                field_selector="status.phase=Failed",
                called="failed pods",
            )
        )
        self.kinds = frozenset((*(kind_of(res.group, res.kind) for res in resources), REJECTED))
        """each of them tells when it is synchronised"""
        self.watched = frozenset((res.group, res.kind) for res in resources)

    def start(self) -> None:
        for reflector in self._reflectors:
            reflector.start()

    def stop(self, timeout: float = 5.0) -> None:
        deadline = time.monotonic() + timeout
        for reflector in self._reflectors:  # all at once: a server that does not answer is waited for only once
            reflector.stop(0)
        for reflector in self._reflectors:
            reflector.stop(max(deadline - time.monotonic(), 0))

    def ready(self) -> str | None:
        """For /readyz: what is still waited for."""
        return next((problem for one in self._reflectors if (problem := one.check())), None)

    def alive(self) -> str | None:
        """For /healthz."""
        return next((problem for one in self._reflectors if (problem := one.alive())), None)

    def _reflector(self, res: Resource) -> Reflector[Any]:
        kind, tell = kind_of(res.group, res.kind), self._tell
        return Reflector(
            self._client,
            res,
            lambda obj: read(kind, obj),
            lambda change: tell(Heard(kind, change)),
            key=by_uid if kind == POD else by_name,
            field_selector=NOT_FINISHED if kind == POD else None,
        )
