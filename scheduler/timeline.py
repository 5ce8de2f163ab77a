"""A simulation in virtual time: pods arrive, run and end, and room that is freed goes to those who wait."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from kubenexus.common.objects import PodView
from kubenexus.common.vocabulary import GPU_RESOURCES, SIMULATED_RUN_TIME
from kubenexus.scheduler.engine.shape import shape_key
from kubenexus.scheduler.simulation import Entry, Simulation, in_queue_order, result

Obj = dict[str, Any]


def run_timeline(simulation: Simulation) -> Obj:
    """Plays the world to its end. Times are seconds since the first arrival; a pod without a run time never ends.

    A pod that is driven out waits again, and runs from its beginning once it has another place.
    """
    clock = _Clock(simulation)
    clock.play()
    entries = list(clock.entries.values())
    return result(entries, timeline=True, summary=_summary(entries, clock, simulation))


@dataclass(slots=True)
class _Stay:
    """A pod on its node from `start`; `end` is infinite if it never leaves by itself."""

    pod: PodView
    start: float
    end: float


class _Clock:
    """Who arrives when, who waits, who runs until when."""

    def __init__(self, simulation: Simulation) -> None:
        pods = [_checked(pod) for pod in simulation.pending]
        self.zero = min((pod.created for pod in pods if pod.created != -inf), default=0.0)
        self.entries: dict[str, Entry] = {pod.uid: Entry(pod) for pod in pods}
        """what has become of each pod so far, in the order they were listed"""
        self.stays: list[_Stay] = []
        """all that have been on a node"""
        self._simulation = simulation
        self._arrivals = deque(sorted(pods, key=self.arrival))
        self._waiting: dict[str, PodView] = {}
        self._running: dict[str, _Stay] = {}
        self._endings: list[tuple[float, int, _Stay]] = []
        residents = [pod for pod, _ in simulation.world.state.pods()]
        # With one priority nobody drives anybody out.
        self._peaceful = len({pod.spec.priority for pod in (*pods, *residents)}) < 2
        for pod in residents:
            began = pod.created if pod.started is None else pod.started
            self._stay(pod, 0.0, (0.0 if began == -inf else began - self.zero) + _run_time(pod))

    def arrival(self, pod: PodView) -> float:
        """When the pod comes; one of an unknown time is there from the first."""
        return round(max(self.zero, pod.created) - self.zero, 6)

    def play(self) -> None:
        while self._arrivals or self._endings:
            now = self._next_moment()
            freed = self._end_until(now)
            fresh = self._arrive_until(now)
            # Those who waited before are helped by room that is freed, and some by pods that are placed.
            again = list(self._waiting.values()) if freed else []
            self._waiting |= {pod.uid: pod for pod in fresh}
            for pod in fresh:
                self._simulation.arrive(pod)
            self._schedule(now, [*again, *fresh], quick=freed)
            if not self._arrivals and not self._endings:
                self._schedule(now, self._waiting.values(), quick=False)  # for reasons that hold at the end

    def _next_moment(self) -> float:
        coming = self.arrival(self._arrivals[0]) if self._arrivals else inf
        return min(coming, self._endings[0][0] if self._endings else inf)

    def _end_until(self, now: float) -> bool:
        freed = False
        while self._endings and self._endings[0][0] <= now:
            _, _, stay = heapq.heappop(self._endings)
            if self._running.get(stay.pod.uid) is stay:  # and was not driven out meanwhile
                self._leave(stay.pod.uid)
                freed = True
        return freed

    def _arrive_until(self, now: float) -> list[PodView]:
        fresh = []
        while self._arrivals and self.arrival(self._arrivals[0]) <= now:
            fresh.append(self._arrivals.popleft())
        return fresh

    def _schedule(self, now: float, pods: Iterable[PodView], *, quick: bool) -> None:
        """Try pods in the order of the queue; then, as long as that places some, those who gain or lose by it."""
        pods = list(pods)
        while pods:
            tried = self._round(now, in_queue_order(pods), quick=quick)
            displaced = {victim.uid for entry in tried for victim in entry.victims}
            helped = any(entry.node is not None for entry in tried)
            waiting = self._waiting.items() if helped else ()
            pods = [pod for uid, pod in waiting if uid in displaced or self.entries[uid].lonely]

    def _round(self, now: float, pods: Sequence[PodView], *, quick: bool) -> list[Entry]:
        refused: dict[Any, Entry] = {}
        tried: list[Entry] = []
        done: set[str] = set()
        for pod in pods:
            if pod.uid in done:  # with its gang
                continue
            key, last = (shape_key(pod), bool(pod.problems)), self.entries[pod.uid]
            if key in refused:
                # While the nodes only fill, what did not fit does not fit again.
                self.entries[pod.uid] = replace(refused[key], pod=pod)
            elif quick and self._peaceful and last.reason and self._simulation.hopeless(pod):
                refused[key] = last
            else:
                found = [self._note(entry, now) for entry in self._simulation.attempt(pod)]
                tried += found
                done |= {entry.pod.uid for entry in found}
                if any(entry.victims for entry in found):
                    refused.clear()
                if len(found) == 1 and found[0].node is None and found[0].gang is None:
                    refused[key] = found[0]
        return tried

    def _note(self, entry: Entry, now: float) -> Entry:
        """What has become of a pod."""
        pod = entry.pod
        for victim in entry.victims:
            self._drive_out(victim, now)
        self.entries[pod.uid] = entry
        if entry.node is not None:
            del self._waiting[pod.uid]
            end = round(now + _run_time(pod), 6)
            entry.start, entry.end = now, None if end == inf else end
            self._stay(pod, now, end)
        return entry

    def _drive_out(self, victim: PodView, now: float) -> None:
        self._running[victim.uid].end = now
        self._leave(victim.uid)
        self._waiting[victim.uid] = waits = victim._replace(node="")
        self._simulation.arrive(waits)
        self.entries[victim.uid] = Entry(waits)

    def _stay(self, pod: PodView, start: float, end: float) -> None:
        stay = self._running[pod.uid] = _Stay(pod, start, end)
        self.stays.append(stay)
        if end < inf:
            heapq.heappush(self._endings, (end, len(self.stays), stay))

    def _leave(self, uid: str) -> None:
        del self._running[uid]
        self._simulation.leave(uid)


def _checked(pod: PodView) -> PodView:
    """The pod, with a problem if it does not say properly how long it runs."""
    if _run_time(pod) >= 0:
        return pod
    text = pod.annotations[SIMULATED_RUN_TIME]
    problem = f"metadata.annotations.{SIMULATED_RUN_TIME} is {text!r}, which is no number of seconds"
    return pod._replace(problems=(*pod.problems, problem))


def _run_time(pod: PodView) -> float:
    """How many seconds the pod says it runs; infinite if it does not say, negative if that is no number."""
    text = pod.annotations.get(SIMULATED_RUN_TIME)
    if text is None:
        return inf
    try:
        seconds = float(text)
    except ValueError:
        return -1.0
    return seconds if 0 <= seconds < inf else -1.0


def _summary(entries: Sequence[Entry], clock: _Clock, simulation: Simulation) -> Obj:
    waits = [one.start - clock.arrival(one.pod) for one in entries if one.start is not None]
    completions = [one.end - clock.arrival(one.pod) for one in entries if one.end is not None]
    moments = [moment for one in entries for moment in (one.start, one.end) if moment is not None]
    makespan = max(moments, default=0.0)
    return {
        **_statistics("wait", waits),
        **_statistics("completion", completions),
        "makespan": makespan,
        "gpu_utilisation": _utilisation(clock.stays, makespan, simulation),
    }


def _statistics(name: str, values: Sequence[float]) -> Obj:
    if not values:
        return {f"{name}_mean": None, f"{name}_p50": None, f"{name}_p99": None}
    ranked = sorted(values)
    mean = sum(ranked) / len(ranked)
    return {f"{name}_mean": mean, f"{name}_p50": _quantile(ranked, 50), f"{name}_p99": _quantile(ranked, 99)}


def _quantile(ranked: Sequence[float], percent: int) -> float:
    """The smallest value that this many percent do not exceed."""
    return ranked[max(0, -(-len(ranked) * percent // 100) - 1)]


def _utilisation(stays: Iterable[_Stay], makespan: float, simulation: Simulation) -> float | None:
    """The share of all GPUs that were held, from the first arrival to the last start or end."""
    state = simulation.world.state
    total = sum(state.node(node).allocatable.get(name, 0) for node in state.live() for name in GPU_RESOURCES)
    if not total or not makespan:
        return None
    busy = sum((max(0.0, min(one.end, makespan) - one.start)) * _gpus(one.pod) for one in stays)
    return busy / (total * makespan)


def _gpus(pod: PodView) -> int:
    return sum(pod.usage.requests.get(name, 0) for name in GPU_RESOURCES)
