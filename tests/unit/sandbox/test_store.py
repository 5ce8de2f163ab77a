"""The multi-version store: compare and set, consistent pasts, waiting, forgetting."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.sandbox.store import CompactedError, Item, MovedError, Store
from tests.stub_server import until

Obj = dict[str, Any]
TABLE = "things"


def thing(name: str, namespace: str = "", **more: Any) -> Obj:
    return {"metadata": {"name": name, "namespace": namespace}, **more}


def put(store: Store, name: str, namespace: str = "", table: str = TABLE, **more: Any) -> Item:
    key = (namespace, name)
    item = store.commit(table, key, store.get(table, key), thing(name, namespace, **more))
    assert item is not None
    return item


def names(items: list[Item]) -> list[str]:
    return [item.obj["metadata"]["name"] for item in items]


def test_every_commit_has_a_version_of_its_own_over_all_tables() -> None:
    store = Store()
    versions = [put(store, "a").rv, put(store, "a", table="others").rv, put(store, "a").rv]
    assert versions == sorted(set(versions))
    assert store.get(TABLE, ("", "a")).obj["metadata"]["resourceVersion"] == str(versions[-1])  # type: ignore[union-attr]


def test_commit_against_an_outdated_version_changes_nothing() -> None:
    store = Store()
    first = put(store, "a")
    second = put(store, "a", value=2)
    for outdated in (None, first):
        with pytest.raises(MovedError):
            store.commit(TABLE, ("", "a"), outdated, thing("a", value=3))
    assert store.get(TABLE, ("", "a")) is second


def test_a_namespace_is_listed_alone_and_in_order() -> None:
    store = Store()
    for namespace, name in [("b", "x"), ("a", "z"), ("a", "y"), ("a-b", "x"), ("", "cluster")]:
        put(store, name, namespace)
    assert names(store.items(TABLE, "a")[0]) == ["y", "z"]
    assert len(store.items(TABLE)[0]) == 5


def test_a_copy_is_the_callers_own() -> None:
    store = Store()
    item = put(store, "a", list=[1])
    item.copy()["list"].append(2)
    assert item.copy()["list"] == [1]


def test_waiting_for_changes_ends_with_the_first_one() -> None:
    store = Store()
    start = store.rv
    seen: list[int] = []
    waiter = threading.Thread(target=lambda: seen.extend(c.rv for c in store.changes(TABLE, start, 10)))
    waiter.start()
    put(store, "a", table="others")
    written = put(store, "a")
    until(lambda: seen == [written.rv])
    waiter.join()


def test_compaction_forgets_the_past_but_neither_the_present_nor_who_reads_already() -> None:
    store = Store()
    first = put(store, "a")
    reader = put(store, "a", value=2).rv
    put(store, "x", table="others")
    store.compact()
    with pytest.raises(CompactedError):
        store.items(TABLE, rv=first.rv)
    with pytest.raises(CompactedError):
        store.check(reader)
    with pytest.raises(CompactedError):
        store.changes(TABLE, first.rv, 0)
    assert store.changes(TABLE, reader, 0) == []
    assert names(store.items(TABLE)[0]) == ["a"]


def test_a_jump_makes_every_version_given_out_old() -> None:
    store = Store()
    last = put(store, "a").rv
    store.compact(1000)
    assert store.rv >= last + 1000
    with pytest.raises(CompactedError):
        store.check(last)
    store.check(store.rv)


def test_the_log_is_bounded() -> None:
    store = Store(history=8)
    oldest = put(store, "a").rv
    for value in range(30):
        put(store, "a", value=value)
    assert len(store.changes(TABLE, store.rv - 8, 0)) == 8
    with pytest.raises(CompactedError):
        store.changes(TABLE, oldest, 0)


steps = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["put", "delete"])), max_size=40)


@given(steps)
def test_every_past_can_be_read_and_the_log_leads_from_it_to_the_present(script: list[tuple[str, str]]) -> None:
    store, present, pasts = Store(), dict[str, int](), {}
    for count, (name, what) in enumerate(script):
        if what == "put":
            put(store, name, value=count)
            present[name] = count
        elif name in present:
            store.commit(TABLE, ("", name), store.get(TABLE, ("", name)), None)
            del present[name]
        pasts[store.rv] = dict(present)
    for rv, past in pasts.items():
        items, version = store.items(TABLE, rv=rv)
        state = {item.obj["metadata"]["name"]: item.obj["value"] for item in items}
        assert (state, version) == (past, rv)
        assert names(items) == sorted(past)
        for change in store.changes(TABLE, rv, 0):
            state.pop(change.key[1], None)
            state |= {change.key[1]: change.new.obj["value"]} if change.new else {}
        assert state == present
