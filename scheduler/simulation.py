"""Placing manifests on manifests, offline, with the scheduler's own engine: objects in, a result out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.objects import PodView
from kubenexus.common.sandbox.validation import apply_defaults
from kubenexus.scheduler.admit import Admission
from kubenexus.scheduler.engine.cycle import Cycle, Park, Place, Preempt
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.plugin import ClusterPlugin
from kubenexus.scheduler.expand import expand_all
from kubenexus.scheduler.explanation import explain_nodes
from kubenexus.scheduler.profiles import build_cycles
from kubenexus.scheduler.world import World

Obj = dict[str, Any]


@dataclass(slots=True)
class Entry:
    """What became of one pod."""

    pod: PodView
    node: str | None = None
    reason: str | None = None
    nodes: Obj | None = None
    start: float | None = None
    end: float | None = None
    victims: tuple[PodView, ...] = ()
    """the pods that it drove out"""
    lonely: bool = False
    """it may fit once others have been placed: whom it wants near, or among whom it shall be spread"""

    def document(self, *, timeline: bool) -> Obj:
        """The entry in the form that the command prints."""
        placed: Obj = {
            "pod": self.pod.key,
            "gang": None,
            "node": self.node,
            "numa": [],
            "gpus": [],
            "reason": self.reason,
        }
        if self.nodes is not None:
            placed["nodes"] = self.nodes
        return {**placed, "start": self.start, "end": self.end} if timeline else placed


@dataclass(slots=True)
class Simulation:
    """A world and the cycles that schedule it, one for each profile; pods of no profile go by the first."""

    objects: Iterable[Obj]
    config: SchedulerConfiguration = field(default_factory=SchedulerConfiguration)
    explain: bool = False
    world: World = field(default_factory=World, init=False)
    pending: list[PodView] = field(default_factory=list, init=False)
    """the pods that want a node, in the order they were listed"""
    _nominations: Nominations = field(default_factory=Nominations, init=False)
    _cycles: dict[str, Cycle] = field(default_factory=dict, init=False)
    _notes: dict[str, str] = field(default_factory=dict, init=False)
    """by uid, whom a pod drove out and who drove it out"""

    def __post_init__(self) -> None:
        objects = expand_all(self.objects)
        for obj in objects:
            if obj.get("kind") != "Pod":
                self.world.add(apply_defaults(str(obj.get("kind")), obj))
        admission = Admission(obj for obj in objects if obj.get("kind") == "PriorityClass")
        for obj in objects:
            if obj.get("kind") == "Pod":
                self._take(admission.admit(obj))
        self._cycles = build_cycles(self.config, self.world.state, self._nominations)

    @property
    def warnings(self) -> Iterator[str]:
        """What could not be read of the nodes and was taken as absent."""
        state = self.world.state
        for node in map(state.node, state.live()):
            yield from (f"node {node.name}: {problem}; it is taken as absent" for problem in node.problems)

    def attempt(self, pod: PodView) -> Entry:
        """Try to place a pod now. Pods that have to make room for it leave at once."""
        entry = self._attempt(pod)
        if victims := entry.victims:
            for victim in victims:
                self.world.state.remove(victim.uid)
            entry = self._attempt(pod)
            entry.victims = victims
            self._note(pod, f"took the place of {', '.join(victim.key for victim in victims)}")
            for victim in victims:
                self._note(victim, f"preempted by {pod.key} on {entry.node}")
        if note := self._notes.get(pod.uid):
            entry.reason = f"{note}; {entry.reason}" if entry.reason else note
        return entry

    def _note(self, pod: PodView, what: str) -> None:
        """Say from now on what happened to a pod."""
        self._notes[pod.uid] = f"{self._notes[pod.uid]}; {what}" if pod.uid in self._notes else what

    def hopeless(self, pod: PodView) -> bool:
        """Whether certainly no node takes the pod now; quicker than an attempt, and says nothing of preemption."""
        return not self._cycle(pod).board(pod).feasible().any()

    def run(self) -> Obj:
        """Every pending pod, in the order of the files; then again those whom others helped, or drove out."""
        latest: dict[str, Entry] = {}
        pods = list(self.pending)
        while pods:
            room = placed = False
            for entry in map(self.attempt, pods):
                latest |= {entry.pod.uid: entry, **{victim.uid: Entry(victim) for victim in entry.victims}}
                room, placed = room or bool(entry.victims), placed or entry.node is not None
            left = (entry for entry in latest.values() if entry.node is None)
            pods = [entry.pod for entry in left if placed and (room or entry.lonely)]
        return result(list(latest.values()))

    def _take(self, pod: PodView) -> None:
        if pod.finished:
            return
        if pod.node:
            self.world.state.place(pod, pod.node)
        else:
            self.pending.append(pod)
            self._nominations.see(pod)

    def _cycle(self, pod: PodView) -> Cycle:
        return self._cycles.get(pod.spec.scheduler_name) or next(iter(self._cycles.values()))

    def _attempt(self, pod: PodView) -> Entry:
        cycle = self._cycle(pod)
        nodes = explain_nodes(cycle, pod) if self.explain else None
        decision = cycle.decide(pod)
        if isinstance(decision, Place):
            return Entry(pod, decision.node, nodes=nodes)
        victims = tuple(one._replace(node="") for one in decision.victims) if isinstance(decision, Preempt) else ()
        lonely = bool(decision.verdicts) and _is_lonely(decision, cycle)
        return Entry(pod, reason=decision.message, nodes=nodes, victims=victims, lonely=lonely)


def _is_lonely(decision: Park, cycle: Cycle) -> bool:
    """Whether some node refuses the pod because of pods elsewhere."""
    social = {one.plugin.name for one in cycle.profile if isinstance(one.plugin, ClusterPlugin)}
    return not social.isdisjoint(decision.refused_by)


def in_queue_order(pods: Iterable[PodView]) -> list[PodView]:
    """By priority, then by age, then as they come."""
    return sorted(pods, key=lambda pod: (-pod.spec.priority, pod.created))


def result(entries: Sequence[Entry], *, timeline: bool = False, summary: Obj | None = None) -> Obj:
    """The answer in the form that the command prints."""
    placed = [entry.document(timeline=timeline) for entry in entries if entry.node is not None]
    pending = [entry.document(timeline=timeline) for entry in entries if entry.node is None]
    counts = {"pods": len(entries), "placed": len(placed), "pending": len(pending)}
    return {"placements": placed, "pending": pending, "summary": {**counts, **(summary or {})}}
