"""Faults on demand: each happens as often as asked, where asked, and then no more."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from kubenexus.common.kube.resources import CONFIG_MAPS
from kubenexus.common.sandbox import Sandbox
from tests.stub_server import until

Obj = dict[str, Any]
MAPS = CONFIG_MAPS.path("default")
CUT = (http.client.RemoteDisconnected, ConnectionError, ssl.SSLError, urllib3.exceptions.HTTPError)


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(bookmark_seconds=0.05) as made:
        yield made


class Talk:
    """One connection of a client."""

    def __init__(self, box: Sandbox) -> None:
        context = ssl.create_default_context(cafile=box.ca_file)
        self._headers = {"Authorization": f"Bearer {box.token}"}
        port = int(box.url.rpartition(":")[2])
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Obj | None = None) -> http.client.HTTPResponse:
        self._connection.request(method, path, json.dumps(body) if body else None, self._headers)
        return self._connection.getresponse()

    def code(self, method: str, path: str, body: Obj | None = None) -> int:
        answer = self.ask(method, path, body)
        answer.read()
        return answer.status


class Watching:
    """A watch that is read in the background: its events, and how it ended."""

    def __init__(self, box: Sandbox, query: str = "") -> None:
        self.events: list[Obj] = []
        self.end: BaseException | None = None
        open_before = box.faults.open_watches
        self._thread = threading.Thread(target=self._read, args=(box, query))
        self._thread.start()
        until(lambda: box.faults.open_watches > open_before or not self._thread.is_alive())

    def _read(self, box: Sandbox, query: str) -> None:
        headers = {"Authorization": f"Bearer {box.token}"}
        with urllib3.PoolManager(ca_certs=box.ca_file, retries=False, timeout=10) as pool:
            url = f"{box.url}{MAPS}?watch=true{query}"
            try:
                with pool.request("GET", url, headers=headers, preload_content=False) as answer:
                    for chunk in answer.stream():
                        self.events += map(json.loads, chunk.splitlines())
            except CUT as error:  # also before the head of the answer has come
                self.end = error

    def wait(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()

    @property
    def names(self) -> list[str]:
        return [event["object"]["metadata"]["name"] for event in self.events if event["type"] == "ADDED"]


def make(box: Sandbox, *names: str) -> None:
    for name in names:
        box.registry.create(CONFIG_MAPS, "default", {"metadata": {"name": name}})


@pytest.mark.parametrize("code", [429, 500, 503])
def test_the_next_requests_fail_and_then_no_more(box: Sandbox, code: int) -> None:
    box.faults.fail(code, times=2, method="GET", path="/configmaps")
    with Talk(box) as talk:
        assert talk.code("GET", "/api/v1/nodes") == 200
        assert [talk.code("GET", MAPS) for _ in range(3)] == [code, code, 200]


def test_a_refused_write_did_not_happen(box: Sandbox) -> None:
    box.faults.fail(500, method="POST")
    with Talk(box) as talk:
        assert talk.code("POST", MAPS, {"metadata": {"name": "a"}}) == 500
    assert box.registry.list(CONFIG_MAPS, "default") == []


def test_too_many_requests_says_when_to_come_back(box: Sandbox) -> None:
    box.faults.fail(429, retry_after=7)
    with Talk(box) as talk:
        answer = talk.ask("GET", MAPS)
        assert answer.headers["Retry-After"] == "7"
        assert json.load(answer)["details"]["retryAfterSeconds"] == 7


def test_a_lost_answer_is_applied_all_the_same(box: Sandbox) -> None:
    box.faults.lose_answers(method="POST")
    with Talk(box) as talk, pytest.raises(CUT):
        talk.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert box.registry.get(CONFIG_MAPS, "default", "a")


def test_a_delayed_answer_comes_late(box: Sandbox) -> None:
    box.faults.delay(0.2)
    with Talk(box) as talk:
        begun = time.monotonic()
        assert talk.code("GET", MAPS) == 200
        assert time.monotonic() - begun >= 0.2


def test_a_delay_does_not_hold_up_the_end() -> None:
    with Sandbox() as box:
        box.faults.delay(60)
        waiting = threading.Thread(target=_fails, args=(box,))
        waiting.start()
        until(lambda: not box.faults.pending)
        begun = time.monotonic()
    waiting.join()
    assert time.monotonic() - begun < 3


def _fails(box: Sandbox) -> None:
    with Talk(box) as talk:
        try:
            talk.code("GET", MAPS)
        except CUT:
            return


def test_clearing_forgets_what_has_not_happened(box: Sandbox) -> None:
    box.faults.fail(500, times=10)
    box.faults.clear()
    with Talk(box) as talk:
        assert talk.code("GET", MAPS) == 200


def test_cut_watches_end_without_an_end(box: Sandbox) -> None:
    watches = [Watching(box) for _ in range(3)]
    box.faults.cut_watches()
    for watch in watches:
        watch.wait()
        assert isinstance(watch.end, CUT)
    until(lambda: box.faults.open_watches == 0)


def test_swallowed_events_come_again_after_resuming(box: Sandbox) -> None:
    make(box, "first")
    watch = Watching(box)
    until(lambda: watch.names == ["first"])
    seen = watch.events[0]["object"]["metadata"]["resourceVersion"]
    box.faults.swallow_events(2)
    make(box, "lost", "gone")
    watch.wait()
    assert watch.names == ["first"]
    again = Watching(box, f"&resourceVersion={seen}&timeoutSeconds=1")
    again.wait()
    assert again.names == ["lost", "gone"]


def test_duplicated_events_come_twice(box: Sandbox) -> None:
    watch = Watching(box)
    box.faults.duplicate_events()
    make(box, "twin", "never")
    watch.wait()
    assert watch.names == ["twin", "twin"]
    assert isinstance(watch.end, CUT)


def test_compaction_expires_resuming_but_not_watching(box: Sandbox) -> None:
    old = box.registry.store.rv
    watch = Watching(box)
    make(box, "a")
    until(lambda: watch.names == ["a"])
    box.faults.compact()
    make(box, "b")
    until(lambda: watch.names == ["a", "b"])
    resumed = Watching(box, f"&resourceVersion={old}")
    resumed.wait()
    assert [(event["type"], event["object"]["code"]) for event in resumed.events] == [("ERROR", 410)]
    box.faults.cut_watches()
    watch.wait()


@pytest.mark.parametrize("new_history", [False, True])
def test_a_restart_keeps_the_data_and_the_port(box: Sandbox, new_history: bool) -> None:
    make(box, "a")
    version = box.registry.store.rv
    watch = Watching(box)
    box.faults.restart(new_history=new_history)
    watch.wait()
    assert isinstance(watch.end, CUT)
    with Talk(box) as talk:
        assert [item["metadata"]["name"] for item in json.load(talk.ask("GET", MAPS))["items"]] == ["a"]
    resumed = Watching(box, f"&resourceVersion={version}&timeoutSeconds=1")
    resumed.wait()
    assert [event["type"] for event in resumed.events] == (["ERROR"] if new_history else [])


def test_bookmarks_come_on_time_and_at_the_end(box: Sandbox) -> None:
    watch = Watching(box, "&allowWatchBookmarks=true&timeoutSeconds=1")
    make(box, "a")
    watch.wait()
    types = [event["type"] for event in watch.events]
    assert types.count("BOOKMARK") > 5
    assert watch.end is None
    assert watch.events[-1]["type"] == "BOOKMARK"
    assert int(watch.events[-1]["object"]["metadata"]["resourceVersion"]) == box.registry.store.rv


def test_a_watch_that_swallowed_less_than_it_could_is_cut_all_the_same(box: Sandbox) -> None:
    """And sends no bookmark before: that would lead the client past what it missed."""
    watch = Watching(box, "&allowWatchBookmarks=true")
    before = box.registry.store.rv
    box.faults.swallow_events(5)
    make(box, "lost")
    watch.wait()
    assert isinstance(watch.end, CUT)
    assert all(int(event["object"]["metadata"]["resourceVersion"]) <= before for event in watch.events)
