"""A control plane for the tests of the chart alone: policies and webhooks reach over all of a cluster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from hack.control_plane import cluster
from hack.control_plane.cluster import Cluster
from kubenexus.agent.publish.rights import NODE_RESOURCE_TOPOLOGIES
from kubenexus.common.gangs import OWNER_KINDS, plural
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.discovery import discover
from kubenexus.common.kube.resources import CUSTOM_RESOURCES, Resource
from tests.owners import BUILT_IN, definition
from tests.servers import COMPONENTS, require
from tests.stub_server import until

POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
ALPHA = {"feature-gates": "GenericWorkload=true", "runtime-config": "scheduling.k8s.io/v1alpha2=true"}
"""for Kubernetes' own PodGroups"""
UNTOLD = {"events", "events.events.k8s.io", "componentstatuses"}
"""what comes and goes by itself"""

Place = tuple[str, str, str]


@contextlib.contextmanager
def own_plane(folder: Path, *more: str, audit: bool = False) -> Iterator[Cluster]:
    """A control plane that lives as long as the block; `more` are components besides the usual."""
    components = (*COMPONENTS, *more)
    require("etcd", "kube-apiserver", *(cluster.OPTIONAL[name] for name in components))
    try:
        yield cluster.up(folder, components, owner=os.getpid(), audit=audit, flags=ALPHA, say=print)
    finally:
        cluster.down(folder)


def serve_foreign_kinds(kubeconfig: Path) -> None:
    """What operators bring along: every kind that may own pods, NodeResourceTopologies, a RuntimeClass for GPUs."""
    kinds = {pair for pair in OWNER_KINDS if pair[0] not in BUILT_IN}
    owners = [Resource(group, "v1", plural(kind), kind) for group, kind in sorted(kinds)]
    with Client.connect(str(kubeconfig), agent="test") as client:
        for res in (*owners, NODE_RESOURCE_TOPOLOGIES):
            client.create(CUSTOM_RESOURCES, definition(res))
        client.create(RUNTIME_CLASSES, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        wanted = kinds | {(NODE_RESOURCE_TOPOLOGIES.group, NODE_RESOURCE_TOPOLOGIES.kind)}
        until(lambda: {(res.group, res.kind) for res in discover(client, wanted)} == wanted, 60)


def everything(client: Client) -> set[Place]:
    """Every object there is, as (resource, namespace, name)."""
    found: set[Place] = set()
    for res in _served(client):
        if str(res) in UNTOLD:
            continue
        metas = [item["metadata"] for item in client.list(res).items]
        found |= {(str(res), meta.get("namespace", ""), meta["name"]) for meta in metas}
    return {place for place in found if not (place[0].startswith("leases") and place[1].startswith("kube-"))}


def _served(client: Client) -> Iterator[Resource]:
    groups = client.request("GET", "/apis")["groups"]
    versions = [("", "v1"), *((group["name"], group["preferredVersion"]["version"]) for group in groups)]
    for name, version in versions:
        base = Resource(name, version, "", "").base_path
        for res in client.request("GET", base)["resources"]:
            if "list" in res["verbs"] and "/" not in res["name"]:
                yield Resource(name, version, res["name"], res["kind"], res["namespaced"])
