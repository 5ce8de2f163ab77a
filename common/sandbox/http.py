"""Just enough of HTTP/1.1 for Kubernetes clients, and quick: keep-alive, lengths and chunks, no more.

A hand-made reader because the one of the standard library parses headers as e-mail, which costs more than everything
else that happens to a simple request here.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote, urlsplit

MAX_HEAD = 64 * 1024
MAX_BODY = 16 * 1024 * 1024
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class ProtocolError(Exception):
    """The client does not speak HTTP as we understand it; the connection is of no further use."""


@dataclass(slots=True)
class Request:
    """One request, read completely. Header names are lower case; of repeated query keys the first counts."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def media(self) -> str:
        """The content type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in ("true", "1")


class Connection:
    """One client. Used by one thread, but for `abort`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""

    def read(self) -> Request | None:
        """The next request, or None when the client is done."""
        head = self._head()
        if head is None:
            return None
        first, *lines = head.split("\r\n")
        try:
            method, target, _ = first.split(" ", 2)
        except ValueError:
            raise ProtocolError(first) from None
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        url = urlsplit(target)
        query = dict(reversed(parse_qsl(url.query, keep_blank_values=True)))
        return Request(method, unquote(url.path), query, headers, self._body(headers))

    def _head(self) -> str | None:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > MAX_HEAD:
                raise ProtocolError("head too large")
            more = self._sock.recv(65536)
            if not more:
                return None
            self._buffer += more
        head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
        return head.decode("latin-1")

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("expect", "").lower() == "100-continue":
            self._sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunks()
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            raise ProtocolError(f"length {length}")
        return self._exactly(int(length))

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self._line().split(b";")[0] or b"0", 16):
            body += self._exactly(size)
            self._line()
        while self._line():
            pass  # trailers
        return body

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            self._more()
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return line

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _more(self) -> None:
        more = self._sock.recv(262144)
        if not more:
            raise ProtocolError("the client went away in the middle of a request")
        self._buffer += more

    def send(self, code: int, headers: Mapping[str, str], body: bytes, warnings: list[str] | None = None) -> None:
        """A whole answer."""
        head = _head(code, headers, warnings) + f"Content-Length: {len(body)}\r\n\r\n"
        self._sock.sendall(head.encode("latin-1", "replace") + body)

    def begin_stream(self, headers: Mapping[str, str]) -> None:
        """An answer of unknown length; `chunk` it, then `end_stream`."""
        self._sock.sendall((_head(200, headers, None) + "Transfer-Encoding: chunked\r\n\r\n").encode())

    def chunk(self, data: bytes) -> None:
        self._sock.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self._sock.sendall(b"0\r\n\r\n")

    def is_gone(self) -> bool:
        """Whether the client hung up while it was being streamed to. (It has nothing to say otherwise.)"""
        poller = select.poll()  # select() would stop working at descriptor 1024
        poller.register(self._sock, select.POLLIN)
        return bool(poller.poll(0))

    def abort(self) -> None:
        """Let the connection fail, from any thread, whatever it is doing."""
        with contextlib.suppress(OSError):  # it failed already
            # Not SSLSocket.shutdown, which would take the TLS state away from under the reading thread.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()


def _head(code: int, headers: Mapping[str, str], warnings: list[str] | None) -> str:
    lines = [f"HTTP/1.1 {code} {_REASONS.get(code, '')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f'Warning: 299 - "{_escaped(text)}"' for text in warnings or ()]
    return "\r\n".join(lines) + "\r\n"


def _escaped(text: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')
