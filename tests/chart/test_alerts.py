"""Alerts ask for what there is, and have a runbook."""

from __future__ import annotations

import re

from kubenexus.common import metrics
from kubenexus.common.vocabulary import SYSTEM_NAMESPACE as SPACE
from tests.chart.helm import ROOT, Obj, of_kind


def alerts_of(objects: list[Obj]) -> list[Obj]:
    [rule] = of_kind(objects, "PrometheusRule")
    return [alert for group in rule["spec"]["groups"] for alert in group["rules"]]


def test_alerts_ask_for_labels_that_metrics_have(everything: list[Obj]) -> None:
    """And for values of them that their meaning names; who scraped it adds namespace and pod."""
    known = {metric.name: metric for metric in metrics.DECLARED}
    asked = [found for one in alerts_of(everything) for found in re.findall(r"(kubenexus_\w+){([^}]*)}", one["expr"])]
    assert len(asked) > 12
    for name, selectors in asked:
        labels = dict(re.findall(r'(\w+)!?="([^"]*)"', selectors))
        assert labels.pop("namespace") == SPACE
        assert labels.keys() <= {*known[name].labels}, name
        words = [value for label, value in labels.items() if label != "lease"]
        assert [word for word in words if f"`{word}`" not in known[name].help] == [], name
    split = [word for one in alerts_of(everything) for word in re.findall(r"by \(([^)]*)\)", one["expr"])]
    assert {label.strip() for labels in split for label in labels.split(",")} == {"pod", "resource", "reason"}


def test_alerts_ask_for_metrics_that_exist_and_have_a_runbook(everything: list[Obj]) -> None:
    alerts = alerts_of(everything)
    known = metrics.documentation()
    runbook = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    assert len(alerts) > 8
    for alert in alerts:
        asked = re.findall(r"kubenexus_\w+", alert["expr"])
        assert asked
        assert [name for name in asked if f"`{name}`" not in known] == [], alert["alert"]
        assert f"\n## {alert['alert']}\n" in runbook
        anchor = alert["annotations"]["runbook_url"].rpartition("#")[2]
        assert anchor == alert["alert"].lower()
