"""The reflector's thread against HTTP servers: the whole round, stopping, and what it tells about itself."""

from __future__ import annotations

import json
import math
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes.client import Configuration

from kubenexus.common import metrics
from kubenexus.common.kube.auth import Access
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.mirror import Added, Backoff, Change, Deleted, Synced, Updated
from kubenexus.common.kube.reflector import Reflector
from kubenexus.common.kube.resources import CONFIG_MAPS, NODES, PODS
from tests.servers import Server
from tests.stub_server import Handler, Script, StubServer, serving, until

Changes = queue.SimpleQueue[Change[str]]


def line(kind: str, name: str, version: int) -> bytes:
    obj = {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def listing(*names: str, version: int = 10) -> Script:
    items = [{"metadata": {"name": name, "uid": name, "resourceVersion": "1"}} for name in names]
    return lambda handler: handler.reply(200, {"metadata": {"resourceVersion": str(version)}, "items": items})


def watching(*lines: bytes, hang: bool = True) -> Script:
    return lambda handler: handler.chunks(lines, then=handler.hang if hang else handler.end)


def name_of(obj: dict[str, Any]) -> str:
    name: str = obj["metadata"]["name"]
    return name


@contextmanager
def reflecting(*script: Script, **more: Any) -> Iterator[tuple[Reflector[str], Changes, StubServer]]:
    changes: Changes = queue.SimpleQueue()
    with serving(*script) as server, Client(Access(lambda: Configuration(host=server.url))) as client:
        reflector = Reflector(client, PODS, name_of, changes.put, backoff=Backoff(0.001, 0.01), **more)
        reflector.start()
        try:
            yield reflector, changes, server
        finally:
            reflector.stop()


def take(changes: Changes, count: int) -> list[Change[str]]:
    return [changes.get(timeout=10) for _ in range(count)]


def test_list_watch_resume() -> None:
    script = [
        listing("a"),
        watching(line("ADDED", "b", 11), line("DELETED", "a", 12), hang=False),
        watching(line("ADDED", "c", 13)),
    ]
    with reflecting(*script, field_selector="x=y") as (reflector, changes, server):
        expected = [Added("a", "a"), Synced(), Added("b", "b"), Deleted("a", "a"), Added("c", "c")]
        assert take(changes, 5) == expected
        assert reflector.snapshot() == {"b": "b", "c": "c"}
        assert [seen.query.get("resourceVersion") for seen in server.seen] == [None, "10", "12"]
        assert {seen.query["fieldSelector"] for seen in server.seen} == {"x=y"}
        assert all(300 <= int(seen.query["timeoutSeconds"]) <= 600 for seen in server.seen[1:])


@pytest.mark.parametrize(
    "script",
    [
        [listing("a"), watching()],
        [lambda handler: handler.reply(500, {})],
        [listing("a"), lambda handler: handler.cut()],
    ],
    ids=["in a silent watch", "while waiting after a failure", "while everything breaks"],
)
def test_stop_is_at_once(script: list[Script]) -> None:
    with reflecting(*script) as (reflector, _, server):
        until(lambda: len(server.seen) >= len(script))
        began = time.monotonic()
        reflector.stop()
        assert time.monotonic() - began < 1.0
        assert reflector.alive() == "the reflector of pods is not running"


def test_nothing_is_told_after_stop() -> None:
    lines = [line("ADDED", str(number), 11 + number) for number in range(1000)]
    told: list[Any] = []

    def emit(change: Change[str]) -> None:
        told.append(change)
        if len(told) == 10:
            reflector.stop()  # from the reflector's own thread

    with (
        serving(listing(), watching(*lines)) as server,
        Client(Access(lambda: Configuration(host=server.url))) as client,
    ):
        reflector = Reflector(client, PODS, name_of, emit)
        reflector.start()
        until(lambda: reflector.alive() is not None)
        assert len(told) == 10


def test_what_it_says_about_itself() -> None:
    gate = threading.Event()

    def slow_list(handler: Handler) -> None:
        gate.wait(10)
        listing("a", "b")(handler)

    def refused(handler: Handler) -> None:
        handler.reply(403, {"kind": "Status", "reason": "Forbidden", "message": "not you"})

    with reflecting(refused, slow_list, watching()) as (reflector, _, server):
        until(lambda: len(server.seen) == 2)
        assert reflector.check() == (
            "pods not listed yet, the last attempt failed: "
            "GET /api/v1/pods?limit=500 was refused with 403 Forbidden: not you"
        )
        assert math.isnan(reflector.staleness())
        gate.set()
        until(lambda: len(server.seen) == 3)
        until(lambda: reflector.staleness() < 10)
        assert reflector.check() is None
        assert reflector.alive() is None
        assert sample("kubenexus_reflector_objects") == 2
        assert sample("kubenexus_reflector_synced") == 1
        assert 0 <= sample("kubenexus_reflector_staleness_seconds") < 10


def sample(name: str) -> float:
    value = metrics.REGISTRY.get_sample_value(name, {"resource": "pods"})
    assert value is not None
    return value


def test_a_watch_that_was_given_up_does_not_grow_stale() -> None:
    """As when an operator goes, with its kinds; an alert would take the silence for deafness."""
    gauges = [f"kubenexus_reflector_{name}" for name in ("staleness_seconds", "objects", "synced")]
    with serving(listing("a"), watching()) as server, Client(Access(lambda: Configuration(host=server.url))) as client:
        reflector = Reflector(client, NODES, name_of, lambda _: None, called="gone")
        reflector.start()
        until(lambda: reflector.synced)
        before = [metrics.REGISTRY.get_sample_value(name, {"resource": "gone"}) for name in gauges]
        reflector.stop()
    after = [metrics.REGISTRY.get_sample_value(name, {"resource": "gone"}) for name in gauges]
    assert None not in before
    assert after == [None] * 3


def test_what_has_not_happened_yet_is_counted_as_zero() -> None:
    """An alert on an increase never sees a series that begins with 1."""
    with serving(listing("a"), watching()) as server, Client(Access(lambda: Configuration(host=server.url))) as client:
        reflector = Reflector(client, NODES, name_of, lambda _: None)
        reflector.start()
        until(lambda: reflector.synced)
        reflector.stop()
    assert metrics.REGISTRY.get_sample_value("kubenexus_reflector_unreadable_objects_total", {"resource": "nodes"}) == 0


def test_an_object_that_cannot_be_read_blinds_us_to_no_other() -> None:
    def project(obj: dict[str, Any]) -> str:
        if name_of(obj) == "odd":
            raise ValueError("odd")
        return name_of(obj)

    changes: Changes = queue.SimpleQueue()
    script = [listing("odd", "a"), watching(line("MODIFIED", "odd", 11), line("ADDED", "b", 12))]
    with serving(*script) as server, Client(Access(lambda: Configuration(host=server.url))) as client:
        reflector = Reflector(client, PODS, project, changes.put)
        reflector.start()
        assert take(changes, 3) == [Added("a", "a"), Synced(), Added("b", "b")]
        reflector.stop()


def config_map(name: str, value: str, **labels: str) -> dict[str, Any]:
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"value": value}}


def test_against_an_api_server(server: Server) -> None:
    changes: Changes = queue.SimpleQueue()
    with Client.connect(str(server.kubeconfig)) as client:
        first = client.create(CONFIG_MAPS, config_map("first", "1", mine="yes"), server.namespace)
        reflector = Reflector(
            client,
            CONFIG_MAPS,
            lambda obj: str(obj["data"]["value"]),
            changes.put,
            namespace=server.namespace,
            label_selector="mine=yes",
        )
        reflector.start()
        try:
            key = first["metadata"]["uid"]
            assert take(changes, 2) == [Added(key, "1"), Synced()]
            client.create(CONFIG_MAPS, config_map("other", "0"), server.namespace)
            first["data"]["value"] = "2"
            client.update(CONFIG_MAPS, first)
            assert take(changes, 1) == [Updated(key, "1", "2")]
            client.delete(CONFIG_MAPS, "first", server.namespace)
            assert take(changes, 1) == [Deleted(key, "2")]
            assert reflector.snapshot() == {}
        finally:
            began = time.monotonic()
            reflector.stop()
        assert time.monotonic() - began < 1.0, "stopping wakes a read from TLS as well"
