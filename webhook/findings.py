"""What a rule finds: a reason to deny the pod, or a warning to its author."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kubenexus.webhook.subject import Subject

WARNING_LENGTH: Final = 120
"""Longer ones may be cut by an API server."""


class Finding(NamedTuple):
    """The text is a sentence with what is wrong, why, and what to do."""

    rule: str
    text: str
    denies: bool = False


Rule = Callable[[Subject], Iterator[Finding]]


def deny(rule: str, text: str) -> Finding:
    return Finding(rule, text, denies=True)


def warn(rule: str, text: str) -> Finding:
    return Finding(rule, cut(text))


def cut(text: str) -> str:
    """A text that is short enough for a warning, on one line. API servers drop warnings with control characters."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= WARNING_LENGTH else line[: WARNING_LENGTH - 1] + "…"
