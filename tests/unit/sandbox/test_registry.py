"""The registry in process: birth, change and end of objects, and what follows from them by itself.

What the real server does as well is asserted on both by tests/contract; here is what can only be seen from inside.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubenexus.common.kube.resources import (
    CONFIG_MAPS,
    CORE_EVENTS,
    CUSTOM_RESOURCES,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    Resource,
)
from kubenexus.common.sandbox.decoding import decode
from kubenexus.common.sandbox.errors import ApiError
from kubenexus.common.sandbox.kinds import BUILTIN, Kind
from kubenexus.common.sandbox.registry import Registry
from kubenexus.common.sandbox.writes import Call

Obj = dict[str, Any]
NS = "default"
GADGETS = Resource("example.com", "v1", "gadgets", "Gadget")


class Clock:
    """A time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(clock: Clock) -> Registry:
    return Registry(clock, seed=1)


def config(name: str = "", **data: str) -> Obj:
    return {"metadata": {"name": name} if name else {"generateName": "c-"}, "data": data}


def pod(name: str, node: str = "") -> Obj:
    spec = {"containers": [{"name": "main", "image": "x"}]} | ({"nodeName": node} if node else {})
    return {"metadata": {"name": name}, "spec": spec}


def definition(kind: str = "Gadget", status: bool = True) -> Obj:
    plural = kind.lower() + "s"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    version |= {"subresources": {"status": {}}} if status else {}
    names = {"plural": plural, "kind": kind}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": spec}


def gadget(name: str, **more: Any) -> Obj:
    return {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, **more}


def refusal(code: int, reason: str) -> Any:
    return pytest.raises(ApiError, check=lambda error: (error.code, error.reason) == (code, reason))


def test_generated_names_do_not_collide(registry: Registry) -> None:
    names = {registry.create(CONFIG_MAPS, NS, config())["metadata"]["name"] for _ in range(50)}
    assert len(names) == 50


def test_what_is_handed_out_is_the_callers_own(registry: Registry) -> None:
    created = registry.create(CONFIG_MAPS, NS, config("a", k="1"))
    created["data"]["k"] = "changed"
    assert registry.get(CONFIG_MAPS, NS, "a")["data"] == {"k": "1"}


def test_a_write_that_changes_nothing_makes_no_version(registry: Registry) -> None:
    created = registry.create(CONFIG_MAPS, NS, config("a", k="1"))
    for same in (
        registry.update(CONFIG_MAPS, NS, "a", created),
        registry.patch(CONFIG_MAPS, NS, "a", {"data": {"k": "1"}}),
    ):
        assert same["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


def test_a_dry_run_leaves_no_trace(registry: Registry) -> None:
    before, dry = registry.store.rv, Call(dry_run=True)
    registry.create(CONFIG_MAPS, NS, config("a"), call=dry)
    with refusal(404, "NotFound"):
        registry.get(CONFIG_MAPS, NS, "a")
    assert registry.store.rv == before


def test_a_bound_pod_ends_when_its_grace_is_over_and_somebody_says_so(registry: Registry, clock: Clock) -> None:
    registry.create(PODS, NS, pod("a", node="n1"))
    left = registry.delete(PODS, NS, "a", grace_seconds=20)
    due = (clock.now + timedelta(seconds=20)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert left["metadata"]["deletionTimestamp"] == due
    registry.delete(PODS, NS, "a", grace_seconds=0)
    assert registry.list(PODS, NS) == []


def test_an_end_without_grace_is_seen_in_two_steps(registry: Registry) -> None:
    """Like the real server: the deletion is marked, then carried out."""
    registry.create(PODS, NS, pod("a"))
    watch = registry.watch(PODS, NS, since=str(registry.store.rv))
    registry.delete(PODS, NS, "a")
    assert [event.type for event in watch.poll(0)] == ["MODIFIED", "DELETED"]


def test_events_are_one_store_with_two_faces(registry: Registry) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": NS}
    old_style = {"metadata": {"name": "e"}, "involvedObject": about, "message": "hello", "count": 2}
    registry.create(CORE_EVENTS, NS, old_style | {"type": "Normal", "reason": "Tested"})
    new_style = registry.get(EVENTS, NS, "e")
    assert (new_style["apiVersion"], new_style["note"], new_style["deprecatedCount"]) == (
        "events.k8s.io/v1",
        "hello",
        2,
    )
    assert new_style["regarding"] == about
    assert registry.list(EVENTS, NS, fields="regarding.name=p") == [new_style]
    assert registry.list(CORE_EVENTS, NS, fields="involvedObject.name=p")[0]["message"] == "hello"


def test_a_job_selects_its_pods_by_its_uid(registry: Registry) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    job = registry.create(JOBS, NS, {"metadata": {"name": "j"}, "spec": {"template": template}})
    wanted = {"batch.kubernetes.io/controller-uid": job["metadata"]["uid"]}
    assert job["spec"]["selector"] == {"matchLabels": wanted}
    assert wanted.items() <= job["spec"]["template"]["metadata"]["labels"].items()


def test_an_update_of_an_absent_lease_creates_it(registry: Registry) -> None:
    made = registry.update(LEASES, NS, "l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
    assert made["metadata"]["uid"]
    with refusal(404, "NotFound"):
        registry.update(CONFIG_MAPS, NS, "c", config("c"))


class TestNamespaces:
    @pytest.fixture(autouse=True)
    def _namespace(self, registry: Registry) -> None:
        registry.create(NAMESPACES, None, {"metadata": {"name": "work"}})

    def test_it_goes_at_once_when_nothing_holds_it(self, registry: Registry) -> None:
        registry.create(CONFIG_MAPS, "work", config("a"))
        registry.create(PODS, "work", pod("a"))
        registry.delete(NAMESPACES, None, "work")
        with refusal(404, "NotFound"):
            registry.get(NAMESPACES, None, "work")
        assert registry.list(CONFIG_MAPS, "work") == registry.list(PODS, "work") == []

    def test_it_waits_for_what_ends_slowly(self, registry: Registry) -> None:
        registry.create(PODS, "work", pod("a", node="n1"))
        registry.create(CONFIG_MAPS, "work", config("b") | {"metadata": {"name": "b", "finalizers": ["example.com/x"]}})
        registry.delete(NAMESPACES, None, "work")
        assert registry.get(NAMESPACES, None, "work")["status"]["phase"] == "Terminating"
        registry.delete(PODS, "work", "a", grace_seconds=0)
        assert registry.get(NAMESPACES, None, "work")
        registry.patch(CONFIG_MAPS, "work", "b", {"metadata": {"finalizers": None}})
        with refusal(404, "NotFound"):
            registry.get(NAMESPACES, None, "work")

    def test_nothing_new_is_let_in_while_it_ends(self, registry: Registry) -> None:
        registry.create(PODS, "work", pod("a", node="n1"))
        registry.delete(NAMESPACES, None, "work")
        with refusal(403, "Forbidden"):
            registry.create(CONFIG_MAPS, "work", config("a"))


class TestDefinitions:
    def test_kinds_come_and_go_with_their_definition(self, registry: Registry) -> None:
        with refusal(404, "NotFound"):
            registry.list(GADGETS)
        made = registry.create(CUSTOM_RESOURCES, None, definition())
        assert {each["type"]: each["status"] for each in made["status"]["conditions"]}["Established"] == "True"
        registry.create(GADGETS, NS, gadget("g", spec={"size": 1}))
        assert GADGETS in registry.resources()
        registry.delete(CUSTOM_RESOURCES, None, "gadgets.example.com")
        assert GADGETS not in registry.resources()
        registry.create(CUSTOM_RESOURCES, None, definition())
        assert registry.list(GADGETS) == []

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"spec": {}}, "spec.group"),
            ({"metadata": {"name": "others.example.com"}}, "metadata.name"),
            ({"spec": definition()["spec"] | {"versions": [{"name": "v1", "served": True}]}}, "spec.versions"),
        ],
        ids=["empty", "misnamed", "stored nowhere"],
    )
    def test_a_bad_definition_is_refused(self, registry: Registry, change: Obj, field: str) -> None:
        with refusal(422, "Invalid") as refused:
            registry.create(CUSTOM_RESOURCES, None, definition() | change)
        assert field in [cause["field"] for cause in refused.value.details["causes"]]

    def test_status_is_apart_only_where_the_definition_says_so(self, registry: Registry) -> None:
        registry.create(CUSTOM_RESOURCES, None, definition(status=False))
        registry.create(GADGETS, NS, gadget("g", spec={"size": 1}, status={"ready": True}))
        assert registry.get(GADGETS, NS, "g")["status"] == {"ready": True}

    def test_generation_counts_the_specification_alone(self, registry: Registry) -> None:
        registry.create(CUSTOM_RESOURCES, None, definition())
        registry.create(GADGETS, NS, gadget("g", spec={"size": 1}))

        def generation(patch: Obj, subresource: str = "") -> int:
            changed = registry.patch(GADGETS, NS, "g", patch, subresource=subresource)
            return int(changed["metadata"]["generation"])

        assert generation({"metadata": {"labels": {"x": "y"}}}) == 1
        assert generation({"status": {"ready": True}}, "status") == 1
        assert generation({"status": {"ready": False}}) == 1
        assert generation({"spec": {"size": 2}}) == 2
        assert registry.get(GADGETS, NS, "g")["status"] == {"ready": True}

    def test_a_kind_may_share_its_name_with_a_built_in_one(self, registry: Registry) -> None:
        registry.create(CUSTOM_RESOURCES, None, definition("Pod"))
        foreign = Resource("example.com", "v1", "pods", "Pod")
        registry.create(foreign, NS, gadget("p") | {"kind": "Pod", "spec": {"no": "containers"}})
        assert registry.list(PODS, NS) == []


UNTYPED: list[tuple[str, Obj, str]] = [
    ("text for a list", {"spec": {"containers": "x"}}, "cannot unmarshal string into Go struct field spec.containers"),
    ("number for a label", {"metadata": {"name": "a", "labels": {"x": 1}}}, "metadata.labels.x of type string"),
    ("flag for a number", {"spec": {"priority": True}}, "spec.priority of type int64"),
    ("nonsense for a time", {"metadata": {"name": "a", "creationTimestamp": "now"}}, 'parsing time "now"'),
    ("list for an object", {"spec": []}, "cannot unmarshal array into Go struct field spec"),
]


@pytest.mark.parametrize(("obj", "message"), [row[1:] for row in UNTYPED], ids=[row[0] for row in UNTYPED])
def test_a_value_of_the_wrong_type_is_refused_with_its_place(registry: Registry, obj: Obj, message: str) -> None:
    with pytest.raises(ApiError, match=message.replace("[", r"\[")) as refused:
        registry.create(PODS, NS, pod("a") | obj)
    assert refused.value.code == 400


def test_decoding_leaves_one_form(registry: Registry) -> None:
    node = {"metadata": {"name": "n", "labels": {}, "creationTimestamp": None}, "spec": {"taints": []}}
    node["status"] = {"capacity": {"cpu": 8, "memory": "1024Mi", "nvidia.com/gpu": "0008"}}
    made = registry.create(NODES, None, node)
    assert "labels" not in made["metadata"]
    assert made["spec"] == {}
    assert made["status"]["capacity"]["memory"] == "1Gi"
    assert made["status"]["capacity"]["cpu"] == "8"


def test_eviction_spends_the_budget_of_the_moment(registry: Registry) -> None:
    """Two evictions at once: the second sees what the first has spent."""
    spec = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}
    registry.create(POD_DISRUPTION_BUDGETS, NS, {"metadata": {"name": "b"}, "spec": spec})
    counted = {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    status = {"status": counted | {"observedGeneration": 1}}
    registry.patch(POD_DISRUPTION_BUDGETS, NS, "b", status, subresource="status")
    for name in ("p1", "p2"):
        registry.create(PODS, NS, pod(name, node="n") | {"metadata": {"name": name, "labels": {"app": "x"}}})
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        registry.patch(PODS, NS, name, {"status": ready}, subresource="status")
    registry.evict(NS, "p1")
    with refusal(429, "TooManyRequests"):
        registry.evict(NS, "p2")
    assert "p1" in registry.get(POD_DISRUPTION_BUDGETS, NS, "b")["status"]["disruptedPods"]


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: str(kind.resource))
def test_the_fields_of_every_built_in_kind_are_known(kind: Kind) -> None:
    obj = {"apiVersion": kind.resource.api_version, "kind": kind.name, "metadata": {"name": "a"}, "nonsense": 1}
    decoded, unknown = decode(kind, obj)
    assert unknown == ["nonsense"]
    assert decoded == {key: value for key, value in obj.items() if key != "nonsense"}
