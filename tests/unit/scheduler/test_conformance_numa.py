"""Cases of others for NUMA alignment: the kubelet's hint merging, and scheduler-plugins' filter at pod scope."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubenexus.common import quantity, wire
from kubenexus.common import vocabulary as v
from kubenexus.common.objects import Qos, project_pod
from kubenexus.common.topology import Gpu, NodeTopology, NumaNode
from kubenexus.scheduler.engine.plugin import Code
from kubenexus.scheduler.plugins.numa import NUMATopology
from tests.kubelet import Hint, Nodes, Provider, merge
from tests.scheduler_conformance import Case, run_filter
from tests.shared import SHARED, conformance

MERGING = "conformance/numa_merge.json"
DEVICE = "vendor/nic1"
# Cases that are not met, and why.
NOT_MET = {"Guaranteed QoS Topology Scope, invalid node": "refuses the object NodeResourceTopology as malformed"}


def merge_cases() -> list[Any]:
    path = SHARED / MERGING
    if not path.exists():
        return [pytest.param(*[None] * 3, marks=pytest.mark.skip(reason=f"shared data {MERGING} is not here"))]
    data = json.loads(path.read_text(encoding="utf-8"))
    return [
        pytest.param(run["policy"], data["numa_info"][run["numa"]], case, id=f"{run['policy']}: {case['name']}")
        for run in data["runs"]
        for group in run["groups"]
        for case in data["groups"][group]
    ]


@pytest.mark.parametrize(("policy", "info", "case"), merge_cases())
def test_hints_are_merged_as_a_kubelet_does(policy: str, info: Case, case: Case) -> None:
    distances = {int(number): row for number, row in info["distances"].items()}
    name, _, option = policy.partition(" + ")
    nodes = Nodes(info["nodes"], distances, closest=bool(option))
    providers = [_provider(one, nodes) for one in case["providers"]]
    assert merge(providers, nodes, name) == _hint(case["expected"], nodes)


def _provider(raw: Case | None, nodes: Nodes) -> Provider:
    if raw is None:
        return None
    return {name: None if hints is None else [_hint(hint, nodes) for hint in hints] for name, hints in raw.items()}


def _hint(raw: Case, nodes: Nodes) -> Hint:
    numa = nodes.ids if raw["numa"] == "ALL" else raw["numa"]
    return Hint(None if numa is None else frozenset(numa), raw["preferred"])


def pod_scope(case: Case) -> bool:
    policies = {one for found in case["noderesourcetopologies"] for one in found.get("topologyPolicies", ())}
    return policies == {"SingleNUMANodePodLevel"} and project_pod(case["pod"]).spec.needs.qos is Qos.GUARANTEED


def filter_cases() -> list[Any]:
    found = conformance("noderesourcetopology", "filter")
    return [one for one in found if one.values[0] is None or pod_scope(one.values[0])]


@pytest.mark.parametrize("case", filter_cases())
def test_filter_at_pod_scope(case: Case, request: pytest.FixtureRequest) -> None:
    """What others call available of a zone is the whole NUMA node here, and their device is the GPU."""
    if reason := NOT_MET.get(case["name"]):
        request.applymarker(pytest.mark.xfail(reason=reason))
    zones = {found["metadata"]["name"]: found["zones"] for found in case["noderesourcetopologies"]}
    nodes = [_with_topology(raw, zones[raw["metadata"]["name"]]) for raw in case["nodes"]]
    asking = json.loads(json.dumps(case["pod"]))
    asking["metadata"]["annotations"] = {
        v.NUMA_POLICY: "single-numa",
        v.NUMA_RESOURCES: f"cpu,memory,hugepages-2Mi,{DEVICE}",
    }
    answer = run_filter(NUMATopology, {"pod": asking, "nodes": nodes, "args": {"gpuResources": [DEVICE]}})
    fits = {name: code is Code.SUCCESS for name, (code, _) in answer.items()}
    assert fits == {name: one["code"] == "Success" for name, one in case["want"]["nodes"].items()}


def _with_topology(raw: Case, zones: list[Case]) -> Case:
    numa, gpus = [], []
    for number, zone in enumerate(zones):
        has = {one["name"]: quantity.value(one["available"]) for one in zone["resources"]}
        pages = has.get("hugepages-2Mi", 0)
        memory = has["memory"] + pages
        numa.append(
            NumaNode(id=number, cpu_count=has["cpu"], memory=memory, hugepages_2mi=pages >> 21, hugepages_1gi=0)
        )
        gpus += [number] * has.get(DEVICE, 0)
    topology = NodeTopology(numa=tuple(numa), gpus=tuple(Gpu(index=i, numa=home) for i, home in enumerate(gpus)))
    return {
        **raw,
        "metadata": {**raw["metadata"], "annotations": {v.TOPOLOGY_SNAPSHOT: wire.encode_annotation(topology)}},
    }
