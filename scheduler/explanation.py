"""Why a pod can or cannot go to each node, as a document for people and programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.cycle import Cycle
from kubenexus.scheduler.engine.evaluate import Verdict, by_node
from kubenexus.scheduler.engine.fabric import Fence
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.plugin import ALL, ClusterPlugin, Code, NodePlugin, Plugin, Scores
from kubenexus.scheduler.engine.shape import Asked
from kubenexus.scheduler.engine.state import State

Obj = dict[str, Any]

# A plugin that could not do its work is no reason to remove pods, either.
CODES = {Code.UNSCHEDULABLE: "Unschedulable", Code.UNRESOLVABLE: "Unresolvable", Code.ERROR: "Unresolvable"}


def explain_nodes(cycle: Cycle, pod: PodView, fence: Fence | None = None) -> Obj:
    """Node → feasible or not, with the reasons, or with each plugin's score from 0 to 100 before weights.

    `fence` is what is left to the pod by its gang.
    """
    state = cycle.state
    if refusal := pod.problems[:1] or tuple(f"scheduling gate {gate} is still there" for gate in pod.gates):
        answer = {node: _refused(Code.UNRESOLVABLE, refusal) for node in state.live()}
    else:
        answer = _ask(cycle, pod, fence)
    return {state.name(node): answer[node] for node in sorted(answer, key=state.name)}


def _ask(cycle: Cycle, pod: PodView, fence: Fence | None) -> dict[int, Obj]:
    answer = _refusals(cycle.verdicts(pod, fence))
    feasible = cycle.state.alive.copy()
    feasible[list(answer)] = False
    scores = dict(_scores(cycle, pod, feasible))
    for node in np.flatnonzero(feasible).tolist():
        values = {name: int(column[node]) for name, column in scores.items()}
        answer[node] = {"feasible": True, "reasons": [], "scores": values}
    return answer


def explain_refusals(verdicts: Iterable[Verdict], state: State) -> Obj:
    """The same of those nodes alone that refused a pod with these words."""
    return {state.name(node): said for node, said in _refusals(verdicts).items()}


def _refusals(verdicts: Iterable[Verdict]) -> dict[int, Obj]:
    found: dict[int, tuple[Code, tuple[str, ...]]] = {}
    for node, verdict in by_node(verdicts):
        code, reasons = found.get(node, (Code.SUCCESS, ()))
        found[node] = max(code, verdict.code), (*reasons, verdict.about(node))
    return {node: _refused(code, reasons) for node, (code, reasons) in found.items()}


def _refused(code: Code, reasons: tuple[str, ...]) -> Obj:
    return {"feasible": False, "code": CODES[code], "reasons": list(reasons), "scores": {}}


def _scores(cycle: Cycle, pod: PodView, feasible: Mask) -> Iterator[tuple[str, Scores]]:
    """Every plugin that can score, with 0 for all nodes if it has no preference."""
    state = cycle.state
    if not feasible.any():
        return
    asked = {one.plugin.name: one for one in cycle.board(pod).shape.asked}
    for plugin in (one.plugin for one in cycle.profile if one.weight and _can_score(one.plugin)):
        found = _score(asked[plugin.name], state, feasible) if plugin.name in asked else None
        yield plugin.name, np.zeros(state.size, dtype=np.int64) if found is None else found


def _can_score(plugin: Plugin) -> bool:
    return type(plugin).score not in (NodePlugin.score, ClusterPlugin.score)


def _score(asked: Asked, state: State, feasible: Mask) -> Scores | None:
    plugin = asked.plugin
    if not isinstance(plugin, NodePlugin):
        return plugin.score(asked.term, state, feasible)
    raw = plugin.score(asked.term, state, ALL)
    return None if raw is None else plugin.normalize(raw, feasible)
