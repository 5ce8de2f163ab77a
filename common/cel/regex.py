"""Runs regular expressions in linear time: all alternatives at once, from one character to the next.

The sets of alternatives that occur are kept as states with their transitions, so that a pattern gets faster with use.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from kubenexus.common.cel.regex_syntax import RegexError, Step, compile_pattern

__all__ = ["Pattern", "RegexError", "compiled"]

_END: Final = ""
# What is kept of one pattern: alternatives of states, and as many as a transition takes room for.
_MOST_KEPT: Final = 50_000
_TRANSITION: Final = 20


@lru_cache(maxsize=128)
def compiled(pattern: str) -> Pattern:
    """The pattern, ready to run; raises `RegexError`."""
    return Pattern(compile_pattern(pattern))


class _Key(NamedTuple):
    """The alternatives, best first, and what the character before was: "" at the start, "\\n", "w" (of a word) or "x".

    If it is `open`, a match may also begin after the next character.
    """

    alternatives: tuple[int, ...]
    before: str
    open: bool


class _State:
    """Where a run stands. `after` has, for each character that was seen here, where it led and if it ended a match."""

    __slots__ = ("after", "key")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.after: dict[str, tuple[_State, bool]] = {}


class Pattern:
    """A compiled pattern. `cost` is how much one character may cost, in instructions; `worked` how many were run."""

    def __init__(self, program: tuple[Step, ...]) -> None:
        self._program = program
        self._states: dict[_Key, _State] = {}
        self._kept = 0
        self.cost = len(program)
        self.worked = 0

    def is_in(self, text: str) -> bool:
        """Whether any part of the text matches."""
        state = self._state(_Key((0,), "", open=True))
        for char in (*text, _END):
            state, matched = state.after.get(char) or self._step(state, char)
            if matched:
                return True
        return False

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Where the first match begins and ends, as a backtracking engine would find it."""
        for begin in range(start, len(text) + 1):
            end = self._match_at(text, begin)
            if end is not None:
                return begin, end
        return None

    def _match_at(self, text: str, begin: int) -> int | None:
        state = self._state(_Key((0,), _kind(text[begin - 1]) if begin else "", open=False))
        found = None
        for position in range(begin, len(text) + 1):
            char = text[position : position + 1]
            state, matched = state.after.get(char) or self._step(state, char)
            if matched:
                found = position
            if not state.key.alternatives:
                break
        return found

    def _state(self, key: _Key) -> _State:
        known = self._states.get(key)
        if known is None:
            known = self._states[key] = _State(key)
            self._kept += len(key.alternatives)
        return known

    def _step(self, state: _State, char: str) -> tuple[_State, bool]:
        """Where the alternatives stand after `char`, and whether one had matched before it."""
        places = _places(state.key.before, char)
        reached: dict[int, None] = {}
        seen: set[int] = set()
        matched = any(self._follow(one, places, char, seen, reached) for one in state.key.alternatives)
        if state.key.open:
            reached.setdefault(0)  # one that starts here comes last
        self.worked += len(seen)
        self._kept += _TRANSITION
        if self._kept > _MOST_KEPT:
            self._states.clear()
            self._kept = 0
        state.after[char] = led = self._state(_Key(tuple(reached), _kind(char), state.key.open)), matched
        return led

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
