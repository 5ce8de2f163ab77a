"""Which version of a pod template a pod was made of. Pure."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import orjson

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: dict[str, Any]) -> str:
    """Ten letters that no word is made of, the same for the same template in every process."""
    number = int.from_bytes(hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).digest()[:8])
    return "".join(_LETTERS[number // len(_LETTERS) ** place % len(_LETTERS)] for place in range(10))
