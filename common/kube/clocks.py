"""The clocks that edges use when nobody passes another one in, and the API's way to write a time."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def boot_clock() -> float:
    """Steady seconds that go on while the machine sleeps: a leader that was suspended must not think it still leads."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_clock() -> datetime:
    return datetime.now(UTC)


def micro_time(moment: datetime) -> str:
    """A time as the API's MicroTime fields want it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
