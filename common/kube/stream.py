"""A watch as it comes off the wire: lines of bytes, which another thread may cut short."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import urllib3
from urllib3.exceptions import HTTPError

from kubenexus.common.kube.errors import NoAnswer

CHUNK = 1 << 16


class Stream:
    """Lines of an answer without end. Iterate in one thread; `abort` from any other ends the iteration at once.

    A regular end of the answer ends the iteration, a cut or a silence raises NoAnswer; a last line without its newline
    is never handed out, for half an event is none. Close it, or use it as a context manager.
    """

    def __init__(self, request: str, response: urllib3.BaseHTTPResponse) -> None:
        self._request = request
        self._response = response
        self._aborted = False

    def __iter__(self) -> Iterator[bytes]:
        rest = b""
        while chunk := self._chunk():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if self._aborted:
                    return
                if line.strip():
                    yield line

    def _chunk(self) -> bytes:
        try:
            return b"" if self._aborted else self._response.read1(CHUNK)
        except (HTTPError, OSError, ValueError) as error:
            if self._aborted:
                return b""
            raise NoAnswer(f"{self._request} was cut off: {error}") from error

    def abort(self) -> None:
        """Wake the reader, wherever it is."""
        self._aborted = True
        # Too late when the reader has just finished; then there is nobody to wake.
        with contextlib.suppress(OSError, RuntimeError, ValueError, AttributeError):
            self._response.shutdown()

    def close(self) -> None:
        self._response.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
