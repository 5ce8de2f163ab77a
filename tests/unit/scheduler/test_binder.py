"""Binding to its end: every answer a server may give, and none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubenexus.common.kube.errors import ApiError, Conflict, Forbidden, MaybeApplied, NotFound, NotReached, ServerError
from kubenexus.common.objects import project_pod
from kubenexus.scheduler.actions import Astray, Bind, Bound, Unbound
from kubenexus.scheduler.binder import TRIES, Attempt, binding
from tests.builders import PodBuilder, pod

Obj = dict[str, Any]
PENDING = pod("a")
BIND = Bind(project_pod(PENDING.build()), "n", {"note": "1"})

LOST = MaybeApplied("no answer")
BROKEN = ServerError("bind", 500, {})
CONFLICT = Conflict("bind", 409, {"message": "already assigned"})
ABSENT = NotFound("get", 404, {})
FORBIDDEN = Forbidden("bind", 403, {"message": "no"})
AWAY = NotReached("no connection")


class Server:
    """Answers binds and looks in order; the last answer again and again."""

    def __init__(self, binds: list[ApiError | None], looks: list[ApiError | PodBuilder]) -> None:
        self.binds, self.looks = binds, looks
        self.bound = self.looked = 0

    def create(self, _res: object, _obj: Obj, _namespace: str, /, *, subresource: str) -> Obj:
        assert subresource == "binding"
        self.bound += 1
        answer = self.binds.pop(0) if len(self.binds) > 1 else self.binds[0]
        if answer is not None:
            raise answer
        return {}

    def get(self, _res: object, _name: str, _namespace: str, /) -> Obj:
        self.looked += 1
        answer = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(answer, ApiError):
            raise answer
        return answer.build()


HERE, ELSEWHERE = pod("a").node("n"), pod("a").node("m")
CASES: list[tuple[str, list[Any], list[Any], type, int, int]] = [
    # what happens, answers to binds, answers to looks, outcome, binds, looks
    ("it works", [None], [], Bound, 1, 0),
    ("answer lost, but bound", [LOST], [HERE], Bound, 1, 1),
    ("answer lost, not bound, then it works", [LOST, None], [PENDING], Bound, 2, 1),
    ("server broke, not bound, then it works", [BROKEN, None], [PENDING], Bound, 2, 1),
    ("answer lost, somebody else was faster", [LOST], [ELSEWHERE], Astray, 1, 1),
    ("answer lost, pod gone", [LOST], [ABSENT], Astray, 1, 1),
    ("answer lost, another pod of that name", [LOST], [pod("a").uid("other")], Astray, 1, 1),
    ("answer lost, pod being deleted", [LOST], [pod("a").deleting()], Astray, 1, 1),
    ("answer lost, and the look too, twice", [LOST], [LOST, BROKEN, HERE], Bound, 1, 3),
    ("never an answer, never bound", [LOST], [PENDING], Unbound, TRIES, TRIES),
    ("conflict because it is there already", [CONFLICT], [HERE], Bound, 1, 1),
    ("conflict because it is elsewhere", [CONFLICT], [ELSEWHERE], Astray, 1, 1),
    ("conflict for gates", [CONFLICT], [pod("a").gate("g")], Unbound, 1, 1),
    ("conflict nobody can explain", [CONFLICT], [PENDING], Unbound, 1, 1),
    ("pod not found", [ABSENT], [], Astray, 1, 0),
    ("not allowed", [FORBIDDEN], [], Unbound, 1, 0),
    ("never sent, then it works", [AWAY, None], [], Bound, 2, 0),
    ("never sent at all", [AWAY], [], Unbound, TRIES, 0),
]


@pytest.mark.parametrize(
    ("binds", "looks", "outcome", "bound", "looked"), [pytest.param(*c[1:], id=c[0]) for c in CASES]
)
def test_outcomes(binds: list[Any], looks: list[Any], outcome: type, bound: int, looked: int) -> None:
    server = Server(list(binds), list(looks))
    assert type(Attempt(server, BIND, lambda: True, lambda _: False).run()) is outcome
    assert (server.bound, server.looked) == (bound, looked)


def test_who_does_not_lead_binds_nothing() -> None:
    server = Server([None], [])
    outcome = Attempt(server, BIND, lambda: False, lambda _: False).run()
    assert isinstance(outcome, Unbound)
    assert server.bound == 0


def test_who_loses_the_lead_does_not_try_again() -> None:
    server = Server([LOST], [PENDING])
    leading: Callable[[], bool] = iter([True, False]).__next__
    assert isinstance(Attempt(server, BIND, leading, lambda _: False).run(), Unbound)
    assert server.bound == 1


def test_giving_up_a_look_leaves_the_matter_open() -> None:
    server = Server([LOST], [LOST])
    assert isinstance(Attempt(server, BIND, lambda: True, lambda _: True).run(), Astray)


def test_binding_names_the_incarnation_and_carries_the_annotations() -> None:
    made = binding(BIND)
    assert made["metadata"] == {
        "name": "a",
        "namespace": "default",
        "uid": "pod-default-a",
        "annotations": {"note": "1"},
    }
    assert made["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n"}
