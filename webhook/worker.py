"""gunicorn's worker with threads, and a short way for reviews on connections that are kept.

A connection gets a thread when it says something, and until it is closed: clients that are silent, or slow to hang up,
keep nobody else waiting.

Handing a request to a thread and back costs more than deciding about a pod, and threads that decide take turns at
Python's lock, for milliseconds each. So the thread that sees a request arrive answers it itself, if it is whole, of the
usual size, and nothing has to be waited for. Everything else goes to the threads, with the bytes that were read.
"""

from __future__ import annotations

import contextlib
import select
import selectors
import ssl
import time
from concurrent.futures import Future
from email.utils import formatdate
from functools import lru_cache, partial
from typing import Any, Final

from gunicorn.workers.gthread import ThreadWorker

from kubenexus.webhook.quick import JSON, MOST_BYTES, Partly, Review, recognise
from kubenexus.webhook.tls import REQUEST_SECONDS

SOON_MS: Final = 1
"""that the rest of a request may take to arrive, while all others wait; senders write what is long in pieces"""
PIECES: Final = 8
_HEAD: Final = (
    "HTTP/1.1 200 OK\r\nServer: gunicorn\r\nDate: {}\r\nConnection: keep-alive\r\n"
    "Content-Type: " + JSON + "\r\nContent-Length: {}\r\n\r\n"
)


class ReviewWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Answers most reviews in the thread that sees them arrive."""

    def enqueue_req(self, conn: Any) -> None:
        """Hand it to a thread; a new one only when it has said its first word, which must come in time."""
        if conn.initialized or conn.data_ready:
            super().enqueue_req(conn)
            return
        conn.timeout = time.monotonic() + REQUEST_SECONDS
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def handle(self, conn: Any) -> Any:
        """As gunicorn does it; what is not kept, by a false result, is closed here: clients may be slow to hang up."""
        kept = super().handle(conn)
        if not kept:
            with contextlib.suppress(OSError):  # gunicorn closed it itself
                conn.close(graceful=True)
        return kept

    def finish_request(self, conn: Any, done: Future[Any]) -> None:
        """As gunicorn does it, which would count what is closed already twice, and end too early when it stops."""
        if done.cancelled() or done.exception() or done.result():
            super().finish_request(conn, done)
        else:
            self.nr_conns -= 1

    def on_client_socket_readable(self, conn: Any, client: Any) -> None:
        data, found = _arrived(conn.sock)
        answer = self.wsgi.at_once(found) if isinstance(found, Review) and self.alive else None
        if answer is None:
            conn.parser.unreader.unread(data)
            super().on_client_socket_readable(conn, client)
            return
        self._deliver(conn, _HEAD.format(_date(int(time.time())), len(answer)).encode() + answer)

    def _deliver(self, conn: Any, message: bytes) -> None:
        """Send it now; if the client does not take it at once, a thread waits for that."""
        self.keepalived_conns.remove(conn)
        try:
            conn.sock.write(message)
        except OSError:
            self.poller.unregister(conn.sock)
            sent = self.tpool.submit(_send, conn.sock, message)
            sent.add_done_callback(lambda done: self.method_queue.defer(self.finish_request, conn, done))
        else:
            conn.set_timeout()
            self.keepalived_conns.append(conn)


@lru_cache(maxsize=2)
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


def _send(sock: Any, message: bytes) -> bool:
    """Whether the client took it, in time; if so, its connection is kept."""
    sock.setblocking(True)
    sock.sendall(message)
    return True


def _arrived(sock: Any) -> tuple[bytes, Review | Partly]:
    """What has arrived, or does in a moment. What ends a connection is found again by the thread that gets it then."""
    data = b""
    found: Review | Partly = Partly.BEGUN
    for _ in range(PIECES):
        try:
            more = sock.read(MOST_BYTES)
        except ssl.SSLWantReadError:
            if not _comes_soon(sock):
                break
            continue
        except OSError:
            break
        data += more
        found = recognise(data)
        if not more or found is not Partly.BEGUN:
            break
    return data, found


def _comes_soon(sock: Any) -> bool:
    waiting = select.poll()
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(SOON_MS))
