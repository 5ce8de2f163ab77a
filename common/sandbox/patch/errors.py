"""Why a patch was not applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter


class PatchError(Exception):
    """The patch cannot be applied to this object. `code` is the HTTP status that the API server answers with."""

    def __init__(self, message: str, code: int = 422) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field that the applied configuration would take from another manager, which is named as in the API's causes."""

    manager: str
    field: str


class ApplyConflict(Exception):  # noqa: N818 (the name the API uses)
    """A server-side apply would change fields of other managers; `force` takes them over."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        self.conflicts = sorted(conflicts, key=attrgetter("manager"))
        self.message = _sentence(self.conflicts)
        super().__init__(self.message)

    @property
    def causes(self) -> list[dict[str, str]]:
        """The `details.causes` of the Status."""
        return [
            {"reason": "FieldManagerConflict", "message": f"conflict with {conflict.manager}", "field": conflict.field}
            for conflict in self.conflicts
        ]


def _sentence(conflicts: Sequence[Conflict]) -> str:
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: conflict with {conflicts[0].manager}: {conflicts[0].field}"
    lines = []
    for manager, group in groupby(conflicts, attrgetter("manager")):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {conflict.field}" for conflict in group]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
