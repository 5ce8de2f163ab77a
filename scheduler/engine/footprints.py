"""What pods add to the column of their node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from kubenexus.common.objects import Usage

Amounts = npt.NDArray[np.int64]

PODS, CPU, MEMORY = "pods", "cpu", "memory"
# CPU and memory in use as scorers see them: containers that ask for nothing count a little. No node has any to give.
SCORED_CPU, SCORED_MEMORY = "cpu as scored", "memory as scored"
_MOST: Final = 4096


class Footprints:
    """By usage, which pods of a template share."""

    def __init__(self, row: Callable[[str], int]) -> None:
        """`row` finds the row of a resource, and makes one if there is none."""
        self._row = row
        self._known: dict[int, tuple[Usage, Amounts]] = {}

    def clear(self) -> None:
        """There is a new row."""
        self._known.clear()

    def of(self, usage: Usage, rows: Callable[[], int]) -> Amounts:
        """What such a pod takes of each of the rows; `rows` counts them."""
        known = self._known.get(id(usage))
        if known is None:
            amounts = {**usage.requests, SCORED_CPU: usage.nonzero_cpu, SCORED_MEMORY: usage.nonzero_memory, PODS: 1}
            numbers = [self._row(resource) for resource in amounts]
            footprint = np.zeros(rows(), dtype=np.int64)
            footprint[numbers] = list(amounts.values())
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[id(usage)] = usage, footprint  # holding the usage, whose id nobody else gets
        return known[1]
