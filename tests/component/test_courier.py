"""The courier against a server that misbehaves: every request is sent at most once and comes to exactly one end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes.client import Configuration

from kubenexus.common.kube import errors
from kubenexus.common.kube.auth import REFRESH_SECONDS, RELOAD_SECONDS, Access
from kubenexus.common.kube.courier import Courier
from kubenexus.common.kube.request import Request, prepare
from kubenexus.common.kube.resources import PODS
from tests.stub_server import Handler, Pki, Script, StubServer, make_pki, serving, until


class Parcel:
    """An errand that keeps what became of it."""

    def __init__(self, name: str = "a", make: Callable[[str], Request | None] | None = None) -> None:
        self._name, self._make = name, make or bind
        self.ends: list[errors.ApiError | None] = []

    def request(self) -> Request | None:
        return self._make(self._name)

    def done(self, error: errors.ApiError | None) -> None:
        self.ends.append(error)

    def end(self) -> errors.ApiError | None:
        until(lambda: self.ends)
        (end,) = self.ends
        return end


def bind(name: str) -> Request:
    return prepare("POST", PODS, "ns", name, subresource="binding", body={"metadata": {"name": name}})


@contextmanager
def running(access: Access, connections: int = 4, **more: Any) -> Iterator[Courier]:
    courier = Courier(access, "test", connections, **more)
    courier.start()
    try:
        yield courier
    finally:
        courier.stop(1.0)
        access.close()


@contextmanager
def talking(*script: Script, **more: Any) -> Iterator[tuple[Courier, StubServer]]:
    with serving(*script) as server, running(Access(lambda: Configuration(host=server.url)), **more) as courier:
        yield courier, server


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki"))


def ok(handler: Handler) -> None:
    handler.reply(201, {"kind": "Status"})


def status(code: int) -> Script:
    return lambda handler: handler.reply(code, {"kind": "Status", "code": code, "message": "no"})


def in_pieces(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 201 Cre")
    for piece in (b"ated\r\nContent-Len", b"gth: 2\r\n\r", b"\n{", b"}"):
        handler.wfile.flush()
        handler.wfile.write(piece)


def no_answer(handler: Handler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH\r\n\r\n")
    handler.close_connection = True


ENDS: list[tuple[str, Script, type[errors.ApiError] | None, bool]] = [
    # what happens, the server's part of it, the error, whether it may have been carried out
    ("it works", ok, None, False),
    ("the answer comes in chunks", lambda handler: handler.chunks([b"{", b"}"], code=201), None, False),
    ("the answer comes in pieces", in_pieces, None, False),
    ("a conflict", status(409), errors.Conflict, False),
    ("the pod is gone", status(404), errors.NotFound, False),
    ("the server breaks", status(500), errors.ServerError, True),
    ("the connection is cut", Handler.cut, errors.MaybeApplied, True),
    ("half an answer", lambda handler: handler.chunks([b"{"], then=handler.cut), errors.MaybeApplied, True),
    ("not HTTP", no_answer, errors.MaybeApplied, True),
    ("silence", Handler.hang, errors.MaybeApplied, True),
]


@pytest.mark.parametrize(("script", "error", "maybe"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_every_request_comes_to_one_end(script: Script, error: type[errors.ApiError] | None, maybe: bool) -> None:
    with talking(script, timeout=0.2) as (courier, server):
        courier.send(parcel := Parcel())
        end = parcel.end()
        assert type(end) is (error or type(None))
        assert end is None or end.maybe_applied == maybe
        assert [(one.method, one.path) for one in server.seen] == [("POST", "/api/v1/namespaces/ns/pods/a/binding")]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_many_share_few_connections(pki: Pki, tls: bool) -> None:
    places: set[Any] = set()
    lock = threading.Lock()

    def count(handler: Handler) -> None:
        with lock:
            places.add(handler.client_address)
        ok(handler)

    with serving(count, tls=pki.context() if tls else None) as server:
        access = Access(lambda: Configuration(host=server.url, ssl_ca_cert=str(pki.ca)))
        with running(access, connections=3) as courier:
            parcels = [Parcel(f"pod-{number}") for number in range(200)]
            for parcel in parcels:
                courier.send(parcel)
            assert [parcel.end() for parcel in parcels] == [None] * 200
    assert sorted(one.body["metadata"]["name"] for one in server.seen) == sorted(f"pod-{n}" for n in range(200))
    assert 1 < len(places) <= 3


def test_one_that_hangs_holds_nobody_up() -> None:
    with talking(Handler.hang, ok, connections=2) as (courier, server):
        courier.send(slow := Parcel("slow"))
        until(lambda: server.seen)
        quick = [Parcel(f"quick-{number}") for number in range(20)]
        for parcel in quick:
            courier.send(parcel)
        assert [parcel.end() for parcel in quick] == [None] * 20
        assert slow.ends == []


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    def last(handler: Handler) -> None:
        handler.close_connection = True
        ok(handler)

    with talking(last, connections=1) as (courier, server):
        for number in range(3):
            courier.send(parcel := Parcel(f"pod-{number}"))
            # The end of the connection may cross the next request; then nobody knows what became of that.
            end = parcel.end()
            assert end is None or end.maybe_applied
        assert 1 <= len(server.seen) <= 3


def test_a_server_that_cannot_be_reached_was_not_asked() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        access = Access(lambda: Configuration(host=f"http://127.0.0.1:{unused.getsockname()[1]}"))
        with running(access) as courier:
            parcels = [Parcel(f"pod-{number}") for number in range(20)]
            for parcel in parcels:
                courier.send(parcel)
            assert {type(parcel.end()) for parcel in parcels} == {errors.NotReached}
            assert "a moment ago" in str(parcels[-1].end())


def test_a_server_of_another_authority_is_not_talked_to(pki: Pki) -> None:
    with serving(ok, tls=pki.context()) as server, running(Access(lambda: Configuration(host=server.url))) as courier:
        courier.send(parcel := Parcel())
        assert type(parcel.end()) is errors.NotReached
        assert server.seen == []


def test_what_is_not_to_be_sent_is_not_sent() -> None:
    def broken(_name: str) -> Request:
        raise ValueError("odd name")

    with talking(ok) as (courier, server):
        courier.send(nothing := Parcel(make=lambda _name: None))
        courier.send(odd := Parcel(make=broken))
        courier.send(good := Parcel("good"))
        assert good.end() is None
        assert nothing.ends == []
        assert type(odd.end()) is errors.NotReached
        assert [one.path for one in server.seen] == ["/api/v1/namespaces/ns/pods/good/binding"]


def test_credentials_that_cannot_be_had_stop_nobody_else() -> None:
    now = [0.0]

    def ask(_settings: Configuration) -> None:
        if not now[0]:
            raise RuntimeError("the plugin crashed")

    with serving(ok) as server:
        settings = Configuration(host=server.url)
        settings.api_key["BearerToken"] = "Bearer x"
        settings.refresh_api_key_hook = ask  # type: ignore[assignment]
        with running(Access(lambda: settings, clock=lambda: now[0])) as courier:
            courier.send(first := Parcel())
            assert "the plugin crashed" in str(first.end())
            now[0] += REFRESH_SECONDS
            courier.send(second := Parcel())
            assert second.end() is None


def test_new_credentials_are_used_at_once() -> None:
    tokens = iter(("old", "new"))
    now = [0.0]

    def load() -> Configuration:
        settings = Configuration(host=server.url)
        settings.api_key["BearerToken"] = f"Bearer {next(tokens)}"
        return settings

    with serving(ok) as server:
        access = Access(load, clock=lambda: now[0])
        with running(access, connections=1) as courier:
            courier.send(first := Parcel())
            assert first.end() is None
            now[0] += RELOAD_SECONDS
            assert access.renew(access.session)
            courier.send(second := Parcel())
            assert second.end() is None
    assert [one.headers["authorization"] for one in server.seen] == ["Bearer old", "Bearer new"]


def test_stopping_finishes_what_is_queued() -> None:
    with talking(ok, connections=2) as (courier, _):
        parcels = [Parcel(f"pod-{number}") for number in range(50)]
        for parcel in parcels:
            courier.send(parcel)
        courier.stop()
        assert [parcel.ends for parcel in parcels] == [[None]] * 50


def test_stopping_waits_for_an_answer_only_so_long() -> None:
    with talking(Handler.hang) as (courier, server):
        courier.send(parcel := Parcel())
        until(lambda: server.seen)
        courier.stop(0.1)
        (end,) = parcel.ends
        assert end is not None
        assert end.maybe_applied
