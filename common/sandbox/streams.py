"""Watches over HTTP: events as they happen, bookmarks in between, an orderly end at the timeout."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from kubenexus.common.sandbox.errors import ApiError
from kubenexus.common.sandbox.faults import Faults, Stream
from kubenexus.common.sandbox.http import Connection
from kubenexus.common.sandbox.watch import Event, Watch

Obj = dict[str, Any]

_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
_LOOK_UP_SECONDS = 0.5  # how often an idle stream looks whether its client is still there


@dataclass(frozen=True, slots=True)
class Wish:
    """What the client of one watch asked for."""

    timeout: float
    bookmarks: bool
    ends_initial: bool  # a bookmark tells when the present state is complete
    encode: Callable[[Event], bytes]


class Streamer:
    """Sends watches to their clients, each on its connection's thread."""

    def __init__(self, faults: Faults, bookmark_seconds: float) -> None:
        self._faults = faults
        self._bookmark_seconds = bookmark_seconds

    def serve(self, connection: Connection, begin: Callable[[], Watch], wish: Wish) -> bool:
        """Stream until the timeout, an error, or a fault; whether the connection may be used again.

        A watch that begins too far back fails inside the stream, as with the real server.
        """
        try:
            watch = begin()
        except ApiError as error:
            if error.code != 410:
                raise
            connection.begin_stream(_HEADERS)
            connection.chunk(_line("ERROR", error.status()))
            connection.end_stream()
            return True
        stream = Stream(connection.abort)
        self._faults.opened(stream)
        try:
            connection.begin_stream(_HEADERS)
            return self._stream(connection, watch, wish, stream)
        finally:
            self._faults.closed(stream)

    def _stream(self, connection: Connection, watch: Watch, wish: Wish, stream: Stream) -> bool:
        now = time.monotonic()
        deadline = now + wish.timeout
        bookmark = now + self._bookmark_seconds if wish.bookmarks else math.inf
        ends_initial = wish.ends_initial
        while now < deadline:
            try:
                events = watch.poll(max(0, min(_LOOK_UP_SECONDS, deadline - now, bookmark - now)))
            except ApiError as error:
                connection.chunk(_line("ERROR", error.status()))
                break
            lines, cut = stream.mangled([wish.encode(event) for event in events])
            if lines:
                connection.chunk(b"".join(lines))
            if cut or (not events and connection.is_gone()):
                return False
            now = time.monotonic()
            if stream.hit:
                continue  # a bookmark would lead the client past what was swallowed
            if ends_initial or now >= bookmark:
                connection.chunk(_bookmark(watch, ends_initial))
                ends_initial, bookmark = False, now + self._bookmark_seconds if wish.bookmarks else math.inf
        else:
            if wish.bookmarks and not stream.hit:
                connection.chunk(_bookmark(watch, False))
        connection.end_stream()
        return True


def _line(type_: str, obj: Obj) -> bytes:
    return orjson.dumps({"type": type_, "object": obj}, option=orjson.OPT_APPEND_NEWLINE)


def _bookmark(watch: Watch, ends_initial: bool) -> bytes:
    res = watch.kind.resource
    meta: Obj = {"resourceVersion": str(watch.rv), "creationTimestamp": None}
    if ends_initial:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return _line("BOOKMARK", {"kind": res.kind, "apiVersion": res.api_version, "metadata": meta})
