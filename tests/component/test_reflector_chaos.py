"""A reflector on the sandbox over HTTPS through a thousand faults: at the end it knows what the server knows."""

from __future__ import annotations

import queue
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common.kube.client import Client
from kubenexus.common.kube.mirror import Added, Backoff, Change, Deleted, Updated
from kubenexus.common.kube.reflector import Reflector
from kubenexus.common.kube.resources import CONFIG_MAPS
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.sandbox.errors import ApiError
from tests.stub_server import until

FAULTS = 1000
NAMESPACE = "default"


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox(bookmark_seconds=0.05) as made:
        yield made


@pytest.fixture
def client(box: Sandbox) -> Iterator[Client]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kubeconfig"
        box.write_kubeconfig(file)
        with Client.connect(str(file)) as made:
            yield made


def value(obj: dict[str, Any]) -> str:
    return str(obj["data"]["value"])


def change(box: Sandbox, chance: random.Random) -> None:
    """Make, change or delete one object."""
    name = f"c{chance.randrange(40)}"
    meta = {"name": name, "namespace": NAMESPACE}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"value": str(chance.random())}}
    try:
        box.registry.create(CONFIG_MAPS, NAMESPACE, obj)
    except ApiError:
        if chance.random() < 0.5:
            box.registry.delete(CONFIG_MAPS, NAMESPACE, name)
        else:
            box.registry.update(CONFIG_MAPS, NAMESPACE, name, obj)


def truth(box: Sandbox) -> dict[str, str]:
    return {item["metadata"]["uid"]: value(item) for item in box.registry.list(CONFIG_MAPS, NAMESPACE)}


def disturb(box: Sandbox, chance: random.Random) -> str:
    """One fault; its name."""
    faults = box.faults
    path = f"/namespaces/{NAMESPACE}/configmaps"
    kinds: dict[str, list[Callable[[], None]]] = {
        "cut": [faults.cut_watches],
        "swallowed": [partial(faults.swallow_events, chance.randint(1, 3))],
        "duplicated": [partial(faults.duplicate_events, chance.randint(1, 3))],
        "410": [faults.compact, faults.cut_watches],
        "500": [partial(faults.fail, 500, method="GET", path=path), faults.cut_watches],
        "429": [partial(faults.fail, 429, method="GET", path=path, retry_after=1), faults.cut_watches],
        "answer lost": [partial(faults.lose_answers, method="GET", path=path), faults.cut_watches],
        "restart": [faults.restart],
    }
    weights = [30, 20, 20, 15, 10, 0.2, 5, 1]  # Retry-After is a whole second at least: not too many of those
    kind = chance.choices([*kinds], weights)[0]
    for cause in kinds[kind]:
        cause()
    return kind


@pytest.mark.slow
def test_a_thousand_faults_over_https(box: Sandbox, client: Client) -> None:
    chance = random.Random(20)
    changes: queue.SimpleQueue[Change[str]] = queue.SimpleQueue()
    reflector = Reflector(
        client,
        CONFIG_MAPS,
        value,
        changes.put,
        namespace=NAMESPACE,
        backoff=Backoff(0.001, 0.01),
        relist_after=0.5,  # an event swallowed before a bookmark is lost, and only a list mends that
        chance=random.Random(1).random,
    )
    reflector.start()
    kinds: Counter[str] = Counter()
    try:
        for _ in range(FAULTS):
            for _ in range(chance.randrange(5)):
                change(box, chance)
            kinds[disturb(box, chance)] += 1
            if chance.random() < 0.5:
                until(lambda: box.faults.open_watches)
        box.faults.clear()
        until(lambda: settled(box, reflector), timeout=30)
    finally:
        reflector.stop()
    assert len(kinds) == 8, kinds
    assert heard(changes) == truth(box)


def settled(box: Sandbox, reflector: Reflector[str]) -> bool:
    """Does it know all? Until it does there are breaks, as there are every few minutes in real life."""
    box.faults.cut_watches()
    return reflector.snapshot() == truth(box)


def heard(changes: queue.SimpleQueue[Change[str]]) -> dict[str, str]:
    """What somebody knows who only hears the changes, each of which must fit the ones before."""
    known: dict[str, str] = {}
    while not changes.empty():
        match changes.get():
            case Added(key, new):
                assert key not in known
                known[key] = new
            case Updated(key, old, new):
                assert known[key] == old
                known[key] = new
            case Deleted(key, old):
                assert known.pop(key) == old
    return known
