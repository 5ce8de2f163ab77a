"""Trouble on demand, for tests: deterministic, thread-safe, and gone once it has happened as often as asked.

sandbox.faults.fail(429, times=3, method="POST", path="/binding", retry_after=1)
sandbox.faults.lose_answers(path="/binding")
sandbox.faults.swallow_events(2)
sandbox.faults.restart()
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from kubenexus.common.sandbox.errors import ApiError, too_many_requests
from kubenexus.common.sandbox.http import Request
from kubenexus.common.sandbox.store import Store

_WORDS = {
    409: ("Conflict", "the object has been modified; please apply your changes to the latest version and try again"),
    500: ("InternalError", "Internal error occurred: a fault was asked for"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "the server was unable to return a response in the time allotted"),
}


@dataclass(slots=True)
class Rule:
    """What happens to the next `times` requests whose method is this one and whose path contains this text."""

    times: int
    method: str = ""
    path: str = ""
    delay: float = 0.0
    error: ApiError | None = None
    lose: bool = False

    def matches(self, request: Request) -> bool:
        return self.times > 0 and self.method in ("", request.method) and self.path in request.path


class Stream:
    """One open watch, as far as faults are concerned."""

    def __init__(self, abort: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._left = 0  # events still to be disturbed
        self._copies = 1  # of each: 0 swallows it, 2 doubles it
        self.hit = False
        self.cut = abort

    def disturb(self, events: int, copies: int) -> None:
        with self._lock:
            self._left, self._copies = events, copies

    def mangled(self, lines: list[bytes]) -> tuple[list[bytes], bool]:
        """The lines to send in place of these, and whether the stream is cut after them.

        It is cut after the last disturbed event, or earlier when none follows: a client that never notices that it
        missed something could not be expected to recover.
        """
        with self._lock:
            if not self._left:
                return lines, False
            disturbed = lines[: self._left]
            self._left -= len(disturbed)
            over = not self._left or (self.hit and not disturbed)
            self.hit = self.hit or bool(disturbed)
            return [line for line in disturbed for _ in range(self._copies)], over


class Faults:
    """The troubles of one sandbox; `restart` is given by whoever owns the server."""

    def __init__(self, store: Store, restart: Callable[[bool], None]) -> None:
        self._store = store
        self._restart = restart
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._streams: set[Stream] = set()

    def fail(
        self, code: int, *, times: int = 1, method: str = "", path: str = "", retry_after: int | None = None
    ) -> None:
        """Refuse the next matching requests, unprocessed, with 409, 429, 500, 503 or 504."""
        if code == 429:
            error = too_many_requests("too many requests, please try again later", retry_after or 1)
        else:
            reason, message = _WORDS[code]
            error = ApiError(code, reason, message, {"retryAfterSeconds": retry_after} if retry_after else None)
        self._add(Rule(times, method, path, error=error))

    def delay(self, seconds: float, *, times: int = 1, method: str = "", path: str = "") -> None:
        """Answer the next matching requests late."""
        self._add(Rule(times, method, path, delay=seconds))

    def lose_answers(self, *, times: int = 1, method: str = "", path: str = "") -> None:
        """Process the next matching requests, but break the connection instead of answering."""
        self._add(Rule(times, method, path, lose=True))

    def cut_watches(self) -> None:
        """Break every open watch in the middle, without the end that HTTP wants."""
        for stream in self._open():
            stream.cut()
        self._store.wake()

    def swallow_events(self, count: int = 1) -> None:
        """On every open watch the next events, at most so many, are never sent; then it is cut."""
        for stream in self._open():
            stream.disturb(count, copies=0)

    def duplicate_events(self, count: int = 1) -> None:
        """On every open watch the next events, at most so many, are sent twice; then it is cut."""
        for stream in self._open():
            stream.disturb(count, copies=2)

    def compact(self) -> None:
        """Forget all history now: whoever resumes from an older version gets 410."""
        self._store.compact()

    def restart(self, *, new_history: bool = False) -> None:
        """Drop every connection and come back on the same port with the same data.

        With `new_history` every resourceVersion given out before is expired.
        """
        self._restart(new_history)

    def clear(self) -> None:
        """Forget the troubles that have not happened yet."""
        with self._lock:
            self._rules.clear()

    @property
    def pending(self) -> int:
        """How many requests are still to be troubled."""
        with self._lock:
            return sum(rule.times for rule in self._rules)

    def _add(self, rule: Rule) -> None:
        with self._lock:
            self._rules.append(rule)

    def _open(self) -> list[Stream]:
        with self._lock:
            return list(self._streams)

    @property
    def open_watches(self) -> int:
        """How many watches are being served."""
        with self._lock:
            return len(self._streams)

    def take(self, request: Request) -> Rule | None:
        """The trouble for this request, used up; called by the server."""
        if not self._rules:
            return None
        with self._lock:
            rule = next((rule for rule in self._rules if rule.matches(request)), None)
            if rule is not None:
                rule.times -= 1
                self._rules = [each for each in self._rules if each.times > 0]
            return rule

    def opened(self, stream: Stream) -> None:
        with self._lock:
            self._streams.add(stream)

    def closed(self, stream: Stream) -> None:
        with self._lock:
            self._streams.discard(stream)
