"""The chart on a real API server: installed by Helm, run as it is written, upgraded, and gone without a trace."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hack.control_plane import binaries
from hack.control_plane.cluster import Cluster
from hack.kubelet.containers import Running
from kubenexus.common import vocabulary as v
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import wall_clock
from kubenexus.common.kube.errors import Forbidden
from kubenexus.common.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    RESOURCE_SLICES,
    SECRETS,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
)
from kubenexus.webhook.certs import Holdings, Step, renewed, service_names
from tests.chart.helm import CHART, EVERY_SET, ROOT, get_helm, pod_templates, shown
from tests.chart.kubelet import PATIENCE
from tests.chart.plane import everything
from tests.chart.site import Site
from tests.contract.objects import pod, unique
from tests.stub_server import until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

Obj = dict[str, Any]


def no_right_is_missing(running: Running) -> None:
    """Nothing was forbidden."""
    asked = [line for line in running.metrics().splitlines() if line.startswith("kubenexus_api_requests_total")]
    assert asked
    assert [line for line in asked if 'code="403"' in line] == []


def metrics_are_those_of(component: str, running: Running) -> None:
    """No other component's, which would be zeros that alerts take seriously."""
    others = {"agent", "scheduler", "webhook"} - {component}
    lines = running.metrics().splitlines()
    assert [line for line in lines if line.startswith(tuple(f"kubenexus_{other}_" for other in others))] == []
    assert any(line.startswith(f"kubenexus_{component}_") for line in lines)


def test_install_use_upgrade_uninstall(site: Site) -> None:
    namespace = unique("team")
    site.client.create(NAMESPACES, {"metadata": {"name": namespace, "labels": {v.INJECT: "enabled"}}})
    until(lambda: site.client.list(SERVICE_ACCOUNTS, namespace).items, PATIENCE)
    before, bare = everything(site.client), site.node_metadata()

    assert "helm test" in site.helm_do("install", CHART, *site.settings())
    describe_the_plain_node(site)
    with site.gpu.run(site.pod("agent", variant="gpu")) as agent:
        with site.plain.run(site.pod("scheduler")) as scheduler, site.plain.run(site.pod("webhook")) as webhook:
            nodes_are_described(site)
            until(site.leader, PATIENCE)
            quick_start(site, namespace)
            gpus_are_given(site, namespace)
            assert "a pod there is given to kubenexus-scheduler" in site.helm_test()
            for name, running in (("agent", agent), ("scheduler", scheduler), ("webhook", webhook)):
                no_right_is_missing(running)
                metrics_are_those_of(name, running)
            upgrade(site)
        # This agent goes on for a while, as a pod may; it has no rights any more and puts nothing back.
        assert f"{site.gpu.node}: removed" in site.uninstall()
        assert site.node_metadata() == bare
    site.kubectl("delete", "jobs", "--all", "--namespace", namespace, "--wait=false")
    until(lambda: not namespaces(site, f"{site.release}-test-"), PATIENCE)
    until(lambda: swept(site) <= before, PATIENCE)
    assert site.node_metadata() == bare


def namespaces(site: Site, prefix: str) -> list[str]:
    names = [each["metadata"]["name"] for each in site.client.list(NAMESPACES).items]
    return [name for name in names if name.startswith(prefix)]


def describe_the_plain_node(site: Site) -> None:
    """Its agent has the same port as that of the other node, so that it goes first, and goes."""
    with site.plain.run(site.pod("agent", variant="cpu")) as agent:
        until(lambda: v.NUMA_NODE_COUNT in site.node_metadata()[site.plain.node]["labels"], PATIENCE)
        no_right_is_missing(agent)


def nodes_are_described(site: Site) -> None:
    until(lambda: v.GPU_COUNT in site.node_metadata()[site.gpu.node]["labels"], PATIENCE)
    shown = site.kubectl("get", "nodes", f"-L{v.NUMA_NODE_COUNT},{v.GPU_COUNT}", "--no-headers")
    rows = {line.split()[0]: line.split()[-2:] for line in shown.splitlines()}
    assert rows[site.gpu.node] == ["2", "8"]
    assert site.node_metadata()[site.gpu.node]["labels"][v.KUBELET_POLICY] == "best-effort"

    def slices() -> int:
        ours = (site.gpu.node, site.plain.node)
        return len([one for one in site.client.list(RESOURCE_SLICES).items if one["spec"]["nodeName"] in ours])

    until(lambda: slices() == 6, PATIENCE)


def quick_start(site: Site, namespace: str) -> None:
    """The example of the documentation: nothing in it names KubeNexus, and its pods are one gang, all with a node."""
    site.kubectl("apply", "--namespace", namespace, "-f", str(ROOT / "examples" / "quickstart.yaml"))
    placed = placed_gang(site, namespace, "quickstart", 4)
    assert {pod["spec"]["schedulerName"] for pod in placed} == {v.SCHEDULER_NAME}


def placed_gang(site: Site, namespace: str, job: str, size: int) -> list[Obj]:
    """The pods of a Job, once all of them have a node; they are one gang."""

    def placed() -> list[Obj]:
        pods = site.client.list(PODS, namespace, label_selector=f"job-name={job}").items
        return [pod for pod in pods if pod["spec"].get("nodeName")]

    until(lambda: len(placed()) == size, PATIENCE)
    assert len({pod["metadata"]["labels"][v.GANG_NAME] for pod in placed()}) == 1
    return placed()


def gpus_are_given(site: Site, namespace: str) -> None:
    """From what the agent published to what the scheduler bound: eight workers, each with a GPU of its own."""
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    worker = {"name": "worker", "image": "example.invalid/worker", "resources": limits}
    template = {"spec": {"containers": [worker], "restartPolicy": "Never"}}
    spec = {"completionMode": "Indexed", "completions": 8, "parallelism": 8, "template": template}
    site.client.create(JOBS, {"metadata": {"name": "gpus"}, "spec": spec}, namespace)
    placed = placed_gang(site, namespace, "gpus", 8)
    assert {pod["spec"]["nodeName"] for pod in placed} == {site.gpu.node}
    assert sorted(pod["metadata"]["annotations"][v.GPU_ASSIGNED] for pod in placed) == [*map(str, range(8))]


def upgrade(site: Site) -> None:
    """There and back, only what was changed changes: certificates, trust and the scheduler's Lease stay."""
    kept = what_runs_writes(site)
    site.helm_do("upgrade", CHART, "--reset-then-reuse-values", "--set", "scheduler.bindThreads=4")
    assert "--bind-threads=4" in scheduler_words(site)
    site.helm_do("rollback")
    assert "--bind-threads=32" in scheduler_words(site)
    assert what_runs_writes(site) == kept
    assert v.GPU_COUNT in site.node_metadata()[site.gpu.node]["labels"]


def test_upgrade_from_a_chart_that_knew_fewer_values(site: Site, tmp_path: Path) -> None:
    """As the page says: what the user set stays, and what is new has its default."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: kubenexus\nversion: 0.0.1\n")
    (tmp_path / "values.yaml").write_text("image: {repository: localhost/kubenexus}\n")
    site.helm_do("install", tmp_path, "--set", "image.repository=registry.example/mine")
    _, _, _, *words = shown("docs/upgrade.md", "upgrade kubenexus charts/kubenexus")
    kept = [word for word in words if word not in ("--namespace", v.SYSTEM_NAMESPACE, "--wait")]
    assert "image: registry.example/mine:" in site.helm_do("upgrade", CHART, *kept, "--dry-run=server")
    site.helm_do("uninstall")


def scheduler_words(site: Site) -> list[str]:
    found = site.client.get(DEPLOYMENTS, f"{site.release}-scheduler", site.space)
    return [*found["spec"]["template"]["spec"]["containers"][0]["args"]]


def what_runs_writes(site: Site) -> list[Any]:
    name = f"{site.release}-webhook"
    trusted = [
        [each["clientConfig"]["caBundle"] for each in site.client.get(res, name)["webhooks"]]
        for res in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
    ]
    return [site.client.get(SECRETS, f"{name}-certs", site.space)["data"], trusted, site.leader()]


def swept(site: Site) -> set[tuple[str, str, str]]:
    """What there is, once pods whose processes have ended are gone, as a kubelet would see to."""
    for each in site.client.list(PODS).items:
        if "deletionTimestamp" in each["metadata"]:
            site.client.delete(PODS, each["metadata"]["name"], each["metadata"]["namespace"], grace_seconds=0)
    return everything(site.client)


@pytest.mark.parametrize("site", [3], indirect=True, ids=["helm 3"])
def test_certificates_of_others(site: Site) -> None:
    """The mode `existingSecret`: the webhook serves what is mounted, and the API server trusts whom the chart says."""
    namespace, name = unique("team"), f"{site.release}-webhook"
    made = renewed(Step.BOTH, Holdings(), service_names(name, site.space), wall_clock())
    site.client.create(NAMESPACES, {"metadata": {"name": namespace, "labels": {v.INJECT: "enabled"}}})
    pair = {"tls.crt": made.leaf, "tls.key": made.leaf_key}
    data = {key: base64.b64encode(value).decode() for key, value in pair.items()}
    site.client.create(SECRETS, {"metadata": {"name": "tls"}, "type": "kubernetes.io/tls", "data": data}, site.space)
    values = {
        "agent.enabled": "false",
        "scheduler.enabled": "false",
        "webhook.certificates.mode": "existingSecret",
        "webhook.certificates.secretName": "tls",
        "webhook.certificates.caBundle": base64.b64encode(made.authorities).decode(),
    }
    chosen = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    site.helm_do("install", CHART, *site.settings(), *chosen)
    with site.plain.run(site.pod("webhook")) as webhook:
        until(lambda: mutated(site, namespace), PATIENCE)
        no_right_is_missing(webhook)
    site.helm_do("uninstall")


def mutated(site: Site, namespace: str) -> bool:
    answer = site.client.create(PODS, pod("asked"), namespace, dry_run=True)
    return bool(answer["spec"]["schedulerName"] == v.SCHEDULER_NAME)


FOREIGN = {"Certificate", "Issuer", "PodMonitor", "PrometheusRule"}
"""kinds of other operators, which the server does not know"""


@EVERY_SET
def test_every_value_set_is_accepted(values: Path, plane: Cluster) -> None:
    """By the real server, with strict validation; nothing is created."""
    release = unique("kubenexus")
    rendered = get_helm(3).objects("--values", values, "--set", f"fullnameOverride={release}")
    objects = [obj for obj in rendered if obj["kind"] not in FOREIGN]
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": [in_default(obj) for obj in objects]})
    words = ["create", "--dry-run=server", "--validate=strict", "-f", "-"]
    command = [str(binaries.find("kubectl")), f"--kubeconfig={plane.kubeconfig}", *words]
    done = subprocess.run(command, input=items, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(server dry run)") == len(objects)


@EVERY_SET
def test_only_agents_need_more_than_the_restricted_standard(values: Path, plane: Cluster) -> None:
    """They read /sys of the host; all other pods are admitted where Pod Security is at its strictest."""
    name = unique("restricted")
    with Client.connect(str(plane.kubeconfig), agent="test") as client:
        client.create(
            NAMESPACES, {"metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        )
        until(lambda: client.list(SERVICE_ACCOUNTS, name).items, PATIENCE)
        refused = {
            made
            for made, spec in pod_templates(get_helm(3).objects("--values", values)).items()
            if not admitted(client, name, spec)
        }
    assert all(made.startswith("DaemonSet/") for made in refused)
    assert refused, "or the namespace lets everybody in"


def admitted(client: Client, namespace: str, spec: Obj) -> bool:
    """Whether a pod like this could be created there, whatever account and classes it is to have."""
    elsewhere = ("serviceAccountName", "priorityClassName", "runtimeClassName")
    bare = {key: value for key, value in spec.items() if key not in elsewhere}
    try:
        client.create(PODS, {"metadata": {"name": "tried"}, "spec": bare}, namespace, dry_run=True)
    except Forbidden:
        return False
    return True


def in_default(obj: Obj) -> Obj:
    """The object in a namespace that exists; accounts that are named in it stay where they are."""
    meta = obj["metadata"]
    return {**obj, "metadata": {**meta, "namespace": "default"}} if "namespace" in meta else obj
