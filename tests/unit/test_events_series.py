"""Which events are written: series, rates and lengths, with a clock made of numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.kube.series import WAITING, Bucket, Create, Drop, Extend, Series, Write, cut

serial = itertools.count()


def event(
    pod: str = "a", note: str = "no node fits", at: float = 0.0, kind: str = "Warning", reason: str = "FailedScheduling"
) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": f"{pod}.{next(serial)}"},
        "eventTime": f"t{at:g}",
        "type": kind,
        "reason": reason,
        "action": "Scheduling",
        "note": note,
        "regarding": {"kind": "Pod", "namespace": "ns", "name": pod, "uid": pod},
    }


def create(series: Series, at: float = 0.0, **more: Any) -> dict[str, Any]:
    """Record an event that is the first of its kind; the object to create."""
    (write,) = series.record(event(at=at, **more), at)
    assert isinstance(write, Create)
    return write.obj


def test_the_first_is_created_the_second_makes_a_series() -> None:
    series = Series()
    name = create(series)["metadata"]["name"]
    assert series.record(event(at=1), 1.0) == [Extend("ns", name, 2, "t1")]


def test_further_repetitions_are_told_once_a_minute() -> None:
    series = Series()
    name = create(series)["metadata"]["name"]
    series.record(event(at=1), 1.0)
    assert [series.record(event(at=t), t) for t in (2.0, 3.0, 40.0)] == [[], [], []]
    assert series.due(60.9) == []
    assert series.due(61.0) == [Extend("ns", name, 5, "t40")]
    assert series.due(130.0) == []


def test_a_series_is_closed_after_six_minutes_and_its_last_count_written() -> None:
    series = Series()
    first = create(series)["metadata"]["name"]
    series.record(event(at=1), 1.0)
    series.record(event(at=20), 20.0)
    assert series.due(20.0 + 360) == [Extend("ns", first, 3, "t20")]
    assert create(series, 381.0)["metadata"]["name"] != first


def test_a_new_one_closes_the_series_that_nobody_closed() -> None:
    series = Series()
    first = create(series)["metadata"]["name"]
    series.record(event(at=1), 1.0)
    series.record(event(at=2), 2.0)
    extend, new = series.record(event(at=400), 400.0)
    assert extend == Extend("ns", first, 3, "t2")
    assert isinstance(new, Create)


def test_another_note_or_another_pod_is_another_event() -> None:
    series = Series()
    names = {create(series, note=note, pod=pod)["metadata"]["name"] for note in "xy" for pod in "ab"}
    assert len(names) == 4


def test_the_end_writes_what_is_left() -> None:
    series = Series()
    name = create(series)["metadata"]["name"]
    create(series, pod="b")
    series.record(event(at=1), 1.0)
    series.record(event(at=2), 2.0)
    assert series.close() == [Extend("ns", name, 3, "t2")]
    assert series.close() == []


def test_an_event_that_the_server_lost_is_created_anew() -> None:
    series = Series()
    series.forget(create(series)["metadata"]["name"])
    create(series, 1.0)


def test_one_object_cannot_use_up_the_rate() -> None:
    series = Series(per_object=(0.1, 3))
    noisy = [series.record(event("a", note=str(n)), 0.0) for n in range(4)]
    assert [isinstance(writes[0], Create) for writes in noisy] == [True, True, True, False]
    assert noisy[3] == [Drop()]
    create(series, pod="b")
    create(series, 10.0, note="later")


def good(pod: str) -> dict[str, Any]:
    return event(pod, "bound", kind="Normal", reason="Scheduled")


def created(writes: Iterable[Write]) -> list[str]:
    """The pods that events are created about."""
    return [write.obj["regarding"]["name"] for write in writes if isinstance(write, Create)]


def test_all_objects_together_are_limited() -> None:
    series = Series(overall=(1, 4))
    found = [series.record(good(pod), 0.0) for pod in "abcd"]
    assert [created(writes) for writes in found] == [["a"], ["b"], [], []]
    assert found[3] == [Drop()]
    assert created(series.record(good("e"), 1.0)) == ["e"]


def test_good_news_leave_room_for_warnings() -> None:
    series = Series(overall=(1, 4))
    for number in range(100):
        series.record(good(f"p{number}"), 0.0)
    assert created(series.record(event("refused"), 0.0)) == ["refused"]


def test_warnings_that_come_too_fast_wait_for_their_turn() -> None:
    series = Series(overall=(1, 2))
    assert created(write for pod in "abcde" for write in series.record(event(pod), 0.0)) == ["a", "b"]
    assert series.due(0.0) == []
    assert created(series.due(2.0)) == ["c", "d"]
    assert series.record(event("f"), 3.0) == [], "those before it have waited longer"
    assert created(series.due(3.0)) == ["e"]
    assert created(series.due(4.0)) == ["f"]
    assert series.due(5.0) == []


@pytest.mark.parametrize(
    ("newer", "written"),
    [
        pytest.param(event("b", "still no node fits"), ["still no node fits", "no node fits"], id="another warning"),
        pytest.param(good("b"), ["no node fits"], id="good news"),
    ],
)
def test_a_warning_waits_no_longer_than_it_is_news(newer: dict[str, Any], written: list[str]) -> None:
    """A newer one takes its place in the line; when the trouble is over there is nothing left to warn of."""
    series = Series(overall=(1, 1))
    for pod in "abc":
        series.record(event(pod), 0.0)
    assert Drop() in series.record(newer, 0.0)
    notes = [write.obj["note"] for now in (1.0, 2.0) for write in series.due(now) if isinstance(write, Create)]
    assert notes == written


def test_warnings_that_still_wait_at_the_end_are_dropped() -> None:
    series = Series(overall=(1, 1))
    for pod in "abc":
        series.record(event(pod), 0.0)
    assert series.close() == [Drop(), Drop()]
    assert series.due(9.0) == []


def test_memory_is_bounded() -> None:
    series = Series(overall=(1e9, 1e9))
    first = create(series, pod="p0")["metadata"]["name"]
    series.record(event("p0", at=0), 0.0)
    series.record(event("p0", at=0), 0.0)
    writes = [write for n in range(1, 5000) for write in series.record(event(f"p{n}"), 0.0)]
    assert Extend("ns", first, 3, "t0") in writes
    assert create(series, pod="p0")["metadata"]["name"] != first


def test_so_are_the_warnings_that_wait() -> None:
    series = Series(overall=(0.0, 1))
    writes = [write for n in range(WAITING + 10) for write in series.record(event(f"p{n}"), 0.0)]
    assert writes.count(Drop()) == 9


@given(st.lists(st.floats(0, 3), max_size=50), st.floats(0.1, 5), st.integers(1, 5))
def test_a_bucket_gives_no_more_than_its_rate(pauses: list[float], rate: float, burst: int) -> None:
    bucket = Bucket(rate, burst)
    now, taken = 100.0, 0
    for pause in pauses:
        now += pause
        taken += bucket.take(now)
        assert taken <= burst + (now - 100.0) * rate + 1e-6


@given(st.text(alphabet=st.sampled_from("aé€𝄞\ud800"), max_size=1500))
def test_a_note_is_cut_between_characters(note: str) -> None:
    short = cut(note)
    assert len(short.encode()) <= 1024
    if len(note.encode("utf-8", "replace")) > 1024:
        assert short.endswith("…")
        assert len(short.encode()) > 1020 - 4
        assert note.encode("utf-8", "replace").decode().startswith(short[:-1])
    else:
        assert short == note.encode("utf-8", "replace").decode()


@pytest.mark.parametrize(("note", "short"), [("x" * 1024, "x" * 1024), ("x" * 1025, "x" * 1021 + "…")])
def test_the_limit_is_exact(note: str, short: str) -> None:
    assert cut(note) == short
