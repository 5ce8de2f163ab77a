"""Metrics: declared once, named by one rule, documented by generation."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubenexus.common import metrics
from kubenexus.common.metrics import DECLARED, Declared

COMPONENTS = ("agent", "scheduler", "webhook")
UNITS = {"counter": "_total", "histogram": "_seconds"}


@pytest.mark.parametrize("metric", DECLARED, ids=lambda metric: metric.name)
def test_names_follow_the_rule(metric: Declared) -> None:
    assert re.fullmatch(r"kubenexus(_[a-z]+)+", metric.name)
    assert metric.name.endswith(UNITS.get(metric.kind, ""))
    assert metric.help.endswith(".")
    assert "|" not in metric.help
    assert not {"pod", "node", "namespace", "uid"} & set(metric.labels), "labels have few values"


def served(component: str) -> set[str]:
    families = text_string_to_metric_families(metrics.text(component).decode())
    return {family.name for family in families if family.name.startswith("kubenexus_")}


def test_all_that_is_declared_is_served_by_somebody() -> None:
    everything = {name for component in COMPONENTS for name in served(component)}
    assert everything == {metric.name.removesuffix("_total") for metric in DECLARED}


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_serves_its_own_metrics_only(component: str) -> None:
    """What nobody sets is 0, which alerts would take for a certificate that has ended, or for a silent agent."""
    others = tuple(f"kubenexus_{other}_" for other in COMPONENTS if other != component)
    assert [name for name in served(component) if name.startswith(others)] == []
    assert any(name.startswith(f"kubenexus_{component}_") for name in served(component))
    assert {"kubenexus_api_requests", "kubenexus_reflector_staleness_seconds"} <= served(component)


def test_the_table_has_a_row_for_each() -> None:
    title, _, _, _, header, rule, *rows = metrics.documentation().splitlines()
    assert (title, header, rule) == ("# Metrics", "| metric | type | labels | meaning |", "|---|---|---|---|")
    assert [row.split("`")[1] for row in rows] == sorted(metric.name for metric in DECLARED)
    row = next(row for row in rows if "kubenexus_events_dropped_total" in row)
    assert row.startswith("| `kubenexus_events_dropped_total` | counter | `cause` | Events not written: ")
