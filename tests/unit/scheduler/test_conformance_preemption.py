"""Preemption against kube-scheduler's own cases: victims of every node, the chosen node, eligibility, budgets."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.objects import project_pod, project_pod_disruption_budget
from kubenexus.scheduler.engine.evaluate import Verdict
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.preempt import Preemption, choose
from kubenexus.scheduler.engine.shape import Shape, Weighted, compile_shape
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.victims import Budgets, Candidate
from kubenexus.scheduler.plugins.pod_affinity import InterPodAffinity
from kubenexus.scheduler.plugins.resources import NodeResourcesFit
from kubenexus.scheduler.plugins.spread import PodTopologySpread
from tests.scheduler_conformance import CODES, Case, state_of
from tests.shared import conformance

PLUGINS = {one.name: one({}) for one in (NodeResourcesFit, InterPodAffinity, PodTopologySpread)}
# Case → why it does not apply.
EXCEPTIONS = {
    "only one node but failed with TestPlugin": "a plugin made for the test fails to simulate a removal; ours cannot",
    "one failed with TestPlugin and the other pass": "the same; without it the first node needs no victim at all",
}


class Setup:
    """Preemption on the cluster of a case."""

    def __init__(self, case: Case) -> None:
        if case["name"] in EXCEPTIONS:
            pytest.xfail(EXCEPTIONS[case["name"]])
        self.state: State = state_of(case)
        self.pod = project_pod(case["pod"])
        nominations = Nominations()
        nominations.see(self.pod)
        self.preemption = Preemption(self.state, nominations)
        profile = [Weighted(PLUGINS[name], 0) for name in case.get("plugins", ())]
        self.shape: Shape = compile_shape(self.pod, profile, self.state)

    def verdicts(self, codes: dict[str, str]) -> list[Verdict]:
        return [Verdict("", "", CODES[code], (self.number(node),)) for node, code in codes.items()]

    def number(self, name: str) -> int:
        found = self.state.index(name)
        assert found is not None
        return found


def names(candidate: Candidate) -> list[str]:
    return sorted(victim.name for victim in candidate.victims)


@pytest.mark.parametrize("case", conformance("defaultpreemption", "dryRun"))
def test_dry_run(case: Case) -> None:
    setup = Setup(case)
    state = setup.state
    nodes = list(state.live())
    start = case["offset"] % len(nodes)
    run = setup.preemption.dry_run(setup.pod, setup.shape, nodes[start:] + nodes[:start], case["numCandidates"])
    found = {state.name(one.node): (names(one), one.violations) for one in run.candidates}
    wanted = case["want"]["candidates"]
    assert found == {one["node"]: (one["victims"], one["numPDBViolations"]) for one in wanted}
    if wanted:
        assert state.name(choose(run.candidates).node) in case["want"]["selectedAnyOf"]
    state.validate()


@pytest.mark.parametrize("case", conformance("defaultpreemption", "postFilter"))
def test_post_filter(case: Case) -> None:
    setup, want = Setup(case), case["want"]
    verdicts = setup.verdicts(case["filterStatus"])
    found = setup.preemption.ineligible(setup.pod, verdicts) or setup.preemption.find(setup.pod, setup.shape, verdicts)
    if isinstance(found, Candidate):
        assert (setup.state.name(found.node), names(found)) == (want["nominatedNode"], want["victims"])
    else:
        assert ([found], []) == (want["status"]["reasons"], want["victims"])
        assert want["status"]["code"] == "Unschedulable"
    setup.state.validate()


@pytest.mark.parametrize("case", conformance("defaultpreemption", "eligible"))
def test_eligible(case: Case) -> None:
    setup = Setup(case)
    node = setup.pod.nominated_node
    verdicts = setup.verdicts({node: case["nominatedNodeStatus"]["code"]} if node else {})
    reason = setup.preemption.ineligible(setup.pod, verdicts)
    assert (not reason, reason) == (case["want"]["eligible"], case["want"]["message"])


@pytest.mark.parametrize("case", conformance("defaultpreemption", "pdbViolation"))
def test_budgets(case: Case) -> None:
    victims: list[Any] = [project_pod(raw) for raw in case.get("victims", ())]
    budgets = [project_pod_disruption_budget(raw) for raw in case.get("pdbs", ())]
    broken, others = Budgets(budgets).split(victims)
    assert [pod.key for pod in broken] == case["want"]["violating"]
    assert [pod.key for pod in others] == case["want"]["nonViolating"]
