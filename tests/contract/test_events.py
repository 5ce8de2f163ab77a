"""Events (events.k8s.io): what they must say, how a series grows, and how the old group shows them."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.kube.resources import CORE_EVENTS, EVENTS
from tests.contract.api import Api, Obj
from tests.contract.objects import meta, rows


def event(api: Api, **changes: Any) -> Obj:
    return {
        **meta("e"),
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/tester",
        "reportingInstance": "tester-1",
        "action": "Testing",
        "reason": "Tested",
        "type": "Normal",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": api.namespace},
        "note": "all is well",
        **changes,
    }


REFUSED: list[tuple[str, Obj, str]] = [
    ("a note of 1025 characters", {"note": "x" * 1025}, "message"),
    ("no time", {"eventTime": None}, "eventTime"),
    ("no controller", {"reportingController": ""}, "reportingController"),
    ("no instance", {"reportingInstance": ""}, "reportingInstance"),
    ("an instance of 129 characters", {"reportingInstance": "x" * 129}, "reportingInstance"),
    ("no action", {"action": ""}, "action"),
    ("no reason", {"reason": ""}, "reason"),
    ("an unknown type", {"type": "Odd"}, "type"),
]


@pytest.mark.parametrize(("changes", "field"), rows(REFUSED))
def test_event_is_refused_for(api: Api, changes: Obj, field: str) -> None:
    refusal = api.create(EVENTS, event(api, **changes))
    refusal.refused(422, "Invalid")
    assert field in {name for name, _ in refusal.causes}


def test_series_of_an_event_grows(api: Api) -> None:
    api.create(EVENTS, event(api, note="x" * 1024)).expect(201)
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}}
    assert api.patch(EVENTS, "e", series).expect(200)["series"]["count"] == 2


def test_event_is_seen_through_both_groups(api: Api) -> None:
    api.create(EVENTS, event(api)).expect(201)
    core = api.get(CORE_EVENTS, "e").expect(200)
    assert (core["involvedObject"]["name"], core["message"]) == ("a", "all is well")
    assert core["reportingComponent"] == "example.com/tester"
