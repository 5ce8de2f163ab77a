"""Recognises a review among the bytes of a connection, where it looks as API servers send it. Pure.

It understands little of HTTP on purpose: whatever is not plainly a review is left to gunicorn, which understands all.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final, NamedTuple

JSON: Final = "application/json"
MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate"
MOST_BYTES: Final = 2**16
"""of head and body. Most pods have a few thousand; what is larger takes its time, and nobody should wait for that."""
_FIRST: Final = re.compile(rb"POST (/mutate|/validate)(?:\?[!-~]*)? HTTP/1\.1")
_START: Final = b"POST /"
# A header that is none of these may change what a message means or how it ends.
_HARMLESS: Final = frozenset(
    (b"accept", b"accept-encoding", b"host", b"traceparent", b"tracestate", b"user-agent", b"x-request-id")
)
_LENGTH: Final = b"content-length"
_TYPE: Final = b"content-type"


class Review(NamedTuple):
    """A whole review, and nothing after it."""

    path: str
    body: bytes


class Partly(Enum):
    """What bytes are that are no whole review."""

    BEGUN = auto()
    """perhaps the beginning of one"""
    ODD = auto()
    """something else"""


def recognise(data: bytes) -> Review | Partly:
    """What has arrived so far."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return Partly.BEGUN if data.startswith(_START) and len(data) < MOST_BYTES else Partly.ODD
    first, *lines = head.split(b"\r\n")
    asked, length = _FIRST.fullmatch(first), _length(lines)
    if asked is None or length is None or len(head) + length > MOST_BYTES or len(body) > length:
        return Partly.ODD
    return Review(asked[1].decode(), body) if len(body) == length else Partly.BEGUN


def _length(lines: list[bytes]) -> int | None:
    """How long the body of JSON is; None if these headers say something else, or anything else."""
    told: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        if (name := name.lower()) in (_LENGTH, _TYPE) and name not in told:
            told[name] = value.strip(b" \t")
        elif name not in _HARMLESS:
            return None
    length = told.get(_LENGTH, b"")
    return int(length) if told.get(_TYPE) == JSON.encode() and length.isdigit() and len(length) < 8 else None
