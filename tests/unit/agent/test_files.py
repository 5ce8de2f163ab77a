"""The tolerant reader: what is absent is None, what is broken is None and remembered."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubenexus.agent.discovery.files import MAX_BYTES, Files
from tests.trees import write


@pytest.mark.parametrize(
    ("raw", "number", "problem"),
    [
        (b"42\n", 42, False),
        (b"0x030200\n", 0x030200, False),
        (b"17\n\0\0\0", 17, False),
        (b"-1\n", None, False),
        (b"", None, False),
        (b"forty-two", None, True),
        (b"1.5", None, True),
        (b"0x", None, True),
        (b"99999999999999999999999999", None, True),
        (b"\xff\xfe\x00", None, True),
        ("٣".encode(), None, True),
    ],
    ids=str,
)
def test_number(raw: bytes, number: int | None, problem: bool, tmp_path: Path) -> None:
    files = Files(write(tmp_path, {"file": raw}))
    assert (files.number("file"), "file" in files.problems) == (number, problem)


@pytest.mark.parametrize(
    ("raw", "cpus", "problem"),
    [
        (b"0-3,8\n", (0, 1, 2, 3, 8), False),
        (b"0-6:2/4\n", (0, 1, 4, 5), False),
        (b"\n", (), False),
        (b"3-1\n", None, True),
        (b"0-99999999999\n", None, True),
        (b"\x80\x81", None, True),
    ],
    ids=str,
)
def test_cpus(raw: bytes, cpus: tuple[int, ...] | None, problem: bool, tmp_path: Path) -> None:
    files = Files(write(tmp_path, {"file": raw}))
    assert (files.cpus("file"), "file" in files.problems) == (cpus, problem)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("3", (0, 1)), ("00000001,80000000", (31, 32)), ("0", ()), ("xyz", None), ("", None)],
    ids=repr,
)
def test_cpumap(text: str, cpus: tuple[int, ...] | None, tmp_path: Path) -> None:
    assert Files(write(tmp_path, {"file": text})).cpumap("file") == cpus


def test_what_is_absent_is_no_problem(tmp_path: Path) -> None:
    files = Files(write(tmp_path, {"file": "1"}))
    assert (files.text("none"), files.number("file/below"), files.cpus("none"), files.names("none")) == (
        None,
        None,
        None,
        [],
    )
    assert files.problems == {}


def test_what_cannot_be_read_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    files = Files(tmp_path)
    assert [files.text(name) for name in ("folder", "loop", "pipe")] == [None, None, ""]
    assert files.names("loop") == []
    assert files.problems == {"folder": "Is a directory", "loop": "Too many levels of symbolic links"}


def test_a_file_that_fails_while_it_is_read_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "file").symlink_to("/proc/self/mem")
    files = Files(tmp_path)
    assert (files.text("file"), files.problems) == (None, {"file": "Input/output error"})


def test_a_file_without_end_is_cut(tmp_path: Path) -> None:
    assert len(Files(write(tmp_path, {"file": "x" * (MAX_BYTES + 9)})).text("file") or "") == MAX_BYTES


def test_names_that_nobody_can_print_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"eth10": "", "eth2": "", "сеть0": ""})
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/eth\xff"))).touch()
    assert Files(tmp_path).names("") == ["eth10", "eth2", "сеть0"]


def test_numbered_entries_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ["node10", "node9", "node09", "node", "node1x", "nodeset", "node99999", "node123456"]
    files = Files(write(tmp_path, {f"folder/{name}": "" for name in names}))
    assert list(files.numbered("folder", "node")) == [(9, "folder/node9"), (10, "folder/node10")]


@pytest.mark.parametrize(
    ("target", "resolved"),
    [("../real/deep", "real/deep"), ("../../../outside", "links/link"), ("link", "links/link")],
    ids=["within", "out of the root", "to itself"],
)
def test_links_resolve_within_the_root(target: str, resolved: str, tmp_path: Path) -> None:
    root = write(tmp_path / "root", {"real/deep/file": "", "links/other": ""})
    (root / "links" / "link").symlink_to(target)
    assert Files(root).resolve("links/link") == resolved
