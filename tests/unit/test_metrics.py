"""Metrics: declared once, named by one rule, documented by generation."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubenexus.common import metrics
from kubenexus.common.metrics import DECLARED, Declared

UNITS = {"counter": "_total", "histogram": "_seconds"}


@pytest.mark.parametrize("metric", DECLARED, ids=lambda metric: metric.name)
def test_names_follow_the_rule(metric: Declared) -> None:
    assert re.fullmatch(r"kubenexus(_[a-z]+)+", metric.name)
    assert metric.name.endswith(UNITS.get(metric.kind, ""))
    assert metric.help.endswith(".")
    assert "|" not in metric.help
    assert not {"pod", "node", "namespace", "uid"} & set(metric.labels), "labels have few values"


def test_all_that_is_served_is_declared() -> None:
    served = {family.name for family in text_string_to_metric_families(metrics.text().decode())}
    ours = {name for name in served if name.startswith("kubenexus_")}
    assert ours == {metric.name.removesuffix("_total") for metric in DECLARED}


def test_the_table_has_a_row_for_each() -> None:
    title, _, header, rule, *rows = metrics.documentation().splitlines()
    assert (title, header, rule) == ("# Metrics", "| metric | type | labels | meaning |", "|---|---|---|---|")
    assert [row.split("`")[1] for row in rows] == sorted(metric.name for metric in DECLARED)
    row = next(row for row in rows if "kubenexus_events_dropped_total" in row)
    assert row.startswith("| `kubenexus_events_dropped_total` | counter | `cause` | Events not written: ")
