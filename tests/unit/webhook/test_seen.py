"""Members of a gang that give it different sizes are told, as long as that can be meant of one gang."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.gangs import GangKey
from kubenexus.common.vocabulary import TENANT_TIER
from kubenexus.webhook.review import answer
from kubenexus.webhook.seen import LATELY, MOST, SeenSizes
from tests.admission import cluster, pod, review
from tests.builders import Builder

GANG = GangKey("team", "g")


@pytest.mark.parametrize(
    ("sizes", "pause", "expected"),
    [
        pytest.param([8, 8, 8], 1.0, [None, None, None], id="all the same"),
        pytest.param([8, 4, 8], 1.0, [None, 8, 4], id="they differ"),
        pytest.param([8, 4], LATELY + 1, [None, None], id="another gang of that name, later"),
    ],
)
def test_sizes(sizes: list[int], pause: float, expected: list[int | None]) -> None:
    times = iter(pause * number for number in range(9))
    seen = SeenSizes(lambda: next(times))
    assert [seen.other(GANG, size) for size in sizes] == expected


def test_memory_is_bounded() -> None:
    seen = SeenSizes(lambda: 0.0)
    for number in range(3 * MOST):
        seen.other(GangKey("team", str(number)), 1)
    assert len(seen._sizes) <= MOST


@pytest.mark.parametrize(
    ("builder", "request_fields"),
    [
        pytest.param(pod().gang("g", 8), {"dryRun": True}, id="a dry run"),
        pytest.param(pod().gang("g", 8).label(TENANT_TIER, "gold"), {}, id="a pod that is denied"),
        pytest.param(pod().gang("g", 8).label("a", "b"), {"old": pod().gang("g", 8)}, id="a change"),
    ],
)
def test_who_is_no_new_member_is_not_remembered(builder: Builder, request_fields: dict[str, Any]) -> None:
    world = cluster(other_size=SeenSizes(lambda: 0.0).other)
    operation = "UPDATE" if "old" in request_fields else "CREATE"
    answer(review(builder, operation, **request_fields), world, mutate=False)
    second = answer(review(pod().gang("g", 4)), world, mutate=False)
    assert "warnings" not in second.body["response"]


def test_the_second_member_is_warned() -> None:
    world = cluster(other_size=SeenSizes(lambda: 0.0).other)
    first, second = (answer(review(pod().gang("g", size)), world, mutate=False) for size in (8, 4))
    assert "warnings" not in first.body["response"]
    assert second.body["response"]["warnings"] == [
        "gang g needs 4 by this pod and 8 by another: the larger counts; give all the same."
    ]
