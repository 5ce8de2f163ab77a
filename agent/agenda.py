"""What the agent does next, and whether it is well. Pure: time and chance are passed in, the loop only obeys.

poll ──the fingerprint changed──► scan ──► publish ──ok──► look at the Node again after a minute
 └─ every 10 s                     └─ every 5 min  └─failed──► again, 1 to 60 s later
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kubenexus.common.kube.mirror import Backoff

NEVER = float("inf")


class Do(Enum):
    """What there is to do; of two that are due at once, the first."""

    SCAN = "scan"
    PUBLISH = "publish"
    POLL = "poll"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. Repeated things vary by a tenth, so that the agents of a cluster do not move in step."""

    poll: float = 10.0
    scan: float = 300.0
    check: float = 60.0
    """between two looks at the Node: we have no right to watch it"""
    settle: float = 2.0
    """from a changed fingerprint to the scan: hardware comes in pieces"""
    repair: float = 5.0
    """from a change of our slices to the repair: a kubelet wipes them one by one, and a fight stays slow"""
    unready: float = 120.0
    stuck: float = 180.0
    """A single step is shorter: a probe ends after 25 s, a call to the API server after 10."""
    backoff: Backoff = field(default_factory=lambda: Backoff(first=1.0, most=60.0))


class Agenda:
    """Tell it what happened; `next` tells what is to be done, and when."""

    def __init__(self, timing: Timing, now: float) -> None:
        self._timing = timing
        self._due = {Do.SCAN: now, Do.PUBLISH: NEVER, Do.POLL: NEVER}
        self._fingerprint = ""
        self._failures = 0
        self._not_before = now
        self._problem = "the machine is being scanned"
        self._succeeded: float | None = None
        self._moved = now

    def next(self, now: float) -> tuple[float, Do]:
        """Seconds to wait, and what to do then unless something happens before."""
        self._moved = now
        todo = min(Do, key=lambda do: self._due[do])
        return max(self._due[todo] - now, 0.0), todo

    def polled(self, fingerprint: str, now: float) -> None:
        self._due[Do.POLL] = now + self._timing.poll
        if fingerprint != self._fingerprint:
            self._fingerprint = fingerprint
            self._due[Do.SCAN] = min(self._due[Do.SCAN], now + self._timing.settle)

    def scanned(self, fingerprint: str, now: float, chance: float) -> None:
        """A scan is done; the fingerprint was taken before it, so that a change in between is not missed."""
        self._fingerprint = fingerprint
        self._due[Do.SCAN] = now + self._timing.scan * _spread(chance)
        self._due[Do.POLL] = now + self._timing.poll
        self._publish_by(now)

    def disturbed(self, now: float) -> None:
        """What we published was changed, or there is something new to publish."""
        if self._due[Do.PUBLISH] < NEVER:
            self._publish_by(now + self._timing.repair)

    def rescan(self, now: float) -> None:
        self._due[Do.SCAN] = now

    def published(self, now: float, chance: float) -> None:
        self._failures, self._problem, self._succeeded = 0, "", now
        self._not_before = now
        self._due[Do.PUBLISH] = now + self._timing.check * _spread(chance)

    def failed(self, problem: str, now: float, chance: float, retry_after: float = 0.0) -> bool:
        """Publishing failed; True when the problem is another one than the last time, hence worth a line."""
        news = problem != self._problem
        self._failures, self._problem = self._failures + 1, problem
        self._not_before = now + max(self._timing.backoff.delay(self._failures, chance), retry_after)
        self._due[Do.PUBLISH] = self._not_before
        return news

    def ready(self, now: float) -> str | None:
        """For /readyz: None while what is published is known to be right."""
        if self._succeeded is None:
            return f"nothing is published yet: {self._problem}"
        silence = now - self._succeeded
        return f"not published for {silence:.0f} s: {self._problem}" if silence > self._timing.unready else None

    def alive(self, now: float) -> str | None:
        """For /healthz: None while the loop moves, whatever the API server does."""
        still = now - self._moved
        limit = max(self._timing.stuck, 3 * self._timing.poll)
        return f"the loop has not moved for {still:.0f} s" if still > limit else None

    def _publish_by(self, moment: float) -> None:
        """At this moment or before, but not before the server was left in peace for as long as it needs."""
        self._due[Do.PUBLISH] = max(min(self._due[Do.PUBLISH], moment), self._not_before)


def _spread(chance: float) -> float:
    return 0.9 + 0.2 * chance
