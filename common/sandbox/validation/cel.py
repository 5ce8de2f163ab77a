"""A light look at CEL expressions: what can be refused without a CEL engine.

The API server compiles selectors, types and costs them. Here only lengths, characters, brackets and free names are
looked at, so a type error or a costly expression passes.
"""

from __future__ import annotations

import re

from kubenexus.common.sandbox.validation.field import Field

EXPRESSION_BYTES = 10 * 1024

_TOKEN = re.compile(
    r"""\s+|//[^\n]*
    |(?P<string>[rRbB]{0,2}(?:'''.*?'''|\"{3}.*?\"{3}|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    |(?P<number>[0-9][0-9A-Za-z.]*)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_PAIRS = {")": "(", "]": "[", "}": "{"}
# Variables, constants and type names that need no declaration.
_KNOWN = {
    *("device", "true", "false", "null", "in", "type", "dyn", "cel"),
    *("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "quantity", "semver"),
}
_MACROS = {"all", "exists", "exists_one", "map", "filter", "existsOne", "transformList", "transformMap", "bind"}


def expression(field: Field) -> None:
    """A device selector's expression."""
    text = field.text()
    if len(text.encode()) > EXPRESSION_BYTES:
        field.too_long(EXPRESSION_BYTES)
        return
    problem = _syntax(text)
    if problem:
        field.invalid(f"compilation failed: {problem}", text)


def _syntax(text: str) -> str | None:
    tokens = _tokens(text)
    if isinstance(tokens, str):
        return tokens
    return _brackets(text, tokens) or _free_name(text, tokens)


def _tokens(text: str) -> list[tuple[str, str, int]] | str:
    """Kind, text and position of each token, or what is wrong."""
    found: list[tuple[str, str, int]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            return _at(text, position, f"Syntax error: token recognition error at: '{text[position]}'")
        if match.lastgroup:
            found.append((match.lastgroup, match.group(), position))
        position = match.end()
    return found or _at(text, 0, "Syntax error: mismatched input '<EOF>'")


def _brackets(text: str, tokens: list[tuple[str, str, int]]) -> str | None:
    opened: list[str] = []
    for kind, token, position in tokens:
        if kind != "sign":
            continue
        if token in _PAIRS.values():
            opened.append(token)
        elif token in _PAIRS and (not opened or opened.pop() != _PAIRS[token]):
            return _at(text, position, f"Syntax error: extraneous input '{token}'")
    return _at(text, len(text), "Syntax error: missing bracket at '<EOF>'") if opened else None


def _free_name(text: str, tokens: list[tuple[str, str, int]]) -> str | None:
    """The first name that is no variable, member, function or macro variable."""
    signs = [token for _, token, _ in tokens]
    bound = {
        token
        for index, (kind, token, _) in enumerate(tokens)
        if kind == "name" and index > 1 and signs[index - 1] in "(," and _inside_macro(signs, index)
    }
    for index, (kind, token, position) in enumerate(tokens):
        member = index > 0 and signs[index - 1] == "."
        called = index + 1 < len(tokens) and signs[index + 1] in ("(", "{")
        if kind == "name" and not member and not called and token not in _KNOWN | bound:
            return _at(text, position, f"undeclared reference to '{token}' (in container '')")
    return None


def _inside_macro(signs: list[str], index: int) -> bool:
    """Whether the name at `index` is among the first arguments of a macro such as `exists(v, …)`."""
    opening = index - 1 if signs[index - 1] == "(" else index - 3
    return opening > 0 and signs[opening] == "(" and signs[opening - 1] in _MACROS


def _at(text: str, position: int, why: str) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1)
    shown = text.split("\n")[line - 1]
    return f"ERROR: <input>:{line}:{column + 1}: {why}\n | {shown}\n | {'.' * column}^"
