"""Runs one plugin on one conformance case: objects of the case → state → what the plugin says of each node.

`check_filter` and `check_score` compare that with what the case wants; `run_filter` and `run_score` only tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kubenexus.common.objects import (
    project_csi_driver,
    project_csi_node,
    project_csi_storage_capacity,
    project_device_class,
    project_namespace,
    project_node,
    project_persistent_volume,
    project_persistent_volume_claim,
    project_pod,
    project_pod_disruption_budget,
    project_resource_claim,
    project_resource_slice,
    project_storage_class,
    project_volume_attachment,
)
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.objects import owner_key
from kubenexus.scheduler.engine.plugin import ALL, Code, NodePlugin, Plugin, Scores
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.table import Table

Case = dict[str, Any]
Factory = Callable[[Mapping[str, Any]], Plugin]

CODES = {
    "Success": Code.SUCCESS,
    "Unschedulable": Code.UNSCHEDULABLE,
    "UnschedulableAndUnresolvable": Code.UNRESOLVABLE,
    "Error": Code.ERROR,
}


def as_is(raw: Case) -> Any:
    return raw


# Key in a case → the state's table, and how an object is read. Namespaced objects come under `namespace/name`.
TABLES: dict[str, tuple[str, Callable[[Case], Any]]] = {
    "pvcs": ("pvcs", project_persistent_volume_claim),
    "pvs": ("pvs", project_persistent_volume),
    "storageClasses": ("storage_classes", project_storage_class),
    "csiNodes": ("csi_nodes", project_csi_node),
    "csiDrivers": ("csi_drivers", project_csi_driver),
    "csiStorageCapacities": ("csi_capacities", project_csi_storage_capacity),
    "volumeAttachments": ("volume_attachments", project_volume_attachment),
    "services": ("services", as_is),
    "deviceClasses": ("device_classes", project_device_class),
    "resourceSlices": ("slices", project_resource_slice),
    "resourceClaims": ("claims", project_resource_claim),
    "pdbs": ("pdbs", project_pod_disruption_budget),
}
OWNERS = {
    "replicaSets": "ReplicaSet",
    "statefulSets": "StatefulSet",
    "replicationControllers": "ReplicationController",
}


def state_of(case: Case) -> State:
    """The cluster of a case. Pods on nodes that are not listed count nowhere."""
    state = State()
    for raw in case.get("namespaces", ()):
        state.set_namespace(raw["metadata"]["name"], project_namespace(raw).meta.labels)
    for raw in case.get("nodes", ()):
        state.set_node(project_node(raw))
    for key, (table, read) in TABLES.items():
        for raw in case.get(key, ()):
            objects: Table[Any] = getattr(state.objects, table)
            objects.set(_key(raw), read(raw))
    for key, kind in OWNERS.items():
        for raw in case.get(key, ()):
            meta = raw["metadata"]
            state.objects.owners.set(owner_key(kind, meta["namespace"], meta["name"]), raw)
    for raw in case.get("pods", ()):
        pod = project_pod(raw)
        if state.index(pod.node) is not None:
            state.place(pod, pod.node)
    return state


def _key(raw: Case) -> str:
    meta = raw["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def run_filter(factory: Factory, case: Case) -> dict[str, tuple[Code, list[str]]]:
    """What the plugin says of each node: the gravest code, and all its reasons in their order."""
    state, plugin = state_of(case), factory(case.get("args", {}))
    answer: dict[str, tuple[Code, list[str]]] = {state.name(node): (Code.SUCCESS, []) for node in state.live()}
    term = plugin.compile(project_pod(case["pod"]), state)
    for refusal in () if term is None else plugin.filter(term, state, ALL):
        for _, name in _named(refusal.nodes & state.alive, state):
            code, reasons = answer[name]
            answer[name] = max(code, refusal.code), [*reasons, refusal.reason]
    return answer


def run_score(factory: Factory, case: Case) -> dict[str, int] | None:
    """The normalised score of each feasible node; None if the plugin has no preference for such a pod."""
    state, plugin = state_of(case), factory(case.get("args", {}))
    feasible = _feasible(case, state)
    term = plugin.compile(project_pod(case["pod"]), state)
    scores = None if term is None else _scores(plugin, term, state, feasible)
    return None if scores is None else {name: int(scores[node]) for node, name in _named(feasible, state)}


def _named(nodes: Mask, state: State) -> Iterator[tuple[int, str]]:
    return ((int(node), state.name(int(node))) for node in np.flatnonzero(nodes))


def _feasible(case: Case, state: State) -> Mask:
    answer = state.alive.copy()
    for node, name in _named(answer, state):
        answer[node] = name in case.get("feasible", [name])
    return answer


def _scores(plugin: Plugin, term: Any, state: State, feasible: Mask) -> Scores | None:
    if not isinstance(plugin, NodePlugin):
        return plugin.score(term, state, feasible)
    raw = plugin.score(term, state, ALL)
    return None if raw is None else plugin.normalize(raw, feasible)


def check_filter(factory: Factory, case: Case, *, reasons: bool = True) -> None:
    """The codes are as the case wants; so are the reasons, unless told not to look."""
    found = run_filter(factory, case)
    wanted = case["want"]["nodes"]
    assert {node: code for node, (code, _) in found.items()} == {n: CODES[one["code"]] for n, one in wanted.items()}
    if reasons:
        assert {n: sorted(why) for n, (_, why) in found.items()} == {n: sorted(w["reasons"]) for n, w in wanted.items()}


def check_score(factory: Factory, case: Case) -> None:
    """The normalised scores are as the case wants; having no preference is the same as 0 everywhere.

    A pod that cannot be scored because it is wrong must be refused everywhere, as an error.
    """
    want, found = case["want"], run_score(factory, case)
    before = want.get("preScore", {}).get("code")
    if before == "Error":
        assert {code for code, _ in run_filter(factory, case).values()} == {Code.ERROR}
        return
    wanted = {} if before == "Skip" else {one["name"]: one["score"] for one in want["scores"]}
    assert (found or dict.fromkeys(wanted, 0)) == (wanted or dict.fromkeys(found or (), 0))
