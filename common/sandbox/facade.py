"""The sandbox as one thing: start it, point clients at it, stop it."""

from __future__ import annotations

import base64
import logging
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml

from kubenexus.common.sandbox.admission import Admission
from kubenexus.common.sandbox.api import Api
from kubenexus.common.sandbox.auth import Tokens
from kubenexus.common.sandbox.controllers import ControllerManager
from kubenexus.common.sandbox.faults import Faults
from kubenexus.common.sandbox.registry import Registry, utc_now
from kubenexus.common.sandbox.server import Server
from kubenexus.common.sandbox.tls import server_context
from kubenexus.common.sandbox.writes import Clock

Obj = dict[str, Any]

BANNER: Final = (
    "This is the KubeNexus sandbox, a pretence of a Kubernetes API server for demonstrations and tests. It listens on "
    "loopback only, keeps everything in memory, knows no permissions, and is not for production."
)
_NEW_HISTORY: Final = 1_000_000
_log = logging.getLogger(__name__)


class Sandbox:
    """A Kubernetes API server in this process, for demonstrations and tests. Not for production.

    Use it as a context manager, or call `start` and `stop`. With `controllers` it also plays the controllers and the
    kubelets, so that workloads run to their end.
    """

    def __init__(
        self,
        *,
        controllers: bool = False,
        clock: Clock = utc_now,
        history: int = 20_000,
        bookmark_seconds: float = 5.0,
        port: int = 0,
    ) -> None:
        self.registry = Registry(clock, history)
        self.tokens = Tokens()
        self.faults = Faults(self.registry.store, self._restart)
        self._folder = Path(tempfile.mkdtemp(prefix="kubenexus-sandbox-"))
        self._admission = Admission(self.registry)
        self.registry.admit_with(self._admission)
        self._api = Api(self.registry, self.tokens, self.faults, bookmark_seconds)
        self._server = Server(server_context(self._folder), self._api, self.registry.store.wake, port)
        self._controllers = ControllerManager(self.registry, clock) if controllers else None

    def start(self) -> Self:
        self._server.start()
        if self._controllers:
            self._controllers.start()
        _log.info("%s %s", BANNER, self.url)
        return self

    def stop(self) -> None:
        """End every thread and connection and remove every file. The registry stays readable."""
        if self._controllers:
            self._controllers.stop()
        self._api.stopping.set()
        self._server.stop()
        self._admission.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def services(self) -> dict[tuple[str, str], tuple[str, int]]:
        """Where the Services that webhooks name really listen: (namespace, name) → (host, port). Fill it in."""
        return self._admission.service_endpoints

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.port}"

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self.tokens.admin

    @property
    def ca_file(self) -> str:
        """The certificate that clients have to trust."""
        return str(self._folder / "ca.crt")

    def kubeconfig(self, token: str | None = None) -> Obj:
        """A kubeconfig for the administrator, or for the owner of this token."""
        cluster = {"server": self.url, "certificate-authority-data": _base64(Path(self.ca_file).read_bytes())}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": cluster}],
            "users": [{"name": "sandbox", "user": {"token": token or self.token}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
            "current-context": "sandbox",
        }

    def write_kubeconfig(self, path: str | Path, token: str | None = None) -> Path:
        """Write `kubeconfig` to a file that only its owner may read."""
        path = Path(path)
        path.touch(mode=0o600)
        path.write_text(f"# {BANNER}\n" + yaml.safe_dump(self.kubeconfig(token)), encoding="utf-8")
        return path

    def _restart(self, new_history: bool) -> None:
        self._server.halt()
        if new_history:
            self.registry.store.compact(_NEW_HISTORY)
        self._server.start()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
