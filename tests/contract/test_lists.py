"""Selecting and paging: label selectors, field selectors, limit and continue."""

from __future__ import annotations

import pytest

from kubenexus.common.kube.resources import CONFIG_MAPS, CORE_EVENTS, NODES, PODS, RESOURCE_SLICES, Resource
from tests.contract.api import Api, Obj
from tests.contract.objects import config_map, node, pod, resource_slice, unique

LABELS: dict[str, Obj] = {
    "gold": {"tier": "gold", "gpu": "8"},
    "silver": {"tier": "silver", "gpu": "4"},
    "bare": {},
}
LABEL_SELECTORS = [
    ("", {"gold", "silver", "bare"}),
    ("tier=gold", {"gold"}),
    ("tier==gold", {"gold"}),
    ("tier!=gold", {"silver", "bare"}),
    ("tier in (gold,silver)", {"gold", "silver"}),
    ("tier in ( gold , silver )", {"gold", "silver"}),
    ("tier notin (gold)", {"silver", "bare"}),
    ("tier", {"gold", "silver"}),
    ("!tier", {"bare"}),
    ("gpu>4", {"gold"}),
    ("gpu<8", {"silver"}),
    ("tier=gold,gpu=8", {"gold"}),
    ("tier=gold,gpu=4", set()),
    ("tier=", set()),
    ("!tier,tier!=gold", {"bare"}),
]


def names(listed: Obj) -> set[str]:
    """What the tests made; the server itself puts `kube-root-ca.crt` into every namespace."""
    return {item["metadata"]["name"] for item in listed["items"]} - {"kube-root-ca.crt"}


@pytest.mark.parametrize(("selector", "chosen"), [pytest.param(*row, id=row[0] or "empty") for row in LABEL_SELECTORS])
def test_label_selector_chooses(api: Api, selector: str, chosen: set[str]) -> None:
    for name, labels in LABELS.items():
        api.create(PODS, pod(name, labels=labels)).expect(201)
    assert names(api.list(PODS, labelSelector=selector).expect(200)) == chosen


@pytest.mark.parametrize(
    "selector", ["=x", "tier in", "tier in gold", "a b", "tier=gold,", "gpu>many", "-x=1", "x=a b"]
)
def test_malformed_label_selector_is_refused(api: Api, selector: str) -> None:
    api.list(PODS, labelSelector=selector).refused(400, "BadRequest")


FIELD_SELECTORS = [
    ("metadata.name=bound", {"bound"}),
    ("metadata.name!=bound", {"free", "ours"}),
    ("spec.nodeName=", {"free", "ours"}),
    ("spec.nodeName!=", {"bound"}),
    ("spec.nodeName=node-1", {"bound"}),
    ("spec.schedulerName=ours", {"ours"}),
    ("status.phase=Pending", {"bound", "free", "ours"}),
    ("status.phase!=Succeeded,status.phase!=Failed", {"bound", "free", "ours"}),
    ("spec.nodeName=,spec.schedulerName=ours", {"ours"}),
    ("spec.restartPolicy=Always", {"bound", "free", "ours"}),
    ("spec.hostNetwork=false", {"bound", "free", "ours"}),
    ("status.nominatedNodeName=", {"bound", "free", "ours"}),
]


@pytest.mark.parametrize(("selector", "chosen"), [pytest.param(*row, id=row[0]) for row in FIELD_SELECTORS])
def test_field_selector_chooses_pods(api: Api, selector: str, chosen: set[str]) -> None:
    for name, spec in {"bound": {"nodeName": "node-1"}, "free": {}, "ours": {"schedulerName": "ours"}}.items():
        api.create(PODS, pod(name, spec)).expect(201)
    assert names(api.list(PODS, fieldSelector=selector).expect(200)) == chosen


def test_field_selector_on_the_namespace_chooses_over_all(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    query = {"fieldSelector": f"metadata.namespace={api.namespace}"}
    assert names(api.request("GET", CONFIG_MAPS.path(), query=query).expect(200)) == {"a"}


def test_field_selector_chooses_nodes_that_are_cordoned(api: Api) -> None:
    name = unique("node")
    api.create(NODES, node(name) | {"spec": {"unschedulable": True}}).expect(201)
    query = {"fieldSelector": f"spec.unschedulable=true,metadata.name={name}"}
    assert names(api.list(NODES, **query).expect(200)) == {name}


@pytest.mark.parametrize("field", ["spec.nodeName", "spec.driver"])
def test_field_selector_chooses_resource_slices(api: Api, field: str) -> None:
    name, other = unique("slice"), unique("slice")
    api.create(RESOURCE_SLICES, resource_slice(name, nodeName=name, driver=f"{name}.example.com")).expect(201)
    api.create(RESOURCE_SLICES, resource_slice(other)).expect(201)
    value = name if field == "spec.nodeName" else f"{name}.example.com"
    assert names(api.list(RESOURCE_SLICES, fieldSelector=f"{field}={value}").expect(200)) == {name}


def test_field_selector_chooses_events_of_an_object(api: Api) -> None:
    for name in ("a", "b"):
        about = {"kind": "Pod", "name": name, "namespace": api.namespace}
        event = {"metadata": {"name": name}, "involvedObject": about, "reason": "Tested", "type": "Normal"}
        api.create(CORE_EVENTS, event).expect(201)
    selector = "involvedObject.name=a,involvedObject.kind=Pod,reason=Tested"
    assert names(api.list(CORE_EVENTS, fieldSelector=selector).expect(200)) == {"a"}


@pytest.mark.parametrize(
    ("res", "selector"),
    [(PODS, "spec.color=red"), (CONFIG_MAPS, "data.k=v"), (NODES, "status.phase=x"), (PODS, "metadata.name")],
    ids=["pods by an unknown field", "config maps by data", "nodes by phase", "no operator"],
)
def test_unsupported_field_selector_is_refused(api: Api, res: Resource, selector: str) -> None:
    api.list(res, fieldSelector=selector).refused(400, "BadRequest")


def test_pages_hold_everything_once_and_in_order(api: Api) -> None:
    made = [f"page-{number}" for number in range(5)]
    for name in made:
        api.create(PODS, pod(name)).expect(201)
    seen, token, sizes = [], "", []
    while True:
        page = api.list(PODS, limit=2, **({"continue": token} if token else {})).expect(200)
        seen += [item["metadata"]["name"] for item in page["items"]]
        sizes.append(len(page["items"]))
        if not (token := page["metadata"].get("continue", "")):
            break
    assert (seen, sizes) == (made, [2, 2, 1])


def test_page_tells_how_many_follow(api: Api) -> None:
    for number in range(3):
        api.create(PODS, pod(f"page-{number}")).expect(201)
    assert api.list(PODS, limit=1).expect(200)["metadata"]["remainingItemCount"] == 2


def test_selected_page_does_not_tell_how_many_follow(api: Api) -> None:
    for number in range(3):
        api.create(PODS, pod(f"page-{number}", labels={"x": "y"})).expect(201)
    assert "remainingItemCount" not in api.list(PODS, limit=1, labelSelector="x=y").expect(200)["metadata"]


def test_later_pages_show_the_moment_of_the_first(api: Api) -> None:
    for name in ("a", "c"):
        api.create(PODS, pod(name)).expect(201)
    first = api.list(PODS, limit=1).expect(200)["metadata"]
    api.create(PODS, pod("b")).expect(201)
    second = api.list(PODS, limit=5, **{"continue": first["continue"]}).expect(200)
    assert names(second) == {"c"}
    assert second["metadata"]["resourceVersion"] == first["resourceVersion"]


def test_page_token_from_before_a_compaction_has_expired(api: Api) -> None:
    for name in ("a", "b"):
        api.create(CORE_EVENTS, {"metadata": {"name": name}, "involvedObject": {"namespace": api.namespace}}).expect(
            201
        )
    token = api.list(CORE_EVENTS, limit=1).expect(200)["metadata"]["continue"]
    api.create(PODS, pod("a")).expect(201)
    api.server.compact()
    status = api.list(CORE_EVENTS, limit=1, **{"continue": token}).refused(410, "Expired")
    assert status["metadata"]["continue"]


def test_nonsense_as_page_token_is_refused(api: Api) -> None:
    api.list(PODS, limit=1, **{"continue": "nonsense"}).refused(400, "BadRequest")
