"""What the webhook knows of the cluster, kept true by reflectors: namespaces, owners of pods, the sizes of nodes.

A pod often arrives within milliseconds of its owner, and may overtake the news of it. Then its request waits a moment
for that news. Only an owner whose uid is given is waited for, because that one did exist.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import orjson

from kubenexus.common import logs
from kubenexus.common.gangs import OWNER_KINDS, OwnerKey, trimmed
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.discovery import discover
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.mirror import Change, Deleted, Synced, by_name
from kubenexus.common.kube.reflector import Reflector
from kubenexus.common.kube.resources import NAMESPACES, NODES, Resource
from kubenexus.common.objects import pod_requests, project_namespace, project_node
from kubenexus.webhook import fits
from kubenexus.webhook.cluster import Cluster, NamespaceFacts, Waiter
from kubenexus.webhook.seen import SeenSizes

log = logs.get(__name__)

T = TypeVar("T")
Obj = dict[str, Any]

PATIENCE: Final = 0.5
"""seconds that a request waits for news; the API server gives it two"""
SEATS: Final = 8
"""requests that may wait at once: half of the threads, or pods that name owners which never come would stop the rest"""
DISCOVER_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 2.0
UNLISTED_SECONDS: Final = 30.0
"""A kind that cannot be listed for so long is not waited for: pods of such owners are admitted without a gang."""


class News:
    """Lets requests wait for what reflectors bring."""

    def __init__(self, patience: float = PATIENCE, seats: int = SEATS) -> None:
        self._patience = patience
        self._seats = threading.BoundedSemaphore(seats)
        self._arrived = threading.Condition()

    def tell(self) -> None:
        with self._arrived:
            self._arrived.notify_all()

    def await_(self, look: Callable[[], T | None]) -> T | None:
        """What `look` finds, now or in a moment; at once when too many wait already."""
        found = look()
        if found is not None or not self._seats.acquire(blocking=False):
            return found
        try:
            with self._arrived:
                self._arrived.wait_for(lambda: look() is not None, self._patience)
            return look()
        finally:
            self._seats.release()


class KnownOwners:
    """Owners as JSON text: thousands are kept, few are asked for, and objects would take ten times the room."""

    def __init__(self) -> None:
        self._known: dict[OwnerKey, bytes] = {}

    def set(self, key: OwnerKey, text: bytes) -> None:
        self._known[key] = text

    def remove(self, key: OwnerKey) -> None:
        self._known.pop(key, None)

    def find(self, key: OwnerKey, uid: str) -> Obj | None:
        """The owner, if that is the one with this uid; without one, whatever has the name."""
        text = self._known.get(key)
        owner: Obj | None = orjson.loads(text) if text else None
        return owner if owner is None or uid in ("", owner["metadata"]["uid"]) else None


class AwaitedOwners:
    """Owners that are known, or that are worth waiting for. Satisfies `Owners`."""

    def __init__(self, known: KnownOwners, waiter: Waiter, is_watched: Callable[[str, str], bool]) -> None:
        self._known, self._waiter, self._is_watched = known, waiter, is_watched

    def get(self, api_version: str, kind: str, namespace: str, name: str, uid: str) -> Obj | None:
        key = OwnerKey(api_version.rpartition("/")[0], kind, namespace, name)
        if uid and self._is_watched(key.group, key.kind):
            return self._waiter.await_(lambda: self._known.find(key, uid))
        return self._known.find(key, uid)


class OwnerWatch:
    """The owners of one kind, among those of all kinds."""

    def __init__(self, client: Client, res: Resource, known: KnownOwners, news: News, started: float) -> None:
        self.started = started
        self._res, self._known, self._news = res, known, news
        self.reflector = Reflector(client, res, lambda obj: orjson.dumps(trimmed(obj)), self._hear, key=by_name)

    def close(self) -> None:
        """Stop, and forget: the cluster does not serve this kind any more."""
        self.reflector.stop()
        for key in self.reflector.snapshot():
            self._known.remove(self._key(key))

    def _hear(self, change: Change[bytes]) -> None:
        if isinstance(change, Deleted):
            self._known.remove(self._key(change.key))
        elif not isinstance(change, Synced):
            self._known.set(self._key(change.key), change.value)
            self._news.tell()

    def _key(self, full_name: str) -> OwnerKey:
        namespace, _, name = full_name.rpartition("/")
        return OwnerKey(self._res.group, self._res.kind, namespace, name)


class Watching:
    """All reflectors, from `start` to `stop`, and the look-ups that they feed."""

    def __init__(
        self, client: Client, *, discover_every: float = DISCOVER_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._discover_every, self._clock = client, discover_every, clock
        self._news = News()
        self._sizes = SeenSizes(clock)
        self._known = KnownOwners()
        self._namespaces: dict[str, NamespaceFacts] = {}
        self._rooms: dict[str, Mapping[str, int]] = {}
        self._node_changes = 0
        self._largest: tuple[int, dict[str, int]] = (0, {})
        self._owners: dict[Resource, OwnerWatch] = {}
        self._discovered = False
        self._started = clock()
        self._namespace_watch = Reflector(
            client, NAMESPACES, lambda obj: NamespaceFacts.of(project_namespace(obj)), self._hear_namespace
        )
        self._node_watch = Reflector(
            client, NODES, lambda obj: project_node(obj).allocatable, self._hear_node, key=by_name
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep_discovering, name="discovery", daemon=True)

    def cluster(self, schedulers: tuple[str, ...], waiter: Waiter | None = None) -> Cluster:
        """The look-ups for admission. They wait for news a moment, or as `waiter` does."""
        waiter = waiter or self._news
        owners = AwaitedOwners(self._known, waiter, self._is_watched)
        return Cluster(partial(self._namespace, waiter), owners, schedulers, self._verdict, self._sizes.other)

    def start(self) -> None:
        self._started = self._clock()
        self._namespace_watch.start()
        self._node_watch.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        reflectors: list[Reflector[Any]] = [self._namespace_watch, *(watch for watch, _ in self._helpful())]
        for timeout in (0.0, 2.0):  # all at once, and only then wait for them
            for reflector in reflectors:
                reflector.stop(timeout)

    def check(self) -> str | None:
        """For /readyz: what is still waited for."""
        if not self._discovered:
            return "the API server has not said yet which kinds it serves"
        now = self._clock()
        awaited = [watch for watch, started in self._helpful() if now - started < UNLISTED_SECONDS]
        return next((problem for one in (self._namespace_watch, *awaited) if (problem := one.check())), None)

    def alive(self) -> str | None:
        """For /healthz."""
        found = [watch.alive() for watch in (self._namespace_watch, *(one for one, _ in self._helpful()))]
        found.append(None if self._thread.is_alive() else "the search for kinds is not running")
        return next(filter(None, found), None)

    def _helpful(self) -> list[tuple[Reflector[Any], float]]:
        """What pods can be admitted without, and since when it is watched."""
        owners = [(watch.reflector, watch.started) for watch in list(self._owners.values())]
        return [(self._node_watch, self._started), *owners]

    # --- Look-ups, from the threads of requests

    def _namespace(self, waiter: Waiter, name: str) -> NamespaceFacts | None:
        return waiter.await_(lambda: self._namespaces.get(name))

    def _is_watched(self, group: str, kind: str) -> bool:
        watches = list(self._owners.items())
        return any((res.group, res.kind) == (group, kind) and watch.reflector.synced for res, watch in watches)

    def _verdict(self, pod: Obj) -> str | None:
        changes = self._node_changes
        if self._largest[0] != changes:
            self._largest = (changes, fits.largest_of(list(self._rooms.values())))
        return fits.verdict(pod_requests(pod), self._largest[1])

    # --- News, from the threads of reflectors

    def _hear_namespace(self, change: Change[NamespaceFacts]) -> None:
        if isinstance(change, Deleted):
            self._namespaces.pop(change.value.name, None)
        elif not isinstance(change, Synced):
            self._namespaces[change.value.name] = change.value
            self._news.tell()

    def _hear_node(self, change: Change[Mapping[str, int]]) -> None:
        if isinstance(change, Deleted):
            self._rooms.pop(change.key, None)
        elif not isinstance(change, Synced):
            self._rooms[change.key] = change.value
        self._node_changes += 1

    # --- Kinds come and go with their operators

    def _keep_discovering(self) -> None:
        delay = 0.0
        while not self._stopped.wait(delay):
            try:
                self._follow(set(discover(self._client, OWNER_KINDS)))
                delay, self._discovered = self._discover_every, True
            except ApiError as error:
                delay = self._discover_every if self._discovered else RETRY_SECONDS
                log.warning("the API server does not say what it serves, trying again", error=error)

    def _follow(self, served: set[Resource]) -> None:
        for res in set(self._owners) - served:
            self._owners.pop(res).close()
        for res in served - set(self._owners):
            log.info("watching a kind that owns pods", resource=res)
            watch = OwnerWatch(self._client, res, self._known, self._news, self._clock())
            watch.reflector.start()
            self._owners[res] = watch
