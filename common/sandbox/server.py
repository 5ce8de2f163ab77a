"""The listener: accepts TLS connections on loopback, one thread each, and can drop them all at once."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable

from kubenexus.common.sandbox.http import Connection, ProtocolError, Request

Handler = Callable[[Request, Connection], bool]
"""Answers a request; False when the connection is to be closed after it."""

_log = logging.getLogger(__name__)
_PATIENCE = 5.0


class Server:
    """Serves from `start` to `stop`. After `halt` it can `start` again on the same port.

    `interrupt` is called when connections break under handlers that wait for something else than the client.
    """

    def __init__(self, context: ssl.SSLContext, handler: Handler, interrupt: Callable[[], None], port: int = 0) -> None:
        self._context = context
        self._handler = handler
        self._interrupt = interrupt
        self._lock = threading.Lock()
        self._connections: dict[Connection, threading.Thread] = {}
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self._claim: socket.socket | None = None  # never listens; keeps others from taking the port while we do not
        self.port = port

    def start(self) -> None:
        if self._claim is None:
            self._claim = _bound(self.port)
            self.port = self._claim.getsockname()[1]
        listener = _bound(self.port)
        listener.listen(256)
        self._listener = listener
        self._acceptor = threading.Thread(target=self._accept, args=(listener,), name="sandbox-accept", daemon=True)
        self._acceptor.start()

    def stop(self) -> None:
        """Halt, and give the port back."""
        self.halt()
        if self._claim is not None:
            self._claim.close()

    def halt(self) -> None:
        """Close the listener and every connection, and wait for their threads; the port stays ours."""
        listener, acceptor = self._listener, self._acceptor
        if listener is None or acceptor is None:
            return
        self._listener = self._acceptor = None
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        listener.close()
        acceptor.join(_PATIENCE)
        with self._lock:
            left = list(self._connections.items())
        for connection, _ in left:
            connection.abort()
        self._interrupt()
        for _, thread in left:
            thread.join(_PATIENCE)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            try:
                secured = self._secured(sock)
            except OSError as error:
                _log.debug("a client hung up at once: %s", error)
                continue
            connection = Connection(secured)
            thread = threading.Thread(
                target=self._serve, args=(connection, secured), name="sandbox-client", daemon=True
            )
            with self._lock:
                self._connections[connection] = thread
            thread.start()

    def _secured(self, sock: socket.socket) -> ssl.SSLSocket:
        sock.settimeout(_PATIENCE)  # for the handshake
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    def _serve(self, connection: Connection, sock: ssl.SSLSocket) -> None:
        try:
            sock.do_handshake()
            sock.settimeout(None)
            self._converse(connection)
        except (OSError, ProtocolError) as error:
            _log.debug("a connection ended: %s", error)
        finally:
            connection.close()
            with self._lock:
                del self._connections[connection]

    def _converse(self, connection: Connection) -> None:
        while (request := connection.read()) is not None:
            if not self._handler(request, connection):
                return


def _bound(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        sock.bind(("127.0.0.1", port))
    except OSError:
        sock.close()
        raise
    return sock
