"""Watches what may say that pods are a gang: Jobs, and kinds that come and go with their operators.

Nobody needs any of them: a kind that the cluster does not serve, or that we may not see, is not waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kubenexus.common import logs
from kubenexus.common.gangs import OWNER_KINDS
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.discovery import discover
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.mirror import Added, Change, Synced, by_name
from kubenexus.common.kube.reflector import Reflector
from kubenexus.common.kube.resources import Resource
from kubenexus.scheduler.actions import OWNERS, Heard
from kubenexus.scheduler.world import kind_of, read

log = logs.get(__name__)

DISCOVER_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 2.0
FIRST_LISTS_SECONDS: Final = 5.0
"""Nothing is decided before the first lists of owners are in, for so long: somebody else would get the room of a gang
of which a part runs already."""
UNLISTED_SECONDS: Final = 30.0
"""A kind that cannot be listed for so long is not waited for: its pods are placed without a gang."""

Kind = tuple[str, str]


class GangOwners:
    """The reflectors of owners, from `start` to `stop`. `tell` hears of the owners, and which kinds are watched."""

    def __init__(
        self,
        client: Client,
        tell: Callable[[Heard], None],
        others: frozenset[Kind] = frozenset(),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Kinds among the `others` are watched by somebody else."""
        self._client, self._tell, self._others, self._clock = client, tell, others, clock
        self._watches: dict[Resource, tuple[Reflector[Any], float]] = {}
        self._told: frozenset[Kind] = frozenset()
        self._listed: set[Resource] = set()
        """kinds all of whose objects have been told; their reflectors add them"""
        self._synced = False
        self._stopped = False
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gang owners", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        self._stopped = True
        self._news.set()
        reflectors = [reflector for reflector, _ in list(self._watches.values())]
        for patience in (0.0, timeout):  # all at once, and only then wait for them
            for reflector in reflectors:
                reflector.stop(patience)

    def _run(self) -> None:
        due = 0.0
        while not self._stopped:
            if self._clock() >= due:
                due = self._clock() + (DISCOVER_SECONDS if self._discover() else RETRY_SECONDS)
            self._report()
            self._news.wait(RETRY_SECONDS)
            self._news.clear()

    def _discover(self) -> bool:
        try:
            found = set(discover(self._client, OWNER_KINDS - self._others))
        except ApiError as error:
            log.warning("the API server does not say what it serves, trying again", error=error)
            return False
        for res in set(self._watches) - found:
            self._watches.pop(res)[0].stop()
            self._listed.discard(res)
        for res in found - set(self._watches):
            reflector = self._reflector(res)
            self._watches[res] = (reflector, self._clock())
            reflector.start()
        return True

    def _report(self) -> None:
        """Say which kinds are worth waiting for, if that has changed, and once that their first lists are in."""
        if not self._watches and not self._told:
            return
        kinds = frozenset((res.group, res.kind) for res in self._hopeful(UNLISTED_SECONDS)) | self._others
        if kinds != self._told:
            self._told = kinds
            self._tell(Heard(OWNERS, Added(OWNERS, kinds)))
        if not self._synced and self._listed.issuperset(self._hopeful(FIRST_LISTS_SECONDS)):
            self._synced = True
            self._tell(Heard(OWNERS, Synced()))

    def _hopeful(self, seconds: float) -> list[Resource]:
        """The kinds that have been listed, and those that have not yet been tried for so long."""
        now = self._clock()
        return [res for res, (_, since) in self._watches.items() if res in self._listed or now - since < seconds]

    def _reflector(self, res: Resource) -> Reflector[Any]:
        kind = kind_of(res.group, res.kind)

        def hear(change: Change[Any]) -> None:
            self._tell(Heard(kind, change))
            if isinstance(change, Synced):
                self._listed.add(res)
                self._news.set()

        return Reflector(self._client, res, lambda obj: read(kind, obj), hear, key=by_name)
