"""What is written about pods that stay pending, and when nothing is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubenexus.common.objects import project_pod
from kubenexus.scheduler.actions import ERROR, UNSCHEDULABLE, Report
from kubenexus.scheduler.report import is_news, status_patch
from tests.builders import PodBuilder, pod

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
WHY = "0/1 nodes are available: 1 Insufficient cpu."
PROMISED = pod("a").set("status.nominatedNodeName", "n")
TOLD = pod("a").condition("PodScheduled", "False", UNSCHEDULABLE, WHY)


def report(built: PodBuilder, reason: str = UNSCHEDULABLE, nominated: str | None = None) -> Report:
    return Report(project_pod(built.build()), reason, WHY, nominated)


@pytest.mark.parametrize(
    ("told", "news"),
    [
        pytest.param(report(pod("a")), True, id="nothing said yet"),
        pytest.param(report(TOLD), False, id="the same"),
        pytest.param(report(TOLD, ERROR), True, id="another reason"),
        pytest.param(report(TOLD, nominated=""), False, id="no promise, as before"),
        pytest.param(report(TOLD, nominated="n"), True, id="a promise"),
        pytest.param(report(PROMISED, nominated=""), True, id="a promise withdrawn"),
    ],
)
def test_only_news_is_written(told: Report, news: bool) -> None:
    assert is_news(told) is news


def test_patch_has_the_time_only_when_the_status_flips() -> None:
    [first] = status_patch(report(pod("a")), NOW)["status"]["conditions"]
    [again] = status_patch(report(TOLD, ERROR), NOW)["status"]["conditions"]
    assert first["lastTransitionTime"] == "2026-05-04T12:00:00Z"
    assert "lastTransitionTime" not in again
    assert again["reason"] == "SchedulerError"


def test_patch_cannot_hit_another_pod() -> None:
    assert status_patch(report(pod("a").uid("u")), NOW)["metadata"] == {"uid": "u"}


@pytest.mark.parametrize(("nominated", "written"), [("n", "n"), ("", None)])
def test_patch_of_a_promise(nominated: str, written: str | None) -> None:
    assert status_patch(report(pod("a"), nominated=nominated), NOW)["status"]["nominatedNodeName"] == written
