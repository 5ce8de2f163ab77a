"""Patches as the API server applies them: pure functions that never change their arguments."""

from __future__ import annotations

from kubenexus.common.sandbox.patch.apply import apply_patch
from kubenexus.common.sandbox.patch.documents import json_patch, merge_patch
from kubenexus.common.sandbox.patch.errors import ApplyConflict, Conflict, PatchError
from kubenexus.common.sandbox.patch.managers import track_update
from kubenexus.common.sandbox.patch.strategic import strategic_patch

__all__ = [
    "ApplyConflict",
    "Conflict",
    "PatchError",
    "apply_patch",
    "json_patch",
    "merge_patch",
    "strategic_patch",
    "track_update",
]
