"""kube-scheduler's own cases for claims of devices: met where nothing has to be allocated, openly refused elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.scheduler.engine.plugin import Code
from kubenexus.scheduler.plugins.dynamic_resources import NOT_YET
from kubenexus.scheduler.plugins.registry import PLUGINS
from tests.scheduler_conformance import Case, check_filter, run_filter
from tests.shared import conformance

# Cases that are not met, because allocation is not implemented. They want devices to be found for the pod, or an error
# on the way there; here such a pod waits.
NOT_MET = frozenset(
    (
        "CEL-runtime-error-for-one-of-three-nodes",
        "CEL-runtime-error-for-one-of-two-nodes",
        "add-allocation-timestamp",
        "bind-claim-with-binding-conditions",
        "bind-failure-concurrent-deallocation",
        "claim-parameters-CEL-runtime-error",
        "claim-with-prioritized-list",
        "class-parameters-CEL-runtime-error",
        "dont-add-allocation-timestamp",
        "extended-resource-name-bind-failure",
        "extended-resource-name-skip-bind",
        "extended-resource-name-with-resources",
        "extended-resource-name-with-zero-allocatable",
        "extended-resource-one-device-plugin-one-dra",
        "implicit-extended-resource-name-two-containers-with-resources",
        "implicit-extended-resource-name-with-resources",
        "multiple-claims-prioritized-list-scoring",
        "multiple-requests-prioritized-list-scoring",
        "node-allocatable-resource-insufficient-resources-with-multiplier [default gates]",
        "request-admin-access-with-DRAAdminAccess-featuregate",
        "single-claim-prioritized-list-scoring",
        "skip-bind",
        "structured-ignore-allocated-admin-access",
        "timeout",
        "timeout_disabled",
        "timeout_zero",
        "with-resources",
        "with-resources-finalizer-gets-added",
        "with-resources-finalizer-gets-removed",
        "with-resources-has-finalizer",
    )
)


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
    if case["name"] not in NOT_MET:
        check_filter(plugin, everywhere(case), reasons=False)
        return
    for code, reasons in run_filter(plugin, case).values():
        assert code is Code.UNRESOLVABLE
        assert all(NOT_YET in reason for reason in reasons)


def test_what_is_not_met_is_a_case() -> None:
    params: list[Any] = conformance("dynamicresources", "filter")
    if params[0].values[0] is None:
        pytest.skip("the cases are not here")
    assert {param.values[0]["name"] for param in params} >= NOT_MET
