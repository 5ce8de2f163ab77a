"""The rules of Lease election, with a clock made of numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.kube.election import Election, Timing

T0, T1 = "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:09.000000Z"


def lease(holder: str, renewed: str = T0, *, transitions: int = 3, duration: int | None = 15) -> dict[str, Any]:
    spec: dict[str, Any] = {"holderIdentity": holder, "renewTime": renewed, "leaseTransitions": transitions}
    return {"spec": spec | ({"leaseDurationSeconds": duration} if duration else {})}


def candidate(name: str = "me") -> Election:
    return Election(name, Timing())


def test_no_lease_is_made() -> None:
    assert candidate().look(None, 0.0, T1) == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": T1,
        "renewTime": T1,
        "leaseTransitions": 0,
    }


def test_a_released_lease_is_taken_at_once() -> None:
    spec = candidate().look(lease(""), 0.0, T1)
    assert spec
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["acquireTime"]) == ("me", 4, T1)


@pytest.mark.parametrize(
    ("duration", "before", "after"),
    [(15, 14.9, 15.0), (60, 59.9, 60.0), (None, 14.9, 15.0)],
    ids=["ours", "the holder's, which is longer", "not written: ours"],
)
def test_a_lease_is_free_when_unchanged_for_its_duration_on_our_clock(
    duration: int | None, before: float, after: float
) -> None:
    me = candidate()
    held = lease("other", duration=duration)  # its times may be from any year: they are not looked at
    assert me.look(held, 100.0, T1) is None
    assert me.look(held, 100.0 + before, T1) is None
    assert me.look(held, 100.0 + after, T1)


def test_a_renewal_starts_the_time_anew() -> None:
    me = candidate()
    assert me.look(lease("other", T0), 0.0, T1) is None
    assert me.look(lease("other", T1), 14.0, T1) is None
    assert me.look(lease("other", T1), 28.9, T1) is None
    assert me.look(lease("other", T1), 29.0, T1)


def test_our_own_lease_is_renewed_as_it_is() -> None:
    spec = candidate().look({"spec": {**lease("me")["spec"], "acquireTime": T0}}, 0.0, T1)
    assert spec
    assert (spec["acquireTime"], spec["renewTime"], spec["leaseTransitions"]) == (T0, T1, 3)


def test_we_lead_for_the_renew_time_after_the_last_renewal_was_asked_for() -> None:
    me = candidate()
    assert not me.leading(0.0)
    me.won(100.0)
    assert me.leading(109.9)
    assert me.left(104.0) == 6.0
    assert not me.leading(110.0)
    me.won(108.0)
    assert me.leading(117.9)
    me.lost()
    assert not me.leading(108.0)


def test_release_hands_over_only_what_is_ours() -> None:
    me = candidate()
    released = me.released(lease("me"), T1)
    assert released
    assert (released["holderIdentity"], released["renewTime"], released["leaseTransitions"]) == ("", T1, 3)
    assert me.released(lease("other"), T1) is None


@pytest.mark.parametrize("wrong", [(10, 10, 2), (15, 2.4, 2), (15, 10, 0)], ids=["lease", "renew", "retry"])
def test_times_that_cannot_work_are_refused(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="a leader needs lease > renew > retry"):
        Timing(*wrong)


def test_candidates_spread_their_attempts() -> None:
    assert Timing().pause(leading=False, chance=0.0) == 2.0
    assert Timing().pause(leading=False, chance=1.0) == pytest.approx(4.4)
    assert Timing().pause(leading=True, chance=1.0) == 2.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.floats(0.1, 6.0), st.sampled_from(["written", "answer lost", "unreachable"])
        ),
        max_size=60,
    )
)
def test_there_are_never_two_leaders(turns: list[tuple[str, float, str]]) -> None:
    """Any order of turns, any pauses, any lost answers: at no moment do two candidates think that they lead."""
    candidates = {name: candidate(name) for name in "abc"}
    held: dict[str, Any] | None = None
    now = 0.0
    for name, pause, fate in turns:
        now += pause
        me = candidates[name]
        spec = me.look(held, now, f"{now}") if fate != "unreachable" else None
        if spec:
            held = {"spec": spec}
            if fate == "written":
                me.won(now)
        elif fate != "unreachable":
            me.lost()
        assert sum(each.leading(now) for each in candidates.values()) <= 1
