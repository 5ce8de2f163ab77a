"""What a reflector decides: lists, lines, failures and the next step, without a server, a thread or a clock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubenexus.common.kube.errors import ApiError, Forbidden, Gone, NoAnswer, ServerError, TooManyRequests
from kubenexus.common.kube.mirror import (
    Added,
    Backoff,
    Change,
    Deleted,
    Garbage,
    List,
    Mirror,
    Step,
    Synced,
    Updated,
    Watch,
    by_name,
)


def pod(name: str, version: int, value: object = 0, uid: str = "") -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns", "uid": uid or f"u-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "value": value}


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def error_line(code: int) -> bytes:
    return line("ERROR", {"kind": "Status", "code": code, "message": "no"})


def read(obj: dict[str, Any]) -> int | None:
    """Objects of value -1 are not wanted; one of a value that is no number cannot be read."""
    number = int(obj["value"])
    return None if number < 0 else number


def refusal(kind: type[ApiError], retry_after: float | None = None) -> Any:
    return kind("GET /x", 0, {}, retry_after)


def mirror(*pods: dict[str, Any], version: int = 10, **more: Any) -> Mirror[int]:
    """A mirror that has listed these pods."""
    made = Mirror(read, **more)
    made.listed([([*pods], str(version))], 0.0)
    return made


def action(of: Mirror[int], now: float = 0.0) -> List | Watch:
    return of.next(now, 0.0).action


def test_it_starts_with_a_list() -> None:
    made = Mirror(read)
    assert made.next(0.0, 0.5) == Step(0.0, List(paged=True))
    assert not made.synced


def test_the_first_list_adds_everything_and_then_says_so() -> None:
    made = Mirror(read)
    pages = [([pod("a", 3, 1), pod("b", 4, 2)], "9"), ([pod("c", 5, -1)], "9")]
    assert made.listed(pages, 0.0) == [Added("u-a", 1), Added("u-b", 2), Synced()]
    assert made.synced
    assert made.next(0.0, 0.5) == Step(0.0, Watch("9"))


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        pytest.param(line("ADDED", pod("b", 11, 5)), [Added("u-b", 5)], id="added"),
        pytest.param(line("MODIFIED", pod("a", 11, 5)), [Updated("u-a", 1, 5)], id="changed"),
        pytest.param(line("MODIFIED", pod("a", 11, 1)), [], id="changed where we do not look"),
        pytest.param(line("DELETED", pod("a", 11, 7)), [Deleted("u-a", 1)], id="deleted"),
        pytest.param(line("DELETED", pod("z", 11)), [], id="deleted, never known"),
        pytest.param(line("MODIFIED", pod("a", 11, -1)), [Deleted("u-a", 1)], id="no longer wanted"),
        pytest.param(line("ADDED", pod("b", 11, -1)), [], id="not wanted"),
        pytest.param(line("ADDED", pod("a", 11, 5)), [Updated("u-a", 1, 5)], id="added, but known"),
        pytest.param(line("MODIFIED", pod("b", 11, 5)), [Added("u-b", 5)], id="changed, but not known"),
        pytest.param(line("MODIFIED", pod("a", 10, 5)), [], id="as old as the list"),
        pytest.param(line("DELETED", pod("a", 9)), [], id="older than the list"),
        pytest.param(line("MODIFIED", pod("a", 11, "odd")), [], id="unreadable: what is known stays"),
        pytest.param(line("ADDED", pod("b", 11, "odd")), [], id="unreadable and new: left out"),
        pytest.param(bookmark(11), [], id="bookmark"),
    ],
)
def test_lines(data: bytes, changes: list[Change[int]]) -> None:
    assert mirror(pod("a", 5, 1)).line(data) == changes


def test_an_old_line_does_not_bring_back_the_dead() -> None:
    made = mirror(pod("a", 5, 1))
    changed = line("MODIFIED", pod("a", 11, 2))
    deleted = line("DELETED", pod("a", 12, 2))
    assert [made.line(data) for data in (changed, deleted, changed, deleted)] == [
        [Updated("u-a", 1, 2)],
        [Deleted("u-a", 2)],
        [],
        [],
    ]


def test_the_next_watch_resumes_after_the_last_line() -> None:
    made = mirror()
    made.line(line("ADDED", pod("a", 11)))
    assert action(made) == Watch("11")
    made.line(bookmark(40))
    assert action(made) == Watch("40")
    made.line(line("MODIFIED", pod("a", 12)))
    assert action(made) == Watch("40")


def test_versions_that_are_no_numbers_work() -> None:
    made = Mirror(read)
    made.listed([([], "x9")], 0.0)
    changed = line("ADDED", {"metadata": {"uid": "u", "resourceVersion": "x10"}, "value": 1})
    assert [made.line(changed), made.line(changed)] == [[Added("u", 1)], []]


def test_a_later_list_is_compared_with_what_is_known() -> None:
    made = mirror(pod("gone", 1, 1), pod("same", 2, 2), pod("changed", 3, 3), pod("unreadable", 4, 4))
    fresh = [pod("same", 2, 2), pod("changed", 20, 30), pod("new", 21, 5), pod("unreadable", 22, "odd")]
    assert made.listed([(fresh, "30")], 0.0) == [
        Deleted("u-gone", 1),
        Updated("u-changed", 3, 30),
        Added("u-new", 5),
    ]
    assert action(made) == Watch("30")


def test_a_pod_replaced_under_its_name_is_deleted_and_added() -> None:
    made = mirror(pod("a", 1, 1, uid="old"))
    assert made.listed([([pod("a", 20, 1, uid="new")], "30")], 0.0) == [Deleted("old", 1), Added("new", 1)]


def test_by_name_it_is_an_update() -> None:
    made = mirror(pod("a", 1, 1), key=by_name)
    assert made.listed([([pod("a", 20, 2, uid="new")], "30")], 0.0) == [Updated("ns/a", 1, 2)]
    assert by_name({"metadata": {"name": "node-1"}}) == "node-1"


def test_a_list_that_breaks_off_changes_nothing() -> None:
    made = mirror(pod("a", 1, 1))

    def pages() -> Any:
        yield [pod("b", 2, 2)], "30"
        raise NoAnswer("cut")

    with pytest.raises(NoAnswer):
        made.listed(pages(), 0.0)
    assert made.cache == {"u-a": 1}
    assert action(made) == Watch("10")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"{", Garbage),
        (b"[]", Garbage),
        (b"null", Garbage),
        (b'{"type": "ADDED"}', Garbage),
        (b'{"type": "ADDED", "object": 3}', Garbage),
        (b'{"type": ["x"], "object": {}}', Garbage),
        (b'{"type": "SINGING", "object": {}}', Garbage),
        (line("ADDED", {"metadata": {"resourceVersion": "11"}}), Garbage),
        (line("ADDED", {"metadata": {"uid": "u"}}), Garbage),
        (b"\xff\x00", Garbage),
        (error_line(410), Gone),
        (error_line(500), ServerError),
        (line("ERROR", {}), ServerError),
    ],
    ids=lambda value: value[:40].decode("latin1") if isinstance(value, bytes) else value.__name__,
)
def test_a_line_that_is_no_event_raises_and_changes_nothing(data: bytes, error: type[ApiError]) -> None:
    made = mirror(pod("a", 5, 1))
    with pytest.raises(error):
        made.line(data)
    assert made.cache == {"u-a": 1}
    assert action(made) == Watch("10")


@pytest.mark.parametrize(
    ("error", "then"),
    [
        pytest.param(NoAnswer("cut"), Watch("10"), id="a cut resumes"),
        pytest.param(Garbage("?"), Watch("10"), id="garbage resumes"),
        pytest.param(refusal(ServerError), Watch("10"), id="a failing server resumes"),
        pytest.param(refusal(Gone), List(paged=True), id="too old lists again"),
    ],
)
def test_what_follows_a_failure(error: ApiError, then: List | Watch) -> None:
    made = mirror()
    made.failed(error)
    assert action(made) == then


def test_gone_in_the_middle_of_a_list_means_no_pages() -> None:
    made = Mirror(read)
    made.failed(refusal(Gone))
    assert action(made) == List(paged=False)
    made.listed([([], "20")], 0.0)
    made.failed(refusal(Gone))
    assert action(made) == List(paged=True)


def test_a_watch_that_is_refused_again_and_again_is_given_up_for_a_list() -> None:
    made = mirror()
    for _ in range(4):
        made.failed(refusal(Forbidden))
        assert action(made) == Watch("10")
    made.failed(refusal(Forbidden))
    assert action(made) == List(paged=True)


def test_an_old_list_is_made_anew_at_the_next_break() -> None:
    made = mirror(relist_after=100.0)
    assert action(made, 99.9) == Watch("10")
    assert action(made, 100.0) == List(paged=True)


def test_a_list_without_a_version_is_garbage() -> None:
    with pytest.raises(Garbage):
        Mirror(read).listed([([], "")], 0.0)


@pytest.mark.parametrize(("chance", "delays"), [(0.0, [0.25, 0.5, 1.0, 2.0]), (1.0, [0.5, 1.0, 2.0, 4.0])])
def test_waiting_doubles_with_each_failure(chance: float, delays: list[float]) -> None:
    made = mirror()
    waited = []
    for _ in delays:
        made.failed(NoAnswer("cut"))
        waited.append(made.next(0.0, chance).delay)
    assert waited == delays


def test_waiting_has_a_limit() -> None:
    assert Backoff().delay(1000, 1.0) == 30.0


def test_a_line_ends_the_waiting() -> None:
    made = mirror()
    made.failed(NoAnswer("cut"))
    made.line(bookmark(11))
    assert made.next(0.0, 1.0).delay == 0.0


def test_the_server_may_ask_for_more() -> None:
    made = mirror()
    made.failed(refusal(TooManyRequests, 7.0))
    assert made.next(0.0, 1.0).delay == 7.0


def test_a_watch_that_ends_at_once_does_not_spin() -> None:
    made = mirror()
    made.ended(300.0)
    assert made.next(0.0, 1.0).delay == 0.0
    made.ended(0.1)
    made.ended(0.1)
    assert made.next(0.0, 1.0).delay == 1.0


def test_the_unreadable_are_reported() -> None:
    reported: list[tuple[Any, Exception]] = []
    mirror(pod("a", 1, "odd"), {"metadata": {}}, unreadable=lambda obj, error: reported.append((obj, error)))
    assert [type(error) for _, error in reported] == [ValueError, KeyError]
