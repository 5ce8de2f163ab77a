"""Gangs in `kubenexus simulate`: placed whole, in file order and in virtual time."""

from __future__ import annotations

from typing import Any

from kubenexus.common import vocabulary as v
from kubenexus.scheduler.simulation import Simulation
from kubenexus.scheduler.timeline import run_timeline
from tests.builders import Builder, JobBuilder, job, node, pod

Obj = dict[str, Any]


def train(name: str, workers: int, seconds: int = 10, at: str = "2026-01-01T00:00:00Z") -> JobBuilder:
    made = job(name, pod(name).cpu(4).gpu(8)).parallelism(workers).indexed()
    made.set("spec.template.metadata.annotations", {v.SIMULATED_RUN_TIME: str(seconds)})
    return made.set("metadata.creationTimestamp", at)


def dgx(*names: str) -> list[Builder]:
    return [node(name).capacity(cpu=64, memory="512Gi", gpu=8) for name in names]


def run(*builders: Builder) -> Obj:
    return Simulation([one.build() for one in builders]).run()


def test_indexed_job_is_placed_whole() -> None:
    result = run(*dgx("a", "b"), train("train", 2))
    assert sorted(entry["node"] for entry in result["placements"]) == ["a", "b"]
    assert {entry["gang"] for entry in result["placements"]} == {"default/job-job-default-t"}


def test_gang_without_room_for_all_stays_pending_and_the_next_pod_gets_the_room() -> None:
    result = run(*dgx("a"), train("train", 2), pod("next").gpu(8))
    assert [entry["pod"] for entry in result["placements"]] == ["default/next"]
    reasons = {entry["reason"] for entry in result["pending"]}
    (reason,) = reasons
    assert reason.startswith("Gang Job train needs 2 members at once: 2 exist, room for 1: 0/1 nodes are available: ")


def test_incomplete_gang_says_who_is_missing() -> None:
    result = run(*dgx("a"), pod("p").gpu(1).gang("g", 3))
    (entry,) = result["pending"]
    assert (entry["gang"], entry["reason"]) == ("default/g", "Gang g waits for its members: 1 of 3 exist.")


def test_in_virtual_time_a_gang_starts_as_a_whole_once_there_is_room() -> None:
    objects = [*dgx("a", "b"), train("first", 1, seconds=30), train("second", 2, at="2026-01-01T00:00:10Z")]
    result = run_timeline(Simulation([one.build() for one in objects]))
    starts = {entry["pod"]: entry["start"] for entry in result["placements"]}
    assert starts == {"default/first-0": 0, "default/second-0": 30, "default/second-1": 30}
    assert result["summary"]["makespan"] == 40
