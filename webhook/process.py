"""A whole webhook: its threads, its health and its app, put together in the process that serves."""

from __future__ import annotations

import gc
from typing import Protocol

from kubenexus.common import metrics
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import wall_clock
from kubenexus.common.serve import Check, Server
from kubenexus.webhook.app import Hurried, create_app
from kubenexus.webhook.cluster import Glance
from kubenexus.webhook.rotation import Keeper, Rotation
from kubenexus.webhook.tls import Tls
from kubenexus.webhook.watching import Watching


class Part(Protocol):
    """What has threads of its own."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class Webhook:
    """Works from `start` to `stop`. Without a keeper the certificate is renewed by others."""

    def __init__(
        self,
        client: Client,
        tls: Tls,
        schedulers: tuple[str, ...],
        keeper: Keeper | None,
        health: tuple[str, int] | None,
    ) -> None:
        watching = Watching(client)
        ready: dict[str, Check] = {"certificate": lambda: tls.check(wall_clock()), "watches": watching.check}
        live: dict[str, Check] = {"watches": watching.alive}
        self._parts: list[Part] = [watching]
        if keeper:
            rotation = Rotation(keeper)
            self._parts.append(rotation)
            ready["secret"], live["rotation"] = rotation.check, rotation.alive
        if health:
            self._parts.append(Server(health, "webhook", ready=ready, live=live))
        metrics.WEBHOOK_CERTIFICATE_SECONDS.set_function(lambda: tls.seconds_left(wall_clock()))
        glance = Glance()
        hurried = Hurried(watching.cluster(schedulers, glance), glance)
        self.app = create_app(watching.cluster(schedulers), ready=ready, live=live, hurried=hurried)

    def start(self) -> None:
        for part in self._parts:
            part.start()
        # What was imported stays, so that no garbage collection need look at it while a pod waits.
        gc.collect()
        gc.freeze()

    def stop(self) -> None:
        for part in reversed(self._parts):
            part.stop()
