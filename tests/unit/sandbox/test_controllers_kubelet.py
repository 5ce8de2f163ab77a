"""What the sandbox's kubelet accepts and refuses, and in which words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.kube.resources import NODES, PODS
from kubenexus.common.sandbox.controllers.kubelet import KUBELET_ANNOTATION, reconcile_node, reconcile_pod
from kubenexus.common.sandbox.controllers.kubelet_fit import rejection
from kubenexus.common.sandbox.controllers.kubelet_numa import (
    ALLOCATION_ANNOTATION,
    GPU,
    POLICY_ANNOTATION,
    Allocation,
    align,
    encode,
)
from kubenexus.common.sandbox.controllers.view import View
from kubenexus.common.sandbox.controllers.writes import Delete, Patch, Wake
from kubenexus.common.vocabulary import (
    NUMA_NODE_COUNT,
    NUMA_NODE_IDS,
    SIMULATED_RUN_TIME,
    gpu_numa_alias,
    gpu_numa_label,
    numa_node_label,
)

Obj = dict[str, Any]

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "3"}


def node(allocatable: Obj | None = None, *, labels: Obj | None = None, notes: Obj | None = None, **spec: Any) -> Obj:
    meta = {"name": "n", "uid": "node-uid", "labels": labels or {}, "annotations": notes or {}}
    return {"metadata": meta, "spec": spec, "status": {"allocatable": allocatable or ROOM}}


def pod(requests: Obj | None = None, *, notes: Obj | None = None, guaranteed: bool = False, **spec: Any) -> Obj:
    resources = {"requests": requests or {}} | ({"limits": requests} if guaranteed else {})
    container = {"name": "c", "image": "i", "resources": resources}
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "uid-p", "annotations": notes or {}},
        "spec": {"nodeName": "n", "containers": [container]} | spec,
        "status": {"phase": "Pending"},
    }


# --- fit -------------------------------------------------------------------------------------------------------------

ZONE = {"zone": "a"}


def required(**expression: Any) -> Obj:
    terms = [{"matchExpressions": [{"key": "zone"} | expression]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


NO_ROOM = "Node didn't have enough resource: "
OTHER_PLACE = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
EVICTED = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
TAINT = {"key": "k", "value": "v", "effect": "NoExecute"}
FITS = [
    pytest.param(node(), pod({"cpu": "2"}), [pod({"cpu": "2"})], None, id="exactly full"),
    pytest.param(
        node(),
        pod({"cpu": "4"}),
        [pod({"cpu": "1500m"})],
        ("OutOfcpu", NO_ROOM + "cpu, requested: 4000, used: 1500, capacity: 4000"),
        id="cpu in milli",
    ),
    pytest.param(
        node(),
        pod({"cpu": "5", "memory": "9Gi"}),
        [],
        ("OutOfcpu", NO_ROOM + "cpu, requested: 5000, used: 0, capacity: 4000"),
        id="cpu before memory",
    ),
    pytest.param(
        node(),
        pod({"memory": "9Gi"}),
        [],
        ("OutOfmemory", NO_ROOM + "memory, requested: 9663676416, used: 0, capacity: 8589934592"),
        id="memory in bytes",
    ),
    pytest.param(
        node(), pod(), [pod()] * 3, ("OutOfpods", NO_ROOM + "pods, requested: 1, used: 3, capacity: 3"), id="pods"
    ),
    pytest.param(
        node(ROOM | {GPU: "1"}),
        pod({GPU: "2"}),
        [],
        (f"OutOf{GPU}", NO_ROOM + f"{GPU}, requested: 2, used: 0, capacity: 1"),
        id="extended resource",
    ),
    pytest.param(node(), pod({GPU: "2"}), [], None, id="extended resource that the node does not know"),
    pytest.param(node(labels=ZONE), pod(nodeSelector=ZONE), [], None, id="node selector"),
    pytest.param(node(), pod(nodeSelector=ZONE), [], ("NodeAffinity", OTHER_PLACE), id="node selector misses"),
    pytest.param(node(labels=ZONE), pod(affinity=required(operator="Exists")), [], None, id="node affinity"),
    pytest.param(
        node(labels=ZONE),
        pod(affinity=required(operator="In", values=["b"])),
        [],
        ("NodeAffinity", OTHER_PLACE),
        id="node affinity misses",
    ),
    pytest.param(node(taints=[TAINT]), pod(), [], ("TaintToleration", EVICTED), id="NoExecute taint"),
    pytest.param(
        node(taints=[TAINT]), pod(tolerations=[TAINT | {"operator": "Equal"}]), [], None, id="tolerated by value"
    ),
    pytest.param(node(taints=[TAINT]), pod(tolerations=[{"operator": "Exists"}]), [], None, id="tolerates all"),
    pytest.param(node(taints=[TAINT | {"effect": "NoSchedule"}]), pod(), [], None, id="NoSchedule is not its business"),
]


@pytest.mark.parametrize(("host", "new", "others", "expected"), FITS)
def test_fit(host: Obj, new: Obj, others: list[Obj], expected: tuple[str, str] | None) -> None:
    assert rejection(host, new, others) == expected


@given(st.lists(st.integers(0, 3000), max_size=12))
def test_pod_is_accepted_exactly_if_it_fits(wishes: list[int]) -> None:
    host, accepted, used = node(ROOM | {"pods": "100"}), list[Obj](), 0
    for milli in wishes:
        new = pod({"cpu": f"{milli}m"})
        fits = rejection(host, new, accepted) is None
        assert fits == (used + milli <= 4000)
        if fits:
            accepted.append(new)
            used += milli


# --- NUMA ------------------------------------------------------------------------------------------------------------

GIB = 1024**3


def two_sockets(policy: str = "single-numa-node", **changes: str) -> Obj:
    labels = {
        NUMA_NODE_COUNT: "2",
        **{numa_node_label(i, "cpu-count"): "8" for i in (0, 1)},
        **{numa_node_label(i, "memory"): "16Gi" for i in (0, 1)},
        **{gpu_numa_label(i): str(i // 2) for i in range(4)},
    }
    return node(
        {"cpu": "16", "memory": "32Gi", GPU: "4", "pods": "9"},
        labels=labels | changes,
        notes={POLICY_ANNOTATION: policy},
    )


def exact(cpu: int, gib: int = 1, gpus: int = 0) -> Obj:
    return pod({"cpu": str(cpu), "memory": f"{gib}Gi", GPU: str(gpus)}, guaranteed=True)


def holder(allocation: Allocation) -> Obj:
    return pod(notes={ALLOCATION_ANNOTATION: encode(allocation)})


NUMA = [
    pytest.param(two_sockets(), exact(4), [], [0], id="first with room"),
    pytest.param(two_sockets(), exact(4), [holder({0: {"cpu": 6}})], [1], id="second, the first is full"),
    pytest.param(two_sockets(), exact(4), [holder({i: {"cpu": 6} for i in (0, 1)})], None, id="fragmented"),
    pytest.param(two_sockets(), exact(9), [], None, id="larger than one"),
    pytest.param(two_sockets("restricted"), exact(9, gib=20), [], [0, 1], id="restricted: needs both"),
    pytest.param(two_sockets("restricted"), exact(9), [], None, id="restricted: sizes differ, nothing is preferred"),
    pytest.param(two_sockets("restricted"), exact(4), [holder({i: {"cpu": 6} for i in (0, 1)})], None, id="restricted"),
    pytest.param(two_sockets("best-effort"), exact(9), [], [], id="best-effort promises nothing"),
    pytest.param(two_sockets(), exact(2, gib=17), [], None, id="memory aligns too"),
    pytest.param(two_sockets(), exact(2, gpus=2), [holder({0: {GPU: 1}})], [1], id="GPUs align too"),
    pytest.param(two_sockets(), exact(2, gpus=3), [], None, id="too many GPUs for one"),
    pytest.param(two_sockets(), pod({"cpu": "9"}), [], [], id="shared CPUs are not aligned"),
    pytest.param(two_sockets(), pod({"cpu": "9", GPU: "1"}), [], [0], id="GPUs of a burstable pod are"),
    pytest.param(two_sockets(), pod({"cpu": "1500m", "memory": "20Gi"}, guaranteed=True), [], None, id="memory only"),
    pytest.param(two_sockets(**{NUMA_NODE_IDS: "0_1"}), exact(4), [], [0], id="ids from the list"),
    pytest.param(two_sockets(**{numa_node_label(0, "memory"): "?"}), exact(9), [], [], id="unreadable is unknown"),
    pytest.param(node(notes={POLICY_ANNOTATION: "restricted"}), exact(9), [], [], id="no labels, nothing known"),
]


@pytest.mark.parametrize(("host", "new", "others", "expected"), NUMA)
def test_numa(host: Obj, new: Obj, others: list[Obj], expected: list[int] | None) -> None:
    given_nodes = align(host, new, others)
    assert (None if given_nodes is None else list(given_nodes)) == expected


def test_gpu_labels_of_the_older_kind_are_read() -> None:
    host = two_sockets()
    for index in range(4):
        host["metadata"]["labels"][gpu_numa_alias(index)] = host["metadata"]["labels"].pop(gpu_numa_label(index))
    assert align(host, exact(1, gpus=2), [holder({0: {GPU: 1}})]) == {1: {"cpu": 1, "memory": GIB, GPU: 2}}


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 4)), max_size=10),
    st.sampled_from(["restricted", "single-numa-node"]),
)
def test_numa_nodes_are_never_overbooked(wishes: list[tuple[int, int]], policy: str) -> None:
    host, accepted, used = two_sockets(policy), list[Obj](), {0: dict[str, int](), 1: dict[str, int]()}
    for cpus, gpus in wishes:
        given_nodes = align(host, exact(cpus, gpus=gpus), accepted)
        if given_nodes is not None:
            accepted.append(holder(given_nodes))
            for numa, amounts in given_nodes.items():
                for name, amount in amounts.items():
                    used[numa][name] = used[numa].get(name, 0) + amount
    assert all(amounts.get("cpu", 0) <= 8 and amounts.get(GPU, 0) <= 2 for amounts in used.values())


# --- life ------------------------------------------------------------------------------------------------------------


def view_of(*objects: tuple[Any, Obj]) -> View:
    view = View()
    for res, obj in objects:
        view.put(res, obj)
    return view


def running(seconds_ago: float = 0, **changes: Any) -> Obj:
    started = (NOW - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    new = pod(**changes)
    new["status"] = {"phase": "Running", "startTime": started}
    return new


def life(new: Obj, host: Obj | None = None) -> list[Any]:
    return list(reconcile_pod(view_of((NODES, host or node()), (PODS, new)), new, NOW))


def test_bound_pod_starts_and_keeps_what_the_scheduler_wrote() -> None:
    new = pod()
    new["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "x"}]
    [write] = life(new)
    assert isinstance(write, Patch)
    status = write.patch["status"]
    assert status["phase"] == "Running"
    assert status["startTime"] == "2026-05-04T12:00:00Z"
    assert [each["type"] for each in status["conditions"] if each["status"] == "True"] == [
        *("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    ]
    assert status["podIP"].startswith("10.")
    assert status["containerStatuses"][0]["state"] == {"running": {"startedAt": "2026-05-04T12:00:00Z"}}


def test_pod_that_does_not_fit_fails() -> None:
    [write] = life(pod({"cpu": "5"}))
    assert write.patch["status"]["phase"] == "Failed"
    assert write.patch["status"]["reason"] == "OutOfcpu"
    assert write.patch["status"]["message"].startswith("Pod was rejected: Node didn't have enough resource: cpu")


def test_pod_that_cannot_be_aligned_fails() -> None:
    [write] = life(exact(9), two_sockets())
    assert write.patch["status"]["reason"] == "TopologyAffinityError"
    words = "Pod was rejected: Resources cannot be allocated with Topology locality"
    assert write.patch["status"]["message"] == words


def test_given_numa_nodes_are_written_down() -> None:
    [write] = life(exact(4), two_sockets())
    assert write.patch["metadata"]["annotations"] == {ALLOCATION_ANNOTATION: '{"0":{"cpu":4,"memory":1073741824}}'}


ENDS = [
    pytest.param(running(9, notes={SIMULATED_RUN_TIME: "10"}), 1, id="runs its time"),
    pytest.param(running(10, notes={SIMULATED_RUN_TIME: "10"}), 0, id="has run its time"),
    pytest.param(running(1, restartPolicy="Never"), 0, id="a short time by default"),
    pytest.param(running(9999), None, id="for ever if it restarts always"),
    pytest.param(running(9999, notes={SIMULATED_RUN_TIME: "soon"}), None, id="unreadable is absent"),
    pytest.param(running(0, restartPolicy="Never", notes={SIMULATED_RUN_TIME: "nan"}), 1, id="not a number is absent"),
]


@pytest.mark.parametrize(("new", "left"), ENDS)
def test_run_time(new: Obj, left: float | None) -> None:
    writes = life(new)
    if left is None:
        assert writes == []
    elif left:
        assert writes == [Wake(NOW + timedelta(seconds=left))]
    else:
        assert writes[0].patch["status"]["phase"] == "Succeeded"
        state = writes[0].patch["status"]["containerStatuses"][0]["state"]
        assert state["terminated"]["exitCode"] == 0


def deleted(new: Obj, grace: int) -> Obj:
    new["metadata"] |= {"deletionTimestamp": "x", "deletionGracePeriodSeconds": grace}
    return new


def test_deleted_pod_goes_at_once() -> None:
    new = deleted(running(), 30)
    assert life(new) == [Delete(PODS, new, grace_seconds=0)]
    assert life(deleted(running(), 0)) == []


def test_deleted_pod_goes_when_its_node_is_gone() -> None:
    new = deleted(running(), 30)
    assert list(reconcile_pod(view_of((PODS, new)), new, NOW)) == [Delete(PODS, new, grace_seconds=0)]


LEFT_ALONE = [
    pytest.param(pod(nodeName=""), node(), id="not bound"),
    pytest.param(pod(nodeName="other"), node(), id="node unknown"),
    pytest.param(pod(), node(notes={KUBELET_ANNOTATION: "none"}), id="node has no kubelet"),
]


@pytest.mark.parametrize(("new", "host"), LEFT_ALONE)
def test_left_alone(new: Obj, host: Obj) -> None:
    assert life(new, host) == []


def test_node_becomes_ready_unless_it_says_otherwise() -> None:
    [write] = reconcile_node(View(), node(), NOW)
    assert isinstance(write, Patch)
    assert write.patch["status"]["conditions"][0]["status"] == "True"
    silent = node()
    silent["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert list(reconcile_node(View(), silent, NOW)) == []
    assert list(reconcile_node(View(), node(notes={KUBELET_ANNOTATION: "none"}), NOW)) == []
