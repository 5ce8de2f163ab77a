"""Input that is wrong, gone or too much: one clear reason for whom it concerns, and nobody else waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubenexus.common.kube.mirror import Added
from kubenexus.common.objects import PodView
from kubenexus.scheduler.actions import Astray, Report
from kubenexus.scheduler.world import read
from tests.builders import PodBuilder, node, pod
from tests.office import Office, bound, told

Obj = dict[str, Any]
Step = Callable[[PodBuilder], PodBuilder]

ODD: Obj = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]}
NOT_KNOWN = "operator is 'Near', not one of In, NotIn, Exists, DoesNotExist"
NOT_MATCHED = "1 node(s) didn't match Pod's node affinity/selector"
NOT_A_QUANTITY = "is not a quantity: write a number and a suffix such as m, k, M, G, Ki, Mi, Gi or e3"


def put(path: str, value: Any) -> Step:
    return lambda made: made.set(path, value)


def container(**fields: Any) -> Step:
    return put("spec.containers", [{"name": "main", "image": "i", **fields}])


def near_node(**expression: Any) -> Step:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return put("spec.affinity.nodeAffinity", {"requiredDuringSchedulingIgnoredDuringExecution": terms})


def near_pods(kind: str, selector: Any) -> Step:
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    return put(f"spec.affinity.{kind}", {"requiredDuringSchedulingIgnoredDuringExecution": [term]})


def spread(**changes: Any) -> Step:
    usual = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    return put("spec.topologySpreadConstraints", [{**usual, "labelSelector": {"matchLabels": {"a": "b"}}, **changes}])


# What is wrong → what the pod is told.
BAD_PODS: dict[str, tuple[Step, str]] = {
    "quantity in words": (lambda made: made.cpu("much"), f"requests.cpu cannot be read: 'much' {NOT_A_QUANTITY}"),
    "quantity with a unit of its own": (lambda made: made.memory("12 apples"), f"'12 apples' {NOT_A_QUANTITY}"),
    "negative quantity": (lambda made: made.cpu("-1"), "resources.requests.cpu is negative: -1"),
    "endless quantity": (lambda made: made.cpu("1e999999999"), "is not a quantity: it is too large"),
    "absurd quantity": (lambda made: made.cpu("9" * 40), "No node has more than 8 cpu"),
    "quantity that is no scalar": (container(resources={"requests": {"cpu": {}}}), NOT_A_QUANTITY),
    "requests that are a list": (container(resources={"requests": ["cpu"]}), "requests is not a mapping"),
    "overhead in words": (put("spec.overhead", {"cpu": "lots"}), "spec.overhead.cpu cannot be read"),
    "pod-level request in words": (put("spec.resources", {"requests": {"cpu": "lots"}}), "spec.resources.requests.cpu"),
    "node selector that is a list": (put("spec.nodeSelector", ["a"]), "spec.nodeSelector is not a mapping"),
    "node selector with a number": (put("spec.nodeSelector", {"a": 1}), "spec.nodeSelector.a is not text"),
    "node affinity of an unknown operator": (near_node(key="a", operator="Near", values=["b"]), NOT_MATCHED),
    "node affinity above a word": (near_node(key="a", operator="Gt", values=["many"]), NOT_MATCHED),
    "node affinity without a key": (near_node(operator="In", values=["b"]), NOT_MATCHED),
    "pod affinity of an unknown operator": (near_pods("podAffinity", ODD), NOT_KNOWN),
    "pod anti-affinity of an unknown operator": (near_pods("podAntiAffinity", ODD), NOT_KNOWN),
    "pod anti-affinity to a word": (near_pods("podAntiAffinity", "x"), "labelSelector is not a mapping"),
    "affinity that is a word": (put("spec.affinity", "near"), "spec.affinity is not a mapping"),
    "spreading by an unknown operator": (spread(labelSelector=ODD), NOT_KNOWN),
    "spreading by a skew in words": (spread(maxSkew="two"), "maxSkew is not a whole number"),
    "tolerations that are a word": (put("spec.tolerations", "all"), "spec.tolerations is not a list"),
    "priority in words": (put("spec.priority", "high"), "spec.priority is not a whole number"),
    "port by name": (container(ports=[{"hostPort": "http"}]), "ports[0].hostPort is not a whole number"),
    "containers that are a word": (put("spec.containers", "main"), "spec.containers is not a list"),
    "labels that are a list": (put("metadata.labels", ["x"]), "metadata.labels is not a mapping"),
    "claim that nobody made": (lambda made: made.claim("absent"), 'persistentvolumeclaim "absent" not found'),
    "device claim that nobody made": (
        put("spec.resourceClaims", [{"name": "gpu", "resourceClaimName": "absent"}]),
        'resourceclaim "absent" not found',
    ),
}


@pytest.mark.parametrize(("wrong", "reason"), BAD_PODS.values(), ids=BAD_PODS)
def test_bad_pod_is_told_why_and_delays_nobody(wrong: Step, reason: str) -> None:
    office = Office(node("n").capacity(cpu=8, memory="16Gi"))
    office.see(wrong(pod("odd").priority(10)))
    office.see(pod("fine").cpu(1))
    for _ in range(2):  # one for each: the odd one costs the other no more than a decision
        office.desk.decide(office.now)
    actions = office.desk.take()
    assert bound(actions) == {"fine": "n"}
    [report] = [one for one in actions if isinstance(one, Report)]
    assert report.pod.name == "odd"
    assert reason in report.message
    assert report.message.endswith(".")
    later = office.decide(after=60)  # another pod has come, which may help some
    assert set(told(later).values()) <= {report.message}


@pytest.mark.parametrize(
    "field", ["spec.entangled", "spec.securityContext.mood", "status.weather", "metadata.aura", "colour"]
)
def test_unknown_field_is_no_obstacle(field: str) -> None:
    office = Office(node("n").capacity(cpu=8))
    office.see(pod("modern").cpu(1).set(field, {"new": [1, "two"]}))
    assert bound(office.decide()) == {"modern": "n"}


BAD_OBJECTS: dict[str, Obj] = {
    "node with CPUs in words": {"kind": "Node", "status": {"allocatable": {"cpu": "lots", "pods": "110"}}},
    "node without a status": {"kind": "Node"},
    "node with taints that are a word": {"kind": "Node", "spec": {"taints": "all"}},
    "node with labels that are a list": {"kind": "Node", "metadata": {"labels": ["x"]}},
    "budget of an unknown operator": {"kind": "PodDisruptionBudget", "spec": {"selector": ODD}},
    "service that selects a word": {"kind": "Service", "spec": {"selector": "web"}},
    "volume of no size": {"kind": "PersistentVolume", "spec": {"capacity": {"storage": "huge"}}},
    "claim of no size": {"kind": "PersistentVolumeClaim", "spec": {"resources": {"requests": {"storage": "much"}}}},
    "class without a provisioner": {"kind": "StorageClass"},
    "driver limits in words": {"kind": "CSINode", "spec": {"drivers": [{"name": "d", "allocatable": {"count": "x"}}]}},
    "device claim that is empty": {"kind": "ResourceClaim", "spec": None, "status": {"allocation": "yes"}},
    "namespace with labels that are a word": {"kind": "Namespace", "metadata": {"labels": "x"}},
}


@pytest.mark.parametrize("obj", BAD_OBJECTS.values(), ids=BAD_OBJECTS)
def test_bad_object_disturbs_no_pod(obj: Obj) -> None:
    office = Office(node("n").capacity(cpu=8))
    whole = {**obj, "metadata": {"name": "bad", "namespace": "default", "uid": "bad", **obj.get("metadata", {})}}
    office.hear(obj["kind"], Added("default/bad", read(obj["kind"], whole)))
    office.see(pod("fine").cpu(1))
    assert bound(office.decide()) == {"fine": "n"}
    office.desk.state.validate()


def test_pod_deleted_while_it_is_bound_makes_room_at_once() -> None:
    office = Office(node("n").capacity(cpu=1))
    doomed = office.see(pod("doomed").cpu(1))
    office.see(pod("next").cpu(1))
    [bind] = office.decide()[:1]
    office.gone(doomed)
    assert bound(office.decide(after=1.0)) == {"next": "n"}
    office.desk.finish(Astray(bind, "the pod is gone"), office.now)
    assert office.nodes_in_use() == {"next": "n"}
    office.desk.state.validate()


@pytest.mark.parametrize("answered", [False, True], ids=["before the answer", "after the answer"])
def test_node_that_vanishes_while_a_pod_is_bound_to_it_gets_no_more(answered: bool) -> None:
    office = Office(node("gone").capacity(cpu=8), node("stays").capacity(cpu=1))
    office.see(pod("a").cpu(2))
    actions = office.decide()
    assert bound(actions) == {"a": "gone"}
    if answered:
        office.bind(actions)
    office.remove_node("gone")
    if not answered:  # the API server binds pods to nodes that do not exist
        office.bind(actions)
    for name in ("b", "c"):
        office.see(pod(name).cpu(1))
    later = office.decide()
    assert bound(later) == {"b": "stays"}
    assert told(later)["c"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    office.desk.state.validate()


def test_ten_thousand_at_once_keep_nobody_waiting_who_is_more_important() -> None:
    """Each is decided about once. Who is urgent is next, however many were there before."""
    count, odd = 10_000, 100
    office = Office(*(node(f"n{number}").capacity(cpu=16, memory="64Gi") for number in range(100)))
    for number in range(count):
        made = pod(f"p{number}")
        office.see(made.cpu("much") if number % (count // odd) == 0 else made.cpu("100m"))
    decided: list[str] = []
    while (decision := office.desk.decide(office.now)) is not None:
        decided.append(_name(decision))
        if len(decided) % 1_000 == 0:
            office.see(pod(f"urgent-{len(decided)}").priority(5).cpu("100m"))
            decided.append(_name(office.desk.decide(office.now)))
            assert decided[-1].startswith("urgent")
        office.bind(office.desk.take())
    urgent = [name for name in decided if name.startswith("urgent")]
    assert len(decided) == len(set(decided)) == count + len(urgent)
    assert len(office.nodes_in_use()) == count - odd + len(urgent)


def _name(decision: Any) -> str:
    view: PodView = decision.pod
    return view.name
