"""Names are valid for a real API server; values are parsed strictly, and what is refused says why."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kubenexus.common import vocabulary as v

KEY = "the-key"
QUALIFIED_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.*]{0,61}[A-Za-z0-9*])?")


def test_every_key_is_a_qualified_name_and_stands_once() -> None:
    keys = [name.key for name in v.NAMES if name.kind != "name"]
    assert [key for key in keys if not QUALIFIED_NAME.fullmatch(key)] == []
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (v.parse_numa_policy, "single-numa", v.NumaPolicy.SINGLE_NUMA),
        (v.parse_numa_policy, "single-numa-node", v.NumaPolicy.SINGLE_NUMA),
        (v.parse_bool, "true", True),
        (v.parse_bool, "false", False),
        (v.parse_gang_size, "8", 8),
        (v.parse_ids, "3,1, 1", (1, 3)),
        (v.parse_ids, "", ()),
        (v.parse_names, "cpu,nvidia.com/gpu,cpu", ("cpu", "nvidia.com/gpu")),
        (v.parse_duration, "90s", 90_000),
        (v.parse_duration, "1h30m", 5_400_000),
        (v.parse_duration, "250ms", 250),
    ],
)
def test_values(parse: Callable[[str, str], object], text: str, value: object) -> None:
    assert parse(KEY, text) == value


@pytest.mark.parametrize(
    ("parse", "text", "remedy"),
    [
        (v.parse_numa_policy, "strict", "use one of none, best-effort, restricted, single-numa, isolated"),
        (v.parse_bool, "yes", "write one of these two words"),
        (v.parse_bool, "True", "write one of these two words"),
        (v.parse_gang_size, "0", "from 1 to"),
        (v.parse_gang_size, "abc", "from 1 to"),
        (v.parse_gang_size, "٣", "from 1 to"),
        (v.parse_gang_size, "9" * 5000, "from 1 to"),
        (v.parse_ids, "0,-1", "from 0 to"),
        (v.parse_ids, "0,,1", "from 0 to"),
        (v.parse_names, "cpu,,memory", "comma-separated"),
        (v.parse_names, "", "comma-separated"),
        (v.parse_duration, "10", "write it as 90s"),
        (v.parse_duration, "10 m", "write it as 90s"),
        (v.parse_duration, "-1s", "write it as 90s"),
        (v.parse_duration, "", "write it as 90s"),
    ],
)
def test_refusals_name_key_value_and_remedy(parse: Callable[[str, str], object], text: str, remedy: str) -> None:
    with pytest.raises(v.VocabularyError) as refused:
        parse(KEY, text)
    assert KEY in str(refused.value)
    assert text[:60] in str(refused.value)
    assert len(str(refused.value)) < 200
    assert remedy in str(refused.value)
