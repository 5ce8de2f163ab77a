"""The chart's admission policies on a real API server: what they refuse, and that they leave the rest alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.control_plane import binaries
from hack.kubelet.containers import token
from kubenexus.agent.publish.rights import NODE_RESOURCE_TOPOLOGIES as NRTS
from kubenexus.common import vocabulary as v
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import Forbidden, NotFound
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import (
    CUSTOM_RESOURCES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_SLICES,
    SERVICE_ACCOUNTS,
    Resource,
)
from tests.chart.helm import ROOT, get_helm, pod_templates, shown
from tests.chart.plane import POLICIES, own_plane
from tests.contract.objects import node, pod, resource_slice, rows, unique
from tests.owners import definition
from tests.stub_server import until

pytestmark = pytest.mark.e2e

Obj = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
SPACE = v.SYSTEM_NAMESPACE
PUBLISH = "agent.publish={labels,annotation,slices,nrt}"
OWNER_RULES = [
    {"apiGroups": [""], "resources": ["namespaces", "namespaces/status", "namespaces/finalize"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["*"]},
]
"""of somebody who owns namespaces and all that is in them, and is no administrator of the cluster"""


class People:
    """Who acts: the administrator, an owner of namespaces, one who may also decide about tenants, and agents."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.kubeconfig, self._folder = kubeconfig, folder
        self.admin = Client.connect(str(kubeconfig), agent="test")
        self.admin.create(ROLES, {"metadata": {"name": "owner"}, "rules": OWNER_RULES})
        self.owner = self.account("owner", "owner")
        self.decider = self.account("decider", "owner", "kubenexus-tenant-administrator")

    def account(self, name: str, *roles: str) -> Client:
        """Somebody new with these roles."""
        self.admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, "default")
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        for role in roles:
            reference = {"apiGroup": RBAC, "kind": ROLES.kind, "name": role}
            binding = {"metadata": {"name": f"{name}-{role}"}, "subjects": [subject], "roleRef": reference}
            self.admin.create(BINDINGS, binding)
        return self._with(self._token(name, "default"))

    def agent(self, node_name: str) -> Client:
        """The agent on this node, by the token that a kubelet would give its pod."""
        spec = {"nodeName": node_name, "serviceAccountName": "kubenexus-agent"}
        return self._with(token(self.admin, self.admin.create(PODS, pod(unique("agent"), spec), SPACE)))

    def agent_on_no_node(self) -> Client:
        return self._with(self._token("kubenexus-agent", SPACE))

    def _token(self, name: str, namespace: str) -> str:
        ask = {"metadata": {"name": name}, "spec": {}}
        return str(self.admin.create(SERVICE_ACCOUNTS, ask, namespace, subresource="token")["status"]["token"])

    def _with(self, bearer: str) -> Client:
        config = json.loads(self.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": bearer}
        path = self._folder / unique("kubeconfig")
        path.write_text(json.dumps(config))
        return Client.connect(str(path), agent="test")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """On a cluster with the chart, installed as the page says. Policies are at work a moment after they are made."""
    folder = tmp_path_factory.mktemp("policies")
    with own_plane(folder / "plane") as plane:
        words = [word for word in shown("docs/install.md", "install") if word != "--wait"]  # nobody runs pods here
        get_helm(3).do(*words, "--set", PUBLISH, kubeconfig=plane.kubeconfig)
        made = People(plane.kubeconfig, folder)
        made.admin.create(CUSTOM_RESOURCES, definition(NRTS))
        until(lambda: refusal(lambda: made.owner.create(NAMESPACES, namespace(tier="gold"))), 30)
        probe = unique("probe")
        made.admin.create(NODES, node(probe))
        nobody = made.agent_on_no_node()
        until(lambda: refusal(lambda: label_node(nobody, probe, {v.GPU_COUNT: "8"})), 30)
        until(lambda: refusal(lambda: nobody.create(RESOURCE_SLICES, our_slice(probe))), 30)
        until(lambda: refusal(lambda: made.admin.create(PODS, claiming("gold"), "default")), 30)
        until(lambda: served(made.admin), 30)
        yield made


def refusal(act: Callable[[], object]) -> str:
    """What a policy says against it; empty when it is done. A right that is missing is a mistake of the test."""
    try:
        act()
    except Forbidden as error:
        if "ValidatingAdmissionPolicy" not in str(error):
            raise
        return str(error)
    return ""


def served(client: Client) -> bool:
    try:
        client.list(NRTS)
    except NotFound:
        return False
    return True


def namespace(name: str = "", *, tier: str | None = None, **labels: str) -> Obj:
    tiers = {v.TENANT_TIER: tier} if tier else {}
    return {"metadata": {"name": name or unique("team"), "labels": {**tiers, **labels}}}


def claiming(tier: str, name: str = "") -> Obj:
    return pod(name or unique("pod"), labels={v.TENANT_TIER: tier})


def merge(client: Client, res: Resource, name: str, metadata: Obj, space: str | None = None, **more: Any) -> Obj:
    return client.patch(res, name, {"metadata": metadata}, space, kind=PatchType.MERGE, **more)


def label_node(client: Client, name: str, labels: Obj) -> Obj:
    return merge(client, NODES, name, {"labels": labels})


def our_slice(node_name: str, driver: str = v.DRA_DRIVER) -> Obj:
    return resource_slice(unique("slice"), driver=driver, nodeName=node_name)


def test_policies_type_check(people: People) -> None:
    for policy in people.admin.list(POLICIES).items:
        until(lambda policy=policy: "status" in people.admin.get(POLICIES, policy["metadata"]["name"]), 30)  # type: ignore[misc]
        found = people.admin.get(POLICIES, policy["metadata"]["name"])["status"]
        assert found["typeChecking"] == {}, policy["metadata"]["name"]


# --- Tenants

EDITS = [
    ("sets a tier", {"labels": {v.TENANT_TIER: "gold"}}, False),
    ("lowers the tier", {"labels": {v.TENANT_TIER: "bronze"}}, False),
    ("removes the tier", {"labels": {v.TENANT_TIER: None}}, False),
    ("names a tenant", {"labels": {v.TENANT_NAME: "somebody"}}, False),
    ("sets the quota", {"annotations": {v.GPU_QUOTA: "100"}}, False),
    ("raises the quota", {"annotations": {v.GPU_QUOTA: "9"}}, False),
    ("removes the quota", {"annotations": {v.GPU_QUOTA: None}}, False),
    ("sets the priority offset", {"annotations": {v.PRIORITY_OFFSET: "1000"}}, False),
    ("writes the same tier again", {"labels": {v.TENANT_TIER: "silver"}}, True),
    ("opts in", {"labels": {v.INJECT: "enabled"}}, True),
    ("sets a default", {"annotations": {v.DEFAULT_NUMA_POLICY: "single-numa"}}, True),
    ("sets a label of others", {"labels": {"example.com/tenant": "a"}}, True),
    ("sets a label that only looks alike", {"labels": {"tenant.kubenexus.io.example.com/tier": "gold"}}, True),
]


@pytest.mark.parametrize(("edit", "allowed"), rows(EDITS))
@pytest.mark.parametrize("through", ["", "status"])
def test_an_owner_edits_a_namespace(people: People, edit: Obj, allowed: bool, through: str) -> None:
    made = namespace(tier="silver")
    made["metadata"]["annotations"] = {v.GPU_QUOTA: "8"}
    name = people.admin.create(NAMESPACES, made)["metadata"]["name"]
    said = refusal(lambda: merge(people.owner, NAMESPACES, name, edit, subresource=through or None))
    assert (said == "") == allowed, said
    if not allowed:
        assert "set by administrators only: ask one, or to be bound to the ClusterRole kubenexus-tenant-" in said


@pytest.mark.parametrize(("edit", "allowed"), rows(EDITS))
def test_whoever_may_decide_about_tenants_edits_a_namespace(people: People, edit: Obj, allowed: bool) -> None:
    name = people.admin.create(NAMESPACES, namespace(tier="silver"))["metadata"]["name"]
    assert refusal(lambda: merge(people.decider, NAMESPACES, name, edit)) == "", allowed


def test_an_owner_creates_namespaces_without_a_tier_only(people: People) -> None:
    assert refusal(lambda: people.owner.create(NAMESPACES, namespace(tier="gold")))
    assert refusal(lambda: people.owner.create(NAMESPACES, namespace(**{v.INJECT: "enabled"}))) == ""
    assert refusal(lambda: people.admin.create(NAMESPACES, namespace(tier="gold"))) == ""


# --- Tiers of pods

CLAIMS = [
    *((f"{tier} in gold", "gold", tier, True) for tier in v.Tier),
    ("gold in silver", "silver", "gold", False),
    ("silver in silver", "silver", "silver", True),
    ("bronze in silver", "silver", "bronze", True),
    ("gold in bronze", "bronze", "gold", False),
    ("silver in bronze", "bronze", "silver", False),
    ("bronze in bronze", "bronze", "bronze", True),
    ("gold in none", None, "gold", False),
    ("bronze in none", None, "bronze", True),
    ("gold in a tier that is none", "platinum", "gold", False),
    ("a tier that is none", "gold", "platinum", False),
    ("capitals", "Gold", "GOLD", True),
    ("too much in capitals", "Silver", "GOLD", False),
]


@pytest.mark.parametrize(("granted", "claimed", "allowed"), rows(CLAIMS))
def test_a_pod_claims_a_tier(people: People, granted: str | None, claimed: str, allowed: bool) -> None:
    space = people.admin.create(NAMESPACES, namespace(tier=granted))["metadata"]["name"]
    said = refusal(lambda: people.owner.create(PODS, claiming(claimed), space))
    assert (said == "") == allowed, said
    if not allowed:
        assert f"The pod claims the tier {claimed.lower()}, and its namespace has " in said
        assert "in the label tenant.kubenexus.io/tier, or leave the label out." in said


def test_an_annotation_claims_as_a_label_does(people: People) -> None:
    space = people.admin.create(NAMESPACES, namespace(tier="silver"))["metadata"]["name"]
    assert refusal(lambda: people.owner.create(PODS, pod("a", annotations={v.TENANT_TIER: "gold"}), space))
    assert refusal(lambda: people.owner.create(PODS, pod("a", annotations={v.TENANT_TIER: "bronze"}), space)) == ""
    merge_up = {"annotations": {v.TENANT_TIER: "gold"}}
    assert refusal(lambda: merge(people.owner, PODS, "a", merge_up, space))


@pytest.mark.parametrize("through", ["", "status"])
def test_a_pod_cannot_raise_its_tier_later(people: People, through: str) -> None:
    space = people.admin.create(NAMESPACES, namespace(tier="silver"))["metadata"]["name"]
    name = people.owner.create(PODS, claiming("bronze"), space)["metadata"]["name"]
    raising = {"labels": {v.TENANT_TIER: "gold"}}
    assert refusal(lambda: merge(people.owner, PODS, name, raising, space, subresource=through or None))
    lawful = {"labels": {v.TENANT_TIER: "silver"}}
    assert refusal(lambda: merge(people.owner, PODS, name, lawful, space, subresource=through or None)) == ""


def test_a_pod_lives_on_when_its_namespace_falls(people: People) -> None:
    space = people.admin.create(NAMESPACES, namespace(tier="gold"))["metadata"]["name"]
    name = people.owner.create(PODS, claiming("gold"), space)["metadata"]["name"]
    merge(people.admin, NAMESPACES, space, {"labels": {v.TENANT_TIER: "bronze"}})
    assert refusal(lambda: merge(people.owner, PODS, name, {"labels": {"app": "b"}}, space)) == ""
    until(lambda: refusal(lambda: people.owner.create(PODS, claiming("gold"), space)), 30)


# --- Agents


@pytest.fixture(scope="module")
def nodes(people: People) -> list[str]:
    names = [unique("node") for _ in range(2)]
    for name in names:
        people.admin.create(NODES, node(name, labels={"example.com/rack": "7"}))
    return names


@pytest.fixture(scope="module")
def agent(people: People, nodes: list[str]) -> Client:
    return people.agent(nodes[0])


def apply(labels: Obj) -> Callable[[Client, str], object]:
    return lambda client, name: label_node(client, name, labels)


def annotate(notes: Obj) -> Callable[[Client, str], object]:
    return lambda client, name: merge(client, NODES, name, {"annotations": notes})


def spec(fields: Obj) -> Callable[[Client, str], object]:
    return lambda client, name: client.patch(NODES, name, {"spec": fields}, kind=PatchType.MERGE)


TAINT = {"key": "example.com/mine", "effect": "NoSchedule"}
WRITES: list[tuple[str, Callable[[Client, str], object], str]] = [
    ("its labels", apply({v.NUMA_NODE_COUNT: "2", v.GPU_COUNT: "8", v.TOPOLOGY_HASH_LABEL: "a"}), ""),
    ("its annotations", annotate({v.TOPOLOGY_SNAPSHOT: "{}", v.ALLOCATIONS: "{}"}), ""),
    ("a label of others", apply({"example.com/rack": "8"}), "An agent changes only labels"),
    ("the removal of a label of others", apply({"example.com/rack": None}), "An agent changes only labels"),
    ("what tier the node is for", apply({v.RESERVED_TIER: "gold"}), "An agent changes only labels"),
    ("what hardware the node is", apply({v.HARDWARE_TIER: "premium"}), "An agent changes only labels"),
    ("a label that only looks alike", apply({"gpu-kubenexus.io/count": "8"}), "An agent changes only labels"),
    ("an annotation of others", annotate({"example.com/note": "x"}), "An agent changes only annotations"),
    ("a taint", spec({"taints": [TAINT]}), "An agent changes neither taints"),
    ("that the node is closed", spec({"unschedulable": True}), "An agent changes neither taints"),
    (
        "a finalizer",
        lambda client, name: merge(client, NODES, name, {"finalizers": ["example.com/stay"]}),
        "An agent changes neither taints",
    ),
]


@pytest.mark.parametrize(("write", "sentence"), rows(WRITES))
def test_an_agent_writes_to_its_node(
    agent: Client, nodes: list[str], write: Callable[[Client, str], object], sentence: str
) -> None:
    said = refusal(lambda: write(agent, nodes[0]))
    assert sentence in said if sentence else said == ""


def test_an_agent_writes_to_no_other_node(people: People, agent: Client, nodes: list[str]) -> None:
    mine, other = nodes
    said = refusal(lambda: label_node(agent, other, {v.GPU_COUNT: "8"}))
    assert f"The agent on node {mine} may not write to node {other}" in said
    nobody = people.agent_on_no_node()
    assert "The agent on no node may not write" in refusal(lambda: label_node(nobody, mine, {v.GPU_COUNT: "8"}))
    assert refusal(lambda: label_node(people.admin, other, {v.GPU_COUNT: "8"})) == ""


def test_an_agent_writes_slices_of_its_node_only(people: People, agent: Client, nodes: list[str]) -> None:
    mine, other = nodes
    made = agent.create(RESOURCE_SLICES, our_slice(mine))
    made["spec"]["pool"]["generation"] = 2
    agent.update(RESOURCE_SLICES, made)
    agent.delete(RESOURCE_SLICES, made["metadata"]["name"])
    assert "writes those of its own node only" in refusal(lambda: agent.create(RESOURCE_SLICES, our_slice(other)))
    assert "only ResourceSlices of the driver" in refusal(
        lambda: agent.create(RESOURCE_SLICES, our_slice(mine, "gpu.nvidia.com"))
    )
    everywhere = our_slice(mine)
    del everywhere["spec"]["nodeName"]
    everywhere["spec"]["allNodes"] = True
    assert refusal(lambda: agent.create(RESOURCE_SLICES, everywhere))
    theirs = people.admin.create(RESOURCE_SLICES, our_slice(other))
    assert refusal(lambda: agent.delete(RESOURCE_SLICES, theirs["metadata"]["name"]))
    theirs["spec"]["pool"]["generation"] = 2
    assert refusal(lambda: agent.update(RESOURCE_SLICES, theirs))


def test_an_agent_writes_the_topology_of_its_node_only(agent: Client, nodes: list[str]) -> None:
    mine, other = ({"apiVersion": NRTS.api_version, "kind": NRTS.kind, "metadata": {"name": name}} for name in nodes)
    assert refusal(lambda: agent.create(NRTS, mine)) == ""
    said = refusal(lambda: agent.create(NRTS, other))
    assert f"The agent on node {nodes[0]} may not write the NodeResourceTopology {nodes[1]}" in said
    assert refusal(lambda: agent.delete(NRTS, nodes[0])) == ""


# --- The chart's own pods


def test_pods_meet_the_restricted_standard(people: People) -> None:
    """All but the agents, which read files of the host."""
    strict = namespace(**{"pod-security.kubernetes.io/enforce": "restricted"})
    space = people.admin.create(NAMESPACES, strict)["metadata"]["name"]
    pods = pod_templates(get_helm(3).objects())
    meeting = {name for name, found in pods.items() if not _violation(people, space, found)}
    assert pods.keys() - meeting == {"DaemonSet/kubenexus-agent", "DaemonSet/kubenexus-agent-gpu"}
    assert "hostPath" in _violation(people, space, pods["DaemonSet/kubenexus-agent"])


def _violation(people: People, space: str, spec: Obj) -> str:
    bare = {key: value for key, value in spec.items() if key != "runtimeClassName"}
    try:
        people.admin.create(PODS, {"metadata": {"name": unique("pod")}, "spec": bare}, space, dry_run=True)
    except Forbidden as error:
        return str(error)
    return ""


def test_manifests_without_helm_are_accepted(people: People) -> None:
    """`make manifests`, as the server sees it; the namespace is there already."""
    manifests = subprocess.run([ROOT / "hack" / "manifests"], capture_output=True, text=True, check=True).stdout
    kubectl = [str(binaries.find("kubectl")), f"--kubeconfig={people.kubeconfig}"]
    apply = [*kubectl, "apply", "--dry-run=server", "--server-side", "--force-conflicts", "-f", "-"]
    done = subprocess.run(apply, input=manifests, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("serverside-applied") == manifests.count("\nkind: ")
