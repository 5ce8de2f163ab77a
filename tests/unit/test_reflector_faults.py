"""A reflector against a transport that breaks in every way it can, a thousand times, and still knows all in the end.

The objects change inside the transport, in the reflector's own thread, and everything random comes from one seed: a
failure can be repeated. tests/component has the same over HTTPS.
"""

from __future__ import annotations

import itertools
import json
import math
import queue
import random
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import pytest

from kubenexus.common.kube.client import ListResult
from kubenexus.common.kube.errors import NoAnswer, NotReached, status_error
from kubenexus.common.kube.mirror import Added, Backoff, Change, Deleted, Synced, Updated
from kubenexus.common.kube.reflector import Reflector
from kubenexus.common.kube.resources import PODS
from tests.stub_server import until

FAULTS = 1000
LINES = ("cut", "error 410", "error 500", "garbage", "duplicate", "bookmark", "end")


class Apiserver:
    """Objects with versions that change by chance, and a history that is forgotten now and then."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.version = 100
        self.oldest = 100
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: deque[tuple[int, bytes]] = deque()

    def go_on(self) -> None:
        """Some time passes."""
        for _ in range(20):
            self.write(f"pod-{self.chance.randrange(900)}", self.chance.choice([None, 1, 2, 3]))
        if self.chance.random() < 0.05:
            self.oldest = self.version
            self.history.clear()

    def write(self, name: str, value: int | None) -> None:
        """Make or change an object; None deletes it."""
        known = self.objects.pop(name, None)
        if value is None and known is None:
            return
        self.version += 1
        kind = "DELETED" if value is None else "MODIFIED" if known else "ADDED"
        uid = known["metadata"]["uid"] if known else f"{name}-{self.version}"
        obj = {"metadata": {"name": name, "uid": uid, "resourceVersion": str(self.version)}, "value": value}
        if kind != "DELETED":
            self.objects[name] = obj
        self.history.append((self.version, json.dumps({"type": kind, "object": obj}).encode()))

    def truth(self) -> dict[str, int]:
        return {obj["metadata"]["uid"]: obj["value"] for obj in self.objects.values()}


class Broken:
    """The reflector's client: passes on what the server says, through one fault after the other."""

    def __init__(self, server: Apiserver, chance: random.Random, lines: tuple[str, ...]) -> None:
        self.server = server
        self.lines = lines
        self.chance = chance
        self.faults: Counter[str] = Counter()
        self.left = FAULTS

    def fault(self, *kinds: str) -> str:
        """One of these, or none; no more once all have been had."""
        if not self.left or self.chance.random() < 0.3:
            return ""
        self.left -= 1
        kind = self.chance.choice(kinds)
        self.faults[kind] += 1
        return kind

    def pages(self, *_: object, limit: int | None, **__: object) -> Iterator[ListResult]:
        self._refuse(self.fault("list: 500", "list: unreachable"))
        items, version = [*self.server.objects.values()], str(self.server.version)
        limit = limit or len(items) + 1
        for start in range(0, len(items) + 1, limit):
            if start:
                self._refuse(self.fault("list: 410", "list: cut"))
            yield ListResult(items[start : start + limit], version)

    def watch(self, *_: object, resource_version: str, **__: object) -> FaultyLines:
        self._refuse(self.fault("watch: 410", "watch: 500", "watch: unreachable"))
        return FaultyLines(self, int(resource_version))

    def _refuse(self, fault: str) -> None:
        if fault.endswith(("410", "500")):
            raise status_error("GET", {"code": int(fault[-3:])})
        if fault.endswith("unreachable"):
            raise NotReached(fault)
        if fault:
            raise NoAnswer(fault)


class FaultyLines:
    """A stream with faults; a change that is dropped is followed by others as if nothing had happened."""

    def __init__(self, client: Broken, version: int) -> None:
        self.client = client
        self.version = version
        self.passed: deque[bytes] = deque(maxlen=20)

    def __enter__(self) -> FaultyLines:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def abort(self) -> None:
        """Nothing to wake: this stream never blocks."""

    def __iter__(self) -> Iterator[bytes]:
        while (line := self._next()) is not None:
            fault = self.client.fault(*self.client.lines)
            if fault == "dropped":
                continue
            if fault == "end":
                return
            if fault == "cut":
                raise NoAnswer("cut")
            yield from self._around(fault)
            yield line
            self.passed.append(line)

    def _around(self, fault: str) -> list[bytes]:
        """Lines to send before the next one."""
        if fault == "duplicate":
            return [*self.passed]
        if fault == "bookmark":
            meta = {"resourceVersion": str(self.version)}
            return [json.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}).encode()]
        if fault == "garbage":
            return [b'{"type": "ADDED", "obj']
        if fault:
            return [json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": int(fault[-3:])}}).encode()]
        return []

    def _next(self) -> bytes | None:
        server = self.client.server
        while self.version >= server.version:
            if (
                not self.client.left
            ):  # The faults are over. An end, so that a reflector whose list is old makes a new one.
                return None
            server.go_on()
        if self.version < server.oldest:
            return json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410}}).encode()
        self.version, line = next(entry for entry in server.history if entry[0] > self.version)
        return line


def follow(changes: queue.SimpleQueue[Change[int]], known: dict[str, int]) -> None:
    """What somebody knows who only hears the changes. Each must fit what was said before."""
    while not changes.empty():
        match changes.get():
            case Added(key, value):
                assert key not in known
                known[key] = value
            case Updated(key, old, value):
                assert known[key] == old
                known[key] = value
            case Deleted(key, value):
                assert known.pop(key) == value
            case Synced():
                assert "synced" not in known
                known["synced"] = 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dropping", [False, True], ids=["all is sent some day", "events are dropped in silence"])
def test_a_thousand_faults(seed: int, dropping: bool) -> None:
    """What was dropped, only a new list can mend; all else is mended without."""
    chance = random.Random(seed)
    client = Broken(Apiserver(chance), chance, (*LINES, "dropped") if dropping else LINES)
    changes: queue.SimpleQueue[Change[int]] = queue.SimpleQueue()
    ticks = itertools.count()
    reflector = Reflector(
        client,
        PODS,
        lambda obj: int(obj["value"]),
        changes.put,
        backoff=Backoff(1e-5, 1e-4),
        relist_after=40.0 if dropping else math.inf,
        clock=lambda: float(next(ticks)),  # goes on by one whenever it is looked at
        chance=chance.random,
    )
    reflector.start()
    try:
        until(lambda: not client.left)
        until(lambda: reflector.snapshot() == client.server.truth())
    finally:
        reflector.stop()
    known: dict[str, int] = {}
    follow(changes, known)
    assert known.pop("synced") == 1
    assert known == client.server.truth()
    assert sum(client.faults.values()) == FAULTS
    assert len(client.faults) == 14 + dropping, f"every kind of fault should have come up: {client.faults}"
