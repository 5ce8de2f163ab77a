"""Topology domains: nodes that share a label's value, and sums over them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int32]
Totals = npt.NDArray[np.float64]
"""One number per domain: floats, because that is how numpy adds up, but exact for whole numbers."""
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


class Domains:
    """`of[i]` is the domain of node i: the number of its value plus one, or 0 if it has none. There are `count`."""

    __slots__ = ("count", "of", "present")

    def __init__(self, codes: Numbers, values: int) -> None:
        self.of: Indices = codes.astype(np.intp) + 1
        self.count = values + 1
        self.present: Mask = self.of > 0

    def totals(self, counts: Numbers) -> Totals:
        """The sum of the counts in each domain; 0 for nodes without one."""
        totals: Totals = np.bincount(self.of, weights=counts, minlength=self.count)  # type: ignore[assignment]
        totals[0] = 0
        return totals

    def distinct(self, nodes: Indices | Mask) -> Indices:
        """The domains of these nodes, each once, with 0 if some have none."""
        found = np.zeros(self.count, dtype=np.bool_)
        found[self.of[nodes]] = True
        return np.flatnonzero(found)
