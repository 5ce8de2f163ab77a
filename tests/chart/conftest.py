"""Fixtures of the chart's tests: `helm`, which a test may ask for by its major version, and the objects it renders."""

from __future__ import annotations

import pytest

from tests.chart.helm import CHART, Helm, Obj, get_helm


@pytest.fixture
def helm(request: pytest.FixtureRequest) -> Helm:
    """Helm 3, or what the test names by `BOTH`."""
    return get_helm(getattr(request, "param", 3))


@pytest.fixture(scope="module")
def objects() -> list[Obj]:
    """What the chart renders when nothing is set."""
    return get_helm(3).objects()


@pytest.fixture(scope="module")
def everything() -> list[Obj]:
    """What the chart renders when everything is switched on."""
    return get_helm(3).objects("--values", CHART / "ci" / "everything.yaml")
