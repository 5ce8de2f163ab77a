"""Pages of Markdown as tests see them: prose, links, headings and fenced blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block; the words after the fence say what it is: `sh`, `sh cluster`, `sh pending`, `text`, `yaml`."""

    page: Path
    info: tuple[str, ...]
    text: str

    @property
    def commands(self) -> list[str]:
        """The lines that are run, those continued with a backslash in one, without comments and the path of ours."""
        lines = self.text.replace("\\\n", " ").replace(".venv/bin/", "").splitlines()
        return [command for line in lines if (command := re.sub(r"\s+#\s.*", "", line).strip())]


def pages() -> list[Path]:
    """Every page that people read."""
    folders = (ROOT / "docs", ROOT / "charts" / "kubenexus")
    return [*ROOT.glob("*.md"), *sorted(page for folder in folders for page in folder.rglob("*.md"))]


def guide() -> list[Path]:
    """The pages whose commands a reader copies."""
    folder = ROOT / "docs"
    single = ("node-setup", "troubleshooting", "runbook", "simulate", "webhook", "architecture")
    return [ROOT / "README.md", *sorted((folder / "guide").glob("*.md")), *(folder / f"{name}.md" for name in single)]


def installation() -> list[Path]:
    """The pages that lead a reader from nothing to a release and back, in this order."""
    return [ROOT / "docs" / "install.md", ROOT / "docs" / "upgrade.md"]


def title(page: Path) -> str:
    """How a page is called in the name of a test."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> Iterator[Block]:
    for info, text in _FENCE.findall(page.read_text(encoding="utf-8")):
        yield Block(page, tuple(info.split()), text)


def shell_blocks(page: Path) -> list[Block]:
    """The blocks whose commands a reader copies."""
    return [block for block in blocks(page) if block.info[:1] == ("sh",)]


def installs(block: Block) -> bool:
    return any(command.startswith("helm install ") for command in block.commands)


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What a link can name of a page: its headings, as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def links(page: Path) -> list[str]:
    """Where links and pictures of a page lead."""
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(page)))


def code(page: Path) -> list[str]:
    """What stands in backticks on a page."""
    return re.findall(r"`([^`\n]+)`", prose(page))
