"""A faster way over the same wire: urllib3 connections that send a request in one write and read its answer whole.

urllib3's pool, TLS, proxies and timeouts stay as they are. Only for an answer that is wanted whole (`preload_content`)
is the exchange done here: the standard library's header parsing and a second TLS record for the body cost more than
all else together (`hack/bench/client.py`). An answer without end, a watch, takes urllib3's own way.
"""

from __future__ import annotations

import errno
import ssl
from collections.abc import Mapping
from http.client import BadStatusLine, HTTPException, IncompleteRead, LineTooLong, RemoteDisconnected
from typing import Any, NamedTuple, Protocol

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util.ssl_ import create_urllib3_context, resolve_cert_reqs, resolve_ssl_version

CHUNK = 1 << 16
LONGEST_HEAD = 1 << 16


class LeanConnection(HTTPConnection):
    """Plain HTTP. `_asked` is the method of a request whose answer is to be read here."""

    _asked: str | None = None

    def request(  # type: ignore[override]
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        preload_content: bool = True,
        **options: Any,
    ) -> None:
        self._asked = method if preload_content else None
        if not preload_content:
            super().request(method, url, body, headers, preload_content=False, **options)
            return
        if self.sock is None:
            self.connect()
        head = request_head(method, url, {"Host": self.authority, **(headers or {})}, body)
        self.sock.settimeout(self.timeout)
        self.sock.sendall(head + body if body else head)

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]
        if self._asked is None:
            return super().getresponse()
        method, self._asked = self._asked, None
        self.sock.settimeout(self.timeout)
        response, reusable = read_answer(Incoming(self.sock), method)
        if not reusable:
            self.close()
        return response

    @property
    def authority(self) -> str:
        """What goes into the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == self.default_port else f"{host}:{self.port}"


class TlsSocket(ssl.SSLSocket):
    """Closes itself if the other side hangs up before TLS begins.

    The standard library asks for the peer's name first of all. Where there is none it drops the socket, unclosed.
    """

    def getpeername(self) -> Any:
        try:
            return super().getpeername()
        except OSError as error:
            self.close()
            raise ConnectionResetError(errno.ECONNRESET, "the connection was reset before TLS began") from error


class LeanTlsConnection(LeanConnection, HTTPSConnection):
    """The same over TLS."""

    def connect(self) -> None:
        if self.ssl_context is None:
            self.ssl_context = _context(self)
        super().connect()


def _context(wanted: HTTPSConnection) -> ssl.SSLContext:
    """The context that urllib3 makes for a connection that brings none, but less strict, and with sockets of ours."""
    context = create_urllib3_context(
        resolve_ssl_version(wanted.ssl_version),
        resolve_cert_reqs(wanted.cert_reqs),
        ssl_minimum_version=wanted.ssl_minimum_version,
        ssl_maximum_version=wanted.ssl_maximum_version,
    )
    if not (wanted.ca_certs or wanted.ca_cert_dir or wanted.ca_cert_data):
        context.load_default_certs()
    context.sslsocket_class = TlsSocket
    # As kubectl does it: authorities of many clusters lack extensions that Python insists on since 3.13.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def use_in(pool: urllib3.HTTPConnectionPool) -> None:
    """Let a pool make such connections."""
    tls = issubclass(pool.ConnectionCls, HTTPSConnection)
    pool.ConnectionCls = LeanTlsConnection if tls else LeanConnection


class Receiver(Protocol):
    """What an answer is read from: a socket, or what came from one."""

    def recv(self, size: int, /) -> bytes: ...


class Answer(NamedTuple):
    """An answer, with headers by their names in lower case, and whether the connection can be used again."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes
    reusable: bool


class Incoming:
    """Bytes of one answer, by length or by mark."""

    def __init__(self, sock: Receiver) -> None:
        self._sock = sock
        self._data = bytearray()

    def until(self, mark: bytes) -> bytes:
        """What comes before the mark; both are consumed."""
        while (end := self._data.find(mark)) < 0:
            if len(self._data) > LONGEST_HEAD:
                raise LineTooLong("answer")
            self._receive()
        taken = bytes(self._data[:end])
        del self._data[: end + len(mark)]
        return taken

    def take(self, size: int) -> bytes:
        while len(self._data) < size:
            self._receive()
        taken = bytes(self._data[:size])
        del self._data[:size]
        return taken

    def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        while received := self._sock.recv(CHUNK):
            self._data += received
        return bytes(self._data)

    @property
    def empty(self) -> bool:
        return not self._data

    def _receive(self) -> None:
        received = self._sock.recv(CHUNK)
        if not received and not self._data:
            raise RemoteDisconnected("the server closed the connection without an answer")
        if not received:
            raise IncompleteRead(bytes(self._data))
        self._data += received


def request_head(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """The head of a request. A line break in it, which would begin another header or request, raises ValueError."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if body is not None or method not in ("GET", "HEAD"):
        lines.append(f"Content-Length: {len(body or b'')}")
    text = "\r\n".join([*lines, "", ""])
    if text.count("\n") != len(lines) + 1:
        raise ValueError("a header may not hold a line break")
    return text.encode("latin-1")


def read_answer(incoming: Incoming, method: str) -> tuple[urllib3.HTTPResponse, bool]:
    """The answer to a request of this method, and whether the connection can be used again."""
    status, reason, headers, body, reusable = read_parts(incoming, method)
    response = urllib3.HTTPResponse(
        body,
        urllib3.HTTPHeaderDict(headers),
        status,
        reason=reason,
        decode_content=False,
        request_method=method,
        preload_content=False,
    )
    return response, reusable


def read_parts(incoming: Incoming, method: str) -> Answer:
    """The same, as it came."""
    status = 100
    while 100 <= status < 200:
        version, status, reason, headers = _parse(incoming.until(b"\r\n\r\n"))
    body, framed = _body(incoming, method, status, headers)
    close = headers.get("connection", "").lower() == "close" or version != "HTTP/1.1"
    return Answer(status, reason, headers, body, framed and incoming.empty and not close)


def _parse(head: bytes) -> tuple[str, int, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not code.isdecimal():
        raise BadStatusLine(first[:80])
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return version, int(code), reason, headers


def _body(incoming: Incoming, method: str, status: int, headers: Mapping[str, str]) -> tuple[bytes, bool]:
    """The body, and whether its end was marked other than by the end of the connection."""
    if method == "HEAD" or status in (204, 304):
        return b"", True
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _chunks(incoming), True
    length = headers.get("content-length")
    return (incoming.rest(), False) if length is None else (incoming.take(_number(length, 10)), True)


def _chunks(incoming: Incoming) -> bytes:
    parts = []
    while size := _number(incoming.until(b"\r\n").partition(b";")[0], 16):
        parts.append(incoming.take(size))
        incoming.until(b"\r\n")
    while incoming.until(b"\r\n"):
        pass  # trailers
    return b"".join(parts)


def _number(text: str | bytes, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError as error:
        raise HTTPException(f"{text!r} is not a length") from error
    if number < 0:
        raise HTTPException(f"{text!r} is not a length")
    return number
