"""The NUMA policy that a namespace has for its pods counts as if the webhook had written it."""

from __future__ import annotations

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.kube.mirror import Added, Updated
from kubenexus.common.objects import NamespaceView
from kubenexus.common.topology import NodeTopology
from kubenexus.scheduler.actions import Bind
from kubenexus.scheduler.world import read
from tests.builders import NodeBuilder, PodBuilder, node, pod
from tests.machines import numa_nodes
from tests.office import Office, bound, told


def machine() -> NodeBuilder:
    """Two NUMA nodes of 16 CPUs."""
    topology = NodeTopology(numa=numa_nodes(range(16), range(16, 32)), gpus=(), nics=())
    built = node("n").capacity(cpu=32, memory="128Gi")
    return built.annotation(v.TOPOLOGY_SNAPSHOT, wire.encode_annotation(topology))


def namespace(policy: str = "") -> NamespaceView:
    notes = {v.DEFAULT_NUMA_POLICY: policy} if policy else {}
    found: NamespaceView = read("Namespace", {"metadata": {"name": "default", "annotations": notes}})
    return found


def office(policy: str) -> Office:
    made = Office(machine())
    made.hear("Namespace", Added("default", namespace(policy)))
    return made


def wants(name: str, cpu: int, policy: str = "") -> PodBuilder:
    made = pod(name).guaranteed(cpu, "1Gi")
    return made.annotation(v.NUMA_POLICY, policy) if policy else made


@pytest.mark.parametrize(
    ("policy", "built", "is_placed"),
    [
        pytest.param("single-numa", wants("a", 20), False, id="a pod that says nothing"),
        pytest.param("single-numa-node", wants("a", 20), False, id="another spelling"),
        pytest.param("single-numa", wants("a", 20, "best-effort"), True, id="a pod that says otherwise"),
        pytest.param("single-numa", pod("a").cpu(20), True, id="a pod of which a kubelet pins nothing"),
        pytest.param("singel", wants("a", 20), True, id="a policy that does not exist"),
    ],
)
def test_policy_of_the_namespace_counts(policy: str, built: PodBuilder, is_placed: bool) -> None:
    made = office(policy)
    made.see(built)
    actions = made.decide()
    assert bool(bound(actions)) is is_placed
    if not is_placed:
        assert "without a NUMA node that is large enough for 20 CPUs" in told(actions)["a"]


@pytest.mark.parametrize(
    ("policy", "home", "said"),
    [
        pytest.param("single-numa", machine(), "for 40 CPUs and 1Gi memory", id="too large"),
        pytest.param("isolated", machine(), "for 40 CPUs and 1Gi memory", id="too large to be alone"),
        pytest.param("restricted", machine(), "for 40 CPUs and 1Gi memory", id="too large for all together"),
        pytest.param("single-numa", node("n"), "whose NUMA nodes are not known", id="unknown"),
    ],
)
def test_refusals_say_whose_policy_it_is(policy: str, home: NodeBuilder, said: str) -> None:
    """Who wrote the pod does not know of it."""
    made = Office(home.capacity(cpu=64, memory="128Gi"))
    made.hear("Namespace", Added("default", namespace(policy)))
    made.see(wants("a", 40))
    assert f"{said}, which policy {policy} of its namespace needs" in told(made.decide())["a"]


def test_pod_carries_the_policy_that_it_was_placed_by() -> None:
    """So its neighbours keep away, also after a restart."""
    made = office("isolated")
    made.see(wants("alone", 4))
    [bind] = made.decide()
    assert isinstance(bind, Bind)
    assert bind.annotations[v.NUMA_POLICY] == v.NumaPolicy.ISOLATED
    made.bind([bind])
    made.see(wants("large", 18, "best-effort"))
    assert "Insufficient cpu" in told(made.decide())["large"]


def test_whoever_waits_for_it_is_tried_when_it_changes() -> None:
    made = office("single-numa")
    made.see(wants("a", 20))
    assert bound(made.decide()) == {}
    made.hear("Namespace", Updated("default", namespace("single-numa"), namespace()))
    [bind] = made.decide(after=10)
    assert bind.node == "n"
    assert v.NUMA_POLICY not in bind.annotations
