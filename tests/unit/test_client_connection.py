"""Answers off the wire: however they are framed and cut, they are read whole or refused."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from http.client import HTTPException, IncompleteRead, LineTooLong, RemoteDisconnected
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.kube.connection import Incoming, read_answer, request_head

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Wire:
    """A socket on which these parts arrive, and then the end."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.parts = [part for part in parts if part]

    def recv(self, size: int) -> bytes:
        if not self.parts:
            return b""
        part = self.parts.pop(0)
        if len(part) > size:
            self.parts.insert(0, part[size:])
        return part[:size]


def read(*parts: bytes, method: str = "GET") -> tuple[int, bytes, dict[str, str], bool]:
    response, reusable = read_answer(Incoming(cast(socket.socket, Wire(parts))), method)
    return response.status, response.data or b"", dict(response.headers), reusable


@pytest.mark.parametrize(
    ("data", "status", "body", "reusable"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc", True, id="by length"),
        pytest.param(b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", 200, b"", True, id="no reason, empty"),
        pytest.param(
            CHUNKED + b"2\r\nab\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", 200, b"ab0123456789", True, id="chunked"
        ),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\nTrailer: x\r\n\r\n", 200, b"a", True, id="with a trailer"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nabc", 200, b"abc", False, id="up to the end"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", 200, b"a", False, id="HTTP/1.0"),
        pytest.param(
            b"HTTP/1.1 409 Conflict\r\nConnection: Close\r\nContent-Length: 1\r\n\r\na", 409, b"a", False, id="closing"
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True, id="no body"),
        pytest.param(
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
            200,
            b"a",
            True,
            id="after hints",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc", 200, b"a", False, id="more than announced"),
    ],
)
def test_framing(data: bytes, status: int, body: bytes, reusable: bool) -> None:
    found = read(data)
    assert (found[0], found[1], found[3]) == (status, body, reusable)
    assert read(*(data[index : index + 1] for index in range(len(data))))[:2] == (status, body)


def test_an_answer_to_head_has_no_body() -> None:
    assert read(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", method="HEAD")[1] == b""


def test_headers_are_found_in_any_case() -> None:
    response, _ = read_answer(
        Incoming(cast(socket.socket, Wire([b"HTTP/1.1 429 x\r\nRETRY-after:  2 \r\nContent-Length:0\r\n\r\n"]))), "GET"
    )
    assert response.headers.get("Retry-After") == "2"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", RemoteDisconnected),
        (b"HTTP/1.1 200 OK\r\nContent-Le", IncompleteRead),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", IncompleteRead),
        (CHUNKED + b"5\r\nab", IncompleteRead),
        (CHUNKED + b"2\r\nab\r\n", HTTPException),
        (CHUNKED + b"zz\r\nab\r\n", HTTPException),
        (CHUNKED + b"-2\r\nab\r\n", HTTPException),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", HTTPException),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", HTTPException),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\nab", HTTPException),
        (b"HTTP/2 200\r\n\r\n", HTTPException),
        (b"SSH-2.0-OpenSSH\r\n\r\n", HTTPException),
        (b"HTTP/1.1 abc\r\n\r\n", HTTPException),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, LineTooLong),
    ],
    ids=lambda value: value[-40:].decode() or "nothing" if isinstance(value, bytes) else value.__name__,
)
def test_what_is_no_whole_answer_is_refused(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        read(data)


@given(st.binary(max_size=300), st.lists(st.integers(1, 50)), st.lists(st.integers(1, 60), min_size=1), st.booleans())
def test_bodies_survive_any_chunks_and_cuts(body: bytes, chunks: list[int], cuts: list[int], by_length: bool) -> None:
    if by_length:
        data = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    else:
        data = CHUNKED + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in split(body, chunks)) + b"0\r\n\r\n"
    assert read(*split(data, cuts))[1] == body


def split(data: bytes, sizes: list[int]) -> list[bytes]:
    """The data in parts of these sizes, and what is left."""
    parts = []
    for size in sizes:
        parts.append(data[:size])
        data = data[size:]
    return [part for part in [*parts, data] if part]


@given(st.binary(max_size=400))
def test_garbage_is_refused_or_read_but_never_breaks(data: bytes) -> None:
    try:
        status, *_ = read(b"HTTP/1.1 " + data)
    except HTTPException:
        return
    assert status >= 0


def test_the_head_of_a_request() -> None:
    assert request_head("POST", "/x?y=1", {"Host": "h:1", "Accept": "a"}, b"abc") == (
        b"POST /x?y=1 HTTP/1.1\r\nHost: h:1\r\nAccept: a\r\nContent-Length: 3\r\n\r\n"
    )
    assert b"Content-Length" not in request_head("GET", "/", {}, None)
    assert b"Content-Length: 0" in request_head("DELETE", "/", {}, None)


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\n"])
def test_no_header_smuggles_another(value: str) -> None:
    with pytest.raises(ValueError, match="may not hold a line break"):
        request_head("GET", "/", {"Authorization": value}, None)
    with pytest.raises(ValueError, match="may not hold a line break"):
        request_head("GET", value, {}, None)
