"""Conversions between types, sizes, and optional values."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Final

from kubenexus.common.cel.errors import CelRuntimeError
from kubenexus.common.cel.overloads import decided_elsewhere, overload
from kubenexus.common.cel.values import NOTHING, Maybe, TypeOf, Uint, int64, type_name, uint64

_TRUE: Final = {"1", "t", "T", "true", "TRUE", "True"}
_FALSE: Final = {"0", "f", "F", "false", "FALSE", "False"}
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL: Final = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE
)


def _int_of_double(number: float) -> int:
    if math.isnan(number) or not -(2.0**63) < number < 2.0**63:
        raise CelRuntimeError("integer overflow")
    return int(number)


def _uint_of_double(number: float) -> Uint:
    if math.isnan(number) or not 0 <= number < 2.0**64:
        raise CelRuntimeError("unsigned integer overflow")
    return Uint(int(number))


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise CelRuntimeError(f"not a whole number: {text[:40]!r}")
    return int(text)


def _uint_of_text(text: str) -> Uint:
    if text[:1] in ("+", "-"):
        raise CelRuntimeError(f"not an unsigned number: {text[:40]!r}")
    return uint64(_whole(text))


def _double_of_text(text: str) -> float:
    if len(text) > 1000 or not _DECIMAL.fullmatch(text):
        raise CelRuntimeError(f"not a number: {text[:40]!r}")
    return float(text)


def _bool_of_text(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise CelRuntimeError(f"not a bool: {text[:40]!r}")


def _text_of_bytes(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CelRuntimeError("invalid UTF-8 in bytes, cannot convert to string") from None


def text_of_double(number: float) -> str:
    """As short as possible, with an exponent from a million on, as Go prints it."""
    if math.isinf(number) or math.isnan(number):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(str(number), "NaN")
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    power = len(digits) + int(exponent) - 1
    if number == 0 or -4 <= power < 6:
        return f"{number:.{max(-int(exponent), 0)}f}"
    mantissa = "".join(map(str, digits))
    fraction = f".{mantissa[1:]}" if mantissa[1:] else ""
    return f"{'-' if sign else ''}{mantissa[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _is_zero(value: Any) -> bool:
    if isinstance(value, str | bytes | tuple | dict):
        return not value
    return value is None or (isinstance(value, bool | int | float) and not value)


def _held(maybe: Maybe) -> Any:
    if not maybe.held:
        raise CelRuntimeError("optional.none() dereference")
    return maybe.held[0]


def _same(value: Any) -> Any:
    return value


OVERLOADS: Final = (
    overload("int(int) int", _same),
    overload("int(uint) int", lambda a: int64(int(a))),
    overload("int(double) int", _int_of_double),
    overload("int(string) int", lambda a: int64(_whole(a))),
    overload("uint(uint) uint", _same),
    overload("uint(int) uint", uint64),
    overload("uint(double) uint", _uint_of_double),
    overload("uint(string) uint", _uint_of_text),
    overload("double(double) double", _same),
    overload("double(int) double", float),
    overload("double(uint) double", float),
    overload("double(string) double", _double_of_text),
    overload("string(string) string", _same),
    overload("string(int) string", str),
    overload("string(uint) string", str),
    overload("string(double) string", text_of_double),
    overload("string(bool) string", lambda a: "true" if a else "false"),
    overload("string(bytes) string", _text_of_bytes),
    overload("bool(bool) bool", _same),
    overload("bool(string) bool", _bool_of_text),
    overload("bytes(bytes) bytes", _same),
    overload("bytes(string) bytes", lambda a: a.encode(errors="replace")),
    overload("dyn(A) dyn", _same),
    overload("type(A) type", lambda a: TypeOf(type_name(a))),
    *(
        overload(f"{dot}size({kind}) int", len)
        for dot in ("", ".")
        for kind in ("string", "bytes", "list(A)", "map(A, B)")
    ),
    overload("optional.of(A) optional_type(A)", lambda a: Maybe((a,))),
    overload("optional.ofNonZeroValue(A) optional_type(A)", lambda a: NOTHING if _is_zero(a) else Maybe((a,))),
    overload("optional.none() optional_type(A)", lambda: NOTHING),
    overload(".hasValue(optional_type(A)) bool", lambda a: bool(a.held)),
    overload(".value(optional_type(A)) A", _held),
    overload(".or(optional_type(A), optional_type(A)) optional_type(A)", decided_elsewhere),
    overload(".orValue(optional_type(A), A) A", decided_elsewhere),
)
