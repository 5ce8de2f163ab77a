"""The words of an expression: numbers, texts, names and signs."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from kubenexus.common.cel.errors import CelError
from kubenexus.common.cel.values import INT_MAX, UINT_MAX, Uint

_TOKEN = re.compile(
    r"""(?P<blank>[\t\n\f\r ]+|//[^\n]*)
    |(?P<text>(?P<prefix>[rR]|[bB][rR]?)?
        (?P<quoted>'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3}|'(?:\\.|[^'\\\r\n])*'|"(?:\\.|[^"\\\r\n])*"))
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<int>0[xX][0-9a-fA-F]+[uU]?|[0-9]+[uU]?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
# Raw texts have no escapes, so that a backslash does not keep a quote from ending them.
_RAW = re.compile(
    r"""(?P<text>(?P<prefix>[rR]|[bB][rR])(?P<quoted>'{3}.*?'{3}|"{3}.*?"{3}|'[^'\r\n]*'|"[^"\r\n]*"))""",
    re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:[abfnrtv\\'\"`?]|x[0-9a-fA-F]{2}|X[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.S
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_RESERVED = {
    *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package"),
    *("namespace", "return", "var", "void", "while"),
}
# A number that is longer is too large in any case.
_MOST_DIGITS = 21
_LITERALS = {"true": True, "false": False, "null": None}


class Token(NamedTuple):
    """`kind` is `value` (with the value of the literal), `name`, `sign` or `end`."""

    kind: str
    text: str
    at: int
    value: object = None


def tokens(text: str) -> list[Token]:
    """All tokens, an `end` last; raises `CelError` where none begins."""
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _RAW.match(text, position) or _TOKEN.match(text, position)
        if match is None:
            raise CelError(f"Syntax error: token recognition error at: '{text[position]}'", text, position)
        if match.lastgroup != "blank":
            found.append(_token(text, match))
        position = match.end()
    return [*found, Token("end", "<EOF>", len(text))]


def is_reserved(name: str) -> bool:
    """Whether the language keeps this name for itself."""
    return name in _RESERVED


def _token(text: str, match: re.Match[str]) -> Token:
    kind, word, at = str(match.lastgroup), match.group(), match.start()
    if kind in ("text", "prefix", "quoted"):
        return Token("value", word, at, _text(text, match))
    if kind == "int":
        return Token("value", word, at, _whole(text, word, at))
    if kind == "float":
        return Token("value", word, at, _double(text, word, at))
    if kind == "name" and word in _LITERALS:
        return Token("value", word, at, _LITERALS[word])
    if kind == "name" and word == "in":
        return Token("sign", word, at)
    return Token(kind, word, at)


def _whole(text: str, word: str, at: int) -> int:
    """The number; one more than the largest int is let through, since a minus may stand before it."""
    unsigned = word[-1] in "uU"
    digits = word[:-1] if unsigned else word
    base = 16 if digits[:2] in ("0x", "0X") else 10
    # Python refuses to read thousands of digits.
    significant = digits[2 if base == 16 else 0 :].lstrip("0")[:_MOST_DIGITS] or "0"
    number = int(significant, base)
    if number > (UINT_MAX if unsigned else INT_MAX + 1):
        raise CelError(f"Syntax error: invalid {'uint' if unsigned else 'int'} literal", text, at)
    return Uint(number) if unsigned else number


def _double(text: str, word: str, at: int) -> float:
    number = float(word)
    if number == math.inf:
        raise CelError("invalid double literal", text, at)
    return number


def _text(text: str, match: re.Match[str]) -> str | bytes:
    prefix, quoted = (match["prefix"] or "").lower(), match["quoted"]
    width = 3 if len(quoted) >= 6 and quoted[:3] in ("'''", '"""') else 1
    inside = quoted[width:-width].replace("\r\n", "\n").replace("\r", "\n")
    in_bytes = "b" in prefix
    try:
        if "r" in prefix:
            return inside.encode() if in_bytes else inside
        if in_bytes:
            return b"".join(_unescaped_bytes(inside))
        return _ESCAPE.sub(_unescape, inside)
    except ValueError as error:
        raise CelError(f"Syntax error: {error}", text, match.start()) from None


def _unescape(match: re.Match[str]) -> str:
    body = match.group()[1:]
    if len(body) == 1:
        if body not in "abfnrtv\\'\"`?":
            raise ValueError("unable to unescape string")
        return _SIMPLE.get(body, body)
    code = int(body, 8) if body[0] in "0123" else int(body[1:], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _unescaped_bytes(inside: str) -> list[bytes]:
    parts: list[bytes] = []
    position = 0
    for match in _ESCAPE.finditer(inside):
        parts.append(inside[position : match.start()].encode())
        if match.group()[1] in "uU":
            raise ValueError("unicode escapes are not for bytes")
        char = _unescape(match)
        parts.append(bytes([ord(char)]) if len(match.group()) > 2 else char.encode())
        position = match.end()
    return [*parts, inside[position:].encode()]
