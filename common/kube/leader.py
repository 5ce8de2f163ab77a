"""Leader election: one of several processes acts, and stops acting the moment it may no longer be the only one.

`is_leader()` is the fence: ask it right before each write. It looks at the clock, so that it turns false in time even
while the election's own thread hangs in a call. A process that has lost the Lease does not stand again: it should exit.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import datetime

from kubenexus.common import logs, metrics
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import boot_clock, micro_time, wall_clock
from kubenexus.common.kube.election import Election, Obj, Timing
from kubenexus.common.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from kubenexus.common.kube.request import prepare
from kubenexus.common.kube.resources import LEASES

log = logs.get(__name__)


class Leader:
    """Stands for election from `start` to `stop`. Both callbacks come from the election's thread and must return soon.

    `on_started` comes once, when the Lease is ours; `on_stopped` once, when it is ours no more, `stop` included. Only a
    stop hands the Lease over, and only after `on_stopped` has returned: let it wait for writes under way.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        on_started: Callable[[], None],
        on_stopped: Callable[[], None],
        timing: Timing | None = None,
        clock: Callable[[], float] = boot_clock,
        wall: Callable[[], datetime] = wall_clock,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._namespace, self._name = namespace, name
        self._on_started, self._on_stopped = on_started, on_stopped
        self._timing = timing or Timing()
        self._clock, self._wall, self._chance = clock, wall, chance
        self._election = Election(identity, self._timing)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"leader-{name}", daemon=True)

    def is_leader(self) -> bool:
        return not self._stopping.is_set() and self._election.leading(self._clock())

    def start(self) -> None:
        metrics.LEADER.labels(self._name).set_function(lambda: float(self.is_leader()))
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop leading at once, then hand the Lease over so that the next leader need not wait for it to run out."""
        self._stopping.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set() and not self._election.leading(self._clock()):
            self._attempt()
            if not self._election.leading(self._clock()):
                self._stopping.wait(self._timing.pause(False, self._chance()))
        if not self._stopping.is_set():
            log.info("leading", lease=self._name, identity=self._election.identity)
            self._on_started()
            self._lead()
            self._on_stopped()
        if self._stopping.is_set():
            self._release()

    def _lead(self) -> None:
        """Renew until that fails for too long, or we are stopped."""
        while not self._stopping.wait(min(self._timing.pause(True, 0.0), self._election.left(self._clock()))):
            self._attempt()
            if not self._election.leading(self._clock()):
                log.error("the Lease is lost", lease=self._name, identity=self._election.identity)
                return

    def _attempt(self) -> None:
        """Look at the Lease once and, if it may be ours, write that into it."""
        asked_at = self._clock()
        try:
            lease = self._get()
            spec = self._election.look(lease, asked_at, micro_time(self._wall()))
            if spec is None:
                self._election.lost()
                return
            self._put(lease, spec)
            self._election.won(asked_at)
        except (Conflict, AlreadyExists):
            log.debug("another candidate was faster", lease=self._name)
        except ApiError as error:
            log.warning("the Lease cannot be renewed", lease=self._name, error=error)

    def _release(self) -> None:
        self._election.lost()
        try:
            lease = self._get()
            spec = self._election.released(lease, micro_time(self._wall())) if lease else None
            if spec:
                self._put(lease, spec)
        except ApiError as error:
            log.info("the Lease is left to run out", lease=self._name, error=error)

    def _get(self) -> Obj | None:
        try:
            lease: Obj = self._client.call(prepare("GET", LEASES, self._namespace, self._name), self._patience)
        except NotFound:
            return None
        return lease

    def _put(self, lease: Obj | None, spec: Obj) -> None:
        if lease is None:
            meta = {"name": self._name, "namespace": self._namespace}
            obj = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": meta, "spec": spec}
            request = prepare("POST", LEASES, self._namespace, body=obj)
        else:  # The resourceVersion in it makes this fail should anybody have been faster.
            request = prepare("PUT", LEASES, self._namespace, self._name, body={**lease, "spec": spec})
        self._client.call(request, self._patience)

    @property
    def _patience(self) -> float:
        """Seconds for one call: at most until our time as a leader is over, so that its end is noticed at once."""
        half = (self._timing.renew - self._timing.retry) / 2
        left = self._election.left(self._clock())
        return max(0.1, min(half, left)) if left > 0 else half
