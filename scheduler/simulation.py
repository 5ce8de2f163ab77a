"""Placing manifests on manifests, offline, with the scheduler's own engine: objects in, a result out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.objects import PodView
from kubenexus.common.sandbox.validation import apply_defaults
from kubenexus.common.vocabulary import GPU_ASSIGNED, NUMA_ASSIGNED
from kubenexus.scheduler.admit import Admission
from kubenexus.scheduler.cures import sentence
from kubenexus.scheduler.engine.cycle import Cycle, Park, Place, Preempt
from kubenexus.scheduler.engine.gang import Call, Gangs, Refused
from kubenexus.scheduler.engine.holds import is_placeholder
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.plugin import ClusterPlugin
from kubenexus.scheduler.engine.queue import Queue
from kubenexus.scheduler.expand import expand_all
from kubenexus.scheduler.explanation import explain_nodes, explain_refusals
from kubenexus.scheduler.muster import Muster
from kubenexus.scheduler.plugins.dynamic_resources import ClaimDecision
from kubenexus.scheduler.profiles import build_cycles
from kubenexus.scheduler.world import World, owner_in

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
    gang: str | None = None
    taken: Mapping[str, str] = field(default_factory=dict)
    """the annotations that say what it got"""

    def document(self, *, timeline: bool) -> Obj:
        """The entry in the form that the command prints."""
        placed: Obj = {
            "pod": self.pod.key,
            "gang": self.gang,
            "node": self.node,
            "numa": _ids(self.taken.get(NUMA_ASSIGNED)),
            "gpus": _ids(self.taken.get(GPU_ASSIGNED)),
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
    _queue: Queue = field(default_factory=Queue, init=False)
    _muster: Muster = field(init=False)
    _gangs: Gangs = field(init=False)
    _devices: dict[str, tuple[ClaimDecision, ...]] = field(default_factory=dict, init=False)
    """by uid, what a pod's claims got"""
    _notes: dict[str, str] = field(default_factory=dict, init=False)
    """by uid, whom a pod drove out and who drove it out"""

    def __post_init__(self) -> None:
        self._muster = Muster(self._queue, self.world.state)
        self._gangs = Gangs(self.world.state, self._cycle)
        objects = expand_all(self.objects)
        for obj in objects:
            if obj.get("kind") != "Pod":
                whole = apply_defaults(str(obj.get("kind")), obj)
                self.world.add(whole)
                if (owner := owner_in(whole)) is not None:
                    self._muster.owner(*owner, 0.0)
        admission = Admission(obj for obj in objects if obj.get("kind") == "PriorityClass")
        for obj in objects:
            if obj.get("kind") == "Pod":
                self._take(admission.admit(obj))
        self._cycles = build_cycles(self.config, self.world.state, self._nominations)
        for pod, _ in list(self.world.state.pods()):
            self._muster.hold_anew(pod, self._cycle(pod), 0.0)

    @property
    def warnings(self) -> Iterator[str]:
        """What could not be read of the nodes and was taken as absent."""
        state = self.world.state
        for node in map(state.node, state.live()):
            yield from (f"node {node.name}: {problem}; it is taken as absent" for problem in node.problems)

    def arrive(self, pod: PodView) -> None:
        """The pod is there from now on, and counts in its gang."""
        self._muster.waits(pod, 0.0)

    def leave(self, uid: str) -> None:
        """A pod that had a node is gone, and devices that its claims got here are free, unless others use them."""
        self.world.state.remove(uid)
        self._muster.gone(uid, 0.0)
        for one in self._devices.pop(uid, ()):
            heir = next((pod.uid for pod, _ in self.world.state.pods() if one.is_used_by(pod)), None)
            if heir is None:
                one.forget(self.world.state.objects)
            else:
                self._devices[heir] = (*self._devices.get(heir, ()), one)

    def attempt(self, pod: PodView) -> list[Entry]:
        """Try to place a pod now, or its whole gang. Pods that have to make room for it leave at once."""
        unit = self._queue.unit(pod.uid)
        if unit is None and (why := self._muster.why(pod.uid)):
            lonely = self._muster.awaits_others(pod.uid)
            return [Entry(pod, reason=why, gang=self._gang(pod), nodes=self._explained(pod), lonely=lonely)]
        call = unit and self._muster.call(unit, self.world.state)
        entries, left = ([self._alone(pod)], ()) if call is None else self._together(call)
        for entry in entries:
            entry.gang = self._gang(entry.pod)
            if entry.node is not None:
                self._muster.placed(entry.pod, 0.0)
                self._queue.remove(entry.pod.uid)
        return [*entries, *(entry for one in left for entry in self.attempt(one))]

    def _gang(self, pod: PodView) -> str | None:
        group = self._muster.roster.group_of(pod.uid)
        return None if group is None else str(group.key)

    def _together(self, call: Call) -> tuple[list[Entry], tuple[PodView, ...]]:
        """What became of the members of a gang, and those beyond its minimum that go on alone."""
        nodes = {pod.uid: self._explained(pod) for pod in call.pods}
        decision = self._gangs.decide(call, tell=self.explain)
        if isinstance(decision, Refused):
            return list(self._refused(call, decision.park, nodes)), ()
        placed = {place.pod.uid: place for place in decision.places}
        for pod in call.pods:
            self._muster.hold(pod, decision.places, 0.0)
        self._muster.holds.drop(call.key, call.held)
        entries = []
        for pod in call.pods:
            place = placed.get(pod.uid)
            if place is not None and not is_placeholder(pod):
                self._keep(place)
                warning = " ".join(call.warnings) or None
                entries.append(Entry(pod, place.node, warning, nodes[pod.uid], taken=place.annotations))
        return entries, decision.left

    def _refused(self, call: Call, park: Park, nodes: Mapping[str, Obj | None]) -> Iterator[Entry]:
        """The members wait. Those like the one that found no room are told what nodes said to it."""
        cycle = self._cycle(park.pod)
        reason, alike, lonely = sentence(park, self.world.state), cycle.alike, _is_lonely(park, cycle)
        told = explain_refusals(park.verdicts, self.world.state) if self.explain else {}
        for pod in call.pods:
            own = nodes[pod.uid]
            if own is not None and alike.key(pod) == alike.key(park.pod):
                own = {name: said if not said["feasible"] else told.get(name, said) for name, said in own.items()}
            if not is_placeholder(pod):
                yield Entry(pod, reason=reason, nodes=own, lonely=lonely)

    def _explained(self, pod: PodView) -> Obj | None:
        if not self.explain:
            return None
        return explain_nodes(self._cycle(pod), pod, self._muster.company(pod, self.world.state).fence)

    def _alone(self, pod: PodView) -> Entry:
        self._muster.make_way(pod)
        entry = self._attempt(pod)
        if victims := entry.victims:
            for victim in victims:
                self.leave(victim.uid)
                self.arrive(victim)
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

    def _keep(self, place: Place) -> None:
        """Remember what goes when the pod goes."""
        if devices := tuple(one for one in place.taken if isinstance(one, ClaimDecision)):
            self._devices[place.pod.uid] = devices

    def hopeless(self, pod: PodView) -> bool:
        """Whether certainly no node takes the pod now; quicker than an attempt, and says nothing of preemption."""
        return not self._muster.has_room(pod.uid) and not self._cycle(pod).board(pod).feasible().any()

    def run(self) -> Obj:
        """Every pending pod, in the order of the files; then again those whom others helped, or drove out."""
        latest: dict[str, Entry] = {pod.uid: Entry(pod) for pod in self.pending}
        pods = list(self.pending)
        for pod in pods:
            self.arrive(pod)
        while pods:
            room = placed = False
            for entry in self.attempt_all(pods):
                latest |= {entry.pod.uid: entry, **{victim.uid: Entry(victim) for victim in entry.victims}}
                room, placed = room or bool(entry.victims), placed or entry.node is not None
            left = (entry for entry in latest.values() if entry.node is None)
            pods = [entry.pod for entry in left if placed and (room or entry.lonely)]
        return result(list(latest.values()))

    def attempt_all(self, pods: Iterable[PodView]) -> Iterator[Entry]:
        """Try each pod, and a gang where the first of its pods stands."""
        tried: set[str] = set()
        for pod in pods:
            if pod.uid not in tried:
                for entry in self.attempt(pod):
                    tried.add(entry.pod.uid)
                    yield entry

    def _take(self, pod: PodView) -> None:
        if pod.finished:
            return
        if pod.node:
            self.world.state.place(pod, pod.node)
            self._muster.placed(pod, 0.0)
        else:
            self.pending.append(pod)
            self._nominations.see(pod)

    def _cycle(self, pod: PodView) -> Cycle:
        return self._cycles.get(pod.spec.scheduler_name) or next(iter(self._cycles.values()))

    def _attempt(self, pod: PodView) -> Entry:
        cycle = self._cycle(pod)
        nodes = self._explained(pod)
        decision = cycle.decide(pod, self._muster.company(pod, cycle.state))
        if isinstance(decision, Place):
            self._keep(decision)
            return Entry(pod, decision.node, nodes=nodes, taken=decision.annotations)
        victims = tuple(one._replace(node="") for one in decision.victims) if isinstance(decision, Preempt) else ()
        lonely = bool(decision.verdicts) and _is_lonely(decision, cycle)
        return Entry(pod, reason=sentence(decision, cycle.state), nodes=nodes, victims=victims, lonely=lonely)


def _ids(text: str | None) -> list[int]:
    return [int(part) for part in text.split(",")] if text else []


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
