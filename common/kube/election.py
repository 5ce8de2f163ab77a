"""Who leads: the rules of Lease election, pure.

A candidate looks at the Lease and writes itself in when it is free: nobody holds it, or its holder has not changed it
for the Lease's own duration *on our clock*. The times written in it come from other machines and are never compared.
The holder renews it every `retry` seconds and stops leading `renew` seconds after the last renewal that surely
succeeded, well before anybody else may take over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: how long a Lease lasts, how long its holder goes on without renewal, how often it is tried."""

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0
    jitter: float = 1.2

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry * self.jitter > 0:
            raise ValueError(f"a leader needs lease > renew > retry · {self.jitter}, not {self}")

    def pause(self, leading: bool, chance: float) -> float:
        """Until the next look. Candidates spread theirs by chance, so that they do not all write at once."""
        return self.retry if leading else self.retry * (1 + self.jitter * chance)


class Election:
    """One candidate's view. `look` says what to write, `won` and `lost` report what became of it."""

    def __init__(self, identity: str, timing: Timing) -> None:
        self.identity = identity
        self._timing = timing
        self._seen: Obj | None = None  # The spec last seen, and when it was first seen so.
        self._seen_at = 0.0
        self._renewed_at: float | None = None

    def leading(self, now: float) -> bool:
        """May we act as leader at this moment? True only within `renew` seconds of a renewal that succeeded."""
        return self.left(now) > 0

    def left(self, now: float) -> float:
        """For how many seconds we lead if no renewal succeeds any more; not positive: we do not lead."""
        return 0.0 if self._renewed_at is None else self._renewed_at + self._timing.renew - now

    def look(self, lease: Obj | None, now: float, wall: str) -> Obj | None:
        """The spec to write over this Lease (None: there is none yet), or None when somebody else leads."""
        spec: Obj = (lease or {}).get("spec") or {}
        if spec != self._seen:
            self._seen, self._seen_at = spec, now
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self.identity) and now < self._seen_at + self._duration(spec):
            return None
        mine = holder == self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self._timing.lease),
            "acquireTime": spec.get("acquireTime", wall) if mine else wall,
            "renewTime": wall,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if mine or not spec else 1),
        }

    def won(self, asked_at: float) -> None:
        """The write succeeded; `asked_at` is when it was sent, for the server counts from then at the earliest."""
        self._renewed_at = asked_at

    def lost(self) -> None:
        """Somebody else is known to hold the Lease, or we have given it up."""
        self._renewed_at = None

    def released(self, lease: Obj, wall: str) -> Obj | None:
        """The spec that hands the Lease over at once, or None when it is not ours to give."""
        spec: Obj = lease.get("spec") or {}
        if spec.get("holderIdentity") != self.identity:
            return None
        return {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": wall}

    def _duration(self, spec: Obj) -> float:
        return float(spec.get("leaseDurationSeconds") or self._timing.lease)
