"""Virtual time: pods arrive, run and end."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.cli import main
from kubenexus.common.vocabulary import SIMULATED_RUN_TIME
from kubenexus.scheduler.simulation import Simulation
from kubenexus.scheduler.timeline import run_timeline
from tests.builders import Builder, NodeBuilder, PodBuilder, node, pod
from tests.shared import shared_file

Obj = dict[str, Any]


def machine(name: str = "n1", gpu: int = 2) -> NodeBuilder:
    return node(name).capacity(cpu=64, memory="256Gi", gpu=gpu)


def at(seconds: float) -> str:
    return datetime.fromtimestamp(1_767_225_600 + seconds, UTC).isoformat().replace("+00:00", "Z")


def arriving(name: str, seconds: float, run: float | str | None = None, gpu: int = 1) -> PodBuilder:
    builder = pod(name).gpu(gpu).created(at(seconds))
    return builder if run is None else builder.annotation(SIMULATED_RUN_TIME, str(run))


def play(*objects: Builder | Obj, explain: bool = False) -> Obj:
    raw = [one.build() if isinstance(one, Builder) else one for one in objects]
    return run_timeline(Simulation(raw, explain=explain))


def times(result: Obj) -> dict[str, tuple[float | None, float | None]]:
    entries = (*result["placements"], *result["pending"])
    return {one["pod"].removeprefix("default/"): (one["start"], one["end"]) for one in entries}


def test_room_that_is_freed_goes_to_those_who_wait() -> None:
    result = play(machine(), arriving("a", 0, 10, gpu=2), arriving("b", 3, 5, gpu=2), arriving("c", 4, 1, gpu=2))
    assert times(result) == {"a": (0, 10), "b": (10, 15), "c": (15, 16)}
    assert result["summary"] == {
        "pods": 3,
        "placed": 3,
        "pending": 0,
        "wait_mean": 6.0,
        "wait_p50": 7.0,
        "wait_p99": 11.0,
        "completion_mean": pytest.approx(34 / 3),
        "completion_p50": 12.0,
        "completion_p99": 12.0,
        "makespan": 16.0,
        "gpu_utilisation": 1.0,
    }


def test_who_ends_makes_room_for_who_arrives_at_that_moment() -> None:
    assert times(play(machine(), arriving("a", 0, 10, gpu=2), arriving("b", 10, 5, gpu=2)))["b"] == (10, 15)


def test_priority_goes_first_among_those_who_wait() -> None:
    never = {"spec.preemptionPolicy": "Never"}
    late = arriving("late", 2, 1, gpu=2).priority(5).set(*next(iter(never.items())))
    result = play(machine(), arriving("a", 0, 10, gpu=2), arriving("early", 1, 1, gpu=2), late)
    assert times(result) == {"a": (0, 10), "late": (10, 11), "early": (11, 12)}


def test_without_a_run_time_a_pod_never_ends() -> None:
    result = play(machine(), arriving("a", 0, gpu=2), arriving("b", 5, 1))
    assert times(result) == {"a": (0, None), "b": (None, None)}
    assert result["pending"][0]["reason"].startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


def test_nothing_ends() -> None:
    summary = play(machine(), arriving("a", 0), arriving("b", 8))["summary"]
    assert (summary["makespan"], summary["completion_mean"], summary["wait_p99"]) == (8.0, None, 0.0)
    assert summary["gpu_utilisation"] == 0.5


def test_fractions_of_seconds() -> None:
    assert times(play(machine(), arriving("a", 0.25, 0.5), arriving("b", 0.35, 0))) == {"a": (0, 0.5), "b": (0.1, 0.1)}


def test_pods_of_no_time_are_there_from_the_first() -> None:
    timeless = arriving("timeless", 0, 5).build()
    del timeless["metadata"]["creationTimestamp"]
    assert times(play(machine(), arriving("a", 100, 5), timeless)) == {"a": (0, 5), "timeless": (0, 5)}


def test_times_may_begin_with_the_epoch() -> None:
    first, second = arriving("a", 0, 5), arriving("b", 0, 5)
    result = play(machine(), first.created("1970-01-01T00:00:00Z"), second.created("1970-01-01T00:00:07Z"))
    assert times(result) == {"a": (0, 5), "b": (7, 12)}


@pytest.mark.parametrize("run", ["soon", "-1", "nan", "inf", ""])
def test_a_run_time_that_is_none_is_the_reason(run: str) -> None:
    result = play(machine(), arriving("a", 0, run), arriving("b", 0, 1))
    assert times(result) == {"a": (None, None), "b": (0, 1)}
    assert "which is no number of seconds" in result["pending"][0]["reason"]


def test_running_pods_leave_too() -> None:
    running = arriving("r", -10, 25, gpu=2).node("n1")
    assert times(play(machine(), running, arriving("a", 0, 1))) == {"a": (15, 16)}


def test_who_is_driven_out_starts_over() -> None:
    result = play(machine(), arriving("low", 0, 10, gpu=2), arriving("high", 4, 3, gpu=2).priority(9))
    assert times(result) == {"high": (4, 7), "low": (7, 17)}
    assert "preempted by default/high on n1" in result["placements"][0]["reason"]
    assert result["summary"]["gpu_utilisation"] == 1.0


def test_driven_out_while_there_is_room_elsewhere() -> None:
    high = arriving("high", 4, 3, gpu=2).priority(9).select(**{"kubernetes.io/hostname": "n1"})
    low = arriving("low", 0, 10, gpu=2).node("n1")
    result = play(machine("n1"), machine("n2"), low, high)
    assert times(result) == {"high": (0, 3), "low": (0, 10)}


def test_company_that_comes_later_helps() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    guest = arriving("guest", 0, 1).set("spec.affinity.podAffinity", rule)
    assert times(play(machine(), guest, arriving("db", 5, 1).label("app", "db"))) == {"guest": (5, 6), "db": (5, 6)}


def test_explained() -> None:
    result = play(
        machine(), arriving("a", 0, 10, gpu=2), arriving("b", 3, 5, gpu=2), arriving("c", 3, gpu=9), explain=True
    )
    first, second = result["placements"]
    assert first["nodes"]["n1"]["feasible"]
    assert second["nodes"]["n1"]["feasible"]
    assert result["pending"][0]["nodes"]["n1"]["reasons"] == ["Insufficient nvidia.com/gpu"]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [machine().build(), arriving("a", 0, 10, gpu=2).build(), arriving("b", 3, 5, gpu=2).build()]
    (tmp_path / "lines").write_text(json.dumps({"objects": objects}))
    assert main(["simulate", "--timeline", "--jsonl", str(tmp_path / "lines")]) == 0
    assert times(json.loads(capsys.readouterr().out)) == {"a": (0, 10), "b": (10, 15)}
    (tmp_path / "list").write_text(json.dumps({"kind": "List", "items": objects}))
    assert main(["simulate", "--timeline", str(tmp_path / "list")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[:2] == [["POD", "NODE", "START", "END"], ["default/a", "n1", "0", "10"]]


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=15
    )
)
def test_nobody_runs_short_or_too_many_at_once(pods: list[tuple[int, int, int, int]]) -> None:
    objects = [arriving(f"p{n}", when, run, gpu).priority(prio) for n, (when, run, gpu, prio) in enumerate(pods)]
    result = play(machine("n1", 2), machine("n2", 2), *objects)
    first = min(when for when, *_ in pods)
    spans = []
    for name, (start, end) in times(result).items():
        when, run, gpu, _ = pods[int(name[1:])]
        assert (start is None) == (gpu > 2)  # all others get their turn
        if start is not None and end is not None:
            assert start >= when - first
            assert end - start == run
            spans.append((start, end, gpu))
    for moment, *_ in spans:
        assert sum(gpu for start, end, gpu in spans if start <= moment < end) <= 4


@pytest.mark.slow
def test_a_public_trace() -> None:
    """A real cluster's GPU pods over five months, each with whole GPUs."""
    nodes = [_trace_node(row) for row in _rows("openb_node_list_gpu_node")]
    pods = [_trace_pod(row) for row in _rows("openb_pod_list_default") if row["gpu_spec"] == ""]
    result = play(*nodes, *pods)
    summary = result["summary"]
    assert summary["pods"] == len(pods)
    assert summary["placed"] == len(pods)
    assert 0 < summary["gpu_utilisation"] <= 1
    used: dict[str, list[tuple[float, int]]] = {}
    gpus = {f"default/{one.obj['metadata']['name']}": one for one in pods}
    for one in result["placements"]:
        amount = int(gpus[one["pod"]].container["resources"]["requests"].get("nvidia.com/gpu", 0))
        used.setdefault(one["node"], []).extend([(one["start"], amount), (one["end"], -amount)])
    room = {one.obj["metadata"]["name"]: int(one.obj["status"]["allocatable"]["nvidia.com/gpu"]) for one in nodes}
    for name, changes in used.items():
        held = 0
        for _, change in sorted(changes):
            held += change
            assert held <= room[name]


def _rows(name: str) -> list[dict[str, str]]:
    with gzip.open(shared_file(f"traces/openb/{name}.csv.gz"), "rt", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _trace_node(row: dict[str, str]) -> NodeBuilder:
    amounts = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"}
    return node(row["sn"]).capacity(gpu=int(row["gpu"]), **amounts)


def _trace_pod(row: dict[str, str]) -> PodBuilder:
    begin, end = float(row["creation_time"]), float(row["deletion_time"])
    made = arriving(row["name"], begin, max(0.0, end - begin), gpu=int(row["num_gpu"]))
    return made.cpu(f"{row['cpu_milli']}m").memory(f"{row['memory_mib']}Mi")
