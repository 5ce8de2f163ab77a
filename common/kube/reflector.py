"""A thread that keeps a copy of one collection true and tells what changes.

It carries out what `Mirror` decides, and nothing more: list in pages, watch with bookmarks, wait, stop.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from kubenexus.common import logs, metrics
from kubenexus.common.kube.client import PAGE, ListResult
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.mirror import Backoff, Change, List, Mirror, Obj, by_uid
from kubenexus.common.kube.resources import Resource

log = logs.get(__name__)
V = TypeVar("V")

SILENCE = 120.0  # The server sends a bookmark about every minute: two missing ones mean a dead connection.


class Lines(Protocol):
    """What a reflector needs of a `Stream`."""

    def __iter__(self) -> Iterator[bytes]: ...
    def __enter__(self) -> Lines: ...
    def __exit__(self, *_: object) -> None: ...
    def abort(self) -> None: ...


class Source(Protocol):
    """What a reflector needs of a `Client`."""

    def pages(
        self,
        res: Resource,
        namespace: str | None,
        /,
        *,
        label_selector: str | None,
        field_selector: str | None,
        limit: int | None,
    ) -> Iterable[ListResult]: ...

    def watch(
        self,
        res: Resource,
        namespace: str | None,
        /,
        *,
        resource_version: str,
        label_selector: str | None,
        field_selector: str | None,
        server_timeout: int,
        inactivity: float,
    ) -> Lines: ...


class Reflector(Generic[V]):
    """Reflects a resource, from `start` to `stop`.

    `emit` is called with every Change, in order, from the reflector's thread; a `SimpleQueue.put` will do. Nothing is
    emitted after `stop` returns. `project` runs in that thread too, so that nothing keeps the whole object.
    `called` is its name in metrics, if one resource is reflected twice.
    """

    def __init__(
        self,
        client: Source,
        res: Resource,
        project: Callable[[Obj], V | None],
        emit: Callable[[Change[V]], None],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        key: Callable[[Obj], str] = by_uid,
        backoff: Backoff | None = None,
        relist_after: float = 3600.0,
        called: str = "",
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._res = res
        self._called = called or str(res)
        self._emit = emit
        self._namespace = namespace
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._mirror = Mirror(project, key=key, unreadable=self._unreadable, backoff=backoff, relist_after=relist_after)
        self._clock = clock
        self._chance = chance
        self._stopped = threading.Event()
        self._stream: Lines | None = None
        self._contact: float | None = None
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name=f"reflector-{res}", daemon=True)

    @property
    def synced(self) -> bool:
        return self._mirror.synced

    def snapshot(self) -> dict[str, V]:
        """The values known now, by key."""
        return self._mirror.cache.copy()

    def staleness(self) -> float:
        """Seconds since the server was last heard from; NaN before the first time."""
        return float("nan") if self._contact is None else self._clock() - self._contact

    def check(self) -> str | None:
        """For /readyz: None once synchronised, else what is being waited for."""
        if self.synced:
            return None
        return f"{self._res} not listed yet{self._problem and f', the last attempt failed: {self._problem}'}"

    def alive(self) -> str | None:
        """For /healthz: None while the thread runs. A silent server is no reason to restart us: see `staleness`."""
        return None if self._thread.is_alive() else f"the reflector of {self._res} is not running"

    def start(self) -> None:
        metrics.REFLECTOR_STALENESS.labels(self._called).set_function(self.staleness)
        metrics.REFLECTOR_OBJECTS.labels(self._called).set_function(lambda: len(self._mirror.cache))
        metrics.REFLECTOR_SYNCED.labels(self._called).set_function(lambda: float(self.synced))
        metrics.REFLECTOR_UNREADABLE.labels(self._called)  # 0 from the start: alerts see only what grows
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop at once, even in the middle of a read. Waits for the thread unless called from `emit`."""
        self._stopped.set()
        if stream := self._stream:
            stream.abort()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        # A kind that is not served any more is no deafness of ours.
        for gauge in (metrics.REFLECTOR_STALENESS, metrics.REFLECTOR_OBJECTS, metrics.REFLECTOR_SYNCED):
            with contextlib.suppress(KeyError):
                gauge.remove(self._called)

    def _run(self) -> None:
        while not self._stopped.is_set():
            step = self._mirror.next(self._clock(), self._chance())
            if self._stopped.wait(step.delay):
                return
            try:
                if isinstance(step.action, List):
                    self._list(step.action.paged)
                else:
                    self._watch(step.action.version)
            except ApiError as error:
                self._failed(error)

    def _list(self, paged: bool) -> None:
        pages = self._client.pages(self._res, self._namespace, **self._selectors, limit=PAGE if paged else None)
        changes = self._mirror.listed(pages, self._clock())
        self._heard()
        metrics.REFLECTOR_LISTS.labels(self._called).inc()
        log.debug("listed", resource=self._res, objects=len(self._mirror.cache), changes=len(changes))
        self._tell(changes)

    def _watch(self, version: str) -> None:
        began = self._clock()
        # The server ends a watch after 5 to 10 minutes, at a random time, so that load spreads over its replicas.
        limit = 300 + int(300 * self._chance())
        with self._client.watch(
            self._res,
            self._namespace,
            **self._selectors,
            resource_version=version,
            server_timeout=limit,
            inactivity=SILENCE,
        ) as self._stream:
            if self._stopped.is_set():  # stop() came before there was a stream that it could have aborted
                return
            self._heard()
            for line in self._stream:
                self._heard()
                self._tell(self._mirror.line(line))
        self._mirror.ended(self._clock() - began)

    def _tell(self, changes: list[Change[V]]) -> None:
        for change in changes:
            if self._stopped.is_set():
                return
            self._emit(change)

    def _heard(self) -> None:
        self._contact = self._clock()
        self._problem = ""

    def _failed(self, error: ApiError) -> None:
        self._mirror.failed(error)
        self._problem = str(error)
        if not self._stopped.is_set():
            metrics.REFLECTOR_FAILURES.labels(self._called, type(error).__name__).inc()
            log.info("list or watch failed, trying again", resource=self._res, error=error)

    def _unreadable(self, obj: Obj, error: Exception) -> None:
        meta = obj.get("metadata") or {}
        metrics.REFLECTOR_UNREADABLE.labels(self._called).inc()
        name = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
        log.error("object cannot be read and is left out", resource=self._res, object=name, error=repr(error))
