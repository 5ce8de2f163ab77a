"""Many small requests on their way at once, from one thread: each over a connection of its own, answers as they come.

A thread for each costs more than the requests do, in handing Python's lock around (docs/decisions/0007). A request is
sent once, whatever happens: what to do about a failure is left to whoever sent it, in a thread where waiting is free.
"""

from __future__ import annotations

import contextlib
import queue
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Protocol

from urllib3 import HTTPHeaderDict
from urllib3.exceptions import HTTPError

from kubenexus.common import logs, metrics
from kubenexus.common.kube.auth import Access, Session
from kubenexus.common.kube.client import CONNECT_TIMEOUT, TIMEOUT, headers_of, no_answer, not_reached
from kubenexus.common.kube.connection import CHUNK, Answer, Incoming, LeanConnection, read_parts, request_head
from kubenexus.common.kube.errors import ApiError, NotReached, answer_error
from kubenexus.common.kube.request import Request

log = logs.get(__name__)

TICK = 1.0
"""seconds between looks at what is overdue, and until a server that was not reached is called again"""
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError)


class Errand(Protocol):
    """One request, and what follows. Both are called in the courier's thread and must not block."""

    def request(self) -> Request | None:
        """What to send, right before it is sent; None if there is nothing to send after all."""
        ...

    def done(self, error: ApiError | None) -> None:
        """It was carried out, or this went wrong. Comes once for each request."""
        ...


class Courier:
    """From `start` to `stop`; `send` is for any thread and never blocks."""

    _selector: selectors.BaseSelector
    _wake: socket.socket
    _woken: socket.socket
    """what is sent to the one arrives at the other"""

    def __init__(
        self,
        access: Access,
        agent: str,
        connections: int,
        *,
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access, self._agent = access, agent
        self._timeout, self._clock = timeout, clock
        self._errands: queue.SimpleQueue[Errand] = queue.SimpleQueue()
        self._lines = [_Line() for _ in range(connections)]
        self._idle = list(self._lines)
        self._asleep = False
        self._look_at = self._call_at = clock()
        self._deadline: float | None = None
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)

    def start(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._thread.start()

    def send(self, errand: Errand) -> None:
        self._errands.put(errand)
        self._rouse()

    def stop(self, timeout: float = 10.0) -> None:
        """Send what is queued and wait for the answers, for so many seconds."""
        self._deadline = self._clock() + timeout
        self._rouse()
        if self._thread.is_alive():
            self._thread.join(timeout + TICK)

    def _rouse(self) -> None:
        if self._asleep:
            self._asleep = False
            self._wake.send(b"!")

    # The thread

    def _run(self) -> None:
        self._selector.register(self._woken, selectors.EVENT_READ)
        while not self._finished():
            while self._idle and not self._errands.empty():
                self._begin(self._errands.get())
            for key, _ in self._selector.select(self._patience()):
                if key.data is None:
                    self._woken.recv(CHUNK)
                else:
                    self._hear(key.data)
            self._asleep = False
            self._expire()
        for line in self._lines:
            self._lose(line, TimeoutError("there is no more time to wait for it"))
        for end in (self._selector, self._wake, self._woken):
            end.close()

    def _finished(self) -> bool:
        if self._deadline is None:
            return False
        nothing_left = len(self._idle) == len(self._lines) and self._errands.empty()
        return nothing_left or self._clock() >= self._deadline

    def _patience(self) -> float:
        """Seconds to wait for answers. Only with a connection to spare do we want to hear of new errands."""
        self._asleep = bool(self._idle)
        return TICK if self._errands.empty() or not self._idle else 0.0

    def _begin(self, errand: Errand) -> None:
        try:
            request = errand.request()
        except Exception as error:
            log.exception("a request could not be made")
            _tell(errand, NotReached(f"nothing was sent, for the request could not be made: {error!r}"))
            return
        if request is None:
            return
        line, session = self._idle.pop(), self._access.session
        line.take(errand, request, self._clock())
        try:
            headers = headers_of(request, session, self._agent)
            self._connect(line, session)
        except Exception as error:  # noqa: BLE001 (whoever provides our credentials may raise anything)
            self._end(line, not_reached(request, error))
            return
        try:
            line.send(headers)
        except (OSError, ValueError) as error:
            self._lose(line, error)

    def _connect(self, line: _Line, session: Session) -> None:
        """Have a connection of this session. While the server cannot be reached we do not try for everybody."""
        if line.session is session:
            return
        self._hang_up(line)
        if self._clock() < self._call_at:
            raise TimeoutError("it could not be reached a moment ago")
        try:
            self._selector.register(line.connect(session), selectors.EVENT_READ, line)
        except (HTTPError, OSError):
            self._call_at = self._clock() + TICK
            raise

    def _hear(self, line: _Line) -> None:
        """An answer has come, or part of it, or the connection has ended."""
        try:
            answer = line.receive()
        except (HTTPException, OSError) as error:
            self._lose(line, error)
            return
        if answer is None or line.request is None:
            return
        request, status = line.request, answer.status
        metrics.API_REQUESTS.labels(request.method, request.label, str(status)).inc()
        metrics.API_SECONDS.labels(request.method, request.label).observe(self._clock() - line.since)
        if not answer.reusable:
            self._hang_up(line)
        if 200 <= status < 300:
            self._end(line, None)
        else:
            self._end(line, answer_error(str(request), status, HTTPHeaderDict(answer.headers), answer.body))

    def _lose(self, line: _Line, error: Exception) -> None:
        """The connection is of no use any more; if it owes an answer, that will not come."""
        self._hang_up(line)
        if line.request is not None:
            metrics.API_REQUESTS.labels(line.request.method, line.request.label, "none").inc()
            self._end(line, no_answer(line.request, error))

    def _end(self, line: _Line, error: ApiError | None) -> None:
        errand = line.release()
        self._idle.append(line)
        _tell(errand, error)

    def _hang_up(self, line: _Line) -> None:
        if line.session is not None:
            self._selector.unregister(line.sock)
            line.close()

    def _expire(self) -> None:
        if (now := self._clock()) < self._look_at:
            return
        self._look_at = now + TICK
        for line in self._lines:
            if line.request is not None and now - line.since > self._timeout:
                self._lose(line, TimeoutError(f"it did not come within {self._timeout:g} seconds"))


def _tell(errand: Errand, error: ApiError | None) -> None:
    try:
        errand.done(error)
    except Exception:
        log.exception("what follows an answer failed")


class _Line:
    """A connection, made when it is first needed, with at most one request on its way."""

    def __init__(self) -> None:
        self.session: Session | None = None
        """of the connection; None while there is none"""
        self.request: Request | None = None
        self.since = 0.0
        self._errand: Errand | None = None
        self._connection: LeanConnection | None = None
        self._data = b""

    @property
    def sock(self) -> socket.socket:
        assert self._connection is not None
        found: socket.socket = self._connection.sock
        return found

    def take(self, errand: Errand, request: Request, now: float) -> None:
        self._errand, self.request, self.since, self._data = errand, request, now, b""

    def release(self) -> Errand:
        assert self._errand is not None
        errand, self._errand, self.request = self._errand, None, None
        return errand

    def connect(self, session: Session) -> socket.socket:
        self._connection, self.session = session.connect(CONNECT_TIMEOUT), session
        return self.sock

    def close(self) -> None:
        assert self._connection is not None
        with contextlib.suppress(OSError):
            self._connection.close()
        self._connection = self.session = None

    def send(self, headers: dict[str, str]) -> None:
        request, session, connection = self.request, self.session, self._connection
        assert request is not None
        assert session is not None
        assert connection is not None
        target, named = session.prefix + request.target, {"Host": connection.authority, **headers}
        head = request_head(request.method, target, named, request.body)
        self.sock.settimeout(CONNECT_TIMEOUT)
        self.sock.sendall(head + (request.body or b""))
        self.sock.settimeout(0)

    def receive(self) -> Answer | None:
        """The whole answer; None while it is not whole. Raises when it never will be."""
        try:
            received = self.sock.recv(CHUNK)
        except _NOT_YET:
            return None
        if self.request is None:
            raise HTTPException("something came that nobody asked for, or the end")
        self._data += received
        try:
            return read_parts(Incoming(_Received(self._data, ended=not received)), self.request.method)
        except BlockingIOError:
            return None


class _Received:
    """What has come so far, in place of a socket."""

    def __init__(self, data: bytes, *, ended: bool) -> None:
        self._data, self._ended = data, ended

    def recv(self, _size: int) -> bytes:
        data, self._data = self._data, b""
        if not data and not self._ended:
            raise BlockingIOError
        return data
