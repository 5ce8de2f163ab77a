"""gunicorn around the webhook: one worker process with sixteen threads; more is had by more replicas.

The parent only listens and watches over the worker. Everything else is made in the worker, after the fork, which no
thread and no connection would survive.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any, Final

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger

from kubenexus.webhook.process import Webhook
from kubenexus.webhook.tls import Files, Tls
from kubenexus.webhook.worker import ReviewWorker

THREADS: Final = 16
CONNECTIONS: Final = 500
"""at once: API servers keep 25 each. More would meet the 1024 files that a process may often open, which ends it."""
KEEP_ALIVE_SECONDS: Final = 120
GRACE_SECONDS: Final = 10
HUNG_SECONDS: Final = 30
SHARED_MEMORY: Final = "/dev/shm"


class OurLogger(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's words go where all others go, in the same form."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self.error_log.propagate = True


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Serves on a socket that listens already, which it takes over. `run` ends parent and worker by SystemExit."""

    def __init__(self, build: Callable[[], Webhook], listening: socket.socket, files: Files, tls: Tls) -> None:
        self._build, self._files, self._tls = build, files, tls
        self._listening = listening.detach()
        self._webhook: Webhook | None = None
        super().__init__()

    def load_config(self) -> None:
        for key, value in self._settings().items():
            self.cfg.set(key, value)

    def load(self) -> Flask:
        self._webhook = self._build()
        return self._webhook.app

    def _settings(self) -> dict[str, Any]:
        return {
            "bind": f"fd://{self._listening}",
            "workers": 1,
            "threads": THREADS,
            "worker_connections": CONNECTIONS,
            "worker_class": ReviewWorker,
            "keepalive": KEEP_ALIVE_SECONDS,
            "timeout": HUNG_SECONDS,
            "graceful_timeout": GRACE_SECONDS,
            "worker_tmp_dir": SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None,
            "control_socket_disable": True,
            "certfile": str(self._files.certificate),
            "keyfile": str(self._files.key),
            "ssl_context": lambda config, default: self._tls.context(),  # noqa: ARG005 (as gunicorn calls it)
            "post_worker_init": self._start,
            "worker_exit": self._stop,
            "errorlog": None,
            "loglevel": "warning",
            "logger_class": OurLogger,
            "proc_name": "kubenexus-webhook",
        }

    def _start(self, _worker: object) -> None:
        if self._webhook:
            self._webhook.start()

    def _stop(self, _parent: object, _worker: object) -> None:
        if self._webhook:  # gunicorn may tell the parent too, which has none
            self._webhook.stop()
