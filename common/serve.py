"""The small HTTP server every component has: /healthz, /readyz and /metrics.

A check is a function with a name: it returns None when all is well, else a sentence that says what is not.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from kubenexus.common import logs, metrics

log = logs.get(__name__)

Check = Callable[[], str | None]
TEXT = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


class Server:
    """Serves from `start` to `stop`. `live` checks decide /healthz (restart me), `ready` ones /readyz (use me)."""

    def __init__(
        self,
        address: tuple[str, int],
        component: str,
        *,
        ready: Mapping[str, Check] | None = None,
        live: Mapping[str, Check] | None = None,
    ) -> None:
        pages: dict[str, Callable[[], Answer]] = {
            "/healthz": lambda: report(live or {}),
            "/readyz": lambda: report(ready or {}),
            "/metrics": lambda: Answer(HTTPStatus.OK, metrics.text(component), metrics.CONTENT_TYPE),
        }
        self._http = _Http(address, pages)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="serve", daemon=True)

    @property
    def port(self) -> int:
        """The port in use, also when port 0 was asked for."""
        return int(self._http.server_address[1])

    def start(self) -> None:
        self._thread.start()
        log.info("serving health and metrics", port=self.port)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()


def report(checks: Mapping[str, Check]) -> Answer:
    """200 when every check passes, else 503; the body has one line for each check, with the reason where it fails."""
    found = {name: _outcome(check) for name, check in checks.items()}
    failed = any(found.values())
    lines = [f"[-] {name}: {reason}" if reason else f"[+] {name}" for name, reason in found.items()]
    lines.append("not ok" if failed else "ok")
    status = HTTPStatus.SERVICE_UNAVAILABLE if failed else HTTPStatus.OK
    return Answer(status, "\n".join([*lines, ""]).encode())


def _outcome(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 (a check that breaks is a check that fails)
        return f"the check itself failed: {error}"


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], pages: Mapping[str, Callable[[], Answer]]) -> None:
        self.pages = pages
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    timeout = 10.0  # A client that sends nothing may not hold a thread for longer.

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path.partition("?")[0])
        answer = page() if page else Answer(HTTPStatus.NOT_FOUND, f"try {', '.join(self.server.pages)}\n".encode())
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Probes come every few seconds: they are not worth a line."""
