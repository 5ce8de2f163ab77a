"""Slices on servers that are older, or that do not let us: told once, and then left in peace."""

from __future__ import annotations

import copy
import logging
from typing import Any, cast

import pytest

from kubenexus.agent.publish.targets import Slices
from kubenexus.agent.publish.wanted import DEFAULT_PARTS, NOTHING, Findings, wanted
from kubenexus.common.kube.client import Client, ListResult
from kubenexus.common.kube.errors import ApiError, Forbidden, NotFound
from kubenexus.common.kube.resources import Resource
from tests.machines import dgx_h100

Obj = dict[str, Any]
NODE: Obj = {"metadata": {"name": "n1", "uid": "u1"}}
WANT = wanted(Findings(dgx_h100()), DEFAULT_PARTS, "n1", "u1")


class OldServer:
    """Keeps slices, but not the taints of devices: it is as old as Kubernetes 1.35."""

    def __init__(self, refusal: ApiError | None = None) -> None:
        self.kept: dict[str, Obj] = {}
        self.refusal = refusal
        self.calls = 0

    def list(self, _: Resource, *, field_selector: str) -> ListResult:
        assert "spec.nodeName=n1" in field_selector
        self.calls += 1
        if self.refusal:
            raise self.refusal
        return ListResult([*self.kept.values()], "1")

    def create(self, _: Resource, obj: Obj) -> Obj:
        kept = copy.deepcopy(obj)
        kept["metadata"] |= {"uid": obj["metadata"]["name"], "resourceVersion": "1"}
        for device in kept["spec"].get("devices", ()):
            device.pop("taints")
        self.kept[kept["metadata"]["name"]] = kept
        return copy.deepcopy(kept)

    update = create


def target(server: OldServer, *, publish: bool = True) -> Slices:
    return Slices(cast("Client", server), "n1", publish=publish, cache=lambda: None)


def carry_out(slices: Slices) -> int:
    writes = [*slices.writes(NODE, WANT)]
    for write in writes:
        write.do()
    return len(writes)


def test_dropped_taints_are_told_once_and_not_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    server = OldServer()
    slices = target(server)
    assert [carry_out(slices) for _ in range(3)] == [3, 0, 0]
    assert [record.levelname for record in caplog.records if "drops device taints" in record.getMessage()] == [
        "WARNING"
    ]


def test_a_new_agent_asks_for_taints_again_without_a_new_generation() -> None:
    server = OldServer()
    carry_out(target(server))
    assert carry_out(target(server)) == 3
    assert {slice_["spec"]["pool"]["generation"] for slice_ in server.kept.values()} == {1}


def test_a_server_without_slices_is_told_once_and_asked_once(caplog: pytest.LogCaptureFixture) -> None:
    server = OldServer(NotFound("GET", 404, {}))
    slices = target(server)
    assert [carry_out(slices) for _ in range(3)] == [0, 0, 0]
    assert server.calls == 1
    assert "does not serve them" in caplog.text


def test_a_forbidden_list_is_an_error_unless_slices_are_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = OldServer(Forbidden("GET", 403, {}))
    with pytest.raises(Forbidden):
        carry_out(target(server))
    off = target(server, publish=False)
    assert [*off.writes(NODE, NOTHING)] == [*off.writes(NODE, NOTHING)] == []
    assert (server.calls, caplog.text) == (2, "")
