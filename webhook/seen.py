"""The sizes that members of a gang lately gave it, so that one who says otherwise can be told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from kubenexus.common.gangs import GangKey

LATELY: Final = 300.0
"""seconds; a gang of that name may be another one later"""
MOST: Final = 10_000
"""gangs; past that all are forgotten, which costs a warning"""


class SeenSizes:
    """What this process has seen; another one may have seen other members. For any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sizes: dict[GangKey, tuple[int, float]] = {}

    def other(self, gang: GangKey, size: int) -> int | None:
        """Another size that a member gave the gang lately; None if there was none. This one is seen from now on."""
        now = self._clock()
        with self._lock:
            if len(self._sizes) >= MOST:
                self._sizes.clear()
            known, until = self._sizes.get(gang, (size, now))
            if until < now:
                known = size
            self._sizes[gang] = size, now + LATELY
        return known if known != size else None
