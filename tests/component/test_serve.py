"""Health, readiness and metrics over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kubenexus.common.serve import Check, Server


@contextmanager
def serving(**checks: dict[str, Check]) -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), "agent", **checks)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def get(server: Server, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def broken() -> str | None:
    raise RuntimeError("oops")


@pytest.mark.parametrize(
    ("checks", "answer"),
    [
        ({}, (200, "ok\n")),
        ({"pods": lambda: None}, (200, "[+] pods\nok\n")),
        (
            {"pods": lambda: None, "leader": lambda: "another process leads"},
            (503, "[+] pods\n[-] leader: another process leads\nnot ok\n"),
        ),
        ({"odd": broken}, (503, "[-] odd: the check itself failed: oops\nnot ok\n")),
    ],
    ids=["no checks", "all well", "one fails", "one breaks"],
)
def test_checks(checks: dict[str, Check], answer: tuple[int, str]) -> None:
    with serving(ready=checks) as server:
        assert get(server, "/readyz?verbose") == answer
        assert get(server, "/healthz") == (200, "ok\n")
    with serving(live=checks) as server:
        assert get(server, "/healthz") == answer
        assert get(server, "/readyz") == (200, "ok\n")


def test_metrics() -> None:
    with serving() as server:
        code, text = get(server, "/metrics")
        assert code == 200
        assert "# TYPE kubenexus_api_requests_total counter" in text
        assert "process_resident_memory_bytes" in text


def test_other_paths() -> None:
    with serving() as server:
        assert get(server, "/") == (404, "try /healthz, /readyz, /metrics\n")


def test_a_server_that_never_started_can_be_stopped() -> None:
    Server(("127.0.0.1", 0), "agent").stop()
