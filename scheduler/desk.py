"""The scheduler without its edges: hears what happens, decides, and says what to write. Pure, and owned by one thread.

A pod that was decided counts on its node at once: it is *assumed*. The watch confirms it there, or tells that it is
gone or elsewhere, and is always right. Only when a bind surely failed is the pod forgotten and tried again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kubenexus.common import logs
from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.kube.mirror import Change, Deleted, Synced
from kubenexus.common.objects import Labels, PodView
from kubenexus.scheduler.actions import (
    ERROR,
    OWNERS,
    POD,
    REJECTED,
    UNSCHEDULABLE,
    Action,
    Bind,
    Evicted,
    Eviction,
    Heard,
    Outcome,
    Prepare,
    Prepared,
    Release,
    Released,
    Report,
    Unbound,
    Undo,
    Undone,
)
from kubenexus.scheduler.assumptions import Assumptions
from kubenexus.scheduler.causes import causes, pod_causes
from kubenexus.scheduler.cures import cure
from kubenexus.scheduler.engine.cycle import Cycle, Decision, Park, Place, Preempt
from kubenexus.scheduler.engine.events import Event
from kubenexus.scheduler.engine.gang import Call, Gangs, Placed, Refused
from kubenexus.scheduler.engine.holds import is_placeholder
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.queue import Queue, Unit
from kubenexus.scheduler.muster import Muster
from kubenexus.scheduler.plugins.dynamic_resources import ClaimDecision
from kubenexus.scheduler.plugins.volume_binding import VolumeDecision
from kubenexus.scheduler.preparing import unwritten, useless, uses
from kubenexus.scheduler.profiles import build_cycles
from kubenexus.scheduler.rejections import Bars
from kubenexus.scheduler.world import World, owner_of

log = logs.get(__name__)

MOST_BINDING = 128
"""Binds under way at once. Deciding far ahead of binding would be deciding on old news."""


class Desk:
    """Everything that is known and waits. What is to be written collects until `take`."""

    def __init__(self, config: SchedulerConfiguration) -> None:
        self.world = World()
        self.state = self.world.state
        self.queue = Queue()
        self.nominations = Nominations()
        self.muster = Muster(self.queue, self.state)
        self._cycles = build_cycles(config, self.state, self.nominations)
        self._gangs = Gangs(self.state, self._cycle_of)
        self._bars = Bars(self.state.objects.rejections)
        self._awaited: set[str] = set()
        self._assumed = Assumptions(self.state.objects)
        self._binding = 0
        self._actions: list[Action] = []
        self._cured: tuple[object, object, str] = ((), None, "")

    def expect(self, kinds: Iterable[str]) -> None:
        """Decide nothing before a first list of each of these is in."""
        self._awaited |= set(kinds)

    @property
    def synced(self) -> bool:
        """Whether the first list of everything is in."""
        return not self._awaited

    @property
    def free(self) -> bool:
        """Whether more may be decided now."""
        return self.synced and self._binding < MOST_BINDING

    def take(self) -> list[Action]:
        """What is to be written, each once."""
        actions, self._actions = self._actions, []
        return actions

    def due(self) -> float | None:
        """When something is to be done even if nothing happens: a time gone by if that is now."""
        ready = self.queue.due() if self.free else None
        times = [ready, self._bars.next_end(), self._assumed.due(), self.muster.due()]
        return min((time for time in times if time is not None), default=None)

    def counts(self) -> Counter[str]:
        """How many pods are pending, by where they wait."""
        found = Counter({where.value: count for where, count in self.queue.counts().items()})
        found["binding"] = found.pop("out", 0)
        return found + self.muster.counts()

    # Hearing

    def hear(self, heard: Heard, now: float) -> None:
        """Something changed in the cluster."""
        kind, change = heard
        if isinstance(change, Synced):
            if kind in self._awaited:
                self._awaited.remove(kind)
                if self.synced:
                    self._begin(now)
        elif kind == POD:
            self._hear_pod(change, now)
        elif kind == OWNERS:
            self.muster.watch(change.value, now)
        elif kind == REJECTED:
            if self.synced and not isinstance(change, Deleted):
                self._bars.add(change.value, now)
        else:
            self._hear_object(kind, change, now)

    def _hear_object(self, kind: str, change: Change[Any], now: float) -> None:
        assert not isinstance(change, Synced)
        if isinstance(change, Deleted):
            self.world.remove(kind, change.key)
        else:
            self.world.set(kind, change.key, change.value)
        for cause in causes(kind, change):
            self.queue.wake(cause, now)
        if (owner := owner_of(kind, change.key)) is not None:
            self.muster.owner(owner, None if isinstance(change, Deleted) else change.value, now)
        if kind in ("PersistentVolumeClaim", "ResourceClaim"):
            self._check_prepared(now)

    def _hear_pod(self, change: Change[PodView], now: float) -> None:
        assert not isinstance(change, Synced)
        pod = change.value
        if isinstance(change, Deleted):
            self._gone(pod, now)
        elif pod.node:
            self._arrived(pod, now)
        elif pod.spec.scheduler_name in self._cycles:
            self._waits(pod, now)

    def _gone(self, pod: PodView, now: float) -> None:
        freed = self.state.home(pod.uid) is not None or self.nominations.of(pod.uid) is not None
        self._assumed.forget(pod.uid)
        self.state.remove(pod.uid)
        self.queue.remove(pod.uid)
        freed |= self.muster.gone(pod.uid, now)
        self.nominations.forget(pod.uid)
        if freed:
            self.queue.wake(Event.POD_DELETED, now)

    def _arrived(self, pod: PodView, now: float) -> None:
        """The pod is on a node, whoever put it there."""
        known = self._on(pod.uid, pod.node)
        moved = known is None and self.state.home(pod.uid) is not None
        if moved:
            self._assumed.forget(pod.uid)
        self._assumed.confirm(pod.uid)
        self.queue.remove(pod.uid)
        self.nominations.forget(pod.uid)
        self.state.place(pod, pod.node)
        if self.muster.placed(pod, now) or moved:
            self.queue.wake(Event.POD_DELETED, now)
        for cause in pod_causes(known, pod):
            self.queue.wake(cause, now)

    def _on(self, uid: str, node: str) -> PodView | None:
        """The pod as it is known on that node."""
        home = self.state.home(uid)
        return None if home is None or self.state.name(home) != node else self.state.slots[home].pods[uid]

    def _waits(self, pod: PodView, now: float) -> None:
        """A pod of ours has no node, as far as the server knows."""
        if pod.deleted is not None:
            self._gone(pod, now)
            return
        bind = self._assumed.bind(pod.uid)
        if bind is None:
            self.nominations.see(pod)
            self.muster.waits(pod, now)
            return
        self.state.place(_noted(pod, bind.annotations), bind.node)
        self.muster.placed(pod, now)
        if self.queue.where(pod.uid) is not None:
            self.queue.add(pod, now)

    def _begin(self, now: float) -> None:
        """Everything is listed: read the machines now, not at the first decision; hold room for what pods will make."""
        for node in self.state.live():
            self.state.devices.known(node)
        for pod, _ in list(self.state.pods()):
            cycle = self._cycles.get(pod.spec.scheduler_name)
            if cycle is not None:
                self.muster.hold_anew(pod, cycle, now)

    # What became of it

    def finish(self, outcome: Outcome, now: float) -> None:
        """Something that was to be written has come to its end."""
        if isinstance(outcome, Evicted):
            if outcome.why:
                self.nominations.withdraw(outcome.eviction.pod.uid)
                self.queue.wake(Event.POD_DELETED, now)
            return
        self._binding -= 1
        if isinstance(outcome, Released):
            self.queue.retry(outcome.release.unit, now)
            return
        bind = outcome.bind
        if self._assumed.bind(bind.pod.uid) is not bind:  # the watch was faster
            if self._assumed.settle(outcome):
                self.queue.wake(Event.RESOURCE_CLAIM, now)
        elif isinstance(outcome, Prepared):
            self._assumed.wait(bind.pod.uid, now)
            self._check_prepared(now)
        elif isinstance(outcome, Undone):
            self._give_up(bind, outcome.why, now)
        elif isinstance(outcome, Unbound):
            kept = self.muster.would_keep(bind.pod.uid)
            if bind.claims and not kept:
                self._undo(bind, outcome.why)
            else:
                self._give_up(bind, outcome.why, now, keep_devices=kept)

    def _give_up(self, bind: Bind, why: str, now: float, *, keep_devices: bool = False) -> None:
        """The pod did not get there: its place is free again, and it is tried once more after a while."""
        pod = _unnoted(bind)
        self._assumed.fail(pod.uid, keep_devices=keep_devices)
        self.state.remove(pod.uid)
        text = f"The pod was to be bound, which failed: {why}."
        group = self.muster.roster.group_of(pod.uid)
        if group is not None and self.queue.where(pod.uid) is None:
            text += f" {self.muster.again(pod, bind, now)}"
        else:
            self.queue.retry(pod.uid, now)
        self.queue.wake(Event.POD_DELETED, now)
        self._actions.append(Report(pod, ERROR, text))

    def _check_prepared(self, now: float) -> None:
        """Bind the pods whose volumes and devices are ready, and give up those for whom they will not be."""
        for bind, why in self._assumed.waited(now):
            if why:
                self._undo(bind, why)
            else:
                self._send(bind)

    def _undo(self, bind: Bind, why: str) -> None:
        self._assumed.end(bind.pod.uid)
        self._send(Undo(bind, why))

    # Deciding

    def tick(self, now: float) -> None:
        """Do what is due by the clock."""
        if self._bars.lift(now):
            self.queue.wake(Event.REJECTION_LIFTED, now)
        if (due := self._assumed.due()) is not None and due <= now:
            self._check_prepared(now)
        if self.muster.holds.expire(now):
            self.queue.wake(Event.POD_DELETED, now)
        self._actions += self.muster.tick(now)

    def decide(self, now: float) -> Decision | Placed | Refused | None:
        """Decide about the next pod or gang; None if there is none to decide about now."""
        unit = self._next(now) if self.free else None
        if unit is None:
            return None
        try:
            call = self.muster.call(unit, self.state)
            return self._decide_pod(unit.pods[0], now) if call is None else self._decide_gang(unit, call, now)
        except Exception as error:
            log.exception("deciding about a pod failed", pod=unit.pods[0].key)
            message = f"The scheduler failed to decide about the pod: {type(error).__name__}: {error}."
            self.queue.retry(unit.name, now)
            for pod in unit.pods:
                if pod.uid not in self._assumed:
                    self.state.remove(pod.uid)
                self._actions.append(Report(pod, ERROR, message))
            return Park(unit.pods[0], message)

    def _next(self, now: float) -> Unit | None:
        """The next to try. A gang waits while a member gives devices back, or it would count on its place."""
        while (unit := self.queue.pop(now)) is not None:
            group = self.muster.roster.group_of(unit.pods[0].uid)
            if group is None or not self._assumed.is_ending(group.members):
                break
            self.queue.retry(unit.name, now)
        return unit

    def _cycle_of(self, pod: PodView) -> Cycle:
        return self._cycles[pod.spec.scheduler_name]

    def _decide_pod(self, pod: PodView, now: float) -> Decision:
        self.muster.make_way(pod)
        decision = self._cycle_of(pod).decide(pod, self.muster.company(pod, self.state))
        if isinstance(decision, Place):
            self._assume(decision, now)
        else:
            self._park(decision, now)
        return decision

    def _decide_gang(self, unit: Unit, call: Call, now: float) -> Placed | Refused:
        decision = self._gangs.decide(call)
        if isinstance(decision, Refused):
            if not self._release(unit.name, unit.pods):
                self.queue.park(unit.name, decision.park.refused_by, now)
            message = f"{decision.park.message} {self._cure(decision.park)}".rstrip()
            self._actions += (Report(pod, UNSCHEDULABLE, message) for pod in unit.pods)
            return decision
        log.info("a gang is placed", gang=call.name, members=len(decision.places), where=decision.domain)
        for warning in call.warnings:
            log.warning("a gang is placed by the largest size that its members say", gang=call.name, why=warning)
        for place in decision.places:
            if not is_placeholder(place.pod):
                self._assume(place, now)
        for pod in unit.pods:
            if pod.uid in self._assumed:
                self.queue.remove(pod.uid)
                self.muster.hold(pod, decision.places, now)
        self.muster.holds.drop(call.key, call.held)
        self.queue.release(unit.name, now)
        return decision

    def _assume(self, place: Place, now: float) -> None:
        pod = place.pod
        taken = (*place.taken, *self._assumed.kept(pod.uid))
        volumes = next((one for one in taken if isinstance(one, VolumeDecision)), None)
        devices = [one for one in taken if isinstance(one, ClaimDecision)]
        bind = Bind(pod, place.node, place.annotations, uses(pod, devices, self.state.objects))
        self._assumed.add(bind, taken)
        self.muster.placed(pod, now)
        grants = unwritten(bind, self.state.objects)
        self._send(Prepare(bind, volumes, grants) if volumes is not None or bind.claims else bind)
        self.queue.wake(Event.POD_ADDED, now)

    def _send(self, action: Bind | Prepare | Undo | Release) -> None:
        self._binding += 1
        self._actions.append(action)

    def _park(self, park: Park, now: float) -> None:
        pod = park.pod
        if isinstance(park, Preempt):
            self._actions.append(Eviction(pod, park.nominated_node, park.victims, park.displaced))
        if isinstance(park, Preempt) or not self._release(pod.uid, [pod]):
            if park.failed:
                self.queue.retry(pod.uid, now)
            else:
                self.queue.park(pod.uid, park.refused_by, now)
        message = f"{park.message} {self._cure(park)}".rstrip()
        self._actions.append(Report(pod, ERROR if park.failed else UNSCHEDULABLE, message, park.nominated_node))

    def _release(self, unit: str, pods: Iterable[PodView]) -> bool:
        """Whether claims of pods that were refused give devices back; the pods are tried again when that is done."""
        pods = list(pods)
        for kept in (kept for pod in pods for kept in self._assumed.kept(pod.uid)):
            kept.forget(self.state.objects)
        found = ((pod, useless(pod, self.state.objects)) for pod in pods)
        claims = tuple((pod, names) for pod, names in found if names)
        if claims:
            self._send(Release(unit, claims))
        return bool(claims)

    def _cure(self, park: Park) -> str:
        """What would help the pod. Pods of a template are refused alike and often one after the other."""
        verdicts, spec, text = self._cured
        if verdicts is not park.verdicts or spec is not park.pod.spec:
            text = "" if isinstance(park, Preempt) else cure(park, self.state)
            self._cured = park.verdicts, park.pod.spec, text
        return text


def _noted(pod: PodView, annotations: Mapping[str, str]) -> PodView:
    """The pod as it will be once these are written on it."""
    return pod._replace(annotations=Labels({**pod.annotations, **annotations})) if annotations else pod


def _unnoted(bind: Bind) -> PodView:
    """The pod as it is when what was to be written with its binding was not."""
    pod = bind.pod
    left = {key: value for key, value in pod.annotations.items() if key not in bind.annotations}
    return pod._replace(annotations=Labels(left)) if bind.annotations else pod
