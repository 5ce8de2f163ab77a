"""The troubleshooting page and the code know the same messages: none is invented, none is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubenexus.common import vocabulary as v
from tests.docs import pages
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
SOURCES = ("scheduler", "webhook", "common/gangs", "common/vocabulary.py", "charts/kubenexus/templates/policies")
MANY = "…"


def texts(path: Path) -> Iterator[str]:
    """Every text in a file, with `…` for what is filled in; docstrings are none."""
    if path.suffix != ".py":
        yield " ".join(path.read_text(encoding="utf-8").split())
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inner = {id(part) for node in joined for part in node.values}
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    yield from (_joined(node) for node in joined)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner | docs:
            yield node.value


def _joined(node: ast.JoinedStr) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else MANY for part in node.values)


def files() -> Iterator[Path]:
    for name in SOURCES:
        path = ROOT / name
        yield from sorted(path.rglob("*.py")) + sorted(path.rglob("*.yaml")) if path.is_dir() else [path]


CODE = [*(text for path in files() for text in texts(path)), *(name.key for name in v.NAMES)]
NO_MESSAGE = re.compile(r"kubectl|kubenexus|admission webhook|0/\d|[\w-]+: \w+$")
"""commands, settings, and examples with numbers"""
ON_PAGE = [text for text in pages.code(PAGE) if " " in text and not NO_MESSAGE.match(text)]


def fragments(message: str) -> list[str]:
    """The parts of a message that do not vary."""
    parts = (part.strip(" :;,.()[]/") for part in message.split(MANY))
    return [part for part in parts if len(part) > 1]


FIXED = {part for text in CODE for part in fragments(text)}


def is_said(part: str) -> bool:
    """Whether a part of a message is in the code: in one text, or where one ends and others begin."""
    if any(part in fixed for fixed in FIXED):
        return True
    return any(any(fixed.endswith(head) for fixed in FIXED) and _follows(rest) for head, rest in _cuts(part))


def _follows(part: str) -> bool:
    if any(fixed.startswith(part) for fixed in FIXED):
        return True
    return any(head in FIXED and _follows(rest) for head, rest in _cuts(part))


def _cuts(part: str) -> Iterator[tuple[str, str]]:
    for space in re.finditer(" ", part):
        yield part[: space.start()].strip(" :;,.([/"), part[space.end() :].strip(" :;,.()[]/")


@pytest.mark.parametrize("message", ON_PAGE)
def test_message_on_the_page_is_in_the_code(message: str) -> None:
    assert fragments(message), "nothing but what varies"
    assert [part for part in fragments(message) if not is_said(part)] == []


def reasons() -> list[str]:
    """What the scheduler says of nodes, of gangs and of pods that cannot be bound."""
    starts = (
        "node(s) ",
        "Gang ",
        "Insufficient",
        "Too many",
        "The pod ",
        "The scheduler failed",
        "No node has",
        "resourceclaim ",
    )
    found = [text for path in files() if path.is_relative_to(ROOT / "scheduler") for text in texts(path)]
    return sorted({text for text in found if text.startswith(starts) and '"' not in text})


@pytest.mark.parametrize("reason", reasons())
def test_reason_of_the_scheduler_is_on_the_page(reason: str) -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert [part for part in fragments(reason) if part not in page] == []


def rules(verdict: str) -> set[str]:
    """The rules of the webhook that deny, or warn."""
    calls = (
        node
        for path in (ROOT / "webhook").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == verdict
    )
    return {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}  # type: ignore[misc]


@pytest.mark.parametrize(("verdict", "heading"), [("deny", "Refused by the webhook"), ("warn", "Warnings")])
def test_every_rule_of_the_webhook_is_on_the_page(verdict: str, heading: str) -> None:
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)) == rules(verdict)
