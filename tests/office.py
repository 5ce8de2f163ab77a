"""A scheduler's desk to play on: nodes, pods that come and go, and a clock that moves only when told to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.kube.mirror import Added, Deleted, Updated
from kubenexus.common.objects import PodView, project_pod
from kubenexus.scheduler.actions import POD, Bind, Bound, Heard, Report
from kubenexus.scheduler.desk import Desk
from kubenexus.scheduler.world import kind_of, read
from tests.builders import Builder, NodeBuilder, PodBuilder, node, pod


class Office:
    """A desk with nodes, and a server that does what a test says."""

    def __init__(self, *nodes: NodeBuilder) -> None:
        self.now = 100.0
        self.desk = Desk(SchedulerConfiguration())
        for each in nodes:
            self.node(each)

    def node(self, built: NodeBuilder) -> None:
        """A node joins."""
        self.hear("Node", Added(built.obj["metadata"]["name"], read("Node", built.build())))

    def remove_node(self, name: str) -> None:
        number = self.desk.state.index(name)
        assert number is not None
        self.hear("Node", Deleted(name, self.desk.state.node(number)))

    def hear(self, kind: str, change: Any) -> None:
        self.desk.hear(Heard(kind, change), self.now)

    def see(self, built: PodBuilder, old: PodView | None = None) -> PodView:
        view = project_pod(built.build())
        self.hear(POD, Added(view.uid, view) if old is None else Updated(view.uid, old, view))
        return view

    def gone(self, view: PodView) -> None:
        self.hear(POD, Deleted(view.uid, view))

    def decide(self, after: float = 0.0) -> list[Any]:
        """Decide about everybody who is ready; what is to be written."""
        self.now += after
        self.desk.tick(self.now)
        while self.desk.decide(self.now):
            pass
        return self.desk.take()

    def nodes_in_use(self) -> dict[str, str]:
        state = self.desk.state
        return {view.name: state.name(number) for view, number in state.pods()}

    def owner(self, built: Builder) -> None:
        """What stands behind pods came or changed."""
        obj = built.build()
        kind = kind_of(obj["apiVersion"].rpartition("/")[0], obj["kind"])
        key = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
        self.hear(kind, Added(key, read(kind, obj)))

    def bind(self, actions: list[Any]) -> None:
        """The server does what was decided, and the watch shows it."""
        for action in actions:
            if isinstance(action, Bind):
                self.desk.finish(Bound(action), self.now)
                bound = action.pod._replace(node=action.node, phase="Running")
                self.hear(POD, Updated(bound.uid, action.pod, bound))


def bound(actions: list[Any]) -> dict[str, str]:
    """Who goes where, of what is to be written."""
    return {action.pod.name: action.node for action in actions if isinstance(action, Bind)}


def told(actions: list[Any]) -> dict[str, str]:
    """Who is told what."""
    return {action.pod.name: action.message for action in actions if isinstance(action, Report)}


def gpus(count: int, *names: str) -> list[NodeBuilder]:
    return [node(name).capacity(cpu=64, memory="512Gi", gpu=count) for name in names]


def gang(
    name: str, size: int, *, members: int | None = None, gpu: int = 0, namespace: str = "default"
) -> list[PodBuilder]:
    """Members `name-0`, `name-1`, …, as many as the gang needs unless told otherwise."""
    made = [
        pod(f"{name}-{i}", namespace).cpu("100m").gang(name, size) for i in range(size if members is None else members)
    ]
    return [one.gpu(gpu) if gpu else one for one in made]


def come(office: Office, pods: Sequence[PodBuilder]) -> None:
    for one in pods:
        office.see(one)
