"""Invariants of CPU lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common import cpulist
from kubenexus.common.cpulist import CpuListError

RUNS = st.builds(range, st.integers(0, 300), st.integers(0, 600), st.integers(1, 9))
CPUS = st.lists(RUNS, max_size=6).map(lambda runs: tuple(sorted({cpu for run in runs for cpu in run})))


@given(CPUS)
def test_both_forms_read_back(cpus: tuple[int, ...]) -> None:
    assert cpulist.parse(cpulist.format_list(cpus)) == cpus
    assert cpulist.parse(cpulist.encode_label(cpus)) == cpus


@given(CPUS)
def test_the_label_form_is_never_longer_than_plain_numbers(cpus: tuple[int, ...]) -> None:
    assert len(cpulist.encode_label(cpus)) <= len("_".join(map(str, cpus)))
    assert not set(cpulist.encode_label(cpus)) - set("0123456789-_s")


@given(st.text() | st.text("0123456789,_-s:/ \n"))
def test_any_text_is_a_list_or_the_one_error(text: str) -> None:
    try:
        cpus = cpulist.parse(text)
    except CpuListError:
        return
    assert list(cpus) == sorted(set(cpus))
    assert all(0 <= cpu < cpulist.LIMIT for cpu in cpus)
