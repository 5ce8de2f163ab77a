"""kube-scheduler's own cases for the plugins that look at nodes one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubenexus.common.config import ConfigError
from kubenexus.common.objects import Fields, normalized_image, project_node, project_pod, read_node_selector
from kubenexus.common.objects.placement import read_taints, read_tolerations
from kubenexus.scheduler.engine.plugin import proportional
from kubenexus.scheduler.plugins.registry import PLUGINS
from kubenexus.scheduler.plugins.strategies import broken_linear
from tests.scheduler_conformance import Case, check_filter, check_score
from tests.shared import conformance

FILES = (
    "nodename",
    "nodeunschedulable",
    "tainttoleration",
    "nodeaffinity",
    "nodeports",
    "noderesources_fit",
    "noderesources_score",
    "imagelocality",
)

# Cases that are not met, and why.
NOT_MET = dict.fromkeys(
    (
        "include DRA resource on a node for balanced resource allocation",
        "include DRA resource on a node for balanced resource allocation if PreScore not called",
        "test case for ScoringStrategy LeastAllocated with Extended resources",
        "test case for ScoringStrategy LeastAllocated with Extended resources if PreScore is not called",
    ),
    "counts devices that a DeviceClass offers as an extended resource, which we do not give out (decision 15)",
)


def cases(kind: str) -> list[Any]:
    return [param for name in FILES for param in conformance(name, kind)]


@pytest.mark.parametrize("case", cases("filter"))
def test_filter(case: Case) -> None:
    check_filter(PLUGINS[case["plugin"]], case)


@pytest.mark.parametrize("case", cases("score"))
def test_score(case: Case, request: pytest.FixtureRequest) -> None:
    if case["name"] in NOT_MET:
        request.applymarker(pytest.mark.xfail(reason=NOT_MET[case["name"]]))
    if "argErrors" not in case["want"]:
        check_score(PLUGINS[case["plugin"]], case)
        return
    with pytest.raises(ConfigError) as refused:
        PLUGINS[case["plugin"]](case["args"])
    for complaint in case["want"]["argErrors"]:
        place, _, key = complaint.partition(":")[0].rpartition(".")
        assert place in str(refused.value)
        assert key in str(refused.value)


@pytest.mark.parametrize("case", cases("brokenLinear"))
def test_piecewise_linear_function(case: Case) -> None:
    points = [(point["utilization"], point["score"]) for point in case["shape"]]
    for point in case["want"]["points"]:
        assert broken_linear(points, point["utilization"]) == point["score"], point


@pytest.mark.parametrize("case", conformance("misc", "defaultNormalizeScore"))
def test_default_normalising(case: Case) -> None:
    raw = np.array(case["scores"], dtype=np.int64)
    found = proportional(raw, np.ones(len(raw), dtype=np.bool_), reverse=case["reverse"])
    assert found.tolist() == case["want"]["scores"]


@pytest.mark.parametrize("case", conformance("misc", "schedulingGates"))
def test_scheduling_gates(case: Case) -> None:
    gated = bool(project_pod(case["pod"]).gates)
    assert gated == (case["want"]["status"]["code"] != "Success")


@pytest.mark.parametrize("case", conformance("tainttoleration", "tolerates"))
def test_tolerates(case: Case) -> None:
    fields = Fields(case, [])
    tolerations = read_tolerations(fields, "tolerations")
    tolerated = all(any(one.tolerates(taint) for one in tolerations) for taint in read_taints(fields, "taints"))
    assert tolerated == case["want"]["tolerated"]


@pytest.mark.parametrize("case", conformance("nodeaffinity", "nodeSelectorMatch"))
def test_node_selector(case: Case) -> None:
    selector, node = read_node_selector(Fields(case, []), "nodeSelector"), project_node(case["nodes"][0])
    assert selector is not None
    assert (not selector.errors) == case["want"]["valid"]
    assert selector.matches(node.meta.labels, node.name) == case["want"].get("match", False)


@pytest.mark.parametrize("case", conformance("imagelocality", "normalizedImageName"))
def test_image_name(case: Case) -> None:
    assert normalized_image(case["image"]) == case["want"]["image"]
