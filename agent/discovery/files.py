"""The one way into /sys and /proc: everything below a root, nothing raises, what could not be read is remembered.

A captured tree is as good as a live machine: the root is `/` there and any folder with `sys` and `proc` elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from kubenexus.common import cpulist

# The longest file we read is a cpumap of a few thousand CPUs; anything larger is not what we asked for.
MAX_BYTES = 64 * 1024

_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,15}|[0-9]{1,18}")
_NEGATIVE = re.compile(r"-[0-9]+")


class Files:
    """A tolerant reader. Answers None for what is absent or broken; `problems` tells path → reason for the broken."""

    def __init__(self, root: str | os.PathLike[str] = "/") -> None:
        self.root = Path(os.path.realpath(root))
        self.problems: dict[str, str] = {}

    def text(self, path: str) -> str | None:
        """The file's text without surrounding blanks; None if it is absent or unreadable."""
        try:
            raw = _read(f"{self.root}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.problems[path] = error.strerror or str(error)
            return None
        # sysfs pads some files with NULs; undecodable bytes must not hide the rest of the line.
        return raw.decode("utf-8", "replace").strip(" \t\r\n\0")

    def number(self, path: str) -> int | None:
        """A whole number that fits 64 bits; negative ones are how the kernel writes that it does not know."""
        text = self.text(path)
        if not text or _NEGATIVE.fullmatch(text):
            return None
        if _NUMBER.fullmatch(text):
            return int(text, 16 if text.startswith("0x") else 10)
        self.problems[path] = f"{text[:40]!r} is not a number"
        return None

    def cpus(self, path: str) -> tuple[int, ...] | None:
        """A list such as `0-3,8`; sysfs writes an empty line for an empty one."""
        text = self.text(path)
        if text is None:
            return None
        try:
            return cpulist.parse(text)
        except cpulist.CpuListError as error:
            self.problems[path] = str(error)
            return None

    def cpumap(self, path: str) -> tuple[int, ...] | None:
        """A hexadecimal mask such as `00000000,0000ffff`, the older form of a CPU list."""
        text = self.text(path)
        if text is None:
            return None
        digits = text.replace(",", "")
        if not re.fullmatch(r"[0-9a-fA-F]{1,4096}", digits):
            self.problems[path] = f"{text[:40]!r} is not a CPU mask"
            return None
        return bits(int(digits, 16))

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted, so that no result depends on the order of a directory.

        What is not printable (bytes that are no UTF-8 among it) no kernel has named, and nobody could publish.
        """
        try:
            return sorted(name for name in os.listdir(f"{self.root}/{folder}") if name.isprintable())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.problems[folder] = error.strerror or str(error)
            return []

    def numbered(self, folder: str, prefix: str) -> Iterator[tuple[int, str]]:
        """(number, path) of the entries `<prefix><number>` of a folder, in ascending order of the number."""
        found = (re.fullmatch(rf"{prefix}(0|[1-9][0-9]{{0,4}})", name) for name in self.names(folder))
        numbers = sorted(int(match[1]) for match in found if match)
        yield from ((number, f"{folder}/{prefix}{number}") for number in numbers if number < cpulist.LIMIT)

    def exists(self, path: str) -> bool:
        return os.path.lexists(f"{self.root}/{path}")

    def resolve(self, path: str) -> str:
        """Where a link leads, as a path below the root; a link that leads out of it is left as it is."""
        real = Path(os.path.realpath(f"{self.root}/{path}"))
        return str(real.relative_to(self.root)) if real.is_relative_to(self.root) else path


def bits(mask: int) -> tuple[int, ...]:
    """The numbers of the bits that are set."""
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def _read(path: str) -> bytes:
    # Without O_NONBLOCK a pipe that lies in a captured tree would be waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)
