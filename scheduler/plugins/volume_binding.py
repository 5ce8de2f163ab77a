"""VolumeBinding: pods go where their volumes can be used, found or made.

Claims that are bound have a volume, which says where it can be used. Those that wait for their first consumer get one
by the decision where the pod goes: one that exists and fits, or one that their class makes there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from kubenexus.common.objects import (
    ClaimRef,
    Op,
    PersistentVolumeClaimView,
    PersistentVolumeView,
    PodView,
    StorageClassView,
)
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.engine.plugin import At, Code, NodePlugin, Refusal
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.arguments import read_args
from kubenexus.scheduler.plugins.in_tree import SUCCESSORS, successors_terms
from kubenexus.scheduler.plugins.volume_matching import NONE, Ranks, by_rank, candidates, choose
from kubenexus.scheduler.plugins.volumes import Barred, claim_key, no_binding_mode, not_found, wrong_owner

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class VolumeBindingArgs:
    """kube-scheduler's arguments. The time is for who waits until the volumes are bound."""

    bind_timeout_seconds: int = 600

    def __post_init__(self) -> None:
        if self.bind_timeout_seconds < 0:
            raise ValueError(f"bindTimeoutSeconds is {self.bind_timeout_seconds}, which is less than 0")


@dataclass(frozen=True, slots=True)
class VolumeDecision:
    """What becomes of a pod's unbound claims when it goes to a node: volumes they get, and claims to make one for."""

    node: str
    bindings: tuple[tuple[PersistentVolumeClaimView, PersistentVolumeView], ...]
    provisions: tuple[PersistentVolumeClaimView, ...]

    @property
    def annotations(self) -> Mapping[str, str]:
        return {}

    def assume(self, objects: Objects) -> None:
        """The volumes count as given and the others as begun from now on, though nobody has written it yet."""
        for table, _, after in self._changes():
            objects.table(table).set(after.key, after)

    def forget(self, objects: Objects) -> None:
        """It did not come about: what is still as assumed becomes what it was."""
        for table, before, after in self._changes():
            if objects.table(table).get(after.key) == after:
                objects.table(table).set(before.key, before)

    def _changes(self) -> Iterator[tuple[str, Any, Any]]:
        """Tables, with the objects before and after."""
        for claim, volume in self.bindings:
            owner = ClaimRef(claim.meta.namespace, claim.meta.name, claim.meta.uid)
            yield "pvs", volume, replace(volume, claim=owner)
        for claim in self.provisions:
            yield "pvcs", claim, replace(claim, selected_node=self.node)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The answer for all nodes: why some are refused, and the rank of the volume that each matched claim gets there."""

    refused: tuple[tuple[Mask, str], ...]
    chosen: tuple[Ranks, ...]


@dataclass(slots=True, eq=False)
class Wanted:
    """A pod's claims; `bound` are their volumes, None where one is missing.

    `matched` may get one of `volumes`, those of them in `ranks`; for `begun` one is being made on a certain node.
    """

    bound: tuple[PersistentVolumeView | None, ...]
    matched: tuple[PersistentVolumeClaimView, ...]
    begun: tuple[PersistentVolumeClaimView, ...]
    volumes: Sequence[PersistentVolumeView]
    ranks: tuple[Sequence[int], ...]
    seen: tuple[int, int] = (-1, -1)
    found: Found = field(default_factory=lambda: Found((), ()))


class VolumeBinding(NodePlugin[Wanted | Barred]):
    """Refuses nodes where a volume of the pod cannot be used, and no volume can be found or made for it."""

    name = "VolumeBinding"

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.args = read_args(VolumeBindingArgs, args)

    def reads(self, pod: PodView) -> tuple[str, ...]:
        tables = ("pvcs", "pvs", "storage_classes", "csi_nodes", "csi_drivers", "csi_capacities")
        return tables if pod.volume_claims else ()

    def compile(self, pod: PodView, state: State) -> Wanted | Barred | None:
        if not pod.volume_claims:
            return None
        claims = _usable_claims(pod, state.objects)
        if isinstance(claims, Barred):
            return claims
        unbound = [claim for claim in claims if not claim.bound]
        barred = [why for claim in unbound if (why := _why_not_delayed(claim, state.objects))]
        if barred:
            return max(barred, key=lambda one: one.code)
        matched = sorted((one for one in unbound if not one.selected_node), key=lambda one: one.request)
        volumes = by_rank(state.objects.pvs.values(), matched) if matched else ()
        return Wanted(
            bound=tuple(state.objects.pvs.get(claim.volume) for claim in claims if claim.bound),
            matched=tuple(matched),
            begun=tuple(claim for claim in unbound if claim.selected_node),
            volumes=volumes,
            ranks=tuple(candidates(claim, volumes) for claim in matched),
        )

    def filter(self, term: Wanted | Barred, state: State, at: At) -> Iterator[Refusal]:
        if isinstance(term, Barred):
            yield term.everywhere(state, at)
            return
        for nodes, reason in _find(term, state).refused:
            yield Refusal(nodes[at], reason, Code.UNRESOLVABLE)

    def take(self, term: Wanted | Barred, state: State, node: int) -> VolumeDecision | None:
        """What the pod's claims get on a node that was not refused; None if they all have what they need."""
        if isinstance(term, Barred) or not (term.matched or term.begun):
            return None
        chosen = [
            (claim, int(ranks[node])) for claim, ranks in zip(term.matched, _find(term, state).chosen, strict=True)
        ]
        made = [claim for claim, rank in chosen if rank == NONE]
        bindings = tuple((claim, term.volumes[rank]) for claim, rank in chosen if rank != NONE)
        return VolumeDecision(state.name(node), bindings, (*term.begun, *made))


def _usable_claims(pod: PodView, objects: Objects) -> Sequence[PersistentVolumeClaimView] | Barred:
    """The pod's claims, ephemeral ones included; barred when one is missing, lost, being deleted or another pod's."""
    found = []
    for name, ephemeral in dict.fromkeys(pod.volume_claims):
        claim = objects.pvcs.get(claim_key(pod, name))
        if claim is None:
            waiting = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return Barred(waiting if ephemeral else not_found(name))
        if why := _wrong(claim) or (wrong_owner(pod, claim) if ephemeral else ""):
            return Barred(why)
        found.append(claim)
    return found


def _wrong(claim: PersistentVolumeClaimView) -> str:
    if claim.phase == "Lost":
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume}"'
    return f'persistentvolumeclaim "{claim.name}" is being deleted' if claim.meta.deleted is not None else ""


def _why_not_delayed(claim: PersistentVolumeClaimView, objects: Objects) -> Barred | None:
    """Why an unbound claim is not ours to bind, but should be bound already; None if it waits for its consumer."""
    kind = objects.storage_classes.get(claim.storage_class or "")
    if kind is not None and not kind.binding_mode:
        return Barred(no_binding_mode(kind), Code.ERROR)
    delayed = kind is not None and kind.wait_for_consumer and not claim.volume
    return None if delayed else Barred(UNBOUND)


def _find(term: Wanted, state: State) -> Found:
    """The answer, found anew when nodes have changed."""
    now = (state.nodes_version, state.size)
    if term.seen != now:
        conflict, missing = _check_bound(term.bound, state)
        chosen: list[Ranks] = []
        for ranks in term.ranks:
            chosen.append(choose(ranks, term.volumes, chosen, state))
        unmatched = [(claim, ranks == NONE) for claim, ranks in zip(term.matched, chosen, strict=True)]
        nowhere, full = _check_provisions(term.begun, unmatched, state)
        refused = ((conflict, NODE_CONFLICT), (nowhere, BIND_CONFLICT), (full, NO_SPACE), (missing, NO_VOLUME))
        term.seen = now
        term.found = Found(tuple((nodes, reason) for nodes, reason in refused if nodes.any()), tuple(chosen))
    return term.found


def _check_bound(volumes: Sequence[PersistentVolumeView | None], state: State) -> tuple[Mask, Mask]:
    """The nodes where a volume cannot be used, and those where one is missing; the first to fail is what counts."""
    conflict, missing, left = (np.full(state.size, start) for start in (False, False, True))
    for volume in volumes:
        if volume is None:
            missing |= left
            break
        usable = _usable(volume, state)
        conflict |= left & ~usable
        left &= usable
    return conflict, missing


def _usable(volume: PersistentVolumeView, state: State) -> Mask:
    """The nodes from which a volume can be used; where a CSI driver took over its kind, as this driver sees it."""
    own = volume.node_affinity.terms if volume.node_affinity else None
    usable = np.full(state.size, True) if own is None else state.labels.any_term(own)
    successor = SUCCESSORS.get(volume.source)
    if successor is None or (terms := successors_terms(volume)) == own:
        return usable
    moved = [view.name for view in state.objects.csi_nodes.values() if successor.plugin in view.migrated]
    numbers = [node for name in moved if (node := state.index(name)) is not None]
    usable = usable.copy()
    usable[numbers] = True if terms is None else state.labels.any_term(terms)[numbers]
    return usable


def _check_provisions(
    begun: Sequence[PersistentVolumeClaimView],
    unmatched: Sequence[tuple[PersistentVolumeClaimView, Mask]],
    state: State,
) -> tuple[Mask, Mask]:
    """The nodes where volumes can be neither found nor made, and those without room for them; the first counts.

    A volume that is begun is made on the node that was selected for it, and nowhere else.
    """
    nowhere, full, selected = (np.full(state.size, start) for start in (False, False, True))
    for claim in begun:
        node = state.index(claim.selected_node)
        selected &= np.arange(state.size) == (-1 if node is None else node)
    nowhere |= ~selected
    for claim, needed in (*((claim, selected) for claim in begun), *unmatched):
        kind = state.objects.storage_classes[claim.storage_class or ""]
        asked = needed & ~nowhere & ~full
        nowhere |= asked & ~_can_be_made(kind, state)
        full |= asked & ~nowhere & ~_has_room(claim, kind, state)
    return nowhere, full


def _can_be_made(kind: StorageClassView, state: State) -> Mask:
    """The nodes for which a class makes volumes."""
    if kind.provisioner in ("", NO_PROVISIONER):
        return np.full(state.size, False)
    answer = np.full(state.size, not kind.topologies)
    for place in filter(None, kind.topologies):
        columns = [state.labels.column(key).where_in(values) for key, values in place.items()]
        answer |= np.logical_and.reduce(columns)
    return answer


def _has_room(claim: PersistentVolumeClaimView, kind: StorageClassView, state: State) -> Mask:
    """The nodes where the driver has room for a volume so large; all, if it does not say how much it has."""
    driver = state.objects.csi_drivers.get(kind.provisioner)
    if driver is None or not driver.tracks_capacity or not claim.request:
        return np.full(state.size, True)
    answer = np.full(state.size, False)
    # Most drivers report room for each node, or each zone, by itself: those are looked up together.
    places = defaultdict[str, set[str]](set)
    for room in state.objects.csi_capacities.values():
        if room.storage_class != kind.name or room.limit is None or room.limit < claim.request:
            continue
        wanted = room.nodes.requirements
        if wanted and len(wanted) == 1 and wanted[0].op is Op.IN:
            places[wanted[0].key] |= wanted[0].values
        elif wanted is not None:
            answer |= np.logical_and.reduce([np.full(state.size, True), *map(state.labels.requirement, wanted)])
    for key, values in places.items():
        answer |= state.labels.column(key).where_in(values)
    return answer
