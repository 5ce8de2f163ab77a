"""Which existing volume a claim gets on each node: the smallest that is large enough, all nodes at once.

Volumes have ranks: their place in a list that begins with the smallest. Nearly all can be used on the nodes with one
value of one label (a host's name, a zone); for those, the best rank is found by value, not by node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kubenexus.common.objects import Op, PersistentVolumeClaimView, PersistentVolumeView, Requirement
from kubenexus.scheduler.engine.labels import ABSENT, Column
from kubenexus.scheduler.engine.state import State

Ranks = npt.NDArray[np.int64]
NONE = np.iinfo(np.int64).max


def by_rank(
    volumes: Iterable[PersistentVolumeView], claims: Sequence[PersistentVolumeClaimView]
) -> Sequence[PersistentVolumeView]:
    """The volumes that some of the claims may have."""
    classes = {claim.storage_class for claim in claims}
    free = (one for one in volumes if one.storage_class in classes)
    usable = (one for one in free if one.claim is None or any(_is_meant_for(one, claim) for claim in claims))
    return sorted(usable, key=lambda one: (one.capacity, one.name))


def candidates(claim: PersistentVolumeClaimView, volumes: Sequence[PersistentVolumeView]) -> list[int]:
    """The ranks of those that a claim may have, wherever they can be used; one that is meant for it is the only one."""
    fitting = [rank for rank, volume in enumerate(volumes) if _fits(volume, claim)]
    meant = [rank for rank in fitting if _is_meant_for(volumes[rank], claim)]
    return meant[:1] or [rank for rank in fitting if _is_available(volumes[rank], claim)]


def _is_meant_for(volume: PersistentVolumeView, claim: PersistentVolumeClaimView) -> bool:
    """Whether the volume names the claim as its owner; it may leave out the uid."""
    owner = volume.claim
    if owner is None or (owner.namespace, owner.name) != (claim.meta.namespace, claim.meta.name):
        return False
    return owner.uid in ("", claim.meta.uid)


def _fits(volume: PersistentVolumeView, claim: PersistentVolumeClaimView) -> bool:
    return (
        volume.capacity >= claim.request
        and volume.storage_class == claim.storage_class
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and volume.meta.deleted is None
    )


def _is_available(volume: PersistentVolumeView, claim: PersistentVolumeClaimView) -> bool:
    selected = claim.selector.nil or claim.selector.matches(volume.meta.labels)
    return (
        volume.claim is None and volume.phase == "Available" and selected and claim.access_modes <= volume.access_modes
    )


def choose(
    ranks: Sequence[int], volumes: Sequence[PersistentVolumeView], taken: Sequence[Ranks], state: State
) -> Ranks:
    """The best rank for every node, or NONE; `taken` are those that other claims of the pod would get there."""
    best = np.full(state.size, NONE)
    # Each of the others takes one volume at most, so the best that is left is among this many.
    for offer in _offers(ranks, volumes, len(taken) + 1, state):
        for other in taken:
            offer[offer == other] = NONE
        np.minimum(best, offer, out=best)
    return best


def _offers(ranks: Sequence[int], volumes: Sequence[PersistentVolumeView], depth: int, state: State) -> Iterator[Ranks]:
    """Ranks that nodes can have; the `depth` best of every node come up."""
    everywhere: list[int] = []
    by_label = defaultdict[str, dict[str, list[int]]](dict)
    for rank in ranks:
        selector = volumes[rank].node_affinity
        place = _single_place(volumes[rank])
        if selector is None:
            everywhere.append(rank)
        elif place is None:
            yield np.where(state.labels.any_term(selector.terms), rank, NONE)
        else:
            for value in place.values:
                by_label[place.key].setdefault(value, []).append(rank)
    for rank in everywhere[:depth]:
        yield np.full(state.size, rank)
    for key, found in by_label.items():
        column = state.labels.column(key)
        for level in range(depth):
            yield _nth(found, level, column)


def _single_place(volume: PersistentVolumeView) -> Requirement | None:
    """The one condition on a label that says where a volume can be used, if there is just this."""
    match volume.node_affinity and volume.node_affinity.terms:
        case (term,) if not term.error and not term.fields and len(term.labels) == 1 and term.labels[0].op is Op.IN:
            return term.labels[0]
    return None


def _nth(found: dict[str, list[int]], level: int, column: Column[str]) -> Ranks:
    """What comes at a level of the list for each node's value; NONE where the list is shorter."""
    table = np.full(len(column.values) + 1, NONE)
    for value, ranks in found.items():
        code = column.code(value)
        if code != ABSENT and level < len(ranks):
            table[code] = ranks[level]
    return table[column.codes]
