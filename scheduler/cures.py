"""The smallest change that would help a pod which no node takes, in one sentence. Pure.

Only where the refusals tell it for certain: a guess would send people the wrong way. The sentence does not change while
the cluster's nodes stay what they are, so that a pod's condition does not either.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kubenexus.common.objects import Labels, Taint
from kubenexus.scheduler.dra import NONE_AT_ALL, Ask
from kubenexus.scheduler.engine.cycle import Park, Preempt
from kubenexus.scheduler.engine.footprints import CPU
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.taints import FORBID, taints_of

_UNITS = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"))


def sentence(park: Park, state: State) -> str:
    """Why a pod is pending, and what would help it."""
    return f"{park.message} {'' if isinstance(park, Preempt) else cure(park, state)}".rstrip()


def cure(park: Park, state: State) -> str:
    """What to do for the pod; empty if that cannot be told."""
    helpers = (_too_large, _no_such_label, _taints, _cordoned, _devices)
    return next((text for helper in helpers for text in helper(park, state)), "")


def _too_large(park: Park, state: State) -> Iterator[str]:
    """No node is large enough, even when it is empty."""
    short = {one.reason for one in park.verdicts if one.plugin == "NodeResourcesFit"}
    for resource, wanted in park.pod.spec.requests.items():
        most = int(state.alloc[state.row(resource)][state.alive].max(initial=0))
        if wanted > most and f"Insufficient {resource}" in short:
            if most:
                yield f"No node has more than {_amount(resource, most)} {resource}: request less, or add a larger node."
            else:
                yield f"No node has any {resource}: add a node that does, or do not request it."


def _no_such_label(park: Park, state: State) -> Iterator[str]:
    """Labels that the pod wants and no node has."""
    if not _nodes(park, "NodeAffinity"):
        return
    for key, value in sorted(park.pod.spec.node_selector.items()):
        if all(state.node(node).meta.labels.get(key) != value for node in state.live()):
            yield f"No node has the label {key}={value}: label one, or correct the pod's nodeSelector."


def _taints(park: Park, state: State) -> Iterator[str]:
    """One taint keeps the pod off; with several, which of them is meant for it is not ours to say."""
    column = state.facts.column(taints_of)
    sets = np.unique(column.codes[list(_nodes(park, "TaintToleration"))])
    found = {taint for code in sets for taint in column.values[code] if _offends(park, taint)}
    if len(found) == 1:
        (taint,) = found
        yield (
            f"Add a toleration of the taint {taint.key}{taint.value and f'={taint.value}'}:{taint.effect} "
            "if the pod may run on such nodes."
        )


def _offends(park: Park, taint: Taint) -> bool:
    return taint.effect in FORBID and not any(one.tolerates(taint) for one in park.pod.spec.tolerations)


def _cordoned(park: Park, state: State) -> Iterator[str]:
    nodes = _nodes(park, "NodeUnschedulable")
    if nodes:
        yield f"Uncordon {min(map(state.name, nodes))} if it is to take pods again."


def _devices(park: Park, state: State) -> Iterator[str]:
    """Devices for the pod's claims: whether there are any such."""
    wanting = state.objects.claims.wanting(park.pod)
    ask = state.allocator.ask(wanting) if wanting and _nodes(park, "DynamicResources") else None
    if not isinstance(ask, Ask):
        return
    lacks = dict[str, str]()
    for name, labels in _labels(state):
        lacks[name] = state.allocator.lack(ask, name, labels)
        if not lacks[name]:
            yield "Devices of that kind are in use: the pod is placed when others give them back."
            return
    first = min(lacks, key=lambda name: (lacks[name].endswith(NONE_AT_ALL), name))
    yield f"No node could satisfy its claims even if nothing were in use: on {first} {lacks[first]}."


def _labels(state: State) -> Iterator[tuple[str, Labels]]:
    return ((view.name, view.meta.labels) for view in map(state.node, state.live()))


def _nodes(park: Park, plugin: str) -> tuple[int, ...]:
    """The nodes that a plugin refuses."""
    return tuple(dict.fromkeys(node for one in park.verdicts if one.plugin == plugin for node in one.nodes))


def _amount(resource: str, amount: int) -> str:
    """An amount as people write it."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    return next((f"{amount // size}{unit}" for size, unit in _UNITS if amount >= 10 * size), str(amount))
