"""Checks an installation: are the nodes described, does a scheduler lead, does a pod get what the webhook gives?

Exits 0 when all is well and 1 when something is not.

examples:
  kubenexus doctor                  of the namespace kubenexus-system
  kubenexus doctor --try-in team-a  also asks what would become of a pod there; the pod is never created
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from kubenexus.common.cli import NEGATIVE, OK, CommandError
from kubenexus.common.kube import auth
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import wall_clock
from kubenexus.common.kube.errors import ApiError, NotFound
from kubenexus.common.kube.resources import LEASES, NODES, PODS
from kubenexus.common.vocabulary import (
    LEASE_NAME,
    NUMA_NODE_COUNT,
    SCHEDULER_NAME,
    SYSTEM_NAMESPACE,
    TOPOLOGY_SNAPSHOT,
)

Obj = dict[str, Any]

OLDEST_MINOR = 34
STALE_SECONDS = 60.0
SHOWN = 3
OS_LABEL = "kubernetes.io/os"
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
PROBE: Obj = {
    "metadata": {"generateName": "kubenexus-doctor-"},
    "spec": {
        "containers": [{"name": "main", "image": "example.invalid/never-run", "securityContext": RESTRICTED}],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    },
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, whether it is as it should be, and a sentence about it."""

    about: str
    ok: bool
    text: str


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--namespace", default=SYSTEM_NAMESPACE, help=f"of the scheduler (default: {SYSTEM_NAMESPACE})")
    parser.add_argument("--lease", default=LEASE_NAME, metavar="NAME", help=f"the scheduler's (default: {LEASE_NAME})")
    parser.add_argument("--skip", type=_names, default=(), metavar="LIST", help="of nodes,scheduler: not looked at")
    parser.add_argument(
        "--nodes-with", metavar="KEY=VALUE,…", help="labels of the nodes that have an agent (default: all)"
    )
    parser.add_argument("--try-in", metavar="NAMESPACE", help="ask what would become of a pod in this namespace")
    parser.add_argument(
        "--scheduler-name", default=SCHEDULER_NAME, metavar="NAME", help="what that pod should be given"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="format (default: table)")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, or the pod's service account")


def _names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, text.split(",")))
    if unknown := set(names) - {"nodes", "scheduler"}:
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: use some of nodes,scheduler")
    return names


def run(args: argparse.Namespace) -> int:
    try:
        access = auth.Access(lambda: auth.find(args.kubeconfig), connections=1)
    except ApiError as error:
        raise CommandError(f"{error}.") from error
    with Client(access, agent="kubenexus-doctor", timeout=10.0) as client:
        findings = [*examine(client, args)]
    print(json.dumps([asdict(one) for one in findings], indent=2) if args.output == "json" else table(findings))
    return OK if all(one.ok for one in findings) else NEGATIVE


def examine(client: Client, args: argparse.Namespace) -> Iterator[Finding]:
    """Everything, each by itself: what cannot be asked is a finding, too."""
    yield _asked("server", lambda: server(client.request("GET", "/version")))
    if "nodes" not in args.skip:
        yield _asked("nodes", lambda: nodes(client.list(NODES, label_selector=args.nodes_with).items))
    if "scheduler" not in args.skip:
        yield _asked("scheduler", lambda: scheduler(client.get(LEASES, args.lease, args.namespace), wall_clock()))
    if args.try_in:
        yield _asked("webhook", lambda: pod(client.create(PODS, PROBE, args.try_in, dry_run=True), args.scheduler_name))


def _asked(about: str, ask: Callable[[], Finding]) -> Finding:
    try:
        return ask()
    except NotFound as error:
        return Finding(about, False, f"{error}: is it installed there?")
    except ApiError as error:
        return Finding(about, False, f"could not be asked: {error}")


def server(version: Obj) -> Finding:
    """Of the answer to /version; managed clusters write a minor version such as `34+`."""
    minor = "".join(filter(str.isdecimal, str(version.get("minor"))))
    shown = version.get("gitVersion") or "of an unknown version"
    if minor and int(minor) >= OLDEST_MINOR:
        return Finding("server", True, f"Kubernetes {shown}")
    return Finding("server", False, f"Kubernetes {shown} is too old or unknown: 1.{OLDEST_MINOR} or newer is needed")


def nodes(found: Sequence[Obj]) -> Finding:
    """Of all Nodes: an agent has described each of them, but for those that run Windows."""
    found = [node for node in found if _labels(node).get(OS_LABEL) != "windows"]
    bare = sorted(node["metadata"]["name"] for node in found if not _described(node))
    if not found:
        return Finding("nodes", False, "there are none")
    if not bare:
        return Finding("nodes", True, f"all {len(found)} are described")
    shown = ", ".join(bare[:SHOWN]) + (", …" if len(bare) > SHOWN else "")
    return Finding("nodes", False, f"{len(bare)} of {len(found)} are not described by an agent: {shown}")


def _described(node: Obj) -> bool:
    """By labels or by the annotation; agents may be told to leave either out."""
    return NUMA_NODE_COUNT in _labels(node) or TOPOLOGY_SNAPSHOT in (node["metadata"].get("annotations") or {})


def _labels(node: Obj) -> dict[str, str]:
    return node["metadata"].get("labels") or {}


def scheduler(lease: Obj, now: datetime) -> Finding:
    """Of the Lease: somebody holds it and renewed it of late."""
    spec = lease.get("spec") or {}
    holder, renewed = spec.get("holderIdentity"), spec.get("renewTime")
    if not holder or not renewed:
        return Finding("scheduler", False, "nobody leads: look at the scheduler's pods")
    age = (now - datetime.fromisoformat(renewed)).total_seconds()
    if age > STALE_SECONDS:
        return Finding("scheduler", False, f"{holder} leads and has not said so for {age:.0f} s")
    return Finding("scheduler", True, f"{holder} leads")


def pod(answer: Obj, scheduler_name: str) -> Finding:
    """Of a pod as the API server would create it."""
    given = answer["spec"].get("schedulerName")
    if given == scheduler_name:
        return Finding("webhook", True, f"a pod there is given to {given}")
    return Finding(
        "webhook", False, f"a pod there is given to {given}, not to {scheduler_name}: has its namespace the label?"
    )


def table(findings: Sequence[Finding]) -> str:
    return "\n".join(f"{'ok' if one.ok else 'NOT OK':<8}{one.about:<12}{one.text}" for one in findings)
