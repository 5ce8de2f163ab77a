"""One gRPC call over a unix socket: a message goes out, a message comes back. It is HTTP/2 and a prefix of 5 bytes."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, ResponseReceived, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError

MAX_BYTES = 16 << 20
"""of an answer: what the kubelet limits itself to"""

_PREFIX = struct.Struct(">BI")  # compressed or not, length


class RpcError(OSError):
    """The other side refused, or did not speak gRPC."""


def call(path: Path, method: str, message: bytes, timeout: float) -> bytes:
    """The answer to `message`; RpcError or another OSError when none comes within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(timeout)
        channel.connect(str(path))
        exchange = _Exchange(method, message)
        try:
            while not exchange.done:
                channel.settimeout(max(deadline - time.monotonic(), 0.001))
                with contextlib.suppress(BrokenPipeError):  # it may have said why before it hung up
                    channel.sendall(exchange.outgoing())
                exchange.incoming(channel.recv(1 << 16))
        except ProtocolError as error:
            raise RpcError(f"{method} on {path} got no HTTP/2: {error}") from error
        return exchange.answer()


class _Exchange:
    """One request and its answer, without I/O."""

    def __init__(self, method: str, message: bytes) -> None:
        self._method = method
        self._connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._connection.initiate_connection()
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ]
        self._connection.send_headers(1, headers)
        self._connection.send_data(1, _PREFIX.pack(0, len(message)) + message, end_stream=True)
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self.done = False

    def outgoing(self) -> bytes:
        return self._connection.data_to_send()

    def incoming(self, data: bytes) -> None:
        if not data:
            raise RpcError(f"{self._method} was cut off")
        for event in self._connection.receive_data(data):
            self._handle(event)

    def _handle(self, event: Event) -> None:
        if isinstance(event, ResponseReceived | TrailersReceived):
            self._headers |= {str(name): str(value) for name, value in event.headers or ()}
            self.done = self.done or event.stream_ended is not None
        elif isinstance(event, DataReceived):
            self._body += event.data or b""
            if len(self._body) > MAX_BYTES:
                raise RpcError(f"{self._method} answered more than {MAX_BYTES} bytes")
            self._connection.acknowledge_received_data(event.flow_controlled_length or 0, 1)
            self.done = self.done or event.stream_ended is not None
        elif isinstance(event, StreamReset | ConnectionTerminated):
            raise RpcError(f"{self._method} was broken off with error {event.error_code}")

    def answer(self) -> bytes:
        status = self._headers.get("grpc-status", "none")
        if status != "0":
            why = self._headers.get("grpc-message", f"HTTP status {self._headers.get(':status')}")
            raise RpcError(f"{self._method} was refused with gRPC status {status}: {why}")
        if len(self._body) < _PREFIX.size:
            raise RpcError(f"{self._method} answered without a message")
        compressed, size = _PREFIX.unpack_from(self._body)
        if compressed or size != len(self._body) - _PREFIX.size:
            raise RpcError(f"{self._method} answered with something else than one plain message")
        return bytes(self._body[_PREFIX.size :])
