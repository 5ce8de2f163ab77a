"""The sentence that is added to kube-scheduler's: what would help."""

from __future__ import annotations

import pytest

from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.objects import project_pod
from kubenexus.scheduler.cures import cure
from kubenexus.scheduler.engine.cycle import Park
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.profiles import build_cycles
from kubenexus.scheduler.world import World
from tests.builders import Builder, PodBuilder, node, pod

PLAIN = node("plain").capacity(cpu=4, memory="64Gi")
FULL: list[Builder] = [PLAIN, pod("there").cpu(4).node("plain")]
GUARDED = node("guarded").capacity(cpu=4).taint("team", "red")

CASES: list[tuple[str, list[Builder], PodBuilder, str]] = [
    ("larger than every node", [PLAIN], pod("a").cpu(5), "No node has more than 4 cpu: request less"),
    ("larger than every node, in bytes", [PLAIN], pod("a").memory("65Gi"), "No node has more than 64Gi memory: "),
    ("a resource that nobody has", [PLAIN], pod("a").gpu(1), "No node has any nvidia.com/gpu: add a node that does"),
    ("nodes are only full", FULL, pod("a").cpu(1), ""),
    ("a label that nobody has", [PLAIN], pod("a").select(disk="ssd"), "No node has the label disk=ssd: label one"),
    ("one taint", [GUARDED], pod("a"), "Add a toleration of the taint team=red:NoSchedule if the pod may run"),
    ("several taints", [GUARDED, node("b").taint("other")], pod("a"), ""),
    ("a cordoned node", [node("c").cordon()], pod("a"), "Uncordon c if it is to take pods again."),
    ("no nodes at all", [], pod("a"), ""),
]


@pytest.mark.parametrize(("there", "pending", "text"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_cures(there: list[Builder], pending: PodBuilder, text: str) -> None:
    world = World()
    for each in there:
        world.add(each.build())
    (cycle,) = build_cycles(SchedulerConfiguration(), world.state, Nominations()).values()
    park = cycle.decide(project_pod(pending.build()))
    assert isinstance(park, Park)
    found = cure(park, world.state)
    assert found.startswith(text)
    assert bool(found) == bool(text)
