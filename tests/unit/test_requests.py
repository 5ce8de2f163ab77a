"""The request math against Kubernetes' own cases, and the facts derived from it (QoS class, exclusive CPUs)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kubenexus.common import quantity
from kubenexus.common.objects import ProjectionError, Qos, RequestOptions, pod_requests, pod_resources
from kubenexus.common.objects.requests import Role, aggregate
from tests.builders import PodBuilder, pod
from tests.shared import conformance

Case = dict[str, Any]

OPTIONS = {
    "useStatusResources": "use_status",
    "useDRANodeAllocatableResourceClaimStatus": "use_claims",
    "skipPodLevelResources": "skip_pod_level",
    "excludeOverhead": "skip_overhead",
}


def options_of(case: Case) -> RequestOptions:
    return RequestOptions(**{OPTIONS[name]: value for name, value in case["options"].items()})


def exact(amounts: dict[str, str]) -> dict[str, Any]:
    return {name: quantity.parse(text) for name, text in amounts.items()}


@pytest.mark.parametrize("case", conformance("podrequests", "podRequests"))
def test_pod_requests_and_limits(case: Case) -> None:
    resources, want = pod_resources(case["pod"]), case["want"]
    if "requests" in want:
        assert resources.requests(options_of(case)) == exact(want["requests"])
    if "limits" in want:
        assert resources.limits(options_of(case)) == exact(want["limits"])


@pytest.mark.parametrize("case", conformance("podrequests", "aggregateContainers"))
def test_sums_of_containers_alone(case: Case) -> None:
    resources, options = pod_resources(case["pod"]), options_of(case)
    assert resources.container_requests(options) == exact(case["want"]["requests"])
    assert resources.container_limits(options) == exact(case["want"]["limits"])


class Counted(Fraction):
    """An amount that counts how often amounts are compared."""

    compared = 0

    def __gt__(self, other: Any) -> bool:
        Counted.compared += 1
        return super().__gt__(other)


@pytest.mark.parametrize("role", Role)
def test_work_grows_no_faster_than_a_pod(role: Role) -> None:
    """Thousands of containers with a resource of their own each fit in one pod, and admission waits for the sum."""
    Counted.compared = 0
    many = 1000
    assert len(aggregate((role, {f"example.com/{number}": Counted(1)}) for number in range(many))) == many
    assert Counted.compared <= 2 * many


@pytest.mark.parametrize("case", conformance("podrequests", "nodeInfoRequests"))
def test_what_a_pod_takes_from_its_node(case: Case) -> None:
    usage, want = pod_resources(case["pod"]).usage(use_status=True), case["want"]
    rest = dict(usage.requests)
    assert rest.pop("cpu", 0) == want["milliCPU"]
    assert rest.pop("memory", 0) == want["memory"]
    assert rest.pop("ephemeral-storage", 0) == want["ephemeralStorage"]
    assert rest == (want["scalarResources"] or {})
    assert (usage.nonzero_cpu, usage.nonzero_memory) == (want["non0MilliCPU"], want["non0Memory"])


@pytest.mark.parametrize("case", conformance("podrequests", "nonzeroRequests"))
def test_what_scorers_assume(case: Case) -> None:
    usage = pod_resources(case["pod"]).usage(use_status=False)
    assert {"cpu": usage.nonzero_cpu, "memory": usage.nonzero_memory} == case["want"]["requests"]


def test_requests_are_whole_numbers_rounded_up_after_the_sum() -> None:
    raw = pod("a").cpu("0.0004").memory("100m").gpu(2).sidecar(cpu="0.0004", memory="1Ki").build()
    assert pod_requests(raw) == {"cpu": 1, "memory": 1025, "nvidia.com/gpu": 2}


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (pod("a").cpu("one").build(), "spec.containers[0].resources.requests.cpu"),
        (pod("a").init(memory="-1").build(), "spec.initContainers[0].resources.requests.memory"),
        (pod("a").set("spec.overhead", "much").build(), "spec.overhead"),
    ],
    ids=["not a quantity", "negative", "not a mapping"],
)
def test_what_cannot_be_read_is_named(raw: Any, field: str) -> None:
    with pytest.raises(ProjectionError) as caught:
        pod_requests(raw)
    assert field in str(caught.value)


QOS: dict[str, tuple[PodBuilder, Qos, int]] = {
    "nothing asked": (pod("a"), Qos.BEST_EFFORT, 0),
    "only a GPU": (pod("a").gpu(1), Qos.BEST_EFFORT, 0),
    "requests without limits": (pod("a").cpu(2).memory("1Gi"), Qos.BURSTABLE, 0),
    "limits above requests": (pod("a").cpu(2, 4).memory("1Gi", "1Gi"), Qos.BURSTABLE, 0),
    "memory limit missing": (pod("a").cpu(2, 2), Qos.BURSTABLE, 0),
    "whole CPUs": (pod("a").guaranteed(4, "1Gi"), Qos.GUARANTEED, 4),
    "whole CPUs written as milli": (pod("a").guaranteed("4000m", "1Gi"), Qos.GUARANTEED, 4),
    "a fraction of a CPU is shared": (pod("a").guaranteed("1500m", "1Gi"), Qos.GUARANTEED, 0),
    "an init container without limits": (pod("a").guaranteed(4, "1Gi").init(cpu="1"), Qos.BURSTABLE, 0),
    "pod-level resources decide alone": (
        pod("a")
        .cpu(1)
        .set("spec.resources", {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}),
        Qos.GUARANTEED,
        0,
    ),
    "pod-level requests without limits": (pod("a").set("spec.resources", {"requests": {"cpu": "2"}}), Qos.BURSTABLE, 0),
}


@pytest.mark.parametrize(("builder", "qos", "cpus"), QOS.values(), ids=QOS)
def test_qos_class_and_exclusive_cpus(builder: PodBuilder, qos: Qos, cpus: int) -> None:
    resources = pod_resources(builder.build())
    assert resources.qos() is qos
    assert resources.exclusive_cpus() == cpus


def test_init_containers_reuse_exclusive_cpus() -> None:
    whole = {"requests": {"cpu": "6", "memory": "1Gi"}, "limits": {"cpu": "6", "memory": "1Gi"}}
    raw = pod("a").guaranteed(4, "1Gi").set("spec.initContainers", [{"name": "i", "resources": whole}]).build()
    assert pod_resources(raw).exclusive_cpus() == 6
