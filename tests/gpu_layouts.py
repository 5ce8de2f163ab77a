"""Layouts of GPUs for tests, from the pairs that are linked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import TypeVar

from kubenexus.common.topology import Gpu, NodeTopology, link_row
from kubenexus.scheduler.devices.links import Layout, bits, layout_of

Pair = tuple[int, int]
_T = TypeVar("_T")


def linked(
    count: int,
    nvlinks: Mapping[Pair, int] | None,
    paths: Mapping[Pair, str] | None = None,
    numa: Iterable[int | None] | None = None,
) -> Layout:
    """`count` GPUs with these NVLinks (none of them known: None), pair classes (else unknown) and NUMA nodes."""
    paths, homes = paths or {}, list(numa or [None] * count)
    gpus = [
        Gpu(
            index=one,
            numa=homes[one],
            peer_links=None if nvlinks is None else link_row(_cell(nvlinks, one, other, 0) for other in range(count)),
            peer_classes="".join("X" if one == other else _cell(paths, one, other, "?") for other in range(count)),
        )
        for one in range(count)
    ]
    return layout_of(NodeTopology(gpus=tuple(gpus)))


def complete(*islands: Iterable[int], links: int = 4) -> dict[Pair, int]:
    """NVLinks between any two GPUs of an island."""
    return {pair: links for island in islands for pair in combinations(sorted(island), 2)}


def gpus(mask: int) -> list[int]:
    """A set in a form that a failed test shows well."""
    return list(bits(mask))


def _cell(cells: Mapping[Pair, _T], one: int, other: int, nothing: _T) -> _T:
    return cells.get((min(one, other), max(one, other)), nothing)
