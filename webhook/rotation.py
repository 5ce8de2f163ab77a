"""Keeps the webhook's certificates fresh: the Secret that all replicas share, whom API servers trust, the files here.

Each replica does the same on its own. They agree because the Secret is written under its resourceVersion: who comes
second reads what the first one wrote.
"""

from __future__ import annotations

import base64
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kubenexus.common import logs, metrics
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import wall_clock
from kubenexus.common.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from kubenexus.common.kube.mirror import Backoff
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Resource
from kubenexus.webhook.certs import Holdings, Step, decide, renewed, service_names, trusted
from kubenexus.webhook.tls import Files

log = logs.get(__name__)

Obj = dict[str, Any]

LOOK_SECONDS: Final = 10.0
SOON_SECONDS: Final = 2.0
"""after which every API server has heard of a changed configuration"""
TRIES: Final = 5
CONFIGURATIONS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the Secret is, which Service the certificate is for, and who is to trust it."""

    namespace: str
    secret: str
    service: str
    configuration: str

    @property
    def names(self) -> tuple[str, ...]:
        return service_names(self.service, self.namespace)


class Keeper:
    """One look after the other, in the thread that calls `look`."""

    def __init__(self, client: Client, place: Place, files: Files, clock: Callable[[], datetime] = wall_clock) -> None:
        self._client, self._place, self._files, self._clock = client, place, files, clock
        self._written: bytes = b""

    @property
    def settled(self) -> bool:
        """What is served comes from the Secret, and API servers have been told to trust it."""
        return bool(self._written)

    def look(self) -> float:
        """See to the Secret, the trust and the files, in this order; gives the seconds until the next look."""
        held = self._hold()
        told_now = [self._make_trusted(res, held) for res in CONFIGURATIONS]
        if self._written and any(told_now):
            return SOON_SECONDS  # what is served goes on until the new one is trusted
        if held.leaf != self._written:
            self._files.write(held.leaf, held.leaf_key)
            self._written = held.leaf
        return LOOK_SECONDS

    def _hold(self) -> Holdings:
        """What the Secret holds, renewed where that is due, by us or by another replica."""
        for _ in range(TRIES):
            secret = self._secret()
            held = Holdings.from_secret((secret or {}).get("data") or {})
            now = self._clock()
            step = decide(held, self._place.names, now)
            if step is Step.KEEP:
                return held
            held = renewed(step, held, self._place.names, now)
            if self._stored(secret, held):
                metrics.WEBHOOK_RENEWALS.labels(step.value).inc()
                log.info("certificates renewed", what=step.value, secret=self._place.secret)
                return held
        raise ApiError(f"the Secret {self._place.secret} changes faster than it can be written")

    def _secret(self) -> Obj | None:
        try:
            return self._client.get(SECRETS, self._place.secret, self._place.namespace)
        except NotFound:
            return None

    def _stored(self, secret: Obj | None, held: Holdings) -> bool:
        """Whether it was written; False if somebody else was faster."""
        meta = {"name": self._place.secret, "namespace": self._place.namespace}
        # Without a type, as in the chart: nobody can change it later, and the next upgrade would try.
        fresh = {"apiVersion": SECRETS.api_version, "kind": SECRETS.kind, "metadata": meta}
        try:
            if secret is None:
                self._client.create(SECRETS, {**fresh, "data": held.to_secret()})
            else:
                data = {**(secret.get("data") or {}), **held.to_secret()}
                self._client.update(SECRETS, {**secret, "data": data})
        except (Conflict, AlreadyExists, NotFound):
            return False
        return True

    def _make_trusted(self, res: Resource, held: Holdings) -> bool:
        """Tell API servers whom to trust; whether that was news. A configuration that is not there needs no trust."""
        try:
            webhooks = self._client.get(res, self._place.configuration).get("webhooks") or []
        except NotFound:
            return False
        patch: list[Obj] = []
        for index, webhook in enumerate(webhooks):
            present = str(webhook["clientConfig"].get("caBundle") or "")
            wanted = base64.b64encode(trusted(held, base64.b64decode(present), self._clock())).decode()
            if wanted != present:
                patch += _replacing(index, webhook["name"], wanted)
        if patch:
            self._client.patch(res, self._place.configuration, patch, kind=PatchType.JSON)
            log.info("API servers told whom to trust", configuration=f"{res.plural}/{self._place.configuration}")
        return bool(patch)


def _replacing(index: int, name: str, bundle: str) -> list[Obj]:
    path = f"/webhooks/{index}"
    return [
        {"op": "test", "path": f"{path}/name", "value": name},  # the list may have changed since it was read
        {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": bundle},
    ]


class Rotation:
    """A thread that looks every few seconds, from `start` to `stop`."""

    def __init__(self, keeper: Keeper, chance: Callable[[], float] = random.random) -> None:
        self._keeper, self._chance = keeper, chance
        self._backoff = Backoff(first=0.5, most=LOOK_SECONDS)
        self._problem = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rotation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(2.0)

    def check(self) -> str | None:
        """For /readyz."""
        if self._keeper.settled:
            return None
        return f"the Secret has not been read yet{self._problem and f', the last attempt failed: {self._problem}'}"

    def alive(self) -> str | None:
        """For /healthz."""
        return None if self._thread.is_alive() else "the rotation of certificates is not running"

    def _run(self) -> None:
        failures, delay = 0, 0.0
        while not self._stopped.wait(delay):
            try:
                delay, failures, self._problem = self._keeper.look(), 0, ""
            except (ApiError, OSError, ValueError) as error:
                failures, self._problem = failures + 1, str(error)
                delay = self._backoff.delay(failures, self._chance())
                log.warning("certificates could not be looked after, trying again", error=error)
