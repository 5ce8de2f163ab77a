"""All functions and operators: what they take, what they give, and what they do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubenexus.common.cel import library_core, library_kubernetes, library_lists, library_operators, library_text
from kubenexus.common.cel.overloads import Overload


def _merged(tables: Iterable[Iterable[Overload]]) -> dict[str, tuple[Overload, ...]]:
    found: dict[str, tuple[Overload, ...]] = {}
    for table in tables:
        for overload in table:
            found[overload.function] = (*found.get(overload.function, ()), overload)
    return found


FUNCTIONS: Final = _merged(
    module.OVERLOADS for module in (library_operators, library_core, library_text, library_lists, library_kubernetes)
)
