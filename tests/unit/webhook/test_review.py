"""Reviews of any shape: each gets a valid answer with its uid, and no error of ours keeps a pod from running."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import orjson
import pytest

from kubenexus.common import vocabulary as v
from kubenexus.webhook.cluster import Cluster
from kubenexus.webhook.review import answer
from tests.admission import cluster, patch_of, pod, review, warnings
from tests.owners import Known

BOTH = pytest.mark.parametrize("mutate", [pytest.param(True, id="mutate"), pytest.param(False, id="validate")])


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"metadata": value, "spec": [value]}
    return value


@BOTH
@pytest.mark.parametrize(
    ("junk", "uid"),
    [
        pytest.param(None, "", id="null"),
        pytest.param([], "", id="a list"),
        pytest.param(7, "", id="a number"),
        pytest.param("review", "", id="text"),
        pytest.param({}, "", id="an empty object"),
        pytest.param({"request": None}, "", id="no request"),
        pytest.param({"request": ["uid"]}, "", id="a request that is a list"),
        pytest.param({"request": {"uid": 7}}, "", id="a uid that is a number"),
        pytest.param({"request": {"uid": "u"}}, "u", id="nothing but a uid"),
        pytest.param(review({}, uid="u"), "u", id="an empty pod"),
        pytest.param(review({"metadata": [], "spec": 7}, uid="u"), "u", id="a pod of wrong types"),
        pytest.param(
            review({"metadata": {"labels": [1], "annotations": 7}, "spec": {}}, uid="u"), "u", id="odd labels"
        ),
        pytest.param(review(pod(), uid="u", object=None), "u", id="no object"),
        pytest.param(review(pod(), uid="u", object=[pod().build()]), "u", id="a list of pods"),
        pytest.param(review(pod(), "UPDATE", uid="u"), "u", id="a change of nothing"),
        pytest.param(review(pod(), "DELETE", uid="u"), "u", id="a deletion"),
        pytest.param(review(pod(), uid="u", kind="Pod"), "u", id="a kind that is text"),
        pytest.param(review(pod(), uid="u", namespace=["team"]), "u", id="a namespace that is a list"),
        pytest.param(review(deep(400), uid="u"), "u", id="deep nesting"),
    ],
)
def test_any_json_is_answered(junk: Any, uid: str, mutate: bool) -> None:
    found = answer(junk, cluster(), mutate=mutate)
    assert found.error == ""
    assert found.body["response"]["uid"] == uid
    assert found.body["response"]["allowed"] is True
    assert found.body.keys() == {"apiVersion", "kind", "response"}


class Broken:
    """An `Owners` with a bug."""

    def get(self, api_version: str, kind: str, namespace: str, name: str, uid: str) -> None:  # noqa: ARG002
        raise RuntimeError("the watch is upside down")


@BOTH
def test_an_internal_error_admits_with_a_warning(mutate: bool) -> None:
    world = Cluster(cluster().namespace, Broken())
    found = answer(review(pod().owner("Job", "train", api_version="batch/v1")), world, mutate=mutate)
    assert found.error == "RuntimeError: the watch is upside down"
    assert (found.denied, found.patched, found.body["response"]["allowed"]) == (False, False, True)
    (warning,) = warnings(found)
    assert warning.startswith("KubeNexus admitted the pod unchecked, after an internal error: RuntimeError")
    assert len(warning) <= 120


def test_a_verdict_that_fails_denies_nobody() -> None:
    def broken(_: Any) -> str:
        raise RuntimeError("no verdict")

    found = answer(review(pod()), cluster(verdict=broken), mutate=False)
    assert found.body["response"]["allowed"] is True
    assert found.error == "RuntimeError: no verdict"


def test_a_denial_is_a_status_that_kubectl_shows() -> None:
    found = answer(review(pod().label(v.GANG_MIN_AVAILABLE, "4")), cluster(), mutate=False)
    status = found.body["response"]["status"]
    assert (status["status"], status["code"], status["reason"]) == ("Failure", 403, "Forbidden")


def test_text_that_utf8_cannot_carry_is_replaced() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "team", "name": "\ud800", "uid": "u"}}
    owner["spec"] = {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
    child = pod().owner("Job", "\ud800", "u", api_version="batch/v1")
    found = answer(review(child), Cluster(cluster().namespace, Known(owner)), mutate=True)
    assert orjson.loads(orjson.dumps(found.body)) == found.body
    assert any(step["value"] == "2" for step in patch_of(found))


def test_there_are_never_more_than_a_few_warnings() -> None:
    odd = pod().annotation(v.CO_LOCATE, "strict").annotation(v.REQUIRE_CLIQUE, "true")
    odd.annotation(v.GANG_NUMA_SPREAD, "packed").annotation(v.NUMA_RESOURCES, ",".join(f"a/{n}" for n in range(50)))
    for number in range(50):
        odd.annotation(f"{number}.kubenexus.io/a", "b")
    assert len(warnings(answer(review(odd), cluster(), mutate=False))) == 10


def test_no_owner_is_looked_up_for_pods_that_are_no_business_of_ours() -> None:
    """A look-up may wait for the news of an owner; other people's pods must not."""
    owners = Known()
    world = Cluster(cluster(labels={}).namespace, owners)
    child = pod().owner("Job", "train", api_version="batch/v1")
    assert not answer(review(child), world, mutate=True).patched
    assert not answer(review(child), world, mutate=False).denied
    assert owners.asked == []


def test_each_owner_is_looked_up_once() -> None:
    owners = Known()
    child = pod().owner("Job", "train", "u", api_version="batch/v1")
    answer(review(child), Cluster(cluster().namespace, owners), mutate=True)
    assert owners.asked == ["u"]


def test_the_owner_of_a_pod_that_changes_is_looked_up_once() -> None:
    owners = Known()
    old, new = (pod().owner("Job", "train", "u", api_version="batch/v1").label("app", app) for app in "ab")
    answer(review(new, "UPDATE", old), Cluster(cluster().namespace, owners), mutate=False)
    assert owners.asked == ["u"]


def test_a_review_that_waits_keeps_no_other_waiting() -> None:
    """It waits for its owner; the other is answered meanwhile, whatever the two have in common."""
    arrived, told = threading.Event(), threading.Event()

    class Slow:
        def get(self, *_: str) -> None:
            arrived.set()
            assert told.wait(60)

    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "late", "uid": "u", "controller": True}
    waiting = review(pod().set("metadata.ownerReferences", [owner]))
    with ThreadPoolExecutor() as threads:
        first = threads.submit(answer, waiting, replace(cluster(), owners=Slow()), mutate=True)
        assert arrived.wait(60)
        try:
            second = threads.submit(answer, review(pod()), cluster(), mutate=True)
            assert second.result(30).error == ""
            assert not first.done()
        finally:
            told.set()
