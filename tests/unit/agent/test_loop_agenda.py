"""What the agent does next, on a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.agent.agenda import Agenda, Do, Timing

MIDDLE = 0.5  # of a random spread: exactly the usual time


def begun(now: float = 0.0) -> Agenda:
    """An agent that scanned and published at this time."""
    agenda = Agenda(Timing(), now)
    agenda.scanned("print", now, MIDDLE)
    agenda.published(now, MIDDLE)
    return agenda


def test_it_begins_with_a_scan_and_publishes_what_it_found() -> None:
    agenda = Agenda(Timing(), 0.0)
    assert agenda.next(0.0) == (0.0, Do.SCAN)
    agenda.scanned("print", 1.0, MIDDLE)
    assert agenda.next(1.0) == (0.0, Do.PUBLISH)
    agenda.published(1.5, MIDDLE)
    assert agenda.next(1.5) == (9.5, Do.POLL)


def drive(agenda: Agenda, seconds: float, prints: Callable[[float], str] = lambda _: "print") -> list[tuple[float, Do]]:
    """Let the agenda run, everything taking no time and succeeding; what was done and when, polls left out."""
    now, story = 0.0, list[tuple[float, Do]]()
    while True:
        delay, todo = agenda.next(now)
        now += delay
        if now > seconds:
            return story
        if todo is Do.SCAN:
            agenda.scanned(prints(now), now, MIDDLE)
        elif todo is Do.PUBLISH:
            agenda.published(now, MIDDLE)
        else:
            agenda.polled(prints(now), now)
            continue
        story.append((now, todo))


def test_an_idle_quarter_of_an_hour() -> None:
    story = drive(begun(), 900)
    assert [now for now, todo in story if todo is Do.SCAN] == [300, 600, 900]
    assert [now for now, todo in story if todo is Do.PUBLISH and now <= 300] == [60, 120, 180, 240, 300]


def test_a_changed_fingerprint_is_scanned_once_after_it_settled_and_published_at_once() -> None:
    story = drive(begun(), 50, lambda now: "print" if now < 25 else "other")
    assert story == [(32, Do.SCAN), (32, Do.PUBLISH)]


def test_a_change_during_the_scan_is_not_missed() -> None:
    agenda = begun()
    agenda.scanned("taken before the scan", 100.0, MIDDLE)
    agenda.published(100.0, MIDDLE)
    agenda.polled("of after it", 110.0)
    assert agenda.next(110.0) == (2.0, Do.SCAN)


def test_a_signal_asks_for_a_scan_now() -> None:
    agenda = begun()
    agenda.rescan(4.0)
    assert agenda.next(4.0) == (0.0, Do.SCAN)


def test_a_disturbance_is_repaired_soon_and_many_are_repaired_once() -> None:
    agenda = begun()
    for now in (1.0, 2.0, 3.0):
        agenda.disturbed(now)
    assert agenda.next(3.0) == (3.0, Do.PUBLISH)
    agenda.published(6.0, MIDDLE)
    assert agenda.next(6.0)[1] is Do.POLL


def test_a_disturbance_before_the_first_scan_has_nothing_to_publish() -> None:
    agenda = Agenda(Timing(), 0.0)
    agenda.disturbed(0.0)
    assert agenda.next(0.0) == (0.0, Do.SCAN)


def pauses(chance: float, failures: int) -> list[float]:
    agenda, now, found = begun(), 0.0, []
    for _ in range(failures):
        agenda.failed("no", now, chance)
        moment = next_publish(agenda, now)
        found.append(moment - now)
        now = moment
    return found


def next_publish(agenda: Agenda, now: float) -> float:
    """When it publishes next, if scans and polls happen as they should."""
    while True:
        delay, todo = agenda.next(now)
        now += delay
        if todo is Do.PUBLISH:
            return now
        if todo is Do.POLL:
            agenda.polled("print", now)
        else:
            agenda.scanned("print", now, MIDDLE)


def test_failures_back_off_from_one_second_to_a_minute_with_jitter() -> None:
    assert pauses(1.0, 8) == [1, 2, 4, 8, 16, 32, 60, 60]
    assert pauses(0.0, 8) == [0.5, 1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize("trouble", ["disturbed", "scanned"])
def test_nothing_shortens_a_backoff(trouble: str) -> None:
    agenda = begun()
    agenda.failed("busy", 10.0, 1.0, retry_after=40.0)
    if trouble == "disturbed":
        agenda.disturbed(11.0)
    else:
        agenda.scanned("print", 11.0, MIDDLE)
    assert next_publish(agenda, 11.0) == 50.0


def test_it_goes_on_discovering_while_the_api_server_is_away() -> None:
    agenda, now, scans = begun(), 0.0, 0
    while now < 1000:
        delay, todo = agenda.next(now)
        now += delay
        if todo is Do.PUBLISH:
            agenda.failed("nobody there", now, 1.0)
        elif todo is Do.POLL:
            agenda.polled("print", now)
        else:
            scans += 1
            agenda.scanned("print", now, MIDDLE)
    assert scans == 3


def test_the_same_failure_is_news_once() -> None:
    agenda = begun()
    assert [agenda.failed(why, 0.0, 1.0) for why in ("a", "a", "b", "b", "a")] == [True, False, True, False, True]
    agenda.published(1.0, MIDDLE)
    assert agenda.failed("a", 2.0, 1.0)


def test_ready_with_the_first_success_until_two_minutes_without() -> None:
    agenda = Agenda(Timing(), 0.0)
    assert agenda.ready(0.0) == "nothing is published yet: the machine is being scanned"
    agenda.failed("may not patch nodes", 1.0, 1.0)
    assert agenda.ready(1.0) == "nothing is published yet: may not patch nodes"
    agenda.published(2.0, MIDDLE)
    assert agenda.ready(2.0) is None
    agenda.failed("nobody there", 60.0, 1.0)
    assert agenda.ready(122.0) is None
    assert agenda.ready(123.0) == "not published for 121 s: nobody there"
    agenda.published(124.0, MIDDLE)
    assert agenda.ready(124.0) is None


def test_alive_while_it_moves_whatever_the_api_server_does() -> None:
    agenda = begun()
    agenda.failed("nobody there", 0.0, 1.0)
    agenda.next(1000.0)
    assert agenda.alive(1180.0) is None
    assert agenda.alive(1181.0) == "the loop has not moved for 181 s"


def happens(agenda: Agenda, what: str, now: float, chance: float) -> None:
    match what:
        case "poll":
            agenda.polled("print", now)
        case "change":
            agenda.polled(f"print {now}", now)
        case "ok":
            agenda.published(now, chance)
        case "fail":
            agenda.failed("no", now, chance)
        case "hup":
            agenda.rescan(now)
        case "wipe":
            agenda.disturbed(now)


@given(st.lists(st.sampled_from(["poll", "change", "ok", "fail", "hup", "wipe"]), max_size=40), st.floats(0, 1))
def test_whatever_happens_a_scan_and_a_publication_come_in_time(story: list[str], chance: float) -> None:
    agenda, now = begun(), 0.0
    for step, what in enumerate(story):
        now += step
        happens(agenda, what, now, chance)
    assert next_publish(agenda, now) - now <= 66
    agenda.published(now, chance)
    later = now
    while (found := agenda.next(later))[1] is not Do.SCAN:
        later += found[0]
        agenda.polled("print", later) if found[1] is Do.POLL else agenda.published(later, chance)
    assert later + found[0] - now <= 330
