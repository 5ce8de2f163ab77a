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


TELLING = (
    "scheduler/binder.py",
    "scheduler/cures.py",
    "scheduler/dra/*.py",
    "scheduler/plugins/dynamic_resources.py",
    "scheduler/plugins/volume*.py",
    "scheduler/prepare.py",
    "scheduler/preparing.py",
    "webhook/mutate.py",
    "webhook/review.py",
    "common/gangs/*.py",
)
"""where sentences that people read are made, and hardly any others"""
ONLY_WHY = {
    "CPU, memory and GPUs belong together",
    "default of namespace …",
    "it asks for GPUs",
    "it has CPUs of its own",
    "owner of namespace …",
    "… starts with … pods or not at all",
    "that is not a plain value",
}
"""parts of notes on what was set, not of refusals"""


def told(path: Path) -> set[str]:
    """The sentences of a file that are neither logged nor about a mistake in the code or the configuration."""
    unsaid = {
        part for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if _silent(node) for part in _in(node)
    }
    return {text for text in texts(path) if len(re.findall(r"[A-Za-z]{2,}", text)) > 2 and " " in text} - unsaid


def _silent(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="log"))) | ast.Assert():
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="ValueError" | "AssertionError"))):
            return True
    return False


def _in(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.JoinedStr):
            yield _joined(part)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


@pytest.mark.parametrize("path", [path for glob in TELLING for path in sorted(ROOT.glob(glob))], ids=pages.title)
def test_sentences_are_on_the_page(path: Path) -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    lost = {text for text in told(path) if [part for part in fragments(text) if part not in page]}
    assert lost - ONLY_WHY == set()


def test_sentences_of_policies_are_on_the_page() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    folder = ROOT / "charts" / "kubenexus" / "templates" / "policies"
    said = [
        text for path in folder.glob("*.yaml") for text in re.findall(r"^ +message: ([A-Z].*)$", path.read_text(), re.M)
    ]
    said += [
        text for path in folder.glob("*.yaml") for text in re.findall(r"' (may not write [^']*)'", path.read_text())
    ]
    assert len(said) > 6
    assert [text for text in said if text.strip() not in page] == []


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
