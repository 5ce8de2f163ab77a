"""The allocator: which devices the claims of a pod get on a node, as kube-scheduler 1.36 would choose them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from kubenexus.common.objects import DeviceClassView, ResourceClaimView
from kubenexus.scheduler.dra.ask import Ask, NoDevices, Place, ask_key, compile_ask
from kubenexus.scheduler.dra.in_use import InUse
from kubenexus.scheduler.dra.inventory import Inventory, Reachable
from kubenexus.scheduler.dra.result import Grant, Pick, ShareIds, grant
from kubenexus.scheduler.dra.search import TOO_LONG, UNFINISHED, Search
from kubenexus.scheduler.dra.suits import face, seen
from kubenexus.scheduler.dra.words import shortage

BUDGET: Final = 200_000
"""steps that one search takes at most; some tenths of a second"""
# Steps that the searches on all nodes for one pod take together, besides those of a search that goes straight on.
_PATIENCE: Final = 500_000
# What selectors may cost for one more pod, if they cost too much before.
_MORE: Final = 100_000

TOGETHER: Final = "each request could be satisfied alone, but not all together, or not within their constraints"
_MOST_ASKS: Final = 256
_MOST_OUTCOMES: Final = 4096
# Devices come and go; an ask that has seen so many kinds of them is compiled anew.
_MOST_FACES: Final = 65536

Found = tuple[tuple[Pick, ...], ...]
"""For each claim the devices it gets, in the order of its requests."""


class Allocator:
    """Finds devices. It changes nothing: who decides for a node holds what was found in `in_use`."""

    def __init__(
        self,
        inventory: Inventory,
        in_use: InUse,
        classes: Mapping[str, DeviceClassView],
        budget: int = BUDGET,
    ) -> None:
        self.inventory = inventory
        self.in_use = in_use
        self._classes = classes
        self._budget = budget
        self._asks: dict[Hashable, Ask] = {}

    def ask(self, claims: Sequence[ResourceClaimView]) -> Ask | NoDevices:
        """What claims ask for, to be used until a device class changes. The same object for claims that are alike."""
        key = ask_key(claims, self._classes)
        known = self._asks.get(key)
        if known is not None and len(known.faces) < _MOST_FACES:
            known.patience, known.pods = _PATIENCE, known.pods + 1
            known.purse.refill(_MORE)
            return known
        made = compile_ask(claims, self._classes)
        if isinstance(made, Ask):
            made.patience = _PATIENCE
            if len(self._asks) >= _MOST_ASKS:
                self._asks.clear()
            self._asks[key] = made
        return made

    def find(self, ask: Ask, node: str, labels: Mapping[str, str]) -> Found | NoDevices:
        """Devices on a node for all that is asked, or why not. It holds until slices or what is in use change."""
        reachable = self.inventory.reachable(node, labels)
        places = self._places(ask, reachable, self._budget)
        return places if isinstance(places, NoDevices) else self._picks(ask, reachable, places)

    def refusal(self, ask: Ask, node: str, labels: Mapping[str, str]) -> NoDevices | None:
        """Why `find` would find nothing; None if it would. Cheaper, and for many alike nodes much cheaper.

        On all nodes together it takes a bounded time: it is `UNFINISHED` where nothing is left of that.
        """
        reachable = self.inventory.reachable(node, labels)
        places = self._places(ask, reachable, min(self._budget, _straight(ask, reachable) + ask.patience))
        return places if isinstance(places, NoDevices) else None

    def explain(self, ask: Ask, node: str, labels: Mapping[str, str]) -> str:
        """What a node lacks for which nothing was found, in a sentence for people."""
        reachable = self.inventory.reachable(node, labels)
        return reachable.problem or shortage(ask, reachable, self.in_use) or TOGETHER

    def lack(self, ask: Ask, node: str, labels: Mapping[str, str]) -> str:
        """What a node would lack even if nothing were in use, in such a sentence; empty if nothing."""
        reachable = self.inventory.reachable(node, labels)
        if reachable.problem:
            return reachable.problem
        meant = tuple([seen(ask, device).meant for device in reachable.devices])
        if meant not in ask.lacks:
            if len(ask.lacks) >= _MOST_OUTCOMES:
                ask.lacks.clear()
            ask.lacks[meant] = shortage(ask, reachable, InUse())
        return ask.lacks[meant]

    def grants(
        self, claims: Sequence[ResourceClaimView], found: Found, node: str, share_ids: ShareIds
    ) -> tuple[Grant, ...]:
        """What was found for these claims, ready to be held in `in_use` and to be written."""
        pairs = zip(claims, found, strict=True)
        return tuple(grant(claim, picks, node, self._classes, share_ids) for claim, picks in pairs)

    def _places(self, ask: Ask, reachable: Reachable, budget: int) -> tuple[Place, ...] | NoDevices:
        if reachable.problem:
            return NoDevices(reachable.problem, fatal=True)
        if not reachable.alike:
            return self._search(ask, reachable, budget)
        look = self._look(ask, reachable)
        known = ask.outcomes.get(look)
        if known is None:
            known = self._search(ask, reachable, budget)
            if known is not UNFINISHED:
                if len(ask.outcomes) >= _MOST_OUTCOMES:
                    ask.outcomes.clear()
                ask.outcomes[look] = known
        return known

    def _look(self, ask: Ask, reachable: Reachable) -> tuple[int, ...]:
        """All that a search could tell of the node: nodes that look the same have the same outcome."""
        taken = self.in_use.taken
        faces = ((one, face(ask, one)) for one in reachable.devices)
        return tuple([~number if one.id in taken else number for one, number in faces])

    def _search(self, ask: Ask, reachable: Reachable, budget: int) -> tuple[Place, ...] | NoDevices:
        search = Search(ask, reachable, self.in_use, budget)
        found = search.run()
        ask.patience -= min(ask.patience, max(0, search.steps - _straight(ask, reachable)))
        return UNFINISHED if found is TOO_LONG and budget < self._budget else found

    def _picks(self, ask: Ask, reachable: Reachable, places: Sequence[Place]) -> Found:
        made: list[list[Pick]] = [[] for _ in ask.claims]
        for claim, option, number, portion in places:
            made[claim].append(Pick(option, reachable.devices[number], portion))
        return tuple(tuple(one) for one in made)


def _straight(ask: Ask, reachable: Reachable) -> int:
    """Steps of a search that never has to go back, within reason."""
    return min(300, 100 + len(ask.options) * len(reachable.devices))
