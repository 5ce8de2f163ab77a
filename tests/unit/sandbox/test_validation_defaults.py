"""What the API server fills in. The outcomes are those of Kubernetes 1.36.4."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubenexus.common.sandbox.validation import apply_defaults

Obj = dict[str, Any]


def pod(*containers: Obj, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": list(containers), **spec},
    }


def container(**fields: Any) -> Obj:
    return {"name": "c", "image": "i:1", **fields}


def requests(obj: Obj) -> Any:
    return apply_defaults("Pod", obj)["spec"]["containers"][0]["resources"].get("requests")


def test_a_plain_pod() -> None:
    plain = pod(container(ports=[{"containerPort": 80}]))
    given = copy.deepcopy(plain)
    assert apply_defaults("Pod", plain)["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i:1",
                "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    assert plain == given


def test_defaults_are_idempotent_and_yield_to_what_is_said() -> None:
    said = pod(container(imagePullPolicy="Never"), restartPolicy="Never", terminationGracePeriodSeconds=0)
    once = apply_defaults("Pod", said)
    assert apply_defaults("Pod", once) == once
    spec = once["spec"]
    assert spec["restartPolicy"] == "Never"
    assert spec["terminationGracePeriodSeconds"] == 0
    assert spec["containers"][0]["imagePullPolicy"] == "Never"


IMAGES = {
    "nginx": "Always",
    "nginx:latest": "Always",
    "nginx:1.27": "IfNotPresent",
    "host:5000/nginx": "Always",
    "host:5000/nginx:1": "IfNotPresent",
    "nginx@sha256:abc": "IfNotPresent",
    "nginx:latest@sha256:abc": "Always",
}


@pytest.mark.parametrize(("image", "policy"), IMAGES.items())
def test_pull_policy(image: str, policy: str) -> None:
    assert (
        apply_defaults("Pod", pod({"name": "c", "image": image}))["spec"]["containers"][0]["imagePullPolicy"] == policy
    )


def test_requests_come_from_limits() -> None:
    limits = {"cpu": "2", "nvidia.com/gpu": "1"}
    assert requests(pod(container(resources={"limits": limits}))) == limits
    assert requests(pod(container(resources={"limits": limits, "requests": {"cpu": "1"}}))) == {**limits, "cpu": "1"}


def test_templates_keep_limits_and_requests_apart() -> None:
    template = {"spec": {"containers": [container(resources={"limits": {"cpu": "1"}})]}}
    job = apply_defaults("Job", {"apiVersion": "batch/v1", "spec": {"template": template}})
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert job["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"


POD_LEVEL: list[tuple[str, Obj, Obj, Obj]] = [
    ("from the limits", {"limits": {"cpu": "4"}}, {}, {"cpu": "4"}),
    ("from the containers", {"limits": {"cpu": "4", "memory": "1"}}, {"cpu": "500m"}, {"cpu": "500m", "memory": "1"}),
    ("said", {"limits": {"cpu": "4"}, "requests": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "2"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("level", "asked", "wanted"), [row[1:] for row in POD_LEVEL], ids=[row[0] for row in POD_LEVEL]
)
def test_pod_level_requests(level: Obj, asked: Obj, wanted: Obj) -> None:
    obj = pod(container(resources={"requests": asked}), resources=level)
    assert apply_defaults("Pod", obj)["spec"]["resources"]["requests"] == wanted


def test_ports_of_the_host_network_are_the_host_s() -> None:
    obj = apply_defaults("Pod", pod(container(ports=[{"containerPort": 80}]), hostNetwork=True))
    assert obj["spec"]["containers"][0]["ports"][0]["hostPort"] == 80


# A kind, what is said, and a part of the outcome.
PARTS: list[tuple[str, str, str, Obj, Obj]] = [
    ("job", "Job", "batch/v1", {"spec": {}}, {"spec": {
        "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False,
        "manualSelector": False, "podReplacementPolicy": "TerminatingOrFailed"}}),
    ("job that runs in parallel", "Job", "batch/v1", {"spec": {"parallelism": 3}}, {"spec": {"completions": None}}),
    ("job that counts", "Job", "batch/v1", {"spec": {"completions": 3}}, {"spec": {"parallelism": 1}}),
    ("job with failures per index", "Job", "batch/v1", {"spec": {"backoffLimitPerIndex": 1}},
     {"spec": {"backoffLimit": 2147483647}}),
    ("job takes its template's labels", "Job", "batch/v1", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}},
     {"metadata": {"labels": {"a": "b"}}}),
    ("deployment", "Deployment", "apps/v1", {"spec": {}}, {"spec": {
        "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}}),
    ("deployment recreated", "Deployment", "apps/v1", {"spec": {"strategy": {"type": "Recreate"}}},
     {"spec": {"strategy": {"type": "Recreate"}}}),
    ("no replicas", "ReplicaSet", "apps/v1", {"spec": {"replicas": 0}}, {"spec": {"replicas": 0}}),
    ("stateful set", "StatefulSet", "apps/v1", {"spec": {"volumeClaimTemplates": [{"spec": {}}]}}, {"spec": {
        "replicas": 1, "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "volumeClaimTemplates": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                                  "spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}]}}),
    ("service", "Service", "v1", {"spec": {"ports": [{"port": 80}]}}, {"spec": {
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}}),
    ("node", "Node", "v1", {"status": {"capacity": {"cpu": "4"}}}, {"status": {"allocatable": {"cpu": "4"}}}),
    ("node with allocatable", "Node", "v1", {"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}},
     {"status": {"allocatable": {"cpu": "3"}}}),
    ("namespace", "Namespace", "v1", {}, {"metadata": {"labels": {"kubernetes.io/metadata.name": "x"}}}),
    ("secret", "Secret", "v1", {"data": {"a": "eA=="}, "stringData": {"b": "y"}},
     {"type": "Opaque", "data": {"a": "eA==", "b": "eQ=="}, "stringData": None}),
    ("priority class", "PriorityClass", "scheduling.k8s.io/v1", {}, {"preemptionPolicy": "PreemptLowerPriority"}),
    ("storage class", "StorageClass", "storage.k8s.io/v1", {},
     {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    ("claim", "ResourceClaim", "resource.k8s.io/v1",
     {"spec": {"devices": {"requests": [{"exactly": {"tolerations": [{"key": "a"}]}}]}}},
     {"spec": {"devices": {"requests": [{"exactly": {
         "allocationMode": "ExactCount", "count": 1, "tolerations": [{"key": "a", "operator": "Equal"}]}}]}}}),
    ("claim for all", "ResourceClaimTemplate", "resource.k8s.io/v1",
     {"spec": {"spec": {"devices": {"requests": [{"firstAvailable": [{"allocationMode": "All"}, {}]}]}}}},
     {"spec": {"spec": {"devices": {"requests": [
         {"firstAvailable": [{"allocationMode": "All"}, {"allocationMode": "ExactCount", "count": 1}]}]}}}}),
    ("slice with an alpha attribute", "ResourceSlice", "resource.k8s.io/v1",
     {"spec": {"devices": [{"name": "d", "attributes": {"a": {"ints": [1]}}, "nodeAllocatableResourceMappings": {}}]}},
     {"spec": {"devices": [{"name": "d", "attributes": {"a": {}}}]}}),
    ("webhook", "MutatingWebhookConfiguration", "admissionregistration.k8s.io/v1",
     {"webhooks": [{"rules": [{}], "clientConfig": {"service": {}}}]},
     {"webhooks": [{"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10,
                    "reinvocationPolicy": "Never", "namespaceSelector": {}, "objectSelector": {},
                    "rules": [{"scope": "*"}], "clientConfig": {"service": {"port": 443}}}]}),
    ("empty metadata", "ConfigMap", "v1", {"metadata": {"labels": {}, "finalizers": [], "managedFields": []}},
     {"metadata": {"labels": None, "finalizers": None, "managedFields": []}}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "version", "said", "part"), [row[1:] for row in PARTS], ids=[row[0] for row in PARTS])
def test_defaults(kind: str, version: str, said: Obj, part: Obj) -> None:
    obj = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **said}
    holds(apply_defaults(kind, obj), part)


def holds(found: Any, part: Any) -> None:
    """What is said of the outcome holds; None says that a field is not there."""
    if isinstance(part, dict) and part:
        for name, value in part.items():
            holds(found.get(name), value)
    else:
        assert found == part


@pytest.mark.parametrize(
    "junk", [{}, {"spec": None}, {"spec": {"containers": "x"}}, {"spec": {"containers": [1]}}], ids=str
)
@pytest.mark.parametrize("kind", ["Pod", "Job", "Deployment", "ResourceSlice", "Node"])
def test_junk_is_left_to_validation(kind: str, junk: Obj) -> None:
    apply_defaults(kind, {"metadata": {"name": "x"}, **junk})
