"""The event recorder: what arrives at both API servers, and what it does when they do not take it."""

from __future__ import annotations

import threading
from typing import Any

from kubernetes.client import Configuration

from kubenexus.common import metrics
from kubenexus.common.kube.auth import Access
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.events import EventRecorder, reference
from kubenexus.common.kube.resources import EVENTS, NODES, PODS
from kubenexus.common.kube.series import Series
from tests.servers import Server
from tests.stub_server import Handler, serving

POD = reference(PODS, "web-0", "ns", "u-1")


def record(recorder: EventRecorder, note: str = "no node fits", **more: Any) -> None:
    recorder.event(
        **{"regarding": POD, "kind": "Warning", "reason": "FailedScheduling", "action": "Scheduling"} | more, note=note
    )


def dropped(cause: str) -> float:
    return metrics.REGISTRY.get_sample_value("kubenexus_events_dropped_total", {"cause": cause}) or 0.0


def test_events_arrive(server: Server) -> None:
    pod = reference(PODS, "web-0", server.namespace, "u-1")
    node = reference(NODES, "n1")
    with Client.connect(str(server.kubeconfig)) as client:
        recorder = EventRecorder(client, "kubenexus-scheduler", "kubenexus-scheduler-host-1")
        recorder.start()
        for _ in range(3):
            record(recorder, regarding=pod, related=node)
        record(recorder, regarding=pod, kind="Normal", reason="Scheduled", action="Binding", note="é" * 600)
        recorder.stop()
        found = {event["reason"]: event for event in client.list(EVENTS, server.namespace).items}
    failed, scheduled = found["FailedScheduling"], found["Scheduled"]
    assert failed["series"]["count"] == 3
    assert failed["series"]["lastObservedTime"] >= failed["eventTime"]
    assert {key: failed[key] for key in ("type", "action", "note", "reportingController", "reportingInstance")} == {
        "type": "Warning",
        "action": "Scheduling",
        "note": "no node fits",
        "reportingController": "kubenexus-scheduler",
        "reportingInstance": "kubenexus-scheduler-host-1",
    }
    assert (failed["regarding"], failed["related"]) == (pod, node)
    assert "series" not in scheduled
    assert len(scheduled["note"].encode()) <= 1024
    assert scheduled["note"].endswith("é…")


def test_about_what_has_no_namespace(server: Server) -> None:
    with Client.connect(str(server.kubeconfig)) as client:
        recorder = EventRecorder(client, "kubenexus-agent", "x" * 300)
        recorder.start()
        node = reference(NODES, server.namespace)  # any unique name
        record(recorder, regarding=node)
        recorder.stop()
        (event,) = client.list(EVENTS, "default", field_selector=f"regarding.name={server.namespace}").items
    assert event["reportingInstance"] == "x" * 128


def test_a_full_queue_drops_and_never_blocks() -> None:
    gate = threading.Event()

    def slow(handler: Handler) -> None:
        gate.wait(10)
        handler.reply(201, {})

    with serving(slow) as server, Client(Access(lambda: Configuration(host=server.url))) as client:
        recorder = EventRecorder(client, "c", "i", size=5)
        recorder.start()
        before = dropped("queue")
        for number in range(20):
            record(recorder, str(number), kind="Normal")
        assert dropped("queue") - before >= 14
        record(recorder, "there is always room for a warning")
        gate.set()
        recorder.stop()
        assert 6 <= len(server.seen) <= 7
        assert server.seen[-1].body["type"] == "Warning"


def test_what_the_server_refuses_is_counted_and_forgotten() -> None:
    def refuse(handler: Handler) -> None:
        handler.reply(403, {"kind": "Status", "reason": "Forbidden", "message": "the namespace is terminating"})

    def take(handler: Handler) -> None:
        handler.reply(201, {})

    with serving(refuse, take) as server, Client(Access(lambda: Configuration(host=server.url))) as client:
        before = dropped("error")
        recorder = EventRecorder(client, "c", "i")
        recorder.start()
        record(recorder)
        record(recorder)
        recorder.stop()
        assert dropped("error") - before == 1
        assert [seen.method for seen in server.seen] == ["POST", "POST"]


def test_the_rate_is_limited() -> None:
    with (
        serving(lambda handler: handler.reply(201, {})) as server,
        Client(Access(lambda: Configuration(host=server.url))) as client,
    ):
        before = dropped("rate")
        recorder = EventRecorder(client, "c", "i", series=Series(per_object=(0.001, 3)))
        recorder.start()
        for number in range(10):
            record(recorder, str(number))
        recorder.stop()
        assert (len(server.seen), dropped("rate") - before) == (3, 7)


def test_stop_does_not_wait_for_a_server_that_hangs() -> None:
    with (
        serving(lambda handler: handler.hang()) as server,
        Client(Access(lambda: Configuration(host=server.url))) as client,
    ):
        recorder = EventRecorder(client, "c", "i")
        recorder.start()
        record(recorder)
        recorder.stop(timeout=0.2)
        assert len(server.seen) <= 1


def test_names_of_events_are_names() -> None:
    with (
        serving(lambda handler: handler.reply(201, {})) as server,
        Client(Access(lambda: Configuration(host=server.url))) as client,
    ):
        recorder = EventRecorder(client, "c", "i")
        recorder.start()
        for number in range(3):
            record(recorder, str(number), regarding=reference(PODS, "a." + "b" * 227 + "-." + "c" * 20, "ns"))
        recorder.stop()
        names = [seen.body["metadata"]["name"] for seen in server.seen]
        assert len({*names}) == 3
        assert all(len(name) <= 253 and "-." not in name for name in names)
