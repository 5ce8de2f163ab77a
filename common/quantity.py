"""Kubernetes quantities (`100m`, `1.5Gi`, `1e3`), exactly: no float anywhere.

The smallest amount Kubernetes can hold is a nano, so every quantity is a whole number of nanos; what is finer is
rounded away from zero, and binary quantities (`Ki` … `Ei`) are capped at the largest int64. Two things differ from
Kubernetes on purpose: `value` and `milli` saturate where its int64 arithmetic wraps around (`12E` is not 0), and a
number too large to write out (`1e999999999`) is refused instead of computed.
"""

from __future__ import annotations

import re
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

INT64_MAX = 2**63 - 1

_NANO = 10**9
_MAX_LENGTH = 1000
_MAX_EXPONENT = 1000

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {0: "", **{exponent: suffix for suffix, exponent in _BINARY.items()}}

_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<suffix>[KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)"
)


class QuantityError(ValueError):
    """The text is not a quantity; the message names it."""

    def __init__(self, text: str, why: str) -> None:
        shown = text if len(text) <= 40 else text[:40] + "…"
        super().__init__(f"{shown!r} is not a quantity: {why}")


class _Style(Enum):
    """How the author wrote it; the canonical form keeps to it."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


class _Quantity(NamedTuple):
    exact: Fraction
    value: int
    milli: int
    style: _Style


def parse(text: str | float) -> Fraction:
    """The exact amount. Numbers, as JSON may carry them, are read as they are written."""
    return _read(text if isinstance(text, str) else str(text)).exact


def value(text: str | float) -> int:
    """The amount in whole units, rounded away from zero, within int64."""
    return _read(text if isinstance(text, str) else str(text)).value


def milli(text: str | float) -> int:
    """The amount in thousandths, rounded away from zero, within int64."""
    return _read(text if isinstance(text, str) else str(text)).milli


def canonical(text: str | float) -> str:
    """The text that an API server answers when it is given this one.

    It leaves alone what is already short (`1.025`, even `+3`), else writes a whole number with the largest suffix of
    the author's style that keeps it whole (`1024Mi` is `1Gi`, `0.5` is `500m`).
    """
    written = str(text)
    quantity = _read(written)
    if quantity.exact == 0:
        return "0"
    if _kept_as_written(written):
        return written
    if quantity.style is _Style.BINARY and quantity.exact.denominator == 1 and abs(quantity.exact) >= 1024:
        return _canonical_binary(quantity.value)
    return _canonical_decimal(quantity)


@lru_cache(maxsize=8192)
def _read(text: str) -> _Quantity:
    match = _match(text)
    digits = match["whole"] + (match["fraction"] or "")
    places = len(match["fraction"] or "")
    number, suffix = int(digits or "0"), match["suffix"]
    if suffix in _BINARY:
        nanos = min(_divide_up(number * _NANO << _BINARY[suffix], 10**places), INT64_MAX * _NANO)
        style = _Style.BINARY
    else:
        style = _Style.DECIMAL if suffix in _DECIMAL else _Style.EXPONENT
        nanos = _scaled(number, _exponent(suffix) - places + 9, text)
    sign = -1 if match["sign"] == "-" else 1
    return _Quantity(
        Fraction(sign * nanos, _NANO),
        sign * min(_divide_up(nanos, _NANO), INT64_MAX),
        sign * min(_divide_up(nanos, _NANO // 1000), INT64_MAX),
        style,
    )


def _match(text: str) -> re.Match[str]:
    if not text:
        raise QuantityError(text, "it is empty")
    if len(text) > _MAX_LENGTH:
        raise QuantityError(text, f"it has more than {_MAX_LENGTH} characters")
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise QuantityError(text, "write a number and a suffix such as m, k, M, G, Ki, Mi, Gi or e3")
    return match


def _exponent(suffix: str) -> int:
    known = _DECIMAL.get(suffix)
    return int(suffix[1:]) if known is None else known


def _scaled(number: int, exponent: int, text: str) -> int:
    """`number * 10**exponent` rounded up, without computing powers that cannot matter."""
    if number == 0:
        return 0
    if exponent > _MAX_EXPONENT:
        raise QuantityError(text, "it is too large")
    power: int = 10 ** min(abs(exponent), _MAX_EXPONENT)
    return number * power if exponent >= 0 else _divide_up(number, power)


def _divide_up(number: int, divisor: int) -> int:
    return -(-number // divisor)


def _kept_as_written(text: str) -> bool:
    """Whether Kubernetes, having parsed this on its fast path, answers with the very same text."""
    match = _match(text)
    whole, fraction, suffix = match["whole"] or "0", match["fraction"] or "", match["suffix"]
    if suffix in _BINARY:
        fits = not fraction and len(whole) + _BINARY[suffix] * 3 // 10 <= 14
        return fits and int(whole) % 8 != 0
    digits, scale = whole + fraction, _exponent(suffix) - len(fraction)
    fits = len(digits) <= 18 and scale >= -9
    return fits and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _canonical_binary(amount: int) -> str:
    exponent = 0
    while exponent < 60 and amount % 1024 == 0:
        amount, exponent = amount // 1024, exponent + 10
    return f"{amount}{_BINARY_SUFFIX[exponent]}"


def _canonical_decimal(quantity: _Quantity) -> str:
    amount, exponent = int(quantity.exact * _NANO), -9
    largest = _MAX_EXPONENT if quantity.style is _Style.EXPONENT else 18
    while exponent < largest and amount % 1000 == 0:
        amount, exponent = amount // 1000, exponent + 3
    if quantity.style is _Style.EXPONENT:
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_DECIMAL_SUFFIX[exponent]}"
