"""The affinity terms that placed pods carry, each distinct one once: nobody has to look for them among the pods.

A pod's terms hold for others too: nobody may go where it has a required anti-affinity to them, and its wishes count for
and against a place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kubenexus.common.objects import LabelSelector, PodTerm, PodView


class Carried(NamedTuple):
    """A term, and the namespace of the pods that carry it. `weight` is negative for anti-affinity, ±1 when required."""

    term: PodTerm
    home: str
    required: bool
    weight: int


class CarriedTerms:
    """Which terms there are. A term may stay for a while after its last pod has gone."""

    def __init__(self) -> None:
        self.epoch = 0
        """grows when `terms` is not just longer than before, or matches differently"""
        self.terms: list[Carried] = []
        self.keys: set[str] = set()
        """the label keys that any of them has looked at"""
        self._carriers = Counter[Carried]()

    def add(self, pod: PodView) -> None:
        """A kind of pods came."""
        for one in carried_by(pod):
            if not self._carriers[one]:
                self.terms.append(one)
                self.keys.update(selected_keys(one.term.selector))
            self._carriers[one] += 1

    def remove(self, pods: Iterable[PodView]) -> None:
        """These kinds of pods went."""
        for one in (one for pod in pods for one in carried_by(pod)):
            self._carriers[one] -= 1
            if not self._carriers[one]:
                del self._carriers[one]
        if len(self._carriers) < len(self.terms):
            self.terms = list(self._carriers)
            self.renew()

    def renew(self) -> None:
        """Whoever has read the terms must read them again."""
        self.epoch += 1


def carried_by(pod: PodView) -> Sequence[Carried]:
    """The terms of one pod. Like kube-scheduler, a list with a selector that cannot be read counts as empty."""
    affinity, home = pod.spec.affinity, pod.namespace
    found: list[Carried] = []
    for part, sign in ((affinity.pods, 1), (affinity.anti, -1)):
        if all(map(readable, part.required)):
            found += [Carried(term, home, required=True, weight=sign) for term in part.required]
        if all(readable(term) for _, term in part.preferred):
            found += [Carried(term, home, required=False, weight=sign * weight) for weight, term in part.preferred]
    return found


def selected_keys(selector: LabelSelector) -> Iterator[str]:
    """The label keys that a selector looks at."""
    return (requirement.key for requirement in selector.requirements or ())


def readable(term: PodTerm) -> bool:
    """Whether both selectors of a term make sense."""
    return not (term.selector.error or term.namespace_selector.error)
