"""What should stand on the API server for a machine: split by manager and part, nothing more."""

from __future__ import annotations

import json

import pytest

from kubenexus.agent.publish.wanted import DEFAULT_PARTS, Findings, Part, Share, Wanted, wanted
from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.topology import NodeTopology
from kubenexus.common.wire import Given
from kubenexus.common.wire.kubelet import CpuPolicy, TopologyPolicy, TopologyScope
from tests.machines import dgx_h100, numa_nodes

NO_GPUS = NodeTopology(numa=numa_nodes((0, 1)), gpus=(), nics=())


def want(findings: Findings, *parts: str) -> Wanted:
    return wanted(findings, frozenset(Part(part) for part in parts) or DEFAULT_PARTS, "n1", "uid-1")


def shares(result: Wanted) -> dict[str, Share]:
    return {share.manager: share for share in result.shares}


def test_each_manager_has_its_own_facts_and_together_they_have_all() -> None:
    found = shares(want(Findings(dgx_h100())))
    numa, gpu = found[v.AGENT_NUMA_MANAGER], found[v.AGENT_GPU_MANAGER]
    assert {*numa.labels, *gpu.labels} == {*wire.encode_labels(dgx_h100())[0]}
    assert all(key.startswith(v.GPU_PREFIX) for key in gpu.labels)
    assert not any(key.startswith(v.GPU_PREFIX) for key in numa.labels)
    assert v.TOPOLOGY_HASH_LABEL in numa.labels
    assert [*numa.annotations, *gpu.annotations] == [v.TOPOLOGY_SNAPSHOT]


@pytest.mark.parametrize(
    ("parts", "labels", "annotations", "slices", "nrt"),
    [
        pytest.param(["labels"], True, False, False, False, id="labels"),
        pytest.param(["annotation"], False, True, False, False, id="annotation"),
        pytest.param(["slices"], False, False, True, False, id="slices"),
        pytest.param(["nrt"], False, False, False, True, id="nrt"),
        pytest.param(["labels", "slices"], True, False, True, False, id="two of them"),
        pytest.param([], True, True, True, False, id="by default all but nrt"),
    ],
)
def test_what_is_switched_off_is_not_wanted(
    parts: list[str], labels: bool, annotations: bool, slices: bool, nrt: bool
) -> None:
    result = want(Findings(dgx_h100(), gpu_stale=True, allocations={}), *parts)
    assert [bool(share.labels) for share in result.shares] == [labels, labels]
    assert bool(result.shares[0].annotations) is annotations
    assert (bool(result.slices), result.nrt is not None) == (slices, nrt)


def test_a_machine_without_gpus_has_an_empty_pool_and_no_gpu_labels() -> None:
    result = want(Findings(NO_GPUS))
    assert shares(result)[v.AGENT_GPU_MANAGER].labels == {}
    pools = {slice_["spec"]["pool"]["name"]: slice_["spec"].get("devices") for slice_ in result.slices}
    assert pools["n1/gpu"] is None
    assert [device["name"] for device in pools["n1/numa"]] == ["numa-0"]


def test_stale_is_a_label_of_the_gpu_manager() -> None:
    assert shares(want(Findings(dgx_h100(), gpu_stale=True)))[v.AGENT_GPU_MANAGER].labels[v.GPU_STALE] == "true"
    assert v.GPU_STALE not in shares(want(Findings(dgx_h100())))[v.AGENT_GPU_MANAGER].labels


SETTINGS = wire.KubeletSettings(TopologyPolicy.RESTRICTED, TopologyScope.POD, CpuPolicy.STATIC)


def test_what_the_kubelet_is_set_to_is_in_labels_and_leaves_the_hash_alone() -> None:
    plain, told = want(Findings(dgx_h100())), want(Findings(dgx_h100(), kubelet=SETTINGS))
    more = shares(told)[v.AGENT_NUMA_MANAGER].labels.items() - shares(plain)[v.AGENT_NUMA_MANAGER].labels.items()
    assert dict(more) == {v.KUBELET_POLICY: "restricted", v.KUBELET_SCOPE: "pod", v.KUBELET_CPU: "static"}
    assert told.slices == plain.slices


def test_nrt_names_the_policy_and_the_scope() -> None:
    nrt, plain = want(Findings(dgx_h100(), kubelet=SETTINGS), "nrt").nrt, want(Findings(dgx_h100()), "nrt").nrt
    assert nrt
    assert plain
    assert nrt["attributes"] == [
        {"name": "topologyManagerPolicy", "value": "restricted"},
        {"name": "topologyManagerScope", "value": "pod"},
    ]
    assert "attributes" not in plain


def test_allocations_stand_beside_the_snapshot() -> None:
    given = {"uid-b": Given((1, 2, 3), (4,), (1,)), "uid-a": Given((), (0,), (0,))}
    annotations = want(Findings(dgx_h100(), allocations=given)).shares[0].annotations
    assert json.loads(annotations[v.ALLOCATIONS]) == {
        "uid-a": {"cpus": "", "gpus": [0], "numa": [0]},
        "uid-b": {"cpus": "1-3", "gpus": [4], "numa": [1]},
    }


def test_nrt_has_a_zone_for_each_numa_node_with_what_is_left() -> None:
    given = {"uid": Given((0, 1), (0, 1, 4), (0, 1))}
    nrt = want(Findings(dgx_h100(), allocations=given), "nrt").nrt
    assert nrt is not None
    assert nrt["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    zone = nrt["zones"][0]
    assert (zone["name"], zone["type"]) == ("node-0", "Node")
    assert zone["costs"] == [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 21}]
    left = [{row["name"]: (row["capacity"], row["available"]) for row in zone["resources"]} for zone in nrt["zones"]]
    assert left[0]["cpu"] == ("32", "30")
    assert (left[0]["nvidia.com/gpu"], left[1]["nvidia.com/gpu"]) == (("4", "2"), ("4", "3"))
