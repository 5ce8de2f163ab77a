"""What the webhook knows of a cluster, and how soon: namespaces, owners whose kinds come and go, sizes of nodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common.kube.client import Client
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import CUSTOM_RESOURCES, JOBS, NAMESPACES, NODES, Resource
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.vocabulary import INJECT
from kubenexus.webhook import fits
from kubenexus.webhook.watching import PATIENCE, SEATS, UNLISTED_SECONDS, News, Watching
from tests.stub_server import until

Obj = dict[str, Any]
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
JOB_SET_KIND = {
    "metadata": {"name": "jobsets.jobset.x-k8s.io"},
    "spec": {
        "group": JOB_SETS.group,
        "scope": "Namespaced",
        "names": {"plural": "jobsets", "singular": "jobset", "kind": "JobSet"},
        "versions": [
            {
                "name": JOB_SETS.version,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Bench:
    """A sandbox of its own, for kinds come and go, and a webhook's eyes on it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.now = 0.0
        self.watching = Watching(client, discover_every=0.05, clock=lambda: self.now)
        self.cluster = self.watching.cluster(("ours",))

    def get(self, obj: Obj, res: Resource = JOBS) -> Obj | None:
        """The owner as admission sees it."""
        meta = obj["metadata"]
        return self.cluster.owners.get(res.api_version, res.kind, "default", meta["name"], meta["uid"])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Sandbox() as box:
        box.write_kubeconfig(tmp_path / "kubeconfig")
        with Client.connect(str(tmp_path / "kubeconfig")) as client:
            made = Bench(client)
            made.watching.start()
            until(lambda: made.watching.check() is None)
            yield made
            made.watching.stop()


def job(name: str, containers: int = 1) -> Obj:
    pods = {"restartPolicy": "Never", "containers": [{"name": f"c{n}", "image": "i"} for n in range(containers)]}
    spec = {"parallelism": 8, "completions": 8, "completionMode": "Indexed", "template": {"spec": pods}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_nothing_is_known_before_the_start(tmp_path: Path) -> None:
    with Sandbox() as box:
        box.write_kubeconfig(tmp_path / "kubeconfig")
        with Client.connect(str(tmp_path / "kubeconfig")) as client:
            watching = Watching(client)
            assert watching.check() == "the API server has not said yet which kinds it serves"
            assert watching.alive() == "the reflector of namespaces is not running"


def test_namespace_is_followed(bench: Bench) -> None:
    bench.client.create(NAMESPACES, {"metadata": {"name": "team", "labels": {INJECT: "enabled"}}})
    until(lambda: bench.cluster.namespace("team"))
    facts = bench.cluster.namespace("team")
    assert facts is not None
    assert facts.opted_in
    off: Obj = {"metadata": {"labels": {INJECT: None}}}
    bench.client.patch(NAMESPACES, "team", off, kind=PatchType.MERGE)
    until(lambda: (found := bench.cluster.namespace("team")) and not found.opted_in)


def test_owner_is_known_without_its_bulk(bench: Bench) -> None:
    applied = job("train", containers=50)
    applied["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": str(applied)}
    made = bench.client.create(JOBS, applied)
    until(lambda: bench.get(made))
    known = bench.get(made)
    assert known is not None
    assert known["spec"]["parallelism"] == 8
    assert len(repr(known)) < 2000 < len(repr(made))


def test_namesake_is_another_owner(bench: Bench) -> None:
    made = bench.client.create(JOBS, job("train"))
    until(lambda: bench.get(made))
    assert bench.get({"metadata": {"name": "train", "uid": "another"}}) is None
    bench.client.delete(JOBS, "train", "default", propagation="Background")
    until(lambda: bench.get(made) is None)


def test_kinds_come_and_go(bench: Bench) -> None:
    bench.client.create(CUSTOM_RESOURCES, JOB_SET_KIND)
    header = {"apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.kind}
    made = bench.client.create(JOB_SETS, {**header, "metadata": {"name": "set", "namespace": "default"}, "spec": {}})
    until(lambda: bench.get(made, JOB_SETS))
    bench.client.delete(CUSTOM_RESOURCES, "jobsets.jobset.x-k8s.io")
    until(lambda: bench.get(made, JOB_SETS) is None)


def test_kind_that_cannot_be_listed_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with Sandbox() as box:
        box.write_kubeconfig(tmp_path / "kubeconfig")
        with Client.connect(str(tmp_path / "kubeconfig")) as client:
            bench = Bench(client)
            box.faults.fail(503, times=1000, path="/apis/batch/v1/jobs")
            bench.watching.start()
            until(lambda: "jobs.batch not listed yet" in str(bench.watching.check()))
            bench.now += UNLISTED_SECONDS
            until(lambda: bench.watching.check() is None)
            bench.watching.stop()


def test_pod_may_be_faster_than_the_news_of_its_owner() -> None:
    """The look-up waits for the news, and goes on as soon as it is there."""
    news, known = News(patience=20.0), list[str]()
    found: list[str | None] = []
    asking = threading.Thread(target=lambda: found.append(news.await_(lambda: known[0] if known else None)))
    asking.start()
    known.append("the owner")
    news.tell()
    asking.join(10)
    assert found == ["the owner"]


def test_owner_that_never_was_is_not_waited_for_long(bench: Bench) -> None:
    bench.client.create(JOBS, job("known"))
    began = time.monotonic()
    assert bench.get({"metadata": {"name": "none", "uid": "none"}}) is None
    waited = time.monotonic() - began
    assert waited >= PATIENCE
    began = time.monotonic()
    assert bench.get({"metadata": {"name": "none", "uid": ""}}) is None
    assert time.monotonic() - began < waited, "without a uid nobody knows that it ever was"


def test_only_some_may_wait() -> None:
    """The others are answered at once: pods that lie about their owners must not take all threads."""
    news, waiting = News(patience=20.0), threading.Barrier(SEATS + 1)
    known = list[str]()

    def look() -> str | None:
        return known[0] if known else None

    def ask() -> None:
        waiting.wait(10)
        news.await_(look)

    threads = [threading.Thread(target=ask) for _ in range(SEATS)]
    for thread in threads:
        thread.start()
    waiting.wait(10)
    until(lambda: news._seats._value == 0)  # all of them sit
    assert news.await_(look) is None
    known.append("x")
    news.tell()
    for thread in threads:
        thread.join(10)


# --- What would fit


def node(name: str, **room: str) -> Obj:
    return {"metadata": {"name": name}, "status": {"allocatable": room, "capacity": room}}


def pod(**requests: str) -> Obj:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}


def test_verdict_follows_the_nodes(bench: Bench) -> None:
    verdict: Callable[[Obj], str | None] = bench.cluster.verdict
    greedy = pod(**{"nvidia.com/gpu": "16"})
    assert verdict(greedy) is None, "without nodes nothing can be said"
    bench.client.create(NODES, node("a", cpu="64", memory="512Gi", **{"nvidia.com/gpu": "8"}))
    until(lambda: verdict(greedy) == "needs 16 GPUs on one node, the largest has 8")
    bench.client.create(NODES, node("b", cpu="64", memory="512Gi", **{"nvidia.com/gpu": "16"}))
    until(lambda: verdict(greedy) is None)
    bench.client.delete(NODES, "b")
    until(lambda: verdict(greedy) is not None)


@pytest.mark.parametrize(
    ("requests", "sentence"),
    [
        pytest.param({"cpu": 64_000, "memory": 2**39}, None, id="just fits"),
        pytest.param({"cpu": 64_500}, "needs 64.5 CPUs on one node, the largest has 64", id="CPUs"),
        pytest.param({"memory": 2**40}, "needs 1024Gi of memory on one node, the largest has 512Gi", id="memory"),
        pytest.param({"amd.com/gpu": 1}, "needs 1 amd.com/gpu on one node, none has any", id="a resource of nobody"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_what_fits(requests: dict[str, int], sentence: str | None) -> None:
    assert fits.verdict(requests, {"cpu": 64_000, "memory": 2**39, "nvidia.com/gpu": 8}) == sentence


def test_largest_is_by_resource() -> None:
    assert fits.largest_of([{"cpu": 1, "memory": 9}, {"cpu": 2}]) == {"cpu": 2, "memory": 9}
