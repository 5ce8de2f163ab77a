"""What the chart grants is what its programs ask for, no less and no more, as the API server's audit log has it.

The programs run with the accounts and arguments of the chart through all that they do on a cluster. A new deed is a new
function in STEPS; a right whose deed cannot be seen in the log goes into UNSEEN, with the reason.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from hack.control_plane.cluster import Cluster as Plane
from kubenexus.agent.publish.rights import NODE_RESOURCE_TOPOLOGIES
from kubenexus.common import vocabulary as v
from kubenexus.common.kube.errors import Conflict, NotFound
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import (
    DEVICE_CLASSES,
    LEASES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SECRETS,
    STORAGE_CLASSES,
    Resource,
)
from kubenexus.scheduler.prepare import SELECTED_NODE
from tests import devices
from tests.chart import rights
from tests.chart.helm import CHART, ROOT
from tests.chart.kubelet import PATIENCE
from tests.chart.site import Site
from tests.contract.objects import resource_slice, unique
from tests.schedulers import Cluster
from tests.stub_server import until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

Obj = dict[str, Any]

COMPONENTS = ("agent", "scheduler", "webhook", "cleanup", "test")
ALL_PARTS = ("--set", "agent.publish={labels,annotation,slices,nrt}")
UNSEEN = {
    "agent": {"create topology.node.k8s.io/noderesourcetopologies"},  # by an apply of one that is not there yet
    "scheduler": {"update resource.k8s.io/resourceclaims/binding"},  # by an update of allocation or users
}
"""rights that no request shows: the server asks for them itself, beside the one that the request is for"""


class Work:
    """The release at work, and a namespace whose pods are its to place."""

    def __init__(self, site: Site, log: Path) -> None:
        self.site, self.client, self._log = site, site.client, log
        namespace = unique("team")
        self.client.create(NAMESPACES, {"metadata": {"name": namespace, "labels": {v.INJECT: "enabled"}}})
        self.cluster = Cluster(self.client, namespace)
        self.namespace = namespace

    def account(self, component: str) -> tuple[str, str]:
        return self.site.space, f"{self.site.release}-{component}"

    def calls(self, component: str) -> set[rights.Call]:
        return rights.used(self._log, self.account(component))

    def granted(self, component: str) -> set[rights.Right]:
        words = ("--namespace", self.site.space, *self.site.settings(), *ALL_PARTS)
        return rights.granted(self.site.helm.objects(*words, release=self.site.release), self.account(component))

    def has_asked(self, component: str, verb: str, res: Resource) -> bool:
        return any(call.right[:3] == (verb, res.group, res.plural) for call in self.calls(component))

    def exists(self, res: Resource, name: str, namespace: str | None = None) -> bool:
        try:
            self.client.get(res, name, namespace)
        except NotFound:
            return False
        return True


# --- What is done while all programs run, a function to a deed


def renew_certificates(work: Work) -> None:
    """The Secret of the chart was empty and has been filled; somebody deletes it. Not waited for here: see the end."""
    work.client.delete(SECRETS, f"{work.site.release}-webhook-certs", work.site.space)


def lead_anew(work: Work) -> None:
    """Somebody deletes the Lease."""
    work.client.delete(LEASES, f"{work.site.release}-scheduler", work.site.space)
    until(lambda: work.exists(LEASES, f"{work.site.release}-scheduler", work.site.space), PATIENCE)


def mend_slices(work: Work) -> None:
    """Somebody changes a slice of the agent, and adds one in its name. Not waited for here: see the end."""
    node = work.site.gpu.node
    mine = [one for one in work.client.list(RESOURCE_SLICES).items if one["spec"]["nodeName"] == node]
    wrong = {"metadata": {"labels": {v.TOPOLOGY_HASH_LABEL: "wrong"}}}
    work.client.patch(RESOURCE_SLICES, mine[0]["metadata"]["name"], wrong, kind=PatchType.MERGE)
    stray = resource_slice(unique("stray"), driver=v.DRA_DRIVER, nodeName=node)
    work.client.create(RESOURCE_SLICES, stray)


def place_a_gang(work: Work) -> None:
    work.site.kubectl("apply", "--namespace", work.namespace, "-f", str(ROOT / "examples" / "quickstart.yaml"))
    until(lambda: work.cluster.bound() == 4, PATIENCE)


def refuse_again_and_again(work: Work) -> None:
    """A node changes, and the pod fits as little as before: the event becomes a series."""
    work.cluster.add_pod("nowhere", nodeSelector={"never": "there"})
    work.cluster.await_pending("nowhere", seconds=PATIENCE)

    def told_again() -> bool:
        label = {"metadata": {"labels": {"seen": unique("at")}}}
        work.client.patch(NODES, work.site.plain.node, label, kind=PatchType.MERGE)
        return any("series" in event for event in work.cluster.events("nowhere", "FailedScheduling"))

    until(told_again, PATIENCE)


def claim(work: Work, name: str, class_: str) -> Obj:
    size = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": class_, "resources": size}
    meta = {"name": name, "namespace": work.namespace}
    return work.client.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": spec})


def mounting(name: str) -> Obj:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def wait_class(work: Work, provisioner: str) -> str:
    """A class of volumes that are given or made once it is known for which node."""
    meta = {"name": unique("wait")}
    work.client.create(
        STORAGE_CLASSES, {"metadata": meta, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    )
    return meta["name"]


def give_a_volume(work: Work) -> None:
    """A volume that is there becomes the claim's."""
    class_ = wait_class(work, "kubernetes.io/no-provisioner")
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [work.site.plain.node]}
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": class_,
        "csi": {"driver": "example.com", "volumeHandle": "1"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
    }
    work.client.create(PERSISTENT_VOLUMES, {"metadata": {"name": unique("pv")}, "spec": volume})
    claim(work, "there", class_)
    work.cluster.add_pod("finds", **mounting("there"))
    work.cluster.await_node("finds", seconds=PATIENCE)


def order_a_volume(work: Work) -> None:
    """A volume is to be made for the node that was chosen."""
    claim(work, "made", wait_class(work, "example.com/disk"))
    work.cluster.add_pod("orders", **mounting("made"))
    until(lambda: SELECTED_NODE in notes(work.client.get(PERSISTENT_VOLUME_CLAIMS, "made", work.namespace)), PATIENCE)


def notes(obj: Obj) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def reserve_a_claim(work: Work) -> None:
    """A device that a driver has allocated."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    meta = {"name": "one", "namespace": work.namespace}
    made = work.client.create(RESOURCE_CLAIMS, {"metadata": meta, "spec": {"devices": {"requests": [request]}}})
    device = {"request": "gpu", "driver": "gpu.example.com", "pool": work.site.plain.node, "device": "gpu-0"}
    given = {"status": {"allocation": {"devices": {"results": [device]}}}}
    work.client.update(RESOURCE_CLAIMS, {**made, **given}, subresource="status")
    wanted: Any = [{"name": "gpu", "resourceClaimName": "one"}]
    work.cluster.add_pod("user", resourceClaims=wanted)
    work.cluster.await_node("user", seconds=PATIENCE)


def give_a_device(work: Work) -> None:
    """A claim gets one that its driver publishes."""
    kind = unique("gpu")
    driver = f"{kind}.example.com"
    work.client.create(DEVICE_CLASSES, devices.device_class(kind, driver))
    work.client.create(RESOURCE_SLICES, devices.resource_slice(work.site.plain.node, 1, driver))
    spec = devices.wanted(1, deviceClassName=kind)
    work.client.create(RESOURCE_CLAIMS, {"metadata": {"name": "two", "namespace": work.namespace}, "spec": spec})
    wanted: Any = [{"name": "gpu", "resourceClaimName": "two"}]
    work.cluster.add_pod("owner", resourceClaims=wanted)
    work.cluster.await_node("owner", seconds=PATIENCE)


def preempt(work: Work) -> None:
    important = unique("important")
    work.client.create(PRIORITY_CLASSES, {"metadata": {"name": important}, "value": 1000})
    there: Any = {"kubernetes.io/hostname": work.site.plain.node}
    work.cluster.add_pod("low", cpu="24", nodeSelector=there)
    work.cluster.await_node("low", seconds=PATIENCE)
    work.cluster.add_pod("high", cpu="24", nodeSelector=there, priorityClassName=important)
    until(lambda: "deletionTimestamp" in work.cluster.pod("low")["metadata"], PATIENCE)
    work.client.delete(PODS, "low", work.namespace, grace_seconds=0)  # as its kubelet does when it has ended
    work.cluster.await_node("high", seconds=PATIENCE)


def come_too_late(work: Work) -> None:
    """Somebody else binds pods as well. Where that is first, the scheduler has to look what became of the pod."""

    def looked() -> bool:
        name = work.cluster.add_pod(unique("contested"))["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": work.site.plain.node}
        with contextlib.suppress(Conflict):
            binding = {"metadata": {"name": name}, "target": target}
            work.client.create(PODS, binding, work.namespace, subresource="binding")
        return work.has_asked("scheduler", "get", PODS)

    until(looked, PATIENCE)


STEPS = (
    renew_certificates,
    mend_slices,
    lead_anew,
    place_a_gang,
    refuse_again_and_again,
    give_a_volume,
    order_a_volume,
    reserve_a_claim,
    give_a_device,
    preempt,
    come_too_late,
)


@pytest.mark.parametrize("site", [3], indirect=True, ids=["helm 3"])
def test_every_right_is_used_and_none_is_missing(site: Site, plane: Plane) -> None:
    work = Work(site, plane.audit_log)
    site.helm_do("install", CHART, *site.settings(), *ALL_PARTS)
    with site.plain.run(site.pod("agent", variant="cpu")):
        until(lambda: has_topology(work, site.plain.node), PATIENCE)
    with site.gpu.run(site.pod("agent", variant="gpu")):
        with site.plain.run(site.pod("scheduler")), site.plain.run(site.pod("webhook")):
            until(lambda: site.leader() and has_topology(work, site.gpu.node), PATIENCE)
            for step in STEPS:
                step(work)
            site.helm_test()
            until(lambda: work.has_asked("webhook", "create", SECRETS), PATIENCE)
            until(lambda: work.has_asked("agent", "delete", RESOURCE_SLICES), PATIENCE)
        site.helm_do("upgrade", CHART, "--reset-then-reuse-values", "--set", "agent.publish={labels,annotation,slices}")
    until(lambda: "nrt" not in str(site.pod("agent", variant="gpu")["spec"]["containers"][0]["args"]), PATIENCE)
    with site.gpu.run(site.pod("agent", variant="gpu")):
        until(lambda: not has_topology(work, site.gpu.node), PATIENCE)
    site.uninstall()

    lacking = {name: rights.missing(work.granted(name), work.calls(name)) for name in COMPONENTS}
    assert lacking == {name: [] for name in COMPONENTS}
    unused = {name: {*rights.superfluous(work.granted(name), work.calls(name))} for name in COMPONENTS}
    assert unused == {name: UNSEEN.get(name, set()) for name in COMPONENTS}


def has_topology(work: Work, node: str) -> bool:
    return work.exists(NODE_RESOURCE_TOPOLOGIES, node)
