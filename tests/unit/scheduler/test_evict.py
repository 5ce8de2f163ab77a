"""Carrying a preemption out: who is told to leave, which incarnation, and what becomes of it when that fails."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kubenexus.common.kube.errors import ApiError, Conflict, Forbidden, MaybeApplied, NotFound
from kubenexus.common.kube.request import PatchType
from kubenexus.common.objects import PodView, project_pod
from kubenexus.scheduler.actions import Eviction
from kubenexus.scheduler.evict import TRIES, evict
from tests.builders import PodBuilder, pod

Obj = dict[str, Any]
NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
LOST = MaybeApplied("no answer")
ABSENT = NotFound("delete", 404, {})
REPLACED = Conflict("delete", 409, {"message": "the UID in the precondition does not match"})
FORBIDDEN = Forbidden("delete", 403, {"message": "no"})


class Server:
    """Takes notes. Each deletion is answered by the next of `answers`, the last one again and again."""

    def __init__(self, *answers: ApiError | None) -> None:
        self.answers = list(answers) or [None]
        self.patched: list[tuple[str, Obj]] = []
        self.deleted: list[tuple[str, str]] = []

    def patch(self, _res: object, name: str, patch: Obj, _namespace: str, /, *, kind: object, subresource: str) -> Obj:
        assert (kind, subresource) == (PatchType.STRATEGIC, "status")
        self.patched.append((name, patch))
        return {}

    def delete(self, _res: object, name: str, _namespace: str, /, *, uid: str) -> Obj:
        self.deleted.append((name, uid))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer
        return {}


def view(built: PodBuilder) -> PodView:
    return project_pod(built.build())


def run(server: Server, *victims: PodBuilder, displaced: tuple[PodBuilder, ...] = ()) -> tuple[str, list[str]]:
    """What went wrong, and who was told to leave."""
    told: list[PodView] = []
    eviction = Eviction(view(pod("high")), "n", tuple(map(view, victims)), tuple(map(view, displaced)))
    outcome = evict(server, eviction, NOW, told.append)
    assert outcome.eviction is eviction
    return outcome.why, [one.name for one in told]


def test_victim_is_marked_and_then_deleted_by_its_uid() -> None:
    server = Server()
    assert run(server, pod("low").uid("low-1").node("n")) == ("", ["low"])
    assert server.deleted == [("low", "low-1")]
    [(name, patch)] = server.patched
    assert (name, patch["metadata"]) == ("low", {"uid": "low-1"})
    assert patch["status"]["conditions"] == [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "kubenexus-scheduler: preempting to accommodate a higher priority pod",
            "lastTransitionTime": "2026-05-04T12:00:00Z",
        }
    ]


def test_who_is_leaving_already_is_left_alone() -> None:
    server = Server()
    assert run(server, pod("leaving").node("n").deleting(), pod("low").node("n")) == ("", ["low"])
    assert [name for name, _ in server.deleted] == ["low"]


def test_weaker_pods_lose_the_promise_of_the_node() -> None:
    server = Server()
    run(server, displaced=(pod("weaker").uid("w-1"),))
    assert server.patched == [("weaker", {"metadata": {"uid": "w-1"}, "status": {"nominatedNodeName": None}})]


@pytest.mark.parametrize(
    ("answers", "tries", "why"),
    [
        pytest.param([ABSENT], 1, "", id="gone already"),
        pytest.param([REPLACED], 1, "", id="another pod has its name"),
        pytest.param([LOST, None], 2, "", id="answer lost, then it works"),
        pytest.param([LOST, ABSENT], 2, "", id="answer lost, but it was done"),
        pytest.param([LOST], TRIES, "default/low cannot be deleted: no answer", id="never an answer"),
        pytest.param(
            [FORBIDDEN], 1, "default/low cannot be deleted: delete was refused with 403: no", id="not allowed"
        ),
    ],
)
def test_answers(answers: list[ApiError | None], tries: int, why: str) -> None:
    server = Server(*answers)
    assert run(server, pod("low").node("n")) == (why, [] if why else ["low"])
    assert len(server.deleted) == tries


def test_one_that_cannot_be_deleted_does_not_save_the_others() -> None:
    server = Server(FORBIDDEN, None)
    why, told = run(server, pod("a").node("n"), pod("b").node("n"))
    assert (why.startswith("default/a cannot"), told) == (True, ["b"])
