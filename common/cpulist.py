"""Lists of CPU and NUMA node numbers: the kernel's text (`0-3,8`, `0-30:2/4`) and ours for labels (`0-3_8`, `0-108s4`).

A label value takes neither commas nor slashes, so `,` becomes `_`, and three or more numbers at equal steps become
`first-lastsStep`. One reader takes both forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

LIMIT = 65536
"""Numbers from here on are refused: no kernel counts that far, and a hostile `0-99999999999` must not fill memory."""

_ITEM = re.compile(
    r"(?P<first>[0-9]{1,5})"
    r"(?:-(?P<last>[0-9]{1,5})(?:s(?P<step>[0-9]{1,5})|:(?P<used>[0-9]{1,5})/(?P<group>[0-9]{1,5}))?)?"
)


class CpuListError(ValueError):
    """The text is not a list of numbers; the message names it."""

    def __init__(self, text: str, why: str) -> None:
        shown = text if len(text) <= 40 else text[:40] + "…"
        super().__init__(f"{shown!r} is not a CPU list: {why}")


def parse(text: str) -> tuple[int, ...]:
    """The numbers in ascending order, each once. White space around is ignored; empty text is the empty list."""
    stripped = text.strip()
    if not stripped:
        return ()
    numbers: list[int] = []
    for item in stripped.replace("_", ",").split(","):
        numbers.extend(_expand(item, text))
        if len(numbers) > LIMIT:
            raise CpuListError(text, "it repeats itself")
    return tuple(sorted(set(numbers)))


def _expand(item: str, text: str) -> Iterable[int]:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise CpuListError(text, f"{item[:40]!r} is neither a number nor a range")
    first = int(match["first"])
    last = int(match["last"] or first)
    used, group = int(match["used"] or 1), int(match["group"] or match["step"] or 1)
    if last < first or last >= LIMIT:
        raise CpuListError(text, f"{item!r} runs backwards or beyond {LIMIT - 1}")
    if not 1 <= used <= group:
        raise CpuListError(text, f"{item!r} has an impossible step")
    return (number for start in range(first, last + 1, group) for number in range(start, min(start + used, last + 1)))


def format_list(cpus: Iterable[int]) -> str:
    """The kernel's form: `0-3,8`."""
    return ",".join(_item(run) for run in _runs(sorted(set(cpus)), strides=False))


def encode_label(cpus: Iterable[int]) -> str:
    """The form for label values: `0-3_8`, `0-108s4`. It may exceed the 63 characters of a label; the caller looks."""
    return "_".join(_item(run) for run in _runs(sorted(set(cpus)), strides=True))


def _runs(numbers: Sequence[int], *, strides: bool) -> Iterator[Sequence[int]]:
    """Cut ascending numbers into the pieces that are written as one item, longest first from the left."""
    start = 0
    while start < len(numbers):
        end = _run_end(numbers, start)
        step = numbers[end - 1] - numbers[end - 2]
        if end - start < 2 or (step > 1 and (not strides or end - start < 3)):
            end = start + 1
        yield numbers[start:end]
        start = end


def _run_end(numbers: Sequence[int], start: int) -> int:
    """The end of the equal steps that begin at `start`."""
    end = start + 1
    while end < len(numbers) and numbers[end] - numbers[end - 1] == numbers[start + 1] - numbers[start]:
        end += 1
    return end


def _item(run: Sequence[int]) -> str:
    if len(run) == 1:
        return str(run[0])
    step = run[1] - run[0]
    return f"{run[0]}-{run[-1]}" + (f"s{step}" if step > 1 else "")
