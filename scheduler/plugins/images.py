"""ImageLocality: prefers nodes that have the pod's images, the larger the better, unless few nodes have them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.plugin import MAX_SCORE, ClusterPlugin, Scores
from kubenexus.scheduler.engine.state import State

_MIB = 1024 * 1024
LEAST = 23 * _MIB
MOST_PER_CONTAINER = 1000 * _MIB


@dataclass(slots=True, eq=False)
class Images:
    """A pod's images, and the scores they gave when the state's nodes were as `seen`."""

    names: tuple[str, ...]
    containers: int
    seen: tuple[int, int] = (-1, -1)
    scores: Scores | None = None


class ImageLocality(ClusterPlugin[Images]):
    """How widely an image is spread counts too, so a node's score depends on the others."""

    name = "ImageLocality"

    def compile(self, pod: PodView, _state: State) -> Images | None:
        needs = pod.spec.needs
        return Images(needs.images, len(needs.containers)) if needs.images else None

    def may_miss(self, _term: Images) -> bool:
        return False

    def score(self, term: Images, state: State, _feasible: Mask) -> Scores | None:
        now = (state.nodes_version, state.size)
        if term.seen != now:
            term.seen, term.scores = now, _scores(term, state)
        return term.scores


def _scores(term: Images, state: State) -> Scores | None:
    """The scores of all nodes; None where no node has any of the images and so all are alike."""
    found = [places for name in term.names if (places := state.images.nodes(name))]
    if not found:
        return None
    live = int(np.count_nonzero(state.alive))
    total = np.zeros(state.size, dtype=np.int64)
    for places in found:
        nodes = np.fromiter(places, dtype=np.intp, count=len(places))
        sizes = np.fromiter(places.values(), dtype=np.float64, count=len(places))
        total[nodes] += (sizes * (len(places) / live)).astype(np.int64)
    most = MOST_PER_CONTAINER * term.containers
    return MAX_SCORE * (np.clip(total, LEAST, most) - LEAST) // (most - LEAST)
