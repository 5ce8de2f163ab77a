"""What the rendered objects say: rights, security, selectors, probes, alerts."""

from __future__ import annotations

import argparse
import importlib
import re
from typing import Any

import pytest

from kubenexus.agent.publish import rights as agent
from kubenexus.common import vocabulary
from kubenexus.common.cli import COMMANDS
from kubenexus.common.config import SchedulerConfiguration, load_yaml
from kubenexus.scheduler import rights as scheduler
from kubenexus.webhook import rights as webhook
from tests.chart.helm import CHART, ROOT, Helm, Obj, of_kind, one, pod_templates
from tests.chart.rights import rules
from tests.contract.objects import rows

HOOK = "helm.sh/hook"
SPACE = vocabulary.SYSTEM_NAMESPACE


# --- Rights


RIGHTS: list[tuple[str, list[str], str, dict[str, list[Any]]]] = [
    ("agent", [], "agent", {"": [*agent.RULES]}),
    ("agent with NRT", ["--set", "agent.publish={labels,nrt}"], "agent", {"": [*agent.RULES, *agent.NRT_RULES]}),
    ("cleanup", [], "cleanup", {"": [*agent.CLEANUP_RULES]}),
    ("scheduler", [], "scheduler", {"": [*scheduler.RULES], SPACE: [*scheduler.lease_rules()]}),
    (
        "webhook",
        [],
        "webhook",
        {"": [*webhook.RULES, *webhook.certificate_rules()], SPACE: [*webhook.secret_rules()]},
    ),
    (
        "webhook with cert-manager",
        ["--set", "webhook.certificates.mode=certManager"],
        "webhook",
        {"": [*webhook.RULES]},
    ),
]


@pytest.mark.parametrize(("words", "component", "declared"), rows(RIGHTS))
def test_rights_are_those_that_the_component_declares(
    helm: Helm, words: list[str], component: str, declared: dict[str, list[Any]]
) -> None:
    assert rules(helm.objects(*words), (SPACE, f"kubenexus-{component}")) == declared


def test_nobody_else_has_rights(objects: list[Obj]) -> None:
    names = {
        who["name"] for binding in of_kind(objects, "ClusterRoleBinding", "RoleBinding") for who in binding["subjects"]
    }
    assert names == {f"kubenexus-{name}" for name in ("agent", "scheduler", "webhook", "cleanup", "test")}


def test_no_right_is_a_wildcard(everything: list[Obj]) -> None:
    every = [rule for role in of_kind(everything, "ClusterRole", "Role") for rule in role["rules"]]
    assert [rule for rule in every if "*" in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]] == []


# --- Pods

LEAST = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def containers(pod: Obj) -> list[Obj]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def test_pods_have_the_least_privileges(objects: list[Obj]) -> None:
    pods = pod_templates(objects)
    assert len(pods) == 6
    for name, pod in pods.items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["runAsUser"] > 0, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert [each["securityContext"] for each in containers(pod)] == [LEAST], name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys(), name


def test_only_agents_see_the_host_and_only_to_read(everything: list[Obj]) -> None:
    for name, pod in pod_templates(everything).items():
        from_host = {volume["name"] for volume in pod.get("volumes", []) if "hostPath" in volume}
        assert not from_host or "-agent" in name
        mounts = [mount for each in containers(pod) for mount in each.get("volumeMounts", [])]
        assert [mount for mount in mounts if mount["name"] in from_host and not mount.get("readOnly")] == []


def test_what_an_agent_sees_of_the_host(objects: list[Obj]) -> None:
    seen = {
        name: [volume["hostPath"]["path"] for volume in pod["volumes"]]
        for name, pod in pod_templates(objects).items()
        if name.startswith("DaemonSet")
    }
    assert seen == {
        "DaemonSet/kubenexus-agent": ["/sys", "/proc/meminfo"],
        "DaemonSet/kubenexus-agent-gpu": ["/sys", "/proc/meminfo", "/proc/driver/nvidia"],
    }


def test_an_agent_reads_the_kubelet_s_files_where_it_is_told_to_and_is_not_root_for_it(helm: Helm) -> None:
    switch = ["--set", "agent.kubeletConfig.enabled=true", "--set", "agent.kubeletConfig.file=/etc/kubelet.json"]
    for more, expected in (([], {}), (["--set", "agent.kubeletConfig.dropIns=/etc/k.d"], {"/etc/k.d": "Directory"})):
        pod = pod_templates(helm.objects(*switch, *more))["DaemonSet/kubenexus-agent"]
        added = {one["hostPath"]["path"]: one["hostPath"]["type"] for one in pod["volumes"][2:]}
        assert added == {"/etc/kubelet.json": "File", **expected}
        assert pod["securityContext"]["runAsNonRoot"] is True
        [container] = pod["containers"]
        assert {
            "name": "kubelet-config",
            "mountPath": "/host/var/lib/kubelet/config.yaml",
            "readOnly": True,
        } in container["volumeMounts"]
        assert ("--kubelet-config-dir=/host/kubelet-drop-ins" in container["args"]) is bool(expected)


def test_a_driver_of_the_host_makes_only_agents_on_gpu_nodes_privileged(helm: Helm) -> None:
    pods = pod_templates(helm.objects("--set", "agent.gpu.access=hostDriver"))
    privileged = [
        name for name, pod in pods.items() if any(c["securityContext"].get("privileged") for c in containers(pod))
    ]
    assert privileged == ["DaemonSet/kubenexus-agent-gpu"]
    [agent_container] = pods["DaemonSet/kubenexus-agent-gpu"]["containers"]
    assert {"name": "LD_LIBRARY_PATH", "value": "/driver"} in agent_container["env"]


def test_every_node_has_one_kind_of_agent(objects: list[Obj]) -> None:
    (_, cpu), (_, gpu) = (
        expressions(one(objects, "DaemonSet", name)) for name in ("kubenexus-agent", "kubenexus-agent-gpu")
    )
    assert (cpu["operator"], gpu["operator"]) == ("NotIn", "In")
    assert (cpu["key"], cpu["values"]) == (gpu["key"], gpu["values"])


def test_one_kind_of_agent_goes_everywhere_without_gpus(helm: Helm) -> None:
    [only] = of_kind(helm.objects("--set", "agent.gpu.enabled=false"), "DaemonSet")
    assert expressions(only) == [NOT_WINDOWS]


def test_agents_keep_off_windows_whose_taints_they_tolerate(objects: list[Obj]) -> None:
    for agents in of_kind(objects, "DaemonSet"):
        assert NOT_WINDOWS in expressions(agents)


NOT_WINDOWS = {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}


def expressions(workload: Obj) -> list[Obj]:
    """What the nodes of a workload must be like."""
    wanted = workload["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    [term] = wanted["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [*term["matchExpressions"]]


def test_selectors_of_nodes_are_texts(helm: Helm) -> None:
    words = [f"{name}.nodeSelector.gpu=true" for name in ("agent", "scheduler", "webhook")]
    pods = pod_templates(helm.objects(*(word for setting in words for word in ("--set", setting))))
    assert [pod["nodeSelector"] for pod in pods.values() if "nodeSelector" in pod] == [{"gpu": "true"}] * 4


def test_replicas_survive_a_drain(objects: list[Obj]) -> None:
    for deployment in of_kind(objects, "Deployment"):
        spec = deployment["spec"]
        budget = one(objects, "PodDisruptionBudget", deployment["metadata"]["name"])["spec"]
        assert spec["replicas"] == 2
        assert budget["selector"] == spec["selector"]
        assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
        assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
        pod = spec["template"]["spec"]
        [spread] = pod["topologySpreadConstraints"]
        [apart] = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"
        assert apart["podAffinityTerm"]["topologyKey"] == "topology.kubernetes.io/zone"
        assert spread["labelSelector"] == apart["podAffinityTerm"]["labelSelector"] == spec["selector"]


def test_a_single_replica_can_be_drained(helm: Helm) -> None:
    rendered = helm.objects("--set", "scheduler.replicas=1", "--set", "webhook.replicas=1")
    assert of_kind(rendered, "PodDisruptionBudget") == []


def test_selectors_tell_components_apart(objects: list[Obj]) -> None:
    workloads = of_kind(objects, "Deployment", "DaemonSet")
    for workload in workloads:
        wanted = workload["spec"]["selector"]["matchLabels"]
        matched = [
            each for each in workloads if wanted.items() <= each["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert matched == [workload]


def test_critical_classes_have_their_quota(objects: list[Obj]) -> None:
    used = {pod["priorityClassName"] for pod in pod_templates(objects).values() if "priorityClassName" in pod}
    [quota] = of_kind(objects, "ResourceQuota")
    [scope] = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert used == set(scope["values"])


def test_commands_and_flags_exist(everything: list[Obj]) -> None:
    for name, pod in pod_templates(everything).items():
        [container] = pod["containers"]
        command, *words = container["args"]
        module: Any = importlib.import_module(next(each.module for each in COMMANDS if each.name == command))
        parser = argparse.ArgumentParser(exit_on_error=False)
        module.configure(parser)
        _, unknown = parser.parse_known_args(words)
        assert unknown == [], name


def test_probes_and_metrics_name_ports_that_are_there(everything: list[Obj]) -> None:
    for name, pod in pod_templates(everything).items():
        for container in pod["containers"]:
            ports = {port["name"] for port in container.get("ports", [])}
            probes = [
                container[kind]["httpGet"]["port"] for kind in ("livenessProbe", "readinessProbe") if kind in container
            ]
            assert set(probes) <= ports, name
    [monitor] = of_kind(everything, "PodMonitor")
    assert [each["port"] for each in monitor["spec"]["podMetricsEndpoints"]] == ["metrics"]


def test_the_schedulers_configuration_can_be_read(everything: list[Obj]) -> None:
    text = one(everything, "ConfigMap", "nexus-scheduler")["data"]["scheduler.yaml"]
    config = load_yaml(SchedulerConfiguration, text)
    assert [profile.scheduler_name for profile in config.profiles] == ["batch", "serving"]
    assert config.leader_election.resource_namespace == SPACE
    assert config.leader_election.resource_name == one(everything, "Lease", "nexus-scheduler")["metadata"]["name"]


def test_a_changed_configuration_rolls_the_scheduler(helm: Helm) -> None:
    def mark(*words: str) -> str:
        template = one(helm.objects(*words), "Deployment", "kubenexus-scheduler")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/configuration"])

    assert mark() != mark("--set", "scheduler.profiles[0].schedulerName=other")
    assert mark() == mark("--set", "scheduler.resources.limits.memory=8Gi")


# --- Webhook


def webhooks(objects: list[Obj]) -> list[Obj]:
    made = of_kind(objects, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    return [each for configuration in made for each in configuration["webhooks"]]


def test_the_webhook_fails_open_and_soon(objects: list[Obj]) -> None:
    found = webhooks(objects)
    assert len(found) == 3
    assert {(each["failurePolicy"], each["timeoutSeconds"], each["sideEffects"]) for each in found} == {
        ("Ignore", 2, "None")
    }


def test_the_webhook_leaves_the_system_and_itself_alone(objects: list[Obj]) -> None:
    for each in webhooks(objects):
        excluded, opted = each["namespaceSelector"]["matchExpressions"]
        assert (excluded["key"], excluded["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
        assert set(excluded["values"]) == {"kube-system", "kube-node-lease", SPACE}
        assert (opted["key"], opted["values"]) == (vocabulary.INJECT, ["enabled"])
        assert "objectSelector" not in each


def test_the_webhook_knows_every_profile(everything: list[Obj]) -> None:
    pod = pod_templates(everything)["Deployment/nexus-webhook"]
    assert "--scheduler-name=batch,serving" in pod["containers"][0]["args"]
    [validating] = of_kind(everything, "ValidatingWebhookConfiguration")
    [condition] = [
        one for each in validating["webhooks"] for one in each["matchConditions"] if "schedulerName" in str(one)
    ]
    assert condition["expression"] == 'object.spec.schedulerName in ["batch","serving"]'


@pytest.mark.parametrize(
    ("values", "mounted"),
    [("existing-secret", {"secretName": "webhook-tls"}), ("certmanager", {"secretName": "kubenexus-webhook-certs"})],
)
def test_others_certificates_are_mounted(helm: Helm, values: str, mounted: Obj) -> None:
    rendered = helm.objects("--values", CHART / "ci" / f"{values}.yaml")
    pod = pod_templates(rendered)["Deployment/kubenexus-webhook"]
    assert pod["volumes"][0]["secret"].items() >= mounted.items()
    assert "--certificates=mounted" in pod["containers"][0]["args"]
    assert [obj for obj in of_kind(rendered, "Secret") if obj["metadata"]["name"] == "kubenexus-webhook-certs"] == []


def test_cert_manager_is_told_what_to_sign_and_where_to_put_its_name(helm: Helm) -> None:
    rendered = helm.objects("--values", CHART / "ci" / "certmanager.yaml")
    certificate = one(rendered, "Certificate", "kubenexus-webhook")
    assert f"kubenexus-webhook.{SPACE}.svc" in certificate["spec"]["dnsNames"]
    for configuration in of_kind(rendered, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        notes = configuration["metadata"]["annotations"]
        assert notes["cert-manager.io/inject-ca-from"] == f"{SPACE}/{certificate['metadata']['name']}"


def test_cert_manager_signs_with_an_authority_that_outlives_the_certificate(helm: Helm) -> None:
    """Trust in a certificate that signs itself would change with it, and lag behind what is served."""
    rendered = helm.objects("--values", CHART / "ci" / "certmanager.yaml")
    authority = one(rendered, "Certificate", "kubenexus-webhook-authority")["spec"]
    signer = one(rendered, "Issuer", one(rendered, "Certificate", "kubenexus-webhook")["spec"]["issuerRef"]["name"])
    assert (authority["isCA"], signer["spec"]) == (True, {"ca": {"secretName": authority["secretName"]}})
    assert one(rendered, "Issuer", authority["issuerRef"]["name"])["spec"] == {"selfSigned": {}}
    own = helm.objects("--values", CHART / "ci" / "everything.yaml")
    assert (len(of_kind(own, "Certificate")), of_kind(own, "Issuer")) == (1, [])


# --- Policies


def test_policies_refuse_when_in_doubt_and_are_bound(everything: list[Obj]) -> None:
    policies = of_kind(everything, "ValidatingAdmissionPolicy")
    bound = {
        each["spec"]["policyName"]: each["spec"]["validationActions"]
        for each in of_kind(everything, "ValidatingAdmissionPolicyBinding")
    }
    assert bound == {each["metadata"]["name"]: ["Deny", "Audit"] for each in policies}
    assert len(policies) == 5
    assert {each["spec"]["failurePolicy"] for each in policies} == {"Fail"}
    assert ".?" not in str(policies)


def test_the_policy_knows_every_name_that_the_agent_writes(objects: list[Obj]) -> None:
    text = str(one(objects, "ValidatingAdmissionPolicy", "kubenexus-agent-nodes"))
    names = [name for name in vocabulary.NAMES if name.place is vocabulary.Place.NODE]
    labels = re.compile(r"^((numa|gpu)[.])?kubenexus[.]io/")
    assert labels.pattern in text
    assert [name.key for name in names if name.kind == "label" and not labels.match(name.key)] == []
    notes = [name.key for name in names if name.kind == "annotation"]
    assert [key for key in notes if not key.startswith(f"{vocabulary.DRA_DRIVER}/")] == []
    assert f"startsWith('{vocabulary.DRA_DRIVER}/')" in text


# --- Names and hooks


def test_releases_stand_side_by_side(helm: Helm) -> None:
    rendered = [helm.objects(release=name) for name in ("kubenexus-a", "b")]
    first, second = ({(obj["kind"], obj["metadata"]["name"]) for obj in each} for each in rendered)
    assert not first & second
    assert ("Deployment", "b-kubenexus-scheduler") in second


def test_hooks_clean_up_behind_themselves(objects: list[Obj]) -> None:
    hooks = [obj for obj in objects if HOOK in (obj["metadata"].get("annotations") or {})]
    assert {obj["metadata"]["annotations"][HOOK] for obj in hooks} == {"test", "post-delete"}
    policies = {obj["kind"]: obj["metadata"]["annotations"]["helm.sh/hook-delete-policy"] for obj in hooks}
    assert all(policy.startswith("before-hook-creation,hook-succeeded") for policy in policies.values())
    kept = {kind for kind, policy in policies.items() if not policy.endswith(",hook-failed")}
    assert kept == {"Job", "Pod"}, "only what has a log worth reading"


def test_chart_and_package_have_one_version() -> None:
    chart = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    versions = re.findall(r"^(?:version|appVersion): (\S+)", chart, re.M) + re.findall(r"^version = (\S+)", setup, re.M)
    versions += re.findall(r"^ARG VERSION=(\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.M)
    assert len(versions) == 4
    shown = [ROOT / "README.md", ROOT / "Dockerfile", *(ROOT / "docs").glob("*.md")]
    versions += [found for page in shown for found in re.findall(r"kubenexus:(\d+\.\d+\.\d+)", page.read_text("utf-8"))]
    assert len(versions) > 8
    assert len(set(versions)) == 1


def test_no_custom_resource_is_defined(everything: list[Obj]) -> None:
    assert of_kind(everything, "CustomResourceDefinition") == []
    assert not (CHART / "crds").exists()
