"""Lists and watches: whatever happens in between, the pages of a list are of one moment and a watch tells the truth."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubenexus.common.kube.resources import CONFIG_MAPS, Resource
from kubenexus.common.sandbox.errors import ApiError
from kubenexus.common.sandbox.reads import Query
from kubenexus.common.sandbox.registry import Registry
from kubenexus.common.sandbox.watch import Watch

Obj = dict[str, Any]
NS = "default"
STEPS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["red", "green", None]), st.sampled_from([NS, "kube-system"])),
    max_size=30,
)


def paint(registry: Registry, name: str, colour: str | None, namespace: str) -> None:
    """Give an object a colour, creating it if need be; without a colour, delete it."""
    obj = {"metadata": {"name": name, "labels": {"colour": colour}}}
    present = any(item["metadata"]["name"] == name for item in registry.objects(CONFIG_MAPS, namespace))
    if colour is None:
        if present:
            registry.delete(CONFIG_MAPS, namespace, name)
    elif present:
        registry.update(CONFIG_MAPS, namespace, name, obj)
    else:
        registry.create(CONFIG_MAPS, namespace, obj)


def pages(registry: Registry, res: Resource, limit: int) -> list[list[str]]:
    """The names on each page of a list that is read while somebody deletes from it and adds to it."""
    kind, token, found = registry.kind(res), "", []
    for round_ in range(100):
        page = registry.reads.page(kind, NS, Query(limit=limit, token=token))
        found.append([item.obj["metadata"]["name"] for item in page.items])
        if not page.token:
            return found
        token = page.token
        registry.delete(res, NS, found[0][0]) if round_ == 0 else paint(registry, f"new{round_}", "red", NS)
    raise AssertionError("the list has no end")


@pytest.mark.parametrize(("limit", "expected"), [(2, [2, 2, 1]), (5, [5]), (7, [5]), (1, [1] * 5)])
def test_pages_are_of_one_moment(limit: int, expected: list[int]) -> None:
    registry = Registry()
    for name in "abcde":
        paint(registry, name, "red", NS)
    registry.delete(CONFIG_MAPS, NS, "a")
    paint(registry, "a", "red", NS)
    found = pages(registry, CONFIG_MAPS, limit)
    assert [len(page) for page in found] == expected
    assert [name for page in found for name in page] == list("abcde")


def test_a_page_knows_what_remains_unless_it_selects() -> None:
    registry = Registry()
    for name in "abcde":
        paint(registry, name, "red", NS)
    kind = registry.kind(CONFIG_MAPS)
    assert registry.reads.page(kind, NS, Query(limit=2)).remaining == 3
    assert registry.reads.page(kind, NS, Query(labels="colour=red", limit=2)).remaining is None


def test_a_token_from_before_a_compaction_is_expired_but_can_be_traded() -> None:
    registry = Registry()
    for name in "abc":
        paint(registry, name, "red", NS)
    kind = registry.kind(CONFIG_MAPS)
    token = registry.reads.page(kind, NS, Query(limit=1)).token
    paint(registry, "d", "red", NS)
    registry.store.compact()
    with pytest.raises(ApiError) as refusal:
        registry.reads.page(kind, NS, Query(limit=1, token=token))
    assert (refusal.value.code, refusal.value.reason) == (410, "Expired")
    rest = registry.reads.page(kind, NS, Query(token=refusal.value.metadata["continue"]))
    assert [item.obj["metadata"]["name"] for item in rest.items] == ["b", "c", "d"]


def follow(watch: Watch, cache: dict[str, str]) -> None:
    """Bring a client's cache up to date. A watch never adds twice, nor changes or deletes what it has not added."""
    for event in watch.poll(0):
        name, colour = event.item.obj["metadata"]["name"], event.item.obj["metadata"]["labels"]["colour"]
        assert (name in cache) is (event.type != "ADDED")
        if event.type == "DELETED":
            del cache[name]
        else:
            cache[name] = colour


def listed(registry: Registry, selector: str) -> dict[str, str]:
    found = registry.list(CONFIG_MAPS, NS, labels=selector)
    return {item["metadata"]["name"]: item["metadata"]["labels"]["colour"] for item in found}


@settings(max_examples=60, deadline=None)
@given(STEPS, STEPS, st.sampled_from(["", "colour=red", "colour!=red", "colour in (red,green)", "!colour"]))
def test_following_a_watch_is_as_good_as_listing(before: list[Any], after: list[Any], selector: str) -> None:
    registry = Registry()
    for step in before:
        paint(registry, *step)
    whole = registry.watch(CONFIG_MAPS, NS, labels=selector)
    resumed = registry.watch(CONFIG_MAPS, NS, labels=selector, since=str(registry.store.rv))
    caches: tuple[dict[str, str], dict[str, str]] = ({}, listed(registry, selector))
    for count, step in enumerate(after):
        paint(registry, *step)
        if count % 3 == 0:  # a client may lag behind
            follow(whole, caches[0])
    for watch, cache in zip((whole, resumed), caches, strict=True):
        follow(watch, cache)
        follow(watch, cache)
        assert cache == listed(registry, selector)


def test_a_quiet_watch_still_advances_so_that_compaction_does_not_hurt_it() -> None:
    registry = Registry()
    watch = registry.watch(CONFIG_MAPS, NS)
    watch.poll(0)
    registry.create(CONFIG_MAPS, "kube-system", {"metadata": {"name": "elsewhere"}})
    assert watch.poll(0) == []
    assert watch.rv == registry.store.rv
    registry.store.compact()
    paint(registry, "a", "red", NS)
    assert [event.type for event in watch.poll(0)] == ["ADDED"]


def test_a_watch_from_before_a_compaction_is_expired() -> None:
    registry = Registry()
    since = str(registry.store.rv)
    paint(registry, "a", "red", NS)
    registry.store.compact()
    with pytest.raises(ApiError) as refusal:
        registry.watch(CONFIG_MAPS, NS, since=since)
    assert (refusal.value.code, refusal.value.reason) == (410, "Expired")


def test_iterating_a_watch_ends_when_it_is_stopped() -> None:
    registry = Registry()
    paint(registry, "a", "red", NS)
    watch = registry.watch(CONFIG_MAPS, NS)
    seen = []
    for type_, obj in watch:
        seen.append((type_, obj["kind"]))
        watch.stop()
    assert seen == [("ADDED", "ConfigMap")]
