"""Pods as views: what is kept, what is shared, and what is said about pods that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubenexus.common import vocabulary
from kubenexus.common.objects import (
    ClaimRequest,
    Condition,
    DiskView,
    HostPort,
    Owner,
    PodClaim,
    ProjectionError,
    Qos,
    Role,
    Toleration,
    VolumeClaim,
    project_pod,
)
from tests.builders import PodBuilder, pod

Obj = dict[str, Any]


def test_what_is_the_pods_own() -> None:
    raw = (
        pod("a-0", "team")
        .created("2026-01-01T00:00:10Z")
        .deleting("2026-01-01T01:00:00+01:00")
        .label("app", "a")
        .annotation(vocabulary.NUMA_POLICY, "isolated")
        .annotation("gang.scheduling.koordinator.sh/name", "g")
        .annotation("kubectl.kubernetes.io/last-applied-configuration", "{}")
        .owner("ReplicaSet", "a")
        .node("n1")
        .set("status.startTime", "2026-01-01T00:00:20Z")
        .set("status.nominatedNodeName", "n2")
        .gate("wait")
        .build()
    )
    view = project_pod(raw)
    assert (view.key, view.uid) == ("team/a-0", "pod-team-a-0")
    assert (view.node, view.nominated_node, view.phase, view.gates) == ("n1", "n2", "Running", ("wait",))
    assert view.started is not None
    assert view.started - view.created == 10
    assert view.deleted == view.created - 10
    assert view.labels == {"app": "a"}
    assert view.annotations == {vocabulary.NUMA_POLICY: "isolated", "gang.scheduling.koordinator.sh/name": "g"}
    assert view.owner == Owner("apps/v1", "ReplicaSet", "a", "replicaset-a")
    assert view.problems == ()


def test_what_the_template_says() -> None:
    spec = project_pod(
        pod("a")
        .guaranteed(2, "1Gi")
        .gpu(1)
        .sidecar(cpu="1")
        .priority(7)
        .select(zone="z1")
        .tolerate("gpu", effect="NoSchedule")
        .host_port(80)
        .set("spec.preemptionPolicy", "Never")
        .set("spec.priorityClassName", "high")
        .set("spec.activeDeadlineSeconds", 60)
        .set("spec.schedulingGroup", {"podGroupName": "pg"})
        .set("spec.overhead", {"cpu": "250m"})
        .build()
    ).spec
    assert spec.requests == {"cpu": 3250, "memory": 1 << 30, "nvidia.com/gpu": 1}
    assert spec.needs.limits == {"cpu": 2250, "memory": 1 << 30, "nvidia.com/gpu": 1}
    assert spec.needs.overhead == {"cpu": 250}
    assert (spec.scheduler_name, spec.priority, spec.priority_class) == (vocabulary.SCHEDULER_NAME, 7, "high")
    assert (spec.preempts, spec.active_deadline, spec.scheduling_group) == (False, 60, "pg")
    assert spec.node_selector == {"zone": "z1"}
    assert spec.tolerations == (Toleration("gpu", "Exists", "", "NoSchedule"),)
    assert spec.needs.host_ports == (HostPort("0.0.0.0", "TCP", 80),)
    assert spec.needs.images == ("registry.example/app:1",)
    assert spec.needs.qos is Qos.BURSTABLE
    assert [(one.name, one.role) for one in spec.needs.containers] == [("init-0", Role.SIDECAR), ("main", Role.MAIN)]
    assert spec.needs.containers[0].requests == {"cpu": 1000}


def test_a_pod_that_says_nothing_has_the_defaults_of_the_api() -> None:
    view = project_pod({"metadata": {"name": "a"}})
    assert (view.key, view.phase, view.node, view.owner, view.deleted) == ("default/a", "Pending", "", None, None)
    assert (view.spec.preempts, view.spec.requests, view.spec.needs.qos) == (True, {}, Qos.BEST_EFFORT)
    assert view.problems == ()


def replica(number: int) -> PodBuilder:
    """A pod of one template as a ReplicaSet makes it: own name, own token volume, some node."""
    token = f"kube-api-access-{number}"
    builder = pod(f"web-{number}").label("app", "web").annotation(vocabulary.NUMA_POLICY, "none").guaranteed(1, "1Gi")
    builder.container["volumeMounts"] = [{"name": token, "mountPath": "/token"}]
    return (
        builder.append("spec.volumes", {"name": token, "projected": {}}).owner("ReplicaSet", "web").node(f"n{number}")
    )


def test_pods_of_one_template_share_all_that_is_equal() -> None:
    one, two = project_pod(replica(1).build()), project_pod(replica(2).build())
    assert one.spec is two.spec
    assert one.labels is two.labels
    assert one.annotations is two.annotations
    assert one.owner is two.owner
    assert (one.name, one.node) != (two.name, two.node)


def test_an_update_of_nothing_that_matters_is_no_news() -> None:
    heartbeat = (
        replica(1).set("metadata.resourceVersion", "2").set("status.podIP", "10.0.0.1").condition("Ready", "True")
    )
    assert project_pod(replica(1).build()) == project_pod(heartbeat.build())
    assert project_pod(replica(1).build()) != project_pod(replica(1).phase("Failed").build())


DIFFERENCES: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "request": lambda one: one.cpu(2),
    "image": lambda one: one.set("spec.containers", [{"name": "main", "image": "other"}]),
    "toleration": lambda one: one.tolerate("x"),
    "node selector": lambda one: one.select(a="b"),
    "priority": lambda one: one.priority(1),
    "scheduler": lambda one: one.scheduler("other"),
    "init container": lambda one: one.init(cpu="1"),
    "disk": lambda one: one.append("spec.volumes", {"name": "d", "iscsi": {"iqn": "i"}}),
    "overhead": lambda one: one.set("spec.overhead", {"cpu": "1"}),
}


@pytest.mark.parametrize("change", DIFFERENCES.values(), ids=DIFFERENCES)
def test_templates_that_differ_are_not_equal(change: Callable[[PodBuilder], PodBuilder]) -> None:
    one, two = project_pod(replica(1).build()), project_pod(change(replica(1)).build())
    assert one.spec != two.spec


def test_pods_of_a_daemon_set_share_their_needs_but_not_their_affinity() -> None:
    def on(node: str) -> Obj:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        term = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": term}
        return pod(f"agent-{node}").cpu(1).set("spec.affinity", {"nodeAffinity": required}).build()

    one, two = project_pod(on("n1")), project_pod(on("n2"))
    assert one.spec.needs is two.spec.needs
    assert one.spec != two.spec
    assert one.spec.affinity.node is not None
    assert [one.spec.affinity.node.matches({}, name) for name in ("n1", "n2")] == [True, False]


def resized(asked: str, given: str, reason: str) -> Obj:
    status = {"name": "main", "resources": {"requests": {"cpu": given}}, "allocatedResources": {"cpu": given}}
    return (
        pod("a").cpu(asked).node("n1").append("status.containerStatuses", status)
        .condition("PodResizePending", "True", reason)
        .build()
    )  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "used"),
    [
        (resized("1", "2", "Deferred"), 2000),
        (resized("2", "1", "Deferred"), 2000),
        (resized("2", "1", "Infeasible"), 1000),
    ],
    ids=["shrinking", "growing", "cannot grow"],
)
def test_a_pod_being_resized_uses_the_most_it_may_have(raw: Obj, used: int) -> None:
    view = project_pod(raw)
    assert view.usage.requests == {"cpu": used}
    assert view.spec.requests["cpu"] in (1000, 2000)
    assert project_pod(raw).usage is view.usage


def test_only_the_conditions_that_matter_are_kept() -> None:
    raw = pod("a").condition("Ready", "True").condition("PodScheduled", "False", "Unschedulable", "0/3 nodes").build()
    view = project_pod(raw)
    assert view.conditions == (Condition("PodScheduled", "False", "Unschedulable", "0/3 nodes"),)
    assert view.condition("PodScheduled") == view.conditions[0]
    assert view.condition("DisruptionTarget") is None


def test_a_bound_pod_need_not_say_that_it_is_scheduled() -> None:
    raw = (
        pod("a")
        .node("n1")
        .condition("PodScheduled", "True")
        .condition("DisruptionTarget", "True", "Preemption")
        .build()
    )
    assert project_pod(raw).conditions == (Condition("DisruptionTarget", "True", "Preemption", ""),)


def test_volumes_that_matter_to_placement() -> None:
    raw = (
        pod("db-0")
        .claim("data-db-0")
        .append("spec.volumes", {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}})
        .append("spec.volumes", {"name": "d", "gcePersistentDisk": {"pdName": "disk", "readOnly": True}})
        .append("spec.volumes", {"name": "r", "rbd": {"image": "i", "monitors": ["m1", "m2"]}})
        .append("spec.volumes", {"name": "w", "image": {"reference": "weights"}})
        .append("spec.volumes", {"name": "c", "configMap": {"name": "c"}})
        .build()
    )
    view = project_pod(raw)
    assert view.volume_claims == (VolumeClaim("data-db-0", False), VolumeClaim("db-0-scratch", True))
    assert view.spec.needs.disks == (
        DiskView("gcePersistentDisk", "disk", True, ()),
        DiskView("rbd", "rbd/i", False, ("m1", "m2")),
    )
    assert view.spec.needs.images[-1] == "weights:latest"


def test_resource_claims_are_resolved_through_the_status() -> None:
    claims = [
        {"name": "mine", "resourceClaimName": "shared"},
        {"name": "made", "resourceClaimTemplateName": "t"},
        {"name": "unneeded", "resourceClaimTemplateName": "t"},
        {"name": "coming", "resourceClaimTemplateName": "t"},
    ]
    statuses = [{"name": "made", "resourceClaimName": "a-made-x7"}, {"name": "unneeded"}]
    view = project_pod(
        pod("a").set("spec.resourceClaims", claims).set("status.resourceClaimStatuses", statuses).build()
    )
    assert view.resource_claims == (
        PodClaim("mine", "shared", False),
        PodClaim("made", "a-made-x7", True),
        PodClaim("coming", "", True),
    )
    assert view.spec.claims[1] == ClaimRequest("made", "", "t")


FEATURES: dict[str, tuple[PodBuilder, set[str]]] = {
    "an ordinary pod": (pod("a"), set()),
    "host network alone": (pod("a").set("spec.hostNetwork", True), set()),
    "host network in a user namespace": (
        pod("a").set("spec.hostNetwork", True).set("spec.hostUsers", False),
        {"UserNamespacesHostNetworkSupport"},
    ),
    "restart of all containers": (
        pod("a").set("spec.containers", [{"name": "m", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]),
        {"RestartAllContainersOnContainerExits"},
    ),
}


@pytest.mark.parametrize(("builder", "features"), FEATURES.values(), ids=FEATURES)
def test_features_that_a_node_must_declare(builder: PodBuilder, features: set[str]) -> None:
    assert project_pod(builder.build()).spec.needs.required_features == features


def test_ports_of_init_containers_are_free_again_and_those_of_sidecars_are_not() -> None:
    ports = [{"hostPort": 1}, {"containerPort": 2}]
    sidecar = {
        "name": "s",
        "restartPolicy": "Always",
        "ports": [{"hostPort": 3, "hostIP": "10.0.0.1", "protocol": "UDP"}],
    }
    raw = pod("a").set("spec.initContainers", [{"name": "i", "ports": ports}, sidecar]).build()
    assert project_pod(raw).spec.needs.host_ports == (HostPort("10.0.0.1", "UDP", 3),)


PROBLEMS: dict[str, tuple[Obj, str]] = {
    "bad quantity": (pod("a").cpu("four").build(), "spec.containers[0].resources.requests.cpu cannot be read"),
    "negative request": (pod("a").memory("-1").build(), "spec.containers[0].resources.requests.memory is negative"),
    "container is text": (pod("a").set("spec.containers", ["x"]).build(), "spec.containers[0] is not a mapping"),
    "containers are a mapping": (pod("a").set("spec.containers", {}).build(), "spec.containers is not a list"),
    "label is a number": (pod("a").set("metadata.labels", {"n": 1}).build(), "metadata.labels.n is not text"),
    "node is a list": (pod("a").set("spec.nodeName", []).build(), "spec.nodeName is not text"),
    "time without a zone": (pod("a").created("2026-01-01").build(), "metadata.creationTimestamp is not a time"),
    "reported amount": (
        pod("a").append("status.containerStatuses", {"name": "main", "resources": {"requests": {"cpu": "x"}}}).build(),
        "status.containerStatuses[0].resources.requests.cpu cannot be read",
    ),
}


@pytest.mark.parametrize(("raw", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_pod_that_cannot_be_read_says_why_every_time(raw: Obj, problem: str) -> None:
    views = [project_pod(raw), project_pod(raw)]
    for view in views:
        assert view.key == "default/a"
        assert len(view.problems) == 1
        assert problem in view.problems[0]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ([], "Pod: the object is not a mapping"),
        ({}, "Pod: metadata is not a mapping"),
        ({"metadata": {"generateName": "a-"}}, "Pod: metadata.name is not a name"),
    ],
    ids=["a list", "empty", "without a name"],
)
def test_what_has_no_name_is_refused(raw: Any, words: str) -> None:
    with pytest.raises(ProjectionError, match=words):
        project_pod(raw)
