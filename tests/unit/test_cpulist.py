"""CPU lists: what the kernel prints, what a label carries."""

from __future__ import annotations

import time

import pytest

from kubenexus.common import cpulist
from kubenexus.common.cpulist import CpuListError


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", ()),
        (" \n", ()),
        ("0\n", (0,)),
        ("0,2-4,7", (0, 2, 3, 4, 7)),
        ("0-3_8", (0, 1, 2, 3, 8)),
        ("3,1,2,1-2", (1, 2, 3)),
        ("0-30:2/4", (0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29)),
        ("0-12s4", (0, 4, 8, 12)),
        ("0-13s4", (0, 4, 8, 12)),
        ("5-5", (5,)),
        ("65535", (65535,)),
    ],
)
def test_parse(text: str, cpus: tuple[int, ...]) -> None:
    assert cpulist.parse(text) == cpus


@pytest.mark.parametrize(
    "text",
    [
        *("0-99999999999", "65536", "0-65536", "-1", "3-1", "0,,1", "0,", ",0", "a", "0-", "-", "٣", "²", "0x3", "0 1"),
        *("0-30:4/2", "0-30:0/4", "0-30:2/0", "0-9s0", "0-9s", "0s2", "0-9:2", "1.5", "9" * 100_000),
        "0-65535," * 50_000 + "0",
    ],
    ids=lambda text: text[:20],
)
def test_hostile_text_is_refused_quickly(text: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(CpuListError, match="is not a CPU list"):
        cpulist.parse(text)
    assert time.perf_counter() - begin < 0.5


@pytest.mark.parametrize(
    ("cpus", "kernel", "label"),
    [
        ((), "", ""),
        ((0,), "0", "0"),
        ((0, 1), "0-1", "0-1"),
        ((0, 8), "0,8", "0_8"),
        ((8, 0, 8), "0,8", "0_8"),
        ((*range(16), *range(32, 48)), "0-15,32-47", "0-15_32-47"),
        (range(0, 112, 4), ",".join(map(str, range(0, 112, 4))), "0-108s4"),
        ((0, 2), "0,2", "0_2"),
        ((0, 2, 4), "0,2,4", "0-4s2"),
        ((0, 2, 3, 4), "0,2-4", "0_2-4"),
        ((0, 2, 4, 5, 6), "0,2,4-6", "0-4s2_5-6"),
        ((0, 1, 2, 5, 6, 10, 11, 12), "0-2,5-6,10-12", "0-2_5-6_10-12"),
    ],
    ids=str,
)
def test_written_forms(cpus: tuple[int, ...], kernel: str, label: str) -> None:
    assert cpulist.format_list(cpus) == kernel
    assert cpulist.encode_label(cpus) == label
