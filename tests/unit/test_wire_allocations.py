"""What the agent says the kubelet gave to pods, there and back."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.wire import Given, MangledError, decode_allocations, encode_allocations

NUMBERS = st.lists(st.integers(0, 255), max_size=6, unique=True).map(lambda found: tuple(sorted(found)))


@given(st.dictionaries(st.text(min_size=1, max_size=40), st.builds(Given, NUMBERS, NUMBERS, NUMBERS), max_size=4))
def test_round_trip(allocations: dict[str, Given]) -> None:
    assert decode_allocations(encode_allocations(allocations)) == allocations


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("[]", id="a list"),
        pytest.param("{", id="cut off"),
        pytest.param('{"uid": 7}', id="an entry that is none"),
        pytest.param('{"uid": {"cpus": "0", "gpus": [0]}}', id="without NUMA nodes"),
        pytest.param('{"uid": {"cpus": "0", "gpus": [true], "numa": [0]}}', id="a flag for a number"),
        pytest.param('{"uid": {"cpus": "0", "gpus": [-1], "numa": [0]}}', id="below zero"),
        pytest.param('{"uid": {"cpus": "0", "gpus": [99999999], "numa": [0]}}', id="beyond any machine"),
        pytest.param('{"uid": {"cpus": "x", "gpus": [], "numa": []}}', id="CPUs that are none"),
        pytest.param('{"uid": {"cpus": 3, "gpus": [], "numa": []}}', id="a number for a list of CPUs"),
    ],
)
def test_what_is_mangled_is_refused_as_a_whole(text: str) -> None:
    with pytest.raises(MangledError):
        decode_allocations(text)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_any_json_is_read_or_refused(value: object) -> None:
    with contextlib.suppress(MangledError):
        decode_allocations(json.dumps(value))
