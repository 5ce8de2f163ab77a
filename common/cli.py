"""The `kubenexus` command: finds the subcommand, loads only its module, and turns errors into one sentence.

A command is a module with `configure(parser)` and `run(args) -> int`. It is named here as text, so that
`kubenexus --help` imports none of them, and so that `common` does not depend on the components.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, cast

OK, NEGATIVE, FAILURE = 0, 1, 2


class CommandError(Exception):
    """What went wrong, why and what to do, in one sentence for the person at the terminal."""


class CommandModule(Protocol):
    """What `cli` expects of a subcommand's module. `__doc__` is its help; an example belongs there."""

    __doc__: str | None

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    module: str
    summary: str
    endless: bool = False
    """It runs until it is told to end, so that SIGTERM is no failure."""

    def load(self) -> CommandModule:
        return cast("CommandModule", importlib.import_module(self.module))


COMMANDS = (
    Command("agent", "kubenexus.agent.run", "publishes this machine's topology to the cluster"),
    Command("cleanup", "kubenexus.agent.cleanup", "removes what the agent wrote"),
    Command("doctor", "kubenexus.common.doctor", "checks an installation in one page"),
    Command("scheduler", "kubenexus.scheduler.run", "gives a node to every pod that asks for it", endless=True),
    Command("webhook", "kubenexus.webhook.run", "completes and checks pods when they are created", endless=True),
    Command("simulate", "kubenexus.scheduler.simulate", "places manifests on manifests, offline, and says why not"),
    Command("topo", "kubenexus.agent.topo", "this machine's topology: NUMA, GPUs, NVLink, PCIe, NICs"),
    Command("demo", "kubenexus.common.sandbox.demo", "a sandbox cluster: synthetic GPU nodes, agents, the scheduler"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code: 0 ok, 1 negative answer, 2 usage or failure."""
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):  # trees and units have letters that not every terminal knows
        sys.stdout.reconfigure(errors="replace")
    command = next((c for c in COMMANDS if words and c.name == words[0]), None)
    if command is None:
        return _without_command(words)
    try:
        with _ended_by_sigterm(command):
            return _run(command, words[1:])
    except CommandError as error:
        print(f"kubenexus {command.name}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(file=sys.stderr)
    except BrokenPipeError:
        # The reader went away (`| head`); Python would complain again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:  # no stack trace reaches a user
        if os.environ.get("KUBENEXUS_DEBUG"):
            raise
        print(
            f"kubenexus {command.name}: internal error, {type(error).__name__}: {error}; "
            "set KUBENEXUS_DEBUG=1 to see where, and please report it.",
            file=sys.stderr,
        )
    return FAILURE


@contextmanager
def _ended_by_sigterm(command: Command) -> Iterator[None]:
    """Let SIGTERM end a command that is to run for ever, at once and with 0, until it has a handler of its own.

    Before that it has begun nothing. An exception instead could get lost in what it imports.
    """
    if not command.endless:
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: os._exit(OK))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(command: Command, words: list[str]) -> int:
    module = command.load()
    parser = argparse.ArgumentParser(
        prog=f"kubenexus {command.name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    try:
        args = parser.parse_args(words)
    except SystemExit as stop:  # argparse has said what it had to say
        return stop.code if isinstance(stop.code, int) else FAILURE
    return module.run(args)


def _without_command(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        from importlib.metadata import version

        print(f"kubenexus {version('kubenexus')}")
        return OK
    if words[:1] in (["--help"], ["-h"], ["help"]):
        print(_usage())
        return OK
    problem = f"there is no command {words[0]!r}" if words else "a command is missing"
    print(f"kubenexus: {problem}; try 'kubenexus --help'.", file=sys.stderr)
    return FAILURE


def _usage() -> str:
    width = max(len(command.name) for command in COMMANDS)
    rows = [f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS]
    return "\n".join(
        [
            "usage: kubenexus COMMAND [options]",
            "",
            "The scheduler that GPU clusters deserve.",
            "",
            *rows,
            "",
            "'kubenexus COMMAND --help' tells more; 'kubenexus --version' the version.",
        ]
    )


if __name__ == "__main__":
    # Run as a module this is `__main__`, whose CommandError is not the one that commands raise.
    from kubenexus.common import cli

    sys.exit(cli.main())
