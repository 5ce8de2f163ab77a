"""Functions on texts: those of the language, of its strings extension, and Kubernetes' `find`."""

from __future__ import annotations

import re
from typing import Any, Final

from kubenexus.common.cel import regex
from kubenexus.common.cel.errors import CelRuntimeError
from kubenexus.common.cel.library_core import text_of_double
from kubenexus.common.cel.overloads import overload
from kubenexus.common.cel.values import MAX_TEXT, TypeOf, keys, type_name

_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {lower: lower - 32 for lower in range(ord("a"), ord("z") + 1)}
_BLANK: Final = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501
_VERB: Final = re.compile(r"%(?:\.([0-9]{1,3}))?(.?)", re.DOTALL)


def pattern(text: str) -> regex.Pattern:
    """The compiled pattern, or the error of an evaluation."""
    try:
        return regex.compiled(text)
    except regex.RegexError as error:
        raise CelRuntimeError(str(error)) from None


def _find(text: str, wanted: str) -> str:
    found = pattern(wanted).find(text)
    return "" if found is None else text[found[0] : found[1]]


def _find_all(text: str, wanted: str, limit: int = -1) -> tuple[str, ...]:
    """All matches that do not overlap; an empty one right after another does not count."""
    machine, found = pattern(wanted), list[str]()
    start, end = 0, -1
    while (limit < 0 or len(found) < limit) and (span := machine.find(text, start)):
        if span[0] < span[1] or span[0] != end:
            found.append(text[span[0] : span[1]])
        end = span[1]
        start = end if span[0] < span[1] else end + 1
        if start > len(text):
            break
    return tuple(found)


def _char_at(text: str, index: int) -> str:
    _within(index, len(text))
    return text[index : index + 1]


def _within(index: int, length: int) -> None:
    if not 0 <= index <= length:
        raise CelRuntimeError(f"index out of range: {index}")


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise CelRuntimeError(f"index out of range: {offset}")
    return text.find(part, offset)


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if not part:
        return len(text) if offset is None else offset
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise CelRuntimeError(f"index out of range: {offset}")
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    _within(start, len(text))
    _within(end, len(text))
    if start > end:
        raise CelRuntimeError(f"invalid substring range: {start} to {end}")
    return text[start:end]


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    most = text.count(old) if count < 0 else min(count, text.count(old))
    _fits(len(text) + most * len(new))
    return text.replace(old, new, most)


def _fits(length: int) -> None:
    if length > MAX_TEXT:
        raise CelRuntimeError(f"the result would be longer than {MAX_TEXT}")


def _split(text: str, separator: str, count: int = -1) -> tuple[str, ...]:
    if count in (0, 1):
        return (text,) * count
    if separator:
        return tuple(text.split(separator, count - 1 if count > 0 else -1))
    if count < 0 or count >= len(text):
        return tuple(text)
    return (*text[: count - 1], text[count - 1 :])


def _join(texts: tuple[Any, ...], separator: str = "") -> str:
    if not all(type(one) is str for one in texts):
        raise CelRuntimeError("no such overload: join of a list that holds more than strings")
    _fits(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


def _format(text: str, args: tuple[Any, ...]) -> str:
    """The text with its verbs (`%s`, `%d`, `%.2f` …) replaced."""
    waiting = list(reversed(args))

    def replaced(match: re.Match[str]) -> str:
        if match[2] == "%" and match[1] is None:
            return "%"
        if not waiting:
            raise CelRuntimeError(f"index {len(args)} out of range: the format has more verbs than arguments")
        return _formatted(match[2], match[1], waiting.pop())

    result = _VERB.sub(replaced, text)
    _fits(len(result))
    return result


def _formatted(verb: str, precision: str | None, value: Any) -> str:
    if verb == "s":
        return _shown(value)
    kind = type_name(value)
    if verb == "d" and kind in ("int", "uint"):
        return str(value)
    if verb in "fe" and verb and kind in ("int", "uint", "double"):
        return format(float(value), f".{precision or 6}{verb}")
    if verb in "bxXo" and verb and kind in ("int", "uint", "bool"):
        return format(int(value), verb)
    if verb in "xX" and verb and kind in ("string", "bytes"):
        data: bytes = value.encode(errors="replace") if kind == "string" else value
        return data.hex().upper() if verb == "X" else data.hex()
    raise CelRuntimeError(f"could not format a value of type {kind} with %{verb}")


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return text_of_double(value)
        case bytes():
            return value.decode(errors="replace")
        case tuple():
            return f"[{', '.join(map(_shown, value))}]"
        case dict():
            parts = sorted((_shown(name), _shown(one)) for name, one in zip(keys(value), value.values(), strict=True))
            return f"{{{', '.join(f'{name}: {one}' for name, one in parts)}}}"
        case TypeOf():
            return value.name
        case str() | int():
            return str(value)
    raise CelRuntimeError(f"could not format a value of type {type_name(value)} with %s")


OVERLOADS: Final = (
    overload(".contains(string, string) bool", lambda a, b: b in a),
    overload(".startsWith(string, string) bool", str.startswith),
    overload(".endsWith(string, string) bool", str.endswith),
    overload("matches(string, string) bool", lambda a, b: pattern(b).is_in(a)),
    overload(".matches(string, string) bool", lambda a, b: pattern(b).is_in(a)),
    overload(".find(string, string) string", _find),
    overload(".findAll(string, string) list(string)", _find_all),
    overload(".findAll(string, string, int) list(string)", _find_all),
    overload(".charAt(string, int) string", _char_at),
    overload(".indexOf(string, string) int", _index_of),
    overload(".indexOf(string, string, int) int", _index_of),
    overload(".lastIndexOf(string, string) int", _last_index_of),
    overload(".lastIndexOf(string, string, int) int", _last_index_of),
    overload(".lowerAscii(string) string", lambda a: a.translate(_LOWER)),
    overload(".upperAscii(string) string", lambda a: a.translate(_UPPER)),
    overload(".replace(string, string, string) string", _replace),
    overload(".replace(string, string, string, int) string", _replace),
    overload(".split(string, string) list(string)", _split),
    overload(".split(string, string, int) list(string)", _split),
    overload(".substring(string, int) string", _substring),
    overload(".substring(string, int, int) string", _substring),
    overload(".trim(string) string", lambda a: a.strip(_BLANK)),
    overload(".join(list(string)) string", _join),
    overload(".join(list(string), string) string", _join),
    overload(".format(string, list(dyn)) string", _format),
)
