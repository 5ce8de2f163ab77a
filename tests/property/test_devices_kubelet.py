"""What we place is what a kubelet with a strict topology policy takes, by a model of how it merges hints."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubenexus.common import vocabulary as v
from kubenexus.common import wire
from kubenexus.common.objects import project_pod
from kubenexus.common.topology import NodeTopology
from kubenexus.common.vocabulary import NumaPolicy
from kubenexus.common.wire.kubelet import OPTIONS, CpuPolicy, MemoryPolicy, TopologyPolicy, TopologyScope
from kubenexus.scheduler.devices.ask import Ask, read_ask
from kubenexus.scheduler.devices.fit import Fit, fit
from kubenexus.scheduler.devices.machine import machine_of
from kubenexus.scheduler.devices.occupancy import occupy
from kubenexus.scheduler.engine.cycle import Place
from tests.builders import PodBuilder, pod
from tests.kubelet import SINGLE, Admission, admits
from tests.property.test_devices import cycle_on, node_view, residents, topologies


@settings(max_examples=150, deadline=None)
@given(data=st.data(), topology=topologies())
def test_a_kubelet_takes_what_we_chose(data: st.DataObject, topology: NodeTopology) -> None:
    """One with the policy single-numa-node does not refuse a Guaranteed pod that was placed by single-numa."""
    machine = machine_of(topology, {})
    count = data.draw(st.integers(0, 4))
    there = [data.draw(residents(machine, f"r{number}")) for number in range(count)]
    taken = occupy(machine, there, (data.draw(st.integers(0, 3000)), 0, 0, 0), whole_gpus=True)
    asking = pod("p").guaranteed(data.draw(st.integers(1, 5)), "1Gi").annotation(v.NUMA_POLICY, "single-numa")
    ask = read_ask(project_pod(asking.gpu(data.draw(st.integers(0, 2))).build()), v.GPU_RESOURCES)
    assert isinstance(ask, Ask)
    if isinstance(fit(machine, taken, ask), Fit):
        assert admits(machine, taken, ask, SINGLE)


@st.composite
def refusing_kubelets(draw: st.DrawFn) -> wire.KubeletSettings:
    return wire.KubeletSettings(
        draw(st.sampled_from([TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE])),
        draw(st.sampled_from(TopologyScope)),
        draw(st.sampled_from(CpuPolicy)),
        draw(st.sampled_from(MemoryPolicy)),
        draw(st.sampled_from([frozenset[str]()] * 3 + [OPTIONS])),
    )


@st.composite
def pods_for_kubelets(draw: st.DrawFn, name: str = "p") -> PodBuilder:
    """A pod that a kubelet gives something to, most often."""
    built = pod(name).uid(name)
    cpu, memory = draw(st.sampled_from(["1", "2", "4", "7", "1500m"])), draw(st.integers(1, 5))
    if draw(st.integers(0, 3)):
        built.guaranteed(cpu, f"{memory}Gi")
    if gpus := draw(st.sampled_from([0, 0, 1, 2, 3])):
        built.gpu(gpus)
    policy = draw(st.sampled_from([None, "none", "none", "restricted", "single-numa", "isolated"]))
    return built.annotation(v.NUMA_POLICY, policy) if policy else built


@st.composite
def pods_of_containers(draw: st.DrawFn) -> PodBuilder:
    """A pod of one to three containers, Guaranteed or not, some of them init containers or sidecars."""
    built = draw(pods_for_kubelets())
    spec = built.part("spec")
    for number in range(draw(st.integers(0, 2))):
        amounts: dict[str, str] = {"cpu": draw(st.sampled_from(["1", "2", "4", "500m"])), "memory": "2Gi"}
        if draw(st.booleans()):
            amounts["nvidia.com/gpu"] = "1"
        role = draw(st.sampled_from(["containers", "initContainers", "sidecar"]))
        more: dict[str, object] = {"name": f"c{number}", "resources": {"requests": amounts, "limits": amounts}}
        more |= {"restartPolicy": "Always"} if role == "sidecar" else {}
        spec.setdefault("initContainers" if role == "sidecar" else role, []).append(more)
    return built


def ask_of(built: PodBuilder) -> Ask | None:
    found = read_ask(project_pod(built.build()), v.GPU_RESOURCES, kubelets=True)
    return found if isinstance(found, Ask) else None


@settings(max_examples=400, deadline=None)
@given(data=st.data(), topology=topologies(2), told=refusing_kubelets(), built=pods_of_containers())
def test_what_we_place_a_kubelet_admits(
    data: st.DataObject, topology: NodeTopology, told: wire.KubeletSettings, built: PodBuilder
) -> None:
    """Whatever the pod's policy. The converse holds, too: nothing is refused in vain."""
    machine = machine_of(replace(topology, threads_per_core=2), {}, told)
    count = data.draw(st.integers(0, 4))
    there = [data.draw(residents(machine, f"r{number}")) for number in range(count)]
    taken = occupy(machine, there, (data.draw(st.integers(0, 3000)), 0, 0, 0), whole_gpus=True)
    ask = ask_of(built)
    if ask is None or machine.kubelet is None:
        return
    found, admitted = fit(machine, taken, ask), Admission(machine, taken).admits(ask)
    if isinstance(found, Fit):
        assert admitted is not None
        chosen = frozenset[int]().union(*(numa for numa in admitted if numa is not None))
        assert chosen <= set(machine.positions(found.numa))
        if chosen and ask.policy is not NumaPolicy.RESTRICTED:
            assert chosen == set(machine.positions(found.numa))
    elif found.kubelet and not found.elsewhere:
        assert admitted is None


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), topology=topologies(2), told=refusing_kubelets())
def test_pods_placed_one_after_another_are_all_admitted(
    data: st.DataObject, topology: NodeTopology, told: wire.KubeletSettings
) -> None:
    """By a kubelet that keeps its own books: ours follow them without a word from it."""
    labels = wire.encode_kubelet(told._replace(policy=TopologyPolicy.SINGLE_NUMA_NODE, options=frozenset()))
    view = node_view("n", topology, labels=labels)
    cycle = cycle_on(view)
    machine = cycle.state.devices.spot(0).machine
    kubelet = Admission(machine, occupy(machine, (), (0, 0, 0, 0), whole_gpus=True))
    for number in range(data.draw(st.integers(1, 12))):
        one = project_pod(data.draw(pods_for_kubelets(f"p{number}")).build())
        ask = read_ask(one, v.GPU_RESOURCES, kubelets=True)
        if isinstance(cycle.decide(one), Place) and isinstance(ask, Ask):
            assert kubelet.admits(ask) is not None
    cycle.state.validate()
