"""Runs regular expressions in linear time: all alternatives at once, from one character to the next.

The sets of alternatives that occur are kept as states with their transitions, so that a pattern gets faster with use.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kubenexus.common.cel.regex_syntax import RegexError, Step, compile_pattern

__all__ = ["Pattern", "RegexError", "compiled"]

_END: Final = ""
_MAX_TRANSITIONS: Final = 5000

# The alternatives, best first, and what the character before was: "" at the start, else "\n", "w" (of a word) or "x".
_State = tuple[tuple[int, ...], str]


@lru_cache(maxsize=512)
def compiled(pattern: str) -> Pattern:
    """The pattern, ready to run; raises `RegexError`."""
    return Pattern(compile_pattern(pattern))


class Pattern:
    """A compiled pattern. `cost` is how much one character may cost, in instructions."""

    def __init__(self, program: tuple[Step, ...]) -> None:
        self._program = program
        self._known: dict[tuple[_State, str], tuple[_State, bool]] = {}
        self.cost = len(program)

    def is_in(self, text: str) -> bool:
        """Whether any part of the text matches."""
        state: _State = ((0,), "")
        for char in (*text, _END):
            (alternatives, before), matched = self._next(state, char)
            if matched:
                return True
            # One that starts here comes last.
            state = ((*alternatives, 0) if 0 not in alternatives else alternatives, before)
        return False

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Where the first match begins and ends, as a backtracking engine would find it."""
        for begin in range(start, len(text) + 1):
            end = self._match_at(text, begin)
            if end is not None:
                return begin, end
        return None

    def _match_at(self, text: str, begin: int) -> int | None:
        state: _State = ((0,), _kind(text[begin - 1]) if begin else "")
        found = None
        for position in range(begin, len(text) + 1):
            state, matched = self._next(state, text[position : position + 1])
            if matched:
                found = position
            if not state[0]:
                break
        return found

    def _next(self, state: _State, char: str) -> tuple[_State, bool]:
        known = self._known.get((state, char))
        if known is None:
            if len(self._known) >= _MAX_TRANSITIONS:
                self._known.clear()
            known = self._known[state, char] = self._computed(state, char)
        return known

    def _computed(self, state: _State, char: str) -> tuple[_State, bool]:
        """Where the alternatives stand after `char`, and whether one had matched before it."""
        alternatives, before = state
        places = _places(before, char)
        reached: dict[int, None] = {}
        seen: set[int] = set()
        for alternative in alternatives:
            if self._follow(alternative, places, char, seen, reached):
                return (tuple(reached), _kind(char)), True
        return (tuple(reached), _kind(char)), False

    def _follow(self, start: int, places: frozenset[str], char: str, seen: set[int], reached: dict[int, None]) -> bool:
        """Adds what is reached from one alternative, best first; True if it is a match, which ends all worse ones."""
        waiting = [start]
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            step = self._program[at]
            match step.kind:
                case "match":
                    return True
                case "char":
                    if char and step.test is not None and step.test(char):
                        reached[at + 1] = None
                case "jump":
                    waiting.append(step.to)
                case "split":
                    waiting += (step.other, step.to)
                case _ if step.place in places:
                    waiting.append(at + 1)
        return False


def _kind(char: str) -> str:
    if char == "\n" or not char:
        return char
    return "w" if char.isascii() and (char.isalnum() or char == "_") else "x"


def _places(before: str, char: str) -> frozenset[str]:
    """Which assertions hold between two characters."""
    after = _kind(char)
    held = {"word" if (before == "w") != (after == "w") else "inside"}
    if before == "":
        held.add("start")
    if before in ("", "\n"):
        held.add("line start")
    if after == "":
        held.add("end")
    if after in ("", "\n"):
        held.add("line end")
    return frozenset(held)
