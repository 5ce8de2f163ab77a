"""Which nodes have devices for what claims ask, kept up to date: what is given away concerns few nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from kubenexus.scheduler.dra import Ask, NoDevices
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
            self._ask_nodes(state, known.union(self._failed()))

    def _failed(self) -> list[int]:
        """The nodes for which there was no answer: they may have been one too many."""
        fatal = [number for why, number in self.reasons.items() if why is not None and why.fatal]
        found: list[int] = np.flatnonzero(np.isin(self.which, fatal)).tolist() if fatal else []
        return found

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
