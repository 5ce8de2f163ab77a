"""Pages tell nothing that is not there: links, anchors, pictures, names, metrics and options all exist."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from hack.reference_pages import PLUGIN_ARGS
from kubenexus.common import vocabulary as v
from kubenexus.common.cli import COMMANDS
from kubenexus.common.metrics import DECLARED
from kubenexus.scheduler.plugins.arguments import NoArgs
from kubenexus.scheduler.plugins.registry import PLUGINS
from tests.docs import pages
from tests.docs.pages import ROOT

ALL = [pytest.param(page, id=pages.title(page)) for page in pages.pages()]
FOREIGN_OPTIONS = {
    *("--create-namespace", "--force-conflicts", "--reset-then-reuse-values", "--reuse-values", "--set"),
    *("--field-selector", "--show-labels"),
}
"""options of kubectl and helm that the prose names"""


@pytest.mark.parametrize("page", ALL)
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for link in pages.links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if link.startswith(("https://", "http://")):
            continue
        if not target.exists() or (anchor and anchor not in pages.anchors(target)):
            lost.append(link)
    assert lost == []


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in pages.links(index) if ":" not in link}
    assert {*(ROOT / "docs").rglob("*.md")} - listed == {index}


def test_every_page_can_be_found_from_the_readme() -> None:
    found, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in found and page.suffix == ".md" and page.exists():
            found.add(page)
            targets = [
                (page.parent / link.partition("#")[0]).resolve() for link in pages.links(page) if ":" not in link
            ]
            ahead += [one for target in targets for one in (target.glob("*.md") if target.is_dir() else [target])]
    assert set(pages.pages()) - found == set()


@pytest.mark.parametrize("picture", sorted((ROOT / "docs").glob("*.svg")), ids=lambda path: path.name)
def test_picture_is_used_describes_itself_and_fits_its_frame(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert root.attrib["aria-label"]
    assert any(f"]({picture.name})" in page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert float(text.attrib["x"]) + 6 * len(text.text or "") < width
        assert float(text.attrib["y"]) < height


@pytest.mark.parametrize("component", ["agent", "webhook", "scheduler"])
def test_files_in_a_picture_are_in_the_tree(component: str) -> None:
    root = ElementTree.parse(ROOT / "docs" / f"{component}.svg").getroot()
    texts = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    named = {name for text in texts for name in re.findall(r"(?<![/\w])(?:\w+/)+(?:\w+\.py)?|\w+\.py", text)}
    assert len(named) > 4
    assert [name for name in named if not [*(ROOT / component).rglob(name)]] == []


# --- Names


KEYS = [re.sub(r"\*", "0", name.key) for name in v.NAMES]


def is_known(word: str) -> bool:
    """Whether a name is in the vocabulary; `*`, `<i>` and numbers stand for a part of it, `{a,b}` for two names."""
    if options := re.search(r"{([^}]+)}", word):
        return all(is_known(word.replace(options[0], one)) for one in options[1].split(","))
    pattern = re.sub(r"\\\*|<\w>|\d", "[^/]*", re.escape(word))
    return any(re.fullmatch(pattern, key) for key in KEYS)


@pytest.mark.parametrize("page", ALL)
def test_names_of_ours_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("metadata.annotations.", "").replace("\\.", ".")
    words = re.findall(r"(?:[a-z-]+\.)*kubenexus\.io/(?:[\w*<>.-]|\{[^}]+})+", text)
    words = [word.rstrip(".") for word in words]
    assert [word for word in words if not is_known(word) and word != v.CONFIG_API_VERSION] == []


@pytest.mark.parametrize("page", ALL)
def test_metrics_exist(page: Path) -> None:
    known = {metric.name for metric in DECLARED}
    words = re.findall(r"\bkubenexus_[a-z_]+\b", page.read_text(encoding="utf-8"))
    assert set(words) <= known


def options_of_ours() -> set[str]:
    found = set[str]()
    for command in COMMANDS:
        parser = argparse.ArgumentParser()
        command.load().configure(parser)
        found |= {option for action in parser._actions for option in action.option_strings}
    return found


@pytest.mark.parametrize("page", ALL)
def test_options_in_prose_exist(page: Path) -> None:
    words = {
        word.partition("=")[0] for text in pages.code(page) for word in re.findall(r"(?<![\w-])--[a-z][\w=-]*", text)
    }
    scripts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "hack").glob("*") if path.is_file())
    unknown = words - options_of_ours() - FOREIGN_OPTIONS
    assert [word for word in unknown if word not in scripts] == []


def test_arguments_of_plugins_on_the_page_are_those_that_they_read() -> None:
    read = {name: re.findall(r"read_args\((\w+),", inspect.getsource(factory)) for name, factory in PLUGINS.items()}
    told = {name: [PLUGIN_ARGS.get(name, NoArgs).__name__] for name in PLUGINS}
    assert read == told


# --- Status

ONLY_CHECKS = {"vocabulary.py", "values.py", "contradictions.py", "shape.py"}
"""files that declare a name, judge its form, or say that it is not read"""


def test_names_that_do_nothing_yet_are_those_that_nothing_reads() -> None:
    page = (ROOT / "docs" / "status.md").read_text(encoding="utf-8")
    section = page.partition("## Names that do nothing yet")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE))
    sources = (path for folder in ("agent", "webhook", "scheduler", "common") for path in (ROOT / folder).rglob("*.py"))
    used = {name for path in sources if path.name not in ONLY_CHECKS for name in _names_in(path)}
    by_users = {one.key for one in v.NAMES if one.place in (v.Place.POD, v.Place.CLUSTER)}
    constants = {name: key for name in dir(v) if isinstance(key := getattr(v, name), str) and key in by_users}
    assert listed == {key for name, key in constants.items() if name not in used}


def _names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return attributes | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
