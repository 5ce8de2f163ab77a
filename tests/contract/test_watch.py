"""Watching: what arrives, in which order, from which version on, and how a watch ends."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from kubenexus.common.kube.resources import CONFIG_MAPS, CORE_EVENTS, LEASES, PODS
from tests.contract.api import Api, Obj
from tests.contract.objects import IDLE, config_map, meta, pod


def version(obj: Obj) -> str:
    return str(obj["metadata"]["resourceVersion"])


def take(events: Iterator[Obj], count: int) -> list[tuple[str, str]]:
    """(type, name) of the next events."""
    return [(e["type"], e["object"]["metadata"]["name"]) for e in itertools.islice(events, count)]


def test_watch_from_a_list_sees_what_came_after_in_order(api: Api) -> None:
    api.create(LEASES, meta("before")).expect(201)
    start = version(api.list(LEASES).expect(200))
    api.create(LEASES, meta("a")).expect(201)
    api.patch(LEASES, "a", {"metadata": {"labels": {"x": "y"}}}).expect(200)
    api.create(LEASES, meta("b")).expect(201)
    api.delete(LEASES, "a").expect(200)
    expected = [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert take(api.watch(LEASES, resourceVersion=start), 4) == expected


def test_pod_without_a_node_is_seen_terminating_and_then_gone(api: Api) -> None:
    start = version(api.create(PODS, pod("a")).expect(201))
    api.delete(PODS, "a").expect(200)
    terminating, gone = itertools.islice(api.watch(PODS, resourceVersion=start), 2)
    assert (terminating["type"], gone["type"]) == ("MODIFIED", "DELETED")
    assert terminating["object"]["metadata"]["deletionTimestamp"]
    assert terminating["object"]["metadata"]["deletionGracePeriodSeconds"] == 0


def test_watch_sees_what_happens_while_it_is_open(api: Api) -> None:
    start = version(api.list(PODS).expect(200))
    events = api.watch(PODS, resourceVersion=start)
    for name in ("a", "b"):
        api.create(PODS, pod(name)).expect(201)
        assert take(events, 1) == [("ADDED", name)]
    events.close()


def test_watch_from_version_0_begins_with_what_exists(api: Api) -> None:
    for name in ("a", "b"):
        api.create(PODS, pod(name)).expect(201)
    assert sorted(take(api.watch(PODS, resourceVersion="0"), 2)) == [("ADDED", "a"), ("ADDED", "b")]


def test_watch_resumes_after_any_event(api: Api) -> None:
    created = api.create(PODS, pod("a")).expect(201)
    api.create(PODS, pod("b")).expect(201)
    api.create(PODS, pod("c")).expect(201)
    assert take(api.watch(PODS, resourceVersion=version(created)), 2) == [("ADDED", "b"), ("ADDED", "c")]


def test_events_carry_whole_typed_objects_with_their_version(api: Api) -> None:
    created = api.create(PODS, pod("a")).expect(201)
    [event] = itertools.islice(api.watch(PODS, resourceVersion="0"), 1)
    assert event == {"type": "ADDED", "object": created}


def test_deleted_event_carries_the_version_of_the_deletion(api: Api) -> None:
    created = api.create(LEASES, meta("a")).expect(201)
    api.delete(LEASES, "a").expect(200)
    after = version(api.list(LEASES).expect(200))
    [event] = itertools.islice(api.watch(LEASES, resourceVersion=version(created)), 1)
    assert event["type"] == "DELETED"
    assert int(version(created)) < int(version(event["object"])) <= int(after)


def test_object_that_starts_to_match_is_added_and_one_that_stops_is_deleted(api: Api) -> None:
    start = version(api.create(LEASES, meta("a")).expect(201))
    for step, value in enumerate(("on", "on", "off", "on")):
        api.patch(LEASES, "a", {"metadata": {"labels": {"watch": value, "step": str(step)}}}).expect(200)
    api.delete(LEASES, "a").expect(200)
    events = take(api.watch(LEASES, resourceVersion=start, labelSelector="watch=on"), 5)
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]


def test_field_selector_transition_shows_a_finished_pod_as_deleted(api: Api) -> None:
    start = version(api.create(PODS, pod("a", {"nodeName": IDLE})).expect(201))
    api.patch(PODS, "a", {"status": {"phase": "Succeeded"}}, sub="status").expect(200)
    [event] = itertools.islice(api.watch(PODS, resourceVersion=start, fieldSelector="status.phase!=Succeeded"), 1)
    assert event["type"] == "DELETED"
    assert event["object"]["status"]["phase"] == "Pending"  # as it last matched


def test_watch_of_one_name_sees_that_name_only(api: Api) -> None:
    start = version(api.list(CONFIG_MAPS).expect(200))
    for name in ("a", "b", "a2"):
        api.create(CONFIG_MAPS, config_map(name)).expect(201)
    api.delete(CONFIG_MAPS, "b").expect(200)
    events = take(api.watch(CONFIG_MAPS, resourceVersion=start, fieldSelector="metadata.name=b"), 2)
    assert events == [("ADDED", "b"), ("DELETED", "b")]


def test_watch_in_a_namespace_does_not_see_others(api: Api) -> None:
    start = version(api.list(CONFIG_MAPS).expect(200))
    elsewhere = api.request("POST", CONFIG_MAPS.path("default"), {"metadata": {"generateName": "x-"}}).expect(201)
    api.request("DELETE", CONFIG_MAPS.path("default", elsewhere["metadata"]["name"])).expect(200)
    api.create(CONFIG_MAPS, config_map("mine")).expect(201)
    selected = api.watch(CONFIG_MAPS, resourceVersion=start, fieldSelector="metadata.name!=kube-root-ca.crt")
    assert take(selected, 1) == [("ADDED", "mine")]


def test_server_ends_the_watch_after_its_timeout(api: Api) -> None:
    start = version(api.list(PODS).expect(200))
    begun = time.monotonic()
    assert list(api.watch(PODS, resourceVersion=start, timeoutSeconds=1)) == []
    assert 0.5 < time.monotonic() - begun < 5


def test_bookmark_tells_a_version_from_which_to_resume(api: Api) -> None:
    start = version(api.create(CONFIG_MAPS, config_map("a")).expect(201))
    api.create(CONFIG_MAPS, config_map("b")).expect(201)
    events = api.watch(CONFIG_MAPS, resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds=5)
    assert next(events)["type"] == "ADDED"
    newest = version(api.create(CONFIG_MAPS, config_map("c")).expect(201))
    bookmark = next(event["object"] for event in events if event["type"] == "BOOKMARK")
    assert (bookmark["kind"], bookmark["apiVersion"]) == ("ConfigMap", "v1")
    assert int(version(bookmark)) >= int(newest)


def test_no_bookmarks_unless_asked_for(api: Api) -> None:
    start = version(api.list(PODS).expect(200))
    assert list(api.watch(PODS, resourceVersion=start, timeoutSeconds=3)) == []


def test_version_from_before_a_compaction_is_gone(api: Api) -> None:
    """On events, which the real server keeps no cache of: there a compaction shows at once."""
    event = {"metadata": {"generateName": "e-"}, "involvedObject": {"namespace": api.namespace}}
    start = version(api.create(CORE_EVENTS, event).expect(201))
    for _ in range(3):
        api.create(CORE_EVENTS, event).expect(201)
    api.server.compact()
    [gone] = itertools.islice(api.watch(CORE_EVENTS, resourceVersion=start), 1)
    assert gone["type"] == "ERROR"
    status = gone["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
