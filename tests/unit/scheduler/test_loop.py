"""The owner thread's loop: what it does with news that nobody can make sense of."""

from __future__ import annotations

from kubenexus.common.config import SchedulerConfiguration
from kubenexus.common.kube.mirror import Added
from kubenexus.common.objects import project_pod
from kubenexus.scheduler.actions import POD, Action, Bind, Heard
from kubenexus.scheduler.desk import Desk
from kubenexus.scheduler.loop import Loop
from kubenexus.scheduler.world import read
from tests.builders import node, pod


def test_news_that_cannot_be_taken_in_stops_nobody() -> None:
    loop = Loop(Desk(SchedulerConfiguration()), clock=lambda: 100.0)
    view = project_pod(pod("p").cpu(1).build())
    loop.tell(Heard("Node", Added("broken", None)))
    loop.tell(Heard("Node", Added("n", read("Node", node("n").capacity(cpu=4).build()))))
    loop.tell(Heard(POD, Added(view.uid, view)))
    done: list[Action] = []

    def carry_out(action: Action) -> None:
        done.append(action)
        loop.stop()

    loop.run(carry_out)
    assert [(type(action), action.pod.name) for action in done if isinstance(action, Bind)] == [(Bind, "p")]
