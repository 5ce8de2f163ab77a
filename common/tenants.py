"""Whom a namespace belongs to, and how far its pods may go. One reading, for webhook and scheduler alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubenexus.common import vocabulary as v
from kubenexus.common.vocabulary import Tier

RANK: Final = {tier: rank for rank, tier in enumerate(reversed(Tier))}
"""The higher, the more."""
LOWEST: Final = min(RANK, key=RANK.__getitem__)


def parse_tier(key: str, text: str) -> Tier:
    """A tier, in any case of letters."""
    return v.parse_choice(Tier, key, text.lower())


def claimed_tier(values: Mapping[str, str]) -> Tier | None:
    """The tier that labels or annotations name; None for none, and for one that does not exist."""
    try:
        return parse_tier(v.TENANT_TIER, values[v.TENANT_TIER]) if v.TENANT_TIER in values else None
    except v.VocabularyError:
        return None


def granted_tier(labels: Mapping[str, str]) -> Tier:
    """The highest tier for pods of a namespace with these labels. One that is missing or misspelt grants nothing."""
    return claimed_tier(labels) or LOWEST


def tenant_of(namespace: str, labels: Mapping[str, str]) -> str:
    return labels.get(v.TENANT_NAME) or namespace
