"""kube-scheduler's own cases for claims of devices: met, and openly refused where they are not."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.scheduler.engine.plugin import Code
from kubenexus.scheduler.plugins.dynamic_resources import NOT_BY_DEVICES
from kubenexus.scheduler.plugins.registry import PLUGINS
from tests.scheduler_conformance import Case, check_filter, run_filter
from tests.shared import conformance

# Cases that are not met: devices are not given out for resources that a device class stands for. Such pods wait.
NOT_MET = frozenset(
    (
        "extended-resource-name-bind-failure",
        "extended-resource-name-skip-bind",
        "extended-resource-name-with-resources",
        "extended-resource-name-with-zero-allocatable",
        "extended-resource-one-device-plugin-one-dra",
        "implicit-extended-resource-name-two-containers-with-resources",
        "implicit-extended-resource-name-with-resources",
    )
)
# A search ends after so many steps, whatever the time.
TIMED = frozenset(("timeout",))


def everywhere(case: Case) -> Case:
    """The same case, with what kube-scheduler says before it even queues the pod said of every node."""
    want = case["want"]
    if "preEnqueue" not in want:
        return case
    nodes = {node["metadata"]["name"]: want["preEnqueue"] for node in case["nodes"]}
    return {**case, "want": {"nodes": nodes}}


@pytest.mark.parametrize("case", conformance("dynamicresources", "filter"))
def test_filter(case: Case) -> None:
    plugin = PLUGINS[case["plugin"]]
    if case["name"] in TIMED:
        pytest.skip("there is no time limit")
    if case["name"] not in NOT_MET:
        check_filter(plugin, everywhere(case), reasons=False)
        return
    for code, reasons in run_filter(plugin, case).values():
        assert code is Code.UNRESOLVABLE
        assert all(NOT_BY_DEVICES in reason for reason in reasons)


def test_what_is_not_met_is_a_case() -> None:
    params: list[Any] = conformance("dynamicresources", "filter")
    if params[0].values[0] is None:
        pytest.skip("the cases are not here")
    assert {param.values[0]["name"] for param in params} >= NOT_MET
