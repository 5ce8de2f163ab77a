"""How much memory a GPU has by the name of its model, for nodes where nobody tells.

The name says it (`A100-SXM4-40GB`) or the model comes in one size. Words are compared whole: a T400 is no T4, a GH200
no H200, and what stands behind a GH200 is the memory of its CPU.
"""

from __future__ import annotations

import re
from typing import Final

GIB: Final = 1 << 30

# In GiB, as sold. The first are those whose names have other sizes in them.
_WHATEVER_IT_SAYS: Final = {"GH200": 96, "GB200": 186, "GB300": 279}
_SIZES: Final = {
    "B300": 279,
    "B200": 180,
    "H200": 141,
    "H100": 80,
    "H800": 80,
    "H20": 96,
    "A100": 40,
    "A800": 80,
    "L40S": 48,
    "L40": 48,
    "L20": 48,
    "A40": 48,
    "A6000": 48,
    "L4": 24,
    "A30": 24,
    "A10": 24,
    "A10G": 24,
    "A16": 16,
    "A2": 16,
    "T4": 16,
    "T4G": 16,
    "V100": 16,
    "P100": 16,
    "MI355X": 288,
    "MI325X": 256,
    "MI300X": 192,
    "MI300A": 128,
    "MI300": 192,
    "MI250X": 128,
    "MI250": 128,
    "MI210": 64,
    "MI100": 32,
}


def model_memory(product: str) -> int | None:
    """Bytes of memory of a GPU with this name; None if the name does not tell. Of several sizes the smallest."""
    words = re.findall(r"[A-Z0-9]+", product.upper())
    fixed = next((_WHATEVER_IT_SAYS[word] for word in words if word in _WHATEVER_IT_SAYS), None)
    said = next((int(found[1]) for word in words if (found := re.fullmatch(r"([1-9][0-9]{0,2})GB", word))), None)
    size = fixed or said or next((_SIZES[word] for word in words if word in _SIZES), None)
    return None if size is None else size * GIB
