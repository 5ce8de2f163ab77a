"""How well a pod fills a node, by resource: the scoring strategies of NodeResourcesFit and their arguments.

The formulas use operators only, so that they hold for the numbers of one node and for arrays of many nodes alike. A
resource that a node has none of does not count there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np

from kubenexus.scheduler.engine.plugin import MAX_SCORE

MAX_POINT = 10
Number = Any
"""A number of one node, or an array with one for each of many."""
Part = tuple[Number, Number, int]
"""Of one resource: what would be in use, what there is, and how much it counts."""
Strategy = Callable[[Sequence[Part]], Number]


class StrategyType(Enum):
    LEAST = "LeastAllocated"
    MOST = "MostAllocated"
    RATIO = "RequestedToCapacityRatio"


@dataclass(frozen=True, slots=True)
class ResourceWeight:
    """How much a resource counts; no weight, or 0, is 1."""

    name: str
    weight: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 100:
            raise ValueError(f"the weight of {self.name} is {self.weight}, which is not from 1 to 100")


CPU_AND_MEMORY = (ResourceWeight("cpu"), ResourceWeight("memory"))


@dataclass(frozen=True, slots=True)
class Point:
    """A utilisation in percent, and the score it gives, from 0 to 10."""

    utilization: int = 0
    score: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.utilization <= 100:
            raise ValueError(f"utilization is {self.utilization}, which is not from 0 to 100")
        if not 0 <= self.score <= MAX_POINT:
            raise ValueError(f"score is {self.score}, which is not from 0 to {MAX_POINT}")


@dataclass(frozen=True, slots=True)
class Ratio:
    """The score of each utilisation, by points with straight lines between them."""

    shape: tuple[Point, ...] = ()

    def __post_init__(self) -> None:
        steps = [point.utilization for point in self.shape]
        if not steps:
            raise ValueError("shape is empty: it needs at least one point")
        if any(before >= after for before, after in pairwise(steps)):
            raise ValueError(f"shape has utilizations {steps}, which do not rise from point to point")


@dataclass(frozen=True, slots=True)
class ScoringStrategy:
    """Which strategy, and over which resources; none listed means CPU and memory."""

    type: StrategyType = StrategyType.LEAST
    resources: tuple[ResourceWeight, ...] = ()
    requested_to_capacity_ratio: Ratio | None = None

    def __post_init__(self) -> None:
        if self.type is StrategyType.RATIO and self.requested_to_capacity_ratio is None:
            raise ValueError(f"requestedToCapacityRatio is missing, which {self.type.value} needs")

    def strategy(self) -> Strategy:
        if self.requested_to_capacity_ratio is not None and self.type is StrategyType.RATIO:
            return requested_to_capacity(self.requested_to_capacity_ratio.shape)
        return least_allocated if self.type is StrategyType.LEAST else most_allocated


def least_allocated(parts: Sequence[Part]) -> Number:
    """100 for a node that would stay empty, 0 for one that would be full."""
    return _average([(_percent(_left(wanted, alloc), alloc), alloc > 0, weight) for wanted, alloc, weight in parts])


def most_allocated(parts: Sequence[Part]) -> Number:
    """100 for a node that would be full, 0 for one that would stay empty."""
    return _average([(_use(wanted, alloc), alloc > 0, weight) for wanted, alloc, weight in parts])


def requested_to_capacity(shape: Sequence[Point]) -> Strategy:
    """A strategy by utilisation in whole percents; resources that score 0 do not count, and the average is rounded."""
    points = [(point.utilization, point.score * MAX_SCORE // MAX_POINT) for point in shape]
    table = np.array([broken_linear(points, percent) for percent in range(101)], dtype=np.int64)

    def score(parts: Sequence[Part]) -> Number:
        scores = [(table[_use(wanted, alloc)] * (alloc > 0), weight) for wanted, alloc, weight in parts]
        return _average([(score, score > 0, weight) for score, weight in scores], rounded=True)

    return score


def _left(wanted: Number, alloc: Number) -> Number:
    return (alloc > wanted) * (alloc - wanted)


def _use(wanted: Number, alloc: Number) -> Number:
    """The percentage that would be in use: 100 for all that there is, and for more."""
    return _percent(alloc - _left(wanted, alloc), alloc)


def _percent(part: Number, alloc: Number) -> Number:
    return part * 100 // (alloc + (alloc == 0))


def broken_linear(points: Sequence[tuple[int, int]], x: int) -> int:
    """The height at `x` of lines through the points, level beyond both ends, rounded towards the left one."""
    for (x1, y1), (x2, y2) in pairwise(points):
        if x1 < x <= x2:
            rise = abs(y2 - y1) * (x - x1) // (x2 - x1)
            return y1 + rise if y2 > y1 else y1 - rise
    return points[0][1] if x <= points[0][0] else points[-1][1]


def _average(parts: Sequence[tuple[Number, Number, int]], *, rounded: bool = False) -> Number:
    """The average of scores by weight, of those that count; the others must be 0."""
    total: Number = 0
    weights: Number = 0
    for score, counts, weight in parts:
        total = total + weight * score
        weights = weights + weight * counts
    weights = weights + (weights == 0)
    return (2 * total + weights) // (2 * weights) if rounded else total // weights
