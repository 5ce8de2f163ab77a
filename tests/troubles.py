"""Troubles of an API server for tests of the scheduler, and a witness who sees every pod through them."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from kubenexus.common.config import LeaderElection
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.mirror import Deleted, Synced
from kubenexus.common.kube.reflector import Reflector
from kubenexus.common.kube.resources import PODS
from kubenexus.common.sandbox import Sandbox
from tests.schedulers import Obj
from tests.stub_server import until

FAST = LeaderElection(
    lease_duration=timedelta(seconds=3),
    renew_deadline=timedelta(seconds=2),
    retry_period=timedelta(milliseconds=200),
    resource_namespace="default",
)


class Witness:
    """Sees every change of every pod, and remembers to which nodes each was bound."""

    def __init__(self, client: Client) -> None:
        self.nodes: dict[str, set[str]] = {}
        self._reflector = Reflector(client, PODS, _name_and_node, self._see)
        self._reflector.start()
        until(lambda: self._reflector.synced)

    def _see(self, change: object) -> None:
        if not isinstance(change, Synced | Deleted):
            name, node = change.value  # type: ignore[attr-defined]
            if node:
                self.nodes.setdefault(name, set()).add(node)

    def stop(self) -> None:
        self._reflector.stop()


def _name_and_node(obj: Obj) -> tuple[str, str]:
    return obj["metadata"]["name"], obj["spec"].get("nodeName", "")


def cut_watches(box: Sandbox, random: Random) -> None:
    random.choice((box.faults.cut_watches, box.faults.swallow_events, box.faults.duplicate_events))()


def lose_binds(box: Sandbox, random: Random) -> None:
    box.faults.lose_answers(times=random.randint(1, 8), method="POST", path="/binding")


def refuse_binds(box: Sandbox, random: Random) -> None:
    code = random.choice((409, 429, 500, 503, 504))
    box.faults.fail(code, times=random.randint(1, 8), method="POST", path="/binding")


def contradict_binds(box: Sandbox, _random: Random) -> None:
    """409 although the pod is as it was: nothing explains it, so that the pod is decided about anew."""
    box.faults.fail(409, times=8, method="POST", path="/binding")


def lose_looks(box: Sandbox, random: Random) -> None:
    """The binds get lost, and so do the questions what became of them."""
    lose_binds(box, random)
    box.faults.fail(503, times=random.randint(1, 4), method="GET", path="/pods/p")


def expire(box: Sandbox, _random: Random) -> None:
    box.faults.compact()
    box.faults.cut_watches()


def restart(box: Sandbox, random: Random) -> None:
    box.faults.restart(new_history=random.random() < 0.5)


TROUBLES = (cut_watches, lose_binds, refuse_binds, contradict_binds, lose_looks, expire, restart)
