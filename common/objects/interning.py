"""One object for equal values, without keeping any of them alive.

Pods of one template differ in name, uid and node only. What they share is built once and found again by a fingerprint
of the JSON it was read from; entries vanish with the last pod that uses them, so weeks of churn leave nothing behind.
Several threads may project at once: who loses a race makes a second, equal object.
"""

from __future__ import annotations

import marshal
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson

_SHARED_LIMIT: Final = 1 << 15
_shared: dict[str, str] = {}


def share(text: str) -> str:
    """An equal text seen lately, or this one. For what has few variants; now and then all are forgotten."""
    known = _shared.get(text)
    if known is None:
        if len(_shared) >= _SHARED_LIMIT:
            _shared.clear()
        known = _shared[text] = text
    return known


def json_bytes(raw: Any) -> bytes:
    """Bytes that are equal for equal JSON in equal order, as an API server writes it."""
    try:
        return orjson.dumps(raw)
    except TypeError:  # what it cannot write: lone surrogates, huge integers, deep nesting
        return marshal.dumps(raw, 2)


def fingerprint(raw: Any) -> bytes:
    """As `json_bytes`, but short, for what is kept by the thousand."""
    return _digest(json_bytes(raw))


@lru_cache(maxsize=1024)  # looking up a template's bytes takes a third of the time of digesting them
def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


class Labels(dict[str, str]):
    """Labels or annotations: an ordinary mapping that nobody changes, so that it can be shared and hashed."""

    __slots__ = ("__weakref__", "_hash")
    _hash: int

    def __hash__(self) -> int:  # type: ignore[override]
        try:
            return self._hash
        except AttributeError:
            self._hash = hash(frozenset(self.items()))
            return self._hash


NO_LABELS: Final = Labels()
_labels: WeakValueDictionary[int, Labels] = WeakValueDictionary()


def known_labels(raw: dict[str, Any]) -> Labels | None:
    """The shared `Labels` with just this content, if there is one."""
    try:
        known = _labels.get(hash((*raw, *raw.values())))
    except TypeError:  # a value is no text
        return None
    return known if known == raw else None


def intern_labels(pairs: dict[str, str]) -> Labels:
    """`Labels` with this content, to be shared from now on."""
    made = Labels({share(name): share(value) for name, value in pairs.items()})
    mark = hash((*made, *made.values()))
    if mark not in _labels:
        _labels[mark] = made
    return made
