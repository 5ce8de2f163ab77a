"""The `kubenexus` command: help, exit codes and errors in one sentence."""

from __future__ import annotations

import argparse
import sys
from types import ModuleType

import pytest

from kubenexus.common import cli


class Fake(ModuleType):
    """A command that does what its one argument says."""

    def __init__(self) -> None:
        super().__init__("fake_command", "Does nothing.\n\nexample: kubenexus fake ok")

    @staticmethod
    def configure(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("what")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        if args.what == "refuse":
            raise cli.CommandError("the file x.yaml is not there; name one that is.")
        if args.what == "break":
            raise RuntimeError("a bug")
        return cli.NEGATIVE if args.what == "no" else cli.OK


@pytest.fixture(autouse=True)
def fake_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fake_command", Fake())
    monkeypatch.setattr(cli, "COMMANDS", (cli.Command("fake", "fake_command", "does nothing"),))
    monkeypatch.delenv("KUBENEXUS_DEBUG", raising=False)


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        pytest.param(["--help"], 0, "fake  does nothing", "", id="help lists every command"),
        pytest.param(["--version"], 0, "kubenexus 0.", "", id="version"),
        pytest.param([], 2, "", "a command is missing; try 'kubenexus --help'", id="no command"),
        pytest.param(["fke"], 2, "", "there is no command 'fke'", id="unknown command"),
        pytest.param(["fake", "--help"], 0, "example: kubenexus fake ok", "", id="a command's help has its example"),
        pytest.param(["fake"], 2, "", "required: what", id="missing argument"),
        pytest.param(["fake", "ok"], 0, "", "", id="success"),
        pytest.param(["fake", "no"], 1, "", "", id="negative answer"),
        pytest.param(["fake", "refuse"], 2, "", "kubenexus fake: the file x.yaml is not there;", id="expected failure"),
        pytest.param(["fake", "break"], 2, "", "internal error, RuntimeError: a bug;", id="bug, without a stack trace"),
    ],
)
def test_command_line(words: list[str], code: int, out: str, err: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == code
    captured = capsys.readouterr()
    assert out in captured.out
    assert err in captured.err
    assert "Traceback" not in captured.err
    assert bool(captured.err) == bool(err)


def test_debug_shows_where_a_bug_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBENEXUS_DEBUG", "1")
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["fake", "break"])
