"""The queue under random traffic, against a model that knows nothing of heaps and tickets."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from kubenexus.common.objects import PodView, project_pod
from kubenexus.scheduler.engine.events import Event, cures
from kubenexus.scheduler.engine.queue import LONGEST_BACKOFF, LONGEST_PARKED, SWEEP_EVERY, Queue, Where
from tests.builders import pod

PLUGINS = ("NodeResourcesFit", "NodeAffinity", "InterPodAffinity", "VolumeBinding", "SomethingNew")
refusers = st.sets(st.sampled_from(PLUGINS), max_size=2).map(frozenset)
events = st.sampled_from(list(Event))


@dataclass
class Model:
    """What a pod is due, as one would say it to a person."""

    pod: PodView
    refused_by: frozenset[str] | None = None
    """who refused it, if it has had no reason for hope since"""
    hopes: list[Event] = field(default_factory=list)
    """what happened while it was out"""
    retry_by: float = 0.0
    """when it must have become ready, if nobody refused it since"""


class Traffic(RuleBasedStateMachine):
    """Pods come, are taken, parked, retried, changed and removed, while time passes and things happen."""

    out = Bundle("out")

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue()
        self.now = 0.0
        self.pods: dict[str, Model] = {}
        self.taken: set[str] = set()
        self.named = 0

    def put(self, made: PodView) -> None:
        self.queue.add(made, self.now)

    @rule(priority=st.integers(0, 3), gated=st.booleans())
    def come(self, priority: int, gated: bool) -> None:
        self.named += 1
        builder = pod(f"p{self.named}").priority(priority)
        made = project_pod((builder.gate("example.com/wait") if gated else builder).build())
        self.pods[made.uid] = Model(made, retry_by=self.now)
        self.put(made)

    @rule(seconds=st.floats(0.0, 20.0) | st.just(400.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=out, number=st.integers(1, 3))
    def take(self, number: int) -> object:
        found = []
        for _ in range(number):
            ready = [self.queue.where(uid) is Where.READY for uid in self.pods]
            unit = self.queue.pop(self.now)
            if unit is None:
                assert not any(ready)
                break
            (one,) = unit.pods
            assert one.uid not in self.taken, "nobody is tried twice at once"
            assert not one.gates
            assert self.pods[one.uid].pod == one
            self.taken.add(one.uid)
            self.pods[one.uid].hopes.clear()
            found.append(one.uid)
        priorities = [self.pods[uid].pod.spec.priority for uid in found]
        assert priorities == sorted(priorities, reverse=True)
        return multiple(*found)

    @rule(uid=consumes(out), refused_by=refusers)
    def park(self, uid: str, refused_by: frozenset[str]) -> None:
        self.queue.park(uid, refused_by, self.now)
        self.taken.discard(uid)
        if uid in self.pods:
            model = self.pods[uid]
            hope = any(cures(event, refused_by) for event in model.hopes)
            model.refused_by = None if hope else refused_by
            model.retry_by = self.now + (LONGEST_BACKOFF if hope else LONGEST_PARKED + SWEEP_EVERY + LONGEST_BACKOFF)

    @rule(uid=consumes(out))
    def retry(self, uid: str) -> None:
        self.queue.retry(uid, self.now)
        self.taken.discard(uid)
        if uid in self.pods:
            self.pods[uid].refused_by, self.pods[uid].retry_by = None, self.now + LONGEST_BACKOFF

    @rule(event=events)
    def happen(self, event: Event) -> None:
        parked = [m.refused_by or frozenset() for u, m in self.pods.items() if self.queue.where(u) is Where.PARKED]
        assert self.queue.wake(event, self.now) == sum(cures(event, refused_by) for refused_by in parked)
        for uid, model in self.pods.items():
            if uid in self.taken:
                model.hopes.append(event)
            elif model.refused_by is not None and cures(event, model.refused_by):
                model.refused_by, model.retry_by = None, min(model.retry_by, self.now + LONGEST_BACKOFF)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        self.queue.remove(uid)
        del self.pods[uid]
        self.taken.discard(uid)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        """A watch that was cut may tell of a pod that it is gone, and then that it is there."""
        uid = data.draw(st.sampled_from(sorted(self.pods.keys() - self.taken) or sorted(self.pods)))
        if uid not in self.taken:
            self.queue.remove(uid)
            self.put(self.pods[uid].pod)
            self.pods[uid] = Model(self.pods[uid].pod, retry_by=self.now)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def ungate(self, data: st.DataObject) -> None:
        model = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        if model.pod.gates:
            model.pod, model.retry_by = model.pod._replace(gates=()), self.now
            self.put(model.pod)

    @invariant()
    def nobody_is_lost(self) -> None:
        assert len(self.queue) == len(self.pods)
        assert {uid for uid in self.pods if self.queue.where(uid) is Where.OUT} == self.taken
        for uid, model in self.pods.items():
            assert (self.queue.where(uid) is Where.GATED) == bool(model.pod.gates)
            assert self.queue.where(uid) is not Where.PARKED or model.refused_by is not None, "there is hope"

    def teardown(self) -> None:
        """In the end everybody who may is tried, each once, and in time."""
        waiting = {u: m.retry_by for u, m in self.pods.items() if u not in self.taken and not m.pod.gates}
        for time in sorted({max(self.now, time) for time in waiting.values()}):
            while (unit := self.queue.pop(time)) is not None:
                del waiting[unit.name]
            assert not [uid for uid, retry_by in waiting.items() if retry_by <= time]
        assert self.queue.pop(self.now) is None


Traffic.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestTraffic = Traffic.TestCase
