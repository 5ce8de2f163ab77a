"""kube-scheduler's own cases for the plugins that look at volumes."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.scheduler.plugins.registry import PLUGINS
from tests.scheduler_conformance import Case, check_filter, check_score
from tests.shared import conformance

FILES = ("volumerestrictions", "volumezone", "nodevolumelimits", "volumebinding")


def cases(kind: str) -> list[Any]:
    return [param for name in FILES for param in conformance(name, kind)]


@pytest.mark.parametrize("case", cases("filter"))
def test_filter(case: Case) -> None:
    check_filter(PLUGINS[case["plugin"]], case)


@pytest.mark.parametrize("case", cases("score"))
def test_score(case: Case) -> None:
    check_score(PLUGINS[case["plugin"]], case)
