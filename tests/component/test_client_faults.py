"""The client against a server that misbehaves: what is retried, what is raised, what is left alone."""

from __future__ import annotations

import gc
import select
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes.client import Configuration

from kubenexus.common.kube import errors
from kubenexus.common.kube.auth import Access
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.connection import LeanTlsConnection
from kubenexus.common.kube.resources import NODES, PODS
from tests.stub_server import Handler, Script, StubServer, serving, until


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def client_for(url: str, time: Time | None = None, **more: Any) -> Client:
    time = time or Time()
    access = Access(lambda: Configuration(host=url), clock=time.clock)
    return Client(access, clock=time.clock, sleep=time.sleep, **more)


@contextmanager
def talking(*script: Script, **more: Any) -> Iterator[tuple[Client, StubServer, Time]]:
    time = Time()
    with serving(*script) as server, client_for(server.url, time, **more) as client:
        yield client, server, time


def ok(handler: Handler) -> None:
    handler.reply(200, {"kind": "Pod"})


def status(code: int, reason: str = "", **headers: str) -> Script:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "no"}
    return lambda handler: handler.reply(code, body, **headers)


def cut(handler: Handler) -> None:
    handler.cut()


def half(handler: Handler) -> None:
    handler.chunks([b'{"kind": "Po'], then=handler.cut)


def hang(handler: Handler) -> None:
    handler.hang()


def get(client: Client) -> Any:
    return client.get(PODS, "a", "ns")


def create(client: Client) -> Any:
    return client.create(PODS, {"metadata": {"name": "a"}}, "ns")


def test_a_server_that_is_not_there_was_not_asked() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        time = Time()
        with client_for(f"http://127.0.0.1:{unused.getsockname()[1]}", time) as client:
            with pytest.raises(
                errors.NotReached, match=r"POST .* was not sent, the API server cannot be reached"
            ) as no:
                create(client)
            assert not no.value.maybe_applied
            assert time.slept == [0.2, 0.4]


@pytest.mark.parametrize("fault", [cut, half], ids=["no answer", "half an answer"])
def test_a_read_that_is_cut_off_is_tried_again(fault: Script) -> None:
    with talking(fault, fault, ok) as (client, server, _):
        assert get(client) == {"kind": "Pod"}
        assert len(server.seen) == 3
    with talking(fault) as (client, server, _):
        with pytest.raises(errors.NoAnswer, match=r"GET .* got no whole answer"):
            get(client)
        assert len(server.seen) == 3


@pytest.mark.parametrize("fault", [cut, half], ids=["no answer", "half an answer"])
@pytest.mark.parametrize(
    "write",
    [
        create,
        lambda client: client.update(PODS, {"metadata": {"name": "a", "namespace": "ns"}}),
        lambda client: client.delete(PODS, "a", "ns"),
    ],
    ids=["create", "update", "delete"],
)
def test_a_write_that_is_cut_off_may_have_been_carried_out(fault: Script, write: Callable[[Client], Any]) -> None:
    with talking(fault, ok) as (client, server, _):
        with pytest.raises(errors.MaybeApplied, match="may or may not have been carried out") as lost:
            write(client)
        assert lost.value.maybe_applied
        assert len(server.seen) == 1
        assert get(client) == {"kind": "Pod"}


def test_silence_ends_with_the_timeout() -> None:
    with talking(hang, timeout=0.1) as (client, server, _):
        with pytest.raises(errors.MaybeApplied):
            create(client)
        assert len(server.seen) == 1


def test_a_connection_that_the_server_closed_while_idle_is_no_failure() -> None:
    def ok_and_close(handler: Handler) -> None:
        ok(handler)
        handler.close_connection = True

    with talking(ok_and_close) as (client, server, _):
        for _ in range(3):
            get(client)
        assert len(server.seen) == 3


def test_too_many_requests_waits_as_told() -> None:
    with talking(status(429, Retry_After="2"), status(429, Retry_After="1"), ok) as (client, server, time):
        assert create(client) == {"kind": "Pod"}
        assert time.slept == [2.0, 1.0]
        assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("headers", "timeout"), [({"Retry_After": "10"}, 30.0), ({}, 30.0), ({"Retry_After": "2"}, 1.5)], ids=str
)
def test_too_many_requests_is_handed_on_where_waiting_takes_too_long(headers: dict[str, str], timeout: float) -> None:
    with talking(status(429, **headers), timeout=timeout) as (client, server, time):
        with pytest.raises(errors.TooManyRequests) as busy:
            create(client)
        assert busy.value.retry_after == (float(headers["Retry_After"]) if headers else None)
        assert (len(server.seen), time.slept) == (1, [])


@pytest.mark.parametrize("code", [409, 410, 422, 500, 503])
def test_other_refusals_are_not_repeated(code: int) -> None:
    with talking(status(code)) as (client, server, _):
        with pytest.raises(errors.StatusError) as refused:
            get(client)
        assert refused.value.code == code
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("text/html", b"<html>"), ("application/json", b"[]"), ("application/json", b"{")],
    ids=str,
)
def test_an_answer_that_is_no_object_is_no_answer(content_type: str, body: bytes) -> None:
    with (
        talking(lambda handler: handler.reply(200, body, Content_Type=content_type)) as (client, _, _),
        pytest.raises(errors.NoAnswer),
    ):
        get(client)


def test_a_redirect_is_not_followed() -> None:
    with talking(status(302, Location="/elsewhere")) as (client, server, _):
        with pytest.raises(errors.StatusError, match="302"):
            get(client)
        assert len(server.seen) == 1


def test_an_empty_answer_is_empty_text() -> None:
    with talking(lambda handler: handler.reply(200, b"", Content_Type="text/plain")) as (client, _, _):
        assert client.request("GET", "/livez") == ""
    with talking(lambda handler: handler.reply(503, b"")) as (client, _, _), pytest.raises(errors.Unavailable):
        get(client)


@pytest.mark.parametrize("whole", [True, False], ids=["a read", "a watch"])
def test_a_refusal_is_read_also_when_it_comes_in_chunks(whole: bool) -> None:
    def refuse(handler: Handler) -> None:
        handler.chunks([b'{"kind": "Status", "rea', b'son": "Expired", "message": "too old"}'], code=410)

    with talking(refuse) as (client, _, _), pytest.raises(errors.Gone, match="too old"):
        client.list(PODS, limit=None) if whole else client.watch(PODS, resource_version="1")


def test_text_is_text() -> None:
    with talking(lambda handler: handler.reply(200, b"ok", Content_Type="text/plain")) as (client, _, _):
        assert client.request("GET", "/healthz") == "ok"


def page(items: list[str], token: str | None, version: str = "9") -> Script:
    objects = [{"metadata": {"name": name}} for name in items]
    return lambda handler: handler.reply(
        200, {"metadata": {"resourceVersion": version, "continue": token}, "items": objects}
    )


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


def test_a_list_follows_its_pages() -> None:
    with talking(page(["a", "b"], "more"), page(["c"], "")) as (client, server, _):
        found = client.list(PODS, limit=2, label_selector="x=y", field_selector="spec.nodeName=n")
        assert (names(found.items), found.resource_version) == (["a", "b", "c"], "9")
        first, second = (seen.query for seen in server.seen)
        assert first == {"limit": "2", "labelSelector": "x=y", "fieldSelector": "spec.nodeName=n"}
        assert second == first | {"continue": "more"}


def test_a_list_whose_snapshot_is_forgotten_starts_over_in_one_piece() -> None:
    with talking(page(["a"], "more"), status(410, "Expired"), page(["a", "b"], None, "12")) as (client, server, _):
        found = client.list(NODES, limit=1)
        assert (names(found.items), found.resource_version) == (["a", "b"], "12")
        assert server.seen[-1].query == {}


def test_a_list_may_be_empty() -> None:
    with talking(lambda handler: handler.reply(200, {"metadata": {"resourceVersion": "9"}, "items": None})) as (
        client,
        _,
        _,
    ):
        assert client.list(PODS) == ([], "9")


def test_a_watch_gives_whole_lines_however_they_are_cut() -> None:
    parts = [b'{"a"', b":1}\n", b'{"b":2}\n{"c"', b':3}\n\n{"d":', b"4}\n", b'{"half"']
    with talking(lambda handler: handler.chunks(parts)) as (client, server, _):
        with client.watch(PODS, "ns", resource_version="7", server_timeout=301) as stream:
            assert [*stream] == [b'{"a":1}', b'{"b":2}', b'{"c":3}', b'{"d":4}']
        assert server.seen[0].query == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "7",
            "timeoutSeconds": "301",
        }


def test_a_watch_that_is_cut_says_so_after_what_came() -> None:
    with talking(lambda handler: handler.chunks([b"1\n2\n"], then=handler.cut)) as (client, _, _):
        lines: list[bytes] = []
        with client.watch(PODS, resource_version="7") as stream, pytest.raises(errors.NoAnswer, match="was cut off"):
            lines.extend(stream)
        assert lines == [b"1", b"2"]


def test_a_silent_watch_is_given_up() -> None:
    with (
        talking(lambda handler: handler.chunks([], then=handler.hang)) as (client, _, _),
        client.watch(PODS, resource_version="7", inactivity=0.1) as stream,
        pytest.raises(errors.NoAnswer),
    ):
        next(iter(stream))


def test_connections_are_used_again() -> None:
    ports: set[int] = set()

    def note_port(handler: Handler) -> None:
        ports.add(handler.client_address[1])
        ok(handler)

    with talking(note_port, status(404), note_port) as (client, server, _):
        get(client)
        with pytest.raises(errors.NotFound):
            get(client)
        get(client)
        until(lambda: len(server.seen) == 3)
        assert len(ports) == 1


class Doomed(LeanTlsConnection):
    """Its server has hung up before TLS can begin, as one does that is restarted."""

    def _new_conn(self) -> socket.socket:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            mine = socket.create_connection(listener.getsockname())
            theirs, _ = listener.accept()
        at_once = struct.pack("ii", 1, 0)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        theirs.close()
        poller = select.poll()
        poller.register(mine)
        until(lambda: any(event & select.POLLHUP for _, event in poller.poll(0)))
        return mine


def test_a_connection_reset_before_tls_leaves_no_open_socket() -> None:
    connection = Doomed("127.0.0.1")
    with pytest.raises(ConnectionResetError, match="before TLS began"):
        connection.connect()
    gc.collect()  # a socket that is found unclosed is an error to pytest
