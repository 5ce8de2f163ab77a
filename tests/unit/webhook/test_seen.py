"""Members of a gang that give it different sizes are told, as long as that can be meant of one gang."""

from __future__ import annotations

import pytest

from kubenexus.common.gangs import GangKey
from kubenexus.webhook.review import answer
from kubenexus.webhook.seen import LATELY, MOST, SeenSizes
from tests.admission import cluster, pod, review

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


def test_the_second_member_is_warned() -> None:
    world = cluster(other_size=SeenSizes(lambda: 0.0).other)
    first, second = (answer(review(pod().gang("g", size)), world, mutate=False) for size in (8, 4))
    assert "warnings" not in first.body["response"]
    assert second.body["response"]["warnings"] == [
        "gang g needs 4 by this pod and 8 by another: the larger counts; give all the same."
    ]
