"""The chart on a real API server: installed by Helm, run as it is written, upgraded, and gone without a trace."""

from __future__ import annotations

import base64
import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.control_plane import binaries
from hack.control_plane.processes import free_port
from kubenexus.common import vocabulary as v
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import wall_clock
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_SLICES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_WEBHOOKS,
)
from kubenexus.common.sandbox.machine_tree import write_machine
from kubenexus.webhook.certs import Holdings, Step, renewed, service_names
from tests.agents import SMALL_DGX
from tests.chart.helm import CHART, MAJORS, ROOT, Helm, finished, get_helm
from tests.chart.kubelet import PATIENCE, Kubelet, Running
from tests.chart.plane import RUNTIME_CLASSES, everything, own_plane
from tests.contract.objects import pod, unique
from tests.stub_server import until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

Obj = dict[str, Any]

GPU_LABEL = {"nvidia.com/gpu.present": "true"}
ROOM = {"cpu": "32", "memory": "256Gi", "pods": "110"}


class Site:
    """A cluster with a GPU node and a plain one, and a release of the chart in a namespace of its own."""

    def __init__(self, client: Client, kubeconfig: Path, helm: Helm, folder: Path) -> None:
        self.client, self.kubeconfig, self.helm = client, kubeconfig, helm
        self.space, self.release = unique("nexus"), unique("kubenexus")
        self.ports = {name: free_port() for name in ("agent", "scheduler", "webhook", "metrics")}
        host = folder / "host"
        write_machine(SMALL_DGX, host)
        (host / "proc/driver/nvidia").mkdir(parents=True)
        self.gpu, self.plain = (Kubelet(client, kubeconfig, unique(name), host, folder) for name in ("gpu", "plain"))

    def prepare(self) -> None:
        """What a cluster has before KubeNexus comes."""
        self.client.create(NAMESPACES, {"metadata": {"name": self.space}})
        for kubelet, labels in ((self.gpu, GPU_LABEL), (self.plain, {})):
            meta = {"name": kubelet.node, "labels": {"kubernetes.io/hostname": kubelet.node, **labels}}
            room = {**ROOM, "nvidia.com/gpu": "8"} if labels else ROOM
            self.client.create(NODES, {"metadata": meta, "status": {"allocatable": room, "capacity": room}})

    def helm_do(self, verb: str, *words: object) -> str:
        return self.helm.do(verb, self.release, *words, "--namespace", self.space, kubeconfig=self.kubeconfig)

    def settings(self) -> list[object]:
        """All processes are on one machine here, so that each needs ports of its own."""
        ports = {
            "agent.metricsPort": self.ports["agent"],
            "scheduler.metricsPort": self.ports["scheduler"],
            "webhook.port": self.ports["webhook"],
            "webhook.servicePort": self.ports["webhook"],
            "webhook.metricsPort": self.ports["metrics"],
        }
        return [word for name, port in ports.items() for word in ("--set", f"{name}={port}")]

    def pod(self, component: str, **labels: str) -> Obj:
        """A pod of a component, once its controller has made one; of several, the one that was made last."""
        wanted = {"app.kubernetes.io/component": component, **labels}
        selector = ",".join(f"{key}={value}" for key, value in wanted.items())
        found: list[Obj] = []

        def made() -> bool:
            pods = self.client.list(PODS, self.space, label_selector=selector).items
            found[:] = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
            return bool(found)

        until(made, PATIENCE)
        return max(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    @contextlib.contextmanager
    def while_helm(self, verb: str, *words: object) -> Iterator[Callable[[], str]]:
        """Helm at work while the block is; the function waits for its end and gives what it printed."""
        command = [verb, self.release, *words, "--namespace", self.space, "--timeout", "90s"]
        with self.helm.start(*command, kubeconfig=self.kubeconfig) as process:
            try:
                yield lambda: finished(process)
            finally:
                process.kill()

    def reach_webhook(self) -> None:
        """There is no network of pods here: the Service leads to the process instead."""
        there = {"type": "ExternalName", "externalName": "127.0.0.1", "clusterIP": None, "clusterIPs": None}
        there |= {"ipFamilies": None, "ipFamilyPolicy": None, "internalTrafficPolicy": None}
        self.client.patch(SERVICES, f"{self.release}-webhook", {"spec": there}, self.space, kind=PatchType.MERGE)

    def node_metadata(self) -> dict[str, Obj]:
        nodes = (self.client.get(NODES, kubelet.node)["metadata"] for kubelet in (self.gpu, self.plain))
        return {meta["name"]: {key: meta.get(key) for key in ("labels", "annotations")} for meta in nodes}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with own_plane(tmp_path_factory.mktemp("chart") / "plane") as path:
        with Client.connect(str(path), agent="test") as client:
            # What the GPU operator brings along.
            client.create(RUNTIME_CLASSES, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        yield path


@pytest.fixture(params=MAJORS, ids=["helm 3", "helm 4"])
def site(request: pytest.FixtureRequest, kubeconfig: Path, tmp_path: Path) -> Iterator[Site]:
    helm = get_helm(request.param)
    with Client.connect(str(kubeconfig), agent="test") as client:
        made = Site(client, kubeconfig, helm, tmp_path)
        made.prepare()
        yield made
        for kubelet in (made.gpu, made.plain):
            client.delete(NODES, kubelet.node)


def kubectl(site: Site, *words: str) -> str:
    program = binaries.find("kubectl")
    assert program is not None
    command = [str(program), f"--kubeconfig={site.kubeconfig}", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def no_right_is_missing(running: Running) -> None:
    """Nothing was forbidden, but for the one look whether an agent of other settings left a NodeResourceTopology."""
    asked = [line for line in running.metrics().splitlines() if line.startswith("kubenexus_api_requests_total")]
    assert asked
    assert [line for line in asked if 'code="403"' in line and "noderesourcetopologies" not in line] == []


def test_install_use_upgrade_uninstall(site: Site) -> None:
    namespace = unique("team")
    site.client.create(NAMESPACES, {"metadata": {"name": namespace, "labels": {v.INJECT: "enabled"}}})
    until(lambda: site.client.list(SERVICE_ACCOUNTS, namespace).items, PATIENCE)
    before, bare = everything(site.client), site.node_metadata()

    assert "helm test" in site.helm_do("install", CHART, *site.settings())
    site.reach_webhook()
    describe_the_plain_node(site)
    with site.gpu.run(site.pod("agent", variant="gpu")) as agent:
        with site.plain.run(site.pod("scheduler")) as scheduler, site.plain.run(site.pod("webhook")) as webhook:
            nodes_are_described(site)
            until(lambda: leads(site), PATIENCE)
            quick_start(site, namespace)
            gpus_are_given(site, namespace)
            helm_test(site)
            for running in (agent, scheduler, webhook):
                no_right_is_missing(running)
            upgrade(site)
        # This agent goes on for a while, as a pod may; it has no rights any more and puts nothing back.
        uninstall(site)
        assert site.node_metadata() == bare
    kubectl(site, "delete", "jobs", "--all", "--namespace", namespace, "--wait=false")
    tried_in = f"{site.release}-test"
    until(lambda: tried_in not in [each["metadata"]["name"] for each in site.client.list(NAMESPACES).items], PATIENCE)
    until(lambda: swept(site) <= before, PATIENCE)
    assert site.node_metadata() == bare


def leads(site: Site) -> str:
    spec = site.client.get(LEASES, f"{site.release}-scheduler", site.space).get("spec") or {}
    return str(spec.get("holderIdentity", ""))


def describe_the_plain_node(site: Site) -> None:
    """Its agent has the same port as that of the other node, so that it goes first, and goes."""
    with site.plain.run(site.pod("agent", variant="cpu")) as agent:
        until(lambda: v.NUMA_NODE_COUNT in site.node_metadata()[site.plain.node]["labels"], PATIENCE)
        no_right_is_missing(agent)


def nodes_are_described(site: Site) -> None:
    until(lambda: v.GPU_COUNT in site.node_metadata()[site.gpu.node]["labels"], PATIENCE)
    shown = kubectl(site, "get", "nodes", f"-L{v.NUMA_NODE_COUNT},{v.GPU_COUNT}", "--no-headers")
    rows = {line.split()[0]: line.split()[-2:] for line in shown.splitlines()}
    assert rows[site.gpu.node] == ["2", "8"]

    def slices() -> int:
        ours = (site.gpu.node, site.plain.node)
        return len([one for one in site.client.list(RESOURCE_SLICES).items if one["spec"]["nodeName"] in ours])

    until(lambda: slices() == 6, PATIENCE)


def quick_start(site: Site, namespace: str) -> None:
    """The example of the documentation: nothing in it names KubeNexus, and its pods are one gang, all with a node."""
    kubectl(site, "apply", "--namespace", namespace, "-f", str(ROOT / "examples" / "quickstart.yaml"))
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


def helm_test(site: Site) -> None:
    with site.while_helm("test") as ended:
        said = site.gpu.finish(site.pod("test"))
        assert "NOT OK" not in said, said
        assert "a pod there is given to kubenexus-scheduler" in said
        assert "Succeeded" in ended()


def upgrade(site: Site) -> None:
    """There and back, only what was changed changes: certificates, trust and the scheduler's Lease stay."""
    kept = what_runs_writes(site)
    site.helm_do("upgrade", CHART, "--reuse-values", "--set", "scheduler.bindThreads=4")
    assert "--bind-threads=4" in scheduler_words(site)
    site.helm_do("rollback")
    assert "--bind-threads=32" in scheduler_words(site)
    assert what_runs_writes(site) == kept
    assert v.GPU_COUNT in site.node_metadata()[site.gpu.node]["labels"]


def scheduler_words(site: Site) -> list[str]:
    found = site.client.get(DEPLOYMENTS, f"{site.release}-scheduler", site.space)
    return [*found["spec"]["template"]["spec"]["containers"][0]["args"]]


def what_runs_writes(site: Site) -> list[Any]:
    name = f"{site.release}-webhook"
    trusted = [
        [each["clientConfig"]["caBundle"] for each in site.client.get(res, name)["webhooks"]]
        for res in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
    ]
    return [site.client.get(SECRETS, f"{name}-certs", site.space)["data"], trusted, leads(site)]


def uninstall(site: Site) -> None:
    with site.while_helm("uninstall") as ended:
        said = site.plain.finish(site.pod("cleanup"))
        assert f"{site.gpu.node}: removed" in said
        ended()


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
    site.reach_webhook()
    with site.plain.run(site.pod("webhook")) as webhook:
        until(lambda: mutated(site, namespace), PATIENCE)
        no_right_is_missing(webhook)
    site.helm_do("uninstall")


def mutated(site: Site, namespace: str) -> bool:
    answer = site.client.create(PODS, pod("asked"), namespace, dry_run=True)
    return bool(answer["spec"]["schedulerName"] == v.SCHEDULER_NAME)
