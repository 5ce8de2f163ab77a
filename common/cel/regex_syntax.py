"""Regular expressions of RE2, compiled to the instructions of a small machine.

RE2 has no back references and no looking around, which is why it can be run in linear time; Python's `re` cannot. Named
classes (`\\pL`, `[[:alpha:]]` beyond ASCII) are known as far as they are usual.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

Test = Callable[[str], bool]

MAX_REPEAT: Final = 1000
MAX_PROGRAM: Final = 2000
MAX_LENGTH: Final = 10 * 1024
_MAX_NESTING: Final = 50

_DIGIT: Final = frozenset("0123456789")
_WORD: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_CLASSES: Final = {"d": _DIGIT, "w": _WORD, "s": frozenset("\t\n\f\r ")}
_POSIX: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": "\\t ", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_CONTROL: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ASSERTIONS: Final = {"b": "word", "B": "inside", "A": "start", "z": "end"}
_COUNTED: Final = re.compile(r"\{([0-9]{1,4})(,([0-9]{1,4})?)?\}")


class RegexError(ValueError):
    """The pattern is none of RE2's; the message says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction: `char` (a test), `split` (try `to`, then `other`), `jump`, `at` (an assertion) or `match`."""

    kind: str
    test: Test | None = None
    to: int = 0
    other: int = 0
    place: str = ""


def compile_pattern(pattern: str) -> tuple[Step, ...]:
    """The program of a pattern; raises `RegexError`."""
    if len(pattern) > MAX_LENGTH:
        raise RegexError(f"the pattern has more than {MAX_LENGTH} characters")
    reader = _Reader(pattern)
    piece = reader.alternatives()
    if reader.rest:
        raise RegexError(f"unexpected ) in the pattern {pattern!r}")
    program: list[Step] = []
    piece(program)
    return (*program, Step("match"))


# A piece appends its instructions to a program; what comes next follows them.
Piece = Callable[[list[Step]], None]


def _emit(program: list[Step], step: Step) -> int:
    if len(program) >= MAX_PROGRAM:
        raise RegexError("the pattern is too large")
    program.append(step)
    return len(program) - 1


def _char(test: Test) -> Piece:
    return _step(Step("char", test))


def _assertion(place: str) -> Piece:
    return _step(Step("at", place=place))


def _step(step: Step) -> Piece:
    def emit(program: list[Step]) -> None:
        _emit(program, step)

    return emit


def _sequence(pieces: list[Piece]) -> Piece:
    def emit(program: list[Step]) -> None:
        for piece in pieces:
            piece(program)

    return emit


def _either(pieces: list[Piece]) -> Piece:
    def emit(program: list[Step]) -> None:
        jumps: list[int] = []
        for piece in pieces[:-1]:
            split = _emit(program, Step("split"))
            piece(program)
            jumps.append(_emit(program, Step("jump")))
            program[split] = Step("split", to=split + 1, other=len(program))
        pieces[-1](program)
        for jump in jumps:
            program[jump] = Step("jump", to=len(program))

    return pieces[0] if len(pieces) == 1 else emit


def _repeat(piece: Piece, least: int, most: int | None, *, greedy: bool) -> Piece:
    def emit(program: list[Step]) -> None:
        for _ in range(least):
            before = len(program)
            piece(program)
            if len(program) == before:  # repeating nothing is nothing, however often
                break
        if most is None:
            _loop(program, piece, greedy=greedy)
            return
        splits: list[int] = []
        for _ in range(most - least):
            splits.append(_emit(program, Step("split")))
            piece(program)
        for split in splits:
            program[split] = _split(split + 1, len(program), greedy=greedy)

    return emit


def _loop(program: list[Step], piece: Piece, *, greedy: bool) -> None:
    split = _emit(program, Step("split"))
    piece(program)
    _emit(program, Step("jump", to=split))
    program[split] = _split(split + 1, len(program), greedy=greedy)


def _split(inside: int, after: int, *, greedy: bool) -> Step:
    return Step("split", to=inside, other=after) if greedy else Step("split", to=after, other=inside)


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._nesting = 0

    @property
    def rest(self) -> str:
        return self._pattern[self._at :]

    def alternatives(self) -> Piece:
        flags, branches = self._flags, [self._branch()]
        while self._take("|"):
            branches.append(self._branch())
        self._flags = flags
        return _either(branches)

    def _branch(self) -> Piece:
        pieces: list[Piece] = []
        while self.rest and self._peek not in "|)":
            pieces.append(self._repeated(self._atom()))
        return _sequence(pieces)

    def _repeated(self, piece: Piece) -> Piece:
        repeats = 0
        while (bounds := self._bounds()) is not None:
            repeats += 1
            if repeats > 1:
                raise RegexError(f"invalid nested repetition in the pattern {self._pattern!r}")
            greedy = not self._take("?")
            piece = _repeat(piece, *bounds, greedy=greedy != ("U" in self._flags))
        return piece

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        match = _COUNTED.match(self._pattern, self._at)
        if match is None:
            return None
        self._at = match.end()
        least = int(match[1])
        most = least if match[2] is None else (int(match[3]) if match[3] else None)
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise RegexError(f"invalid repeat count {match.group()}")
        return least, most

    def _atom(self) -> Piece:
        char = self._advance()
        match char:
            case "(":
                return self._group()
            case "[":
                return _char(self._folded(self._bracket()))
            case ".":
                return _char((lambda _: True) if "s" in self._flags else (lambda one: one != "\n"))
            case "^":
                return _assertion("line start" if "m" in self._flags else "start")
            case "$":
                return _assertion("line end" if "m" in self._flags else "end")
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise RegexError(f"missing argument to repetition operator {char} in the pattern {self._pattern!r}")
        return self._literal(char)

    def _literal(self, char: str) -> Piece:
        return _char(self._folded(lambda one: one == char))

    def _folded(self, test: Test) -> Test:
        if "i" not in self._flags:
            return test
        return lambda one: test(one) or test(one.lower()) or test(one.upper())

    def _group(self) -> Piece:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise RegexError("the pattern is nested too deeply")
        before = self._flags
        if self._take("?") and not self._named() and self._flag_group():
            self._nesting -= 1
            return _sequence([])
        piece = self.alternatives()
        if not self._take(")"):
            raise RegexError(f"missing closing ) in the pattern {self._pattern!r}")
        self._flags = before
        self._nesting -= 1
        return piece

    def _named(self) -> bool:
        match = re.compile(r"P?<[A-Za-z_][A-Za-z0-9_]*>", re.ASCII).match(self._pattern, self._at)
        if match:
            self._at = match.end()
        return match is not None

    def _flag_group(self) -> bool:
        """Reads `i-s:` or `i)`; True if the flags hold for the rest of the group around."""
        match = re.compile(r"([imsU]*)(?:-([imsU]+))?([:)])").match(self._pattern, self._at)
        if match is None or match.group(1, 2, 3) == ("", None, ")"):
            raise RegexError(f"invalid or unsupported syntax (? in the pattern {self._pattern!r}")
        self._at = match.end()
        self._flags = (self._flags | set(match[1])) - set(match[2] or "")
        return match[3] == ")"

    def _escape(self) -> Piece:
        char = self._advance()
        if char in _ASSERTIONS:
            return _assertion(_ASSERTIONS[char])
        if char == "Q":
            quoted, _, _ = self.rest.partition("\\E")
            self._at += len(quoted) + (2 if self.rest[len(quoted) :].startswith("\\E") else 0)
            return _sequence([self._literal(one) for one in quoted])
        if found := self._class(char):
            return _char(self._folded(found))
        return self._literal(self._escaped_char(char))

    def _class(self, char: str) -> Test | None:
        if char.lower() in _CLASSES:
            chars = _CLASSES[char.lower()]
            return (lambda one: one not in chars) if char.isupper() else (lambda one: one in chars)
        return self._unicode_class(negative=char == "P") if char in "pP" else None

    def _unicode_class(self, *, negative: bool) -> Test:
        match = re.compile(r"\{(\^?)([A-Z][a-z]?)\}|([A-Z])").match(self._pattern, self._at)
        if match is None:
            raise RegexError(f"invalid or unknown character class in the pattern {self._pattern!r}")
        self._at = match.end()
        category, inverted = match[2] or match[3], negative != bool(match[1])
        return lambda one: unicodedata.category(one).startswith(category) != inverted

    def _escaped_char(self, char: str) -> str:
        if char in _CONTROL:
            return _CONTROL[char]
        code = re.compile(r"x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,6})\}|([0-7]{3})|0").match(self._pattern, self._at - 1)
        if code:
            self._at = code.end()
            number = int(code[3] or "0", 8) if not (code[1] or code[2]) else int(code[1] or code[2], 16)
            if number <= 0x10FFFF:
                return chr(number)
        elif not (char.isalnum() and char.isascii()):
            return char
        raise RegexError(f"invalid escape sequence \\{char} in the pattern {self._pattern!r}")

    def _bracket(self) -> Test:
        negative = self._take("^")
        tests: list[Test] = []
        first = True
        while first or not self._take("]"):
            first = False
            tests.append(self._bracket_item())
        # A pattern may have a long list of characters in hundreds of places, and each asks about the same one.
        return lru_cache(maxsize=64)(lambda one: any(test(one) for test in tests) != negative)

    def _bracket_item(self) -> Test:
        if match := re.compile(r"\[:(\^?)([a-z]+):\]").match(self._pattern, self._at):
            return self._posix(match)
        char = self._advance()
        if char == "\\":
            char = self._advance()
            if found := self._class(char):
                return found
            char = self._escaped_char(char)
        if not (self.rest.startswith("-") and self.rest[1:2] not in ("]", "")):
            return lambda one: one == char
        self._advance()
        last = self._advance()
        last = self._escaped_char(self._advance()) if last == "\\" else last
        if last < char:
            raise RegexError(f"invalid character class range {char}-{last}")
        return lambda one: char <= one <= last

    def _posix(self, match: re.Match[str]) -> Test:
        chars = _POSIX.get(match[2])
        if chars is None:
            raise RegexError(f"invalid character class range {match.group()}")
        self._at = match.end()
        known, inverted = re.compile(f"[{chars}]"), bool(match[1])
        return lambda one: (known.match(one) is not None) != inverted

    @property
    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self, sign: str) -> bool:
        if self._peek != sign:
            return False
        self._at += 1
        return True

    def _advance(self) -> str:
        char = self._peek
        if not char:
            raise RegexError(f"the pattern {self._pattern!r} ends too early")
        self._at += 1
        return char
