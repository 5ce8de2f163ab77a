"""Which nodes have devices for what claims ask, kept up to date: what is given away concerns few nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from kubenexus.scheduler.dra import UNFINISHED, Ask, NoDevices
from kubenexus.scheduler.engine.state import State

MOST: Final = 256
"""asks that are remembered"""
_FINE: Final = 0


class Survey:
    """What one ask finds on every node."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._mark: tuple[int, ...] = ()
        self._position = 0
        self._pods = ask.pods
        self.reasons: dict[NoDevices | None, int] = {None: _FINE}
        """why nodes are refused, with a number"""
        self.which: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        """for each node the number of its reason"""

    def update(self, state: State) -> None:
        """Ask those nodes again for which it may have changed."""
        mark = (state.nodes_version, state.size, state.objects.slices.version)
        changes = state.objects.claims.pools
        pools = changes.since(self._position) if mark == self._mark else None
        users = None if pools is None else [state.allocator.inventory.users(pool) for pool in pools]
        self._mark, self._position = mark, changes.position
        if users is None or None in users:
            self.reasons, self.which = {None: _FINE}, np.zeros(state.size, dtype=np.intp)
            self._ask_nodes(state, state.live())
        else:
            names = {name for some in users if some is not None for name in some}
            known = {node for name in names if (node := state.index(name)) is not None}
            self._ask_nodes(state, known)
            self._ask_again(state)

    def _ask_again(self, state: State) -> None:
        """Ask those nodes that were not looked at to the end, once for each pod and as far as it goes."""
        if self._pods == self._ask.pods:
            return
        self._pods = self._ask.pods
        for node in np.flatnonzero(self.which == self.reasons.get(UNFINISHED, -1)):
            if not self._ask.patience:
                return
            self._ask_nodes(state, (int(node),))

    def _ask_nodes(self, state: State, nodes: Iterable[int]) -> None:
        for node in nodes:
            found = state.allocator.refusal(self._ask, state.name(node), state.node(node).meta.labels)
            self.which[node] = self.reasons.setdefault(found, len(self.reasons))


class Surveys:
    """The surveys of the asks that were made lately."""

    def __init__(self) -> None:
        self._known: dict[Ask, Survey] = {}

    def of(self, ask: Ask, state: State) -> Survey:
        """What the ask finds now."""
        found = self._known.get(ask)
        if found is None:
            if len(self._known) >= MOST:
                self._known.clear()
            found = self._known[ask] = Survey(ask)
        found.update(state)
        return found
