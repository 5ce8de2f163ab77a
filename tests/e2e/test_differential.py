"""The real kube-scheduler and `kubenexus simulate` on the same random clusters: they must not contradict each other.

Pods are created one by one and kube-scheduler decides. For each, the simulation is given what stood there at that
moment: the node that kube-scheduler took must be feasible, and none better by the sum of all scores; a pod that it
calls unschedulable must have no feasible node.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.control_plane import cluster
from hack.control_plane.processes import wait_for
from kubenexus.common.cli import main
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import NAMESPACES, NODES, PODS, PRIORITY_CLASSES, SERVICES, Resource
from kubenexus.scheduler.plugins.registry import DEFAULTS
from tests import servers
from tests.builders import Builder, NodeBuilder, PodBuilder, namespace, node, pod

Obj = dict[str, Any]

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SEEDS = (1, 2, 3)
NODES_EACH, PODS_EACH = 10, 60
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS, TEAMS = ("web", "db", "cache"), ("red", "blue")
HARD, SOFT = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A control plane with kube-scheduler that nobody else uses."""
    servers.require("etcd", "kube-apiserver", "kube-scheduler")
    folder = tmp_path_factory.mktemp("differential") / "plane"
    up = cluster.up(folder, ("scheduler",), owner=os.getpid(), say=print)
    try:
        with Client.connect(str(up.kubeconfig)) as connected:
            # Here and not in the first case: each xdist worker has a control plane of its own.
            for kind, obj in background():
                create(connected, kind, obj)
            yield connected
    finally:
        cluster.down(folder)


# --- Random clusters and pods


class Dice:
    """What a seed makes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.prefix = f"s{seed}"

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def node(self, number: int) -> NodeBuilder:
        choice = self.random.choice
        made = node(f"{self.prefix}-n{number}").label("seed", self.prefix).label("disk", choice(("ssd", "hdd")))
        made.capacity(cpu=choice((2, 4, 8)), memory=choice(("4Gi", "8Gi", "16Gi")), pods=choice((6, 12, 110)))
        made.label("generation", str(self.random.randint(1, 5)))
        if self.chance(0.85):
            made.zone(choice("abc"))
        if self.chance(0.3):
            effect = choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
            made.taint("dedicated", choice(("gpu", "db")), effect)
        return made.cordon() if self.chance(0.08) else made

    def pod(self, number: int) -> PodBuilder:
        choice = self.random.choice
        made = pod(f"{self.prefix}-p{number}", choice(TEAMS)).scheduler("default-scheduler")
        made.label("app", choice(APPS)).label("version", choice("12")).select(seed=self.prefix)
        for share, step in (
            (0.9, self._requests),
            (0.15, self._selector),
            (0.25, self._node_affinity),
            (0.3, self._tolerations),
            (0.3, self._spread),
            (0.3, self._pod_affinity),
            (0.15, self._port),
            (0.3, self._priority),
        ):
            if self.chance(share):
                step(made)
        return made

    def _requests(self, made: PodBuilder) -> None:
        made.cpu(self.random.choice(("50m", "250m", "500m", "1", "2", "5")))
        if self.chance(0.7):
            made.memory(self.random.choice(("64Mi", "256Mi", "1Gi", "3Gi", "9Gi")))
        if self.chance(0.1):
            first = {"name": "first", "image": "x", "resources": {"requests": {"cpu": "1500m"}}}
            made.append("spec.initContainers", first)

    def _selector(self, made: PodBuilder) -> None:
        made.select(disk=self.random.choice(("ssd", "hdd", "tape")))

    def _condition(self) -> Obj:
        zones = self.random.sample("abcd", self.random.randint(1, 3))
        return self.random.choice(
            [
                {"key": ZONE, "operator": "In", "values": zones},
                {"key": ZONE, "operator": "NotIn", "values": zones},
                {"key": ZONE, "operator": "Exists"},
                {"key": ZONE, "operator": "DoesNotExist"},
                {"key": "generation", "operator": "Gt", "values": [str(self.random.randint(0, 4))]},
                {"key": "generation", "operator": "Lt", "values": [str(self.random.randint(2, 6))]},
            ]
        )

    def _node_affinity(self, made: PodBuilder) -> None:
        def term() -> Obj:
            return {"matchExpressions": [self._condition() for _ in range(self.random.randint(1, 2))]}

        rules: Obj = {}
        if self.chance(0.6):
            rules[HARD] = {"nodeSelectorTerms": [term() for _ in range(self.random.randint(1, 2))]}
        if self.chance(0.6):
            rules[SOFT] = [{"weight": self.random.randint(1, 100), "preference": term()} for _ in range(2)]
        made.set("spec.affinity.nodeAffinity", rules)

    def _tolerations(self, made: PodBuilder) -> None:
        value = self.random.choice((None, "gpu", "db"))
        made.tolerate("dedicated", value, self.random.choice(("", "NoSchedule", "NoExecute")))

    def _selector_of_pods(self) -> Obj:
        return {"matchLabels": {"app": self.random.choice(APPS)}}

    def _spread(self, made: PodBuilder) -> None:
        for key in self.random.sample((ZONE, HOST), self.random.randint(1, 2)):
            constraint: Obj = {
                "maxSkew": self.random.randint(1, 3),
                "topologyKey": key,
                "whenUnsatisfiable": self.random.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": self._selector_of_pods(),
            }
            if constraint["whenUnsatisfiable"] == "DoNotSchedule" and self.chance(0.2):
                constraint["minDomains"] = self.random.randint(1, 4)
            if self.chance(0.2):
                constraint["nodeTaintsPolicy"] = "Honor"
            if self.chance(0.2):
                constraint["matchLabelKeys"] = ["version"]
            made.append("spec.topologySpreadConstraints", constraint)

    def _pod_affinity(self, made: PodBuilder) -> None:
        kind = self.random.choice(("podAffinity", "podAntiAffinity"))
        term: Obj = {"topologyKey": self.random.choice((ZONE, HOST)), "labelSelector": self._selector_of_pods()}
        if self.chance(0.3):
            term["namespaceSelector"] = {"matchLabels": {"team": self.random.choice(TEAMS)}}
        if self.chance(0.5):
            made.set(f"spec.affinity.{kind}", {HARD: [term]})
        else:
            wish = {"weight": self.random.randint(1, 100), "podAffinityTerm": term}
            made.set(f"spec.affinity.{kind}", {SOFT: [wish]})

    def _port(self, made: PodBuilder) -> None:
        made.host_port(self.random.choice((8080, 8081)), self.random.choice(("TCP", "UDP")))

    def _priority(self, made: PodBuilder) -> None:
        made.set("spec.priorityClassName", self.random.choice(("high", "low")))


def background() -> list[tuple[Resource, Obj]]:
    """What stands there from the start: namespaces, priorities that drive nobody out, and services that spread."""
    teams = ((NAMESPACES, namespace(team).label("team", team).build()) for team in TEAMS)
    values = {"high": 1000, "low": -10, "usual": 0}
    classes = ((PRIORITY_CLASSES, _class(name, value).build()) for name, value in values.items())
    service = Builder("v1", "Service", "web", "red").set("spec.selector", {"app": "web"})
    return [*teams, *classes, (SERVICES, service.set("spec.ports", [{"port": 80}]).build())]


def _class(name: str, value: int) -> Builder:
    made = Builder("scheduling.k8s.io/v1", "PriorityClass", name).set("value", value)
    return made.set("preemptionPolicy", "Never").set("globalDefault", name == "usual")


# --- What kube-scheduler does


def create(client: Client, resource: Resource, obj: Obj) -> Obj:
    meta = {key: value for key, value in obj["metadata"].items() if key not in ("uid", "creationTimestamp")}
    return client.create(resource, {**obj, "metadata": meta}, meta.get("namespace"))


def wait(client: Client, raw: Obj, condition: Callable[[Obj], bool]) -> Obj:
    """The pod, once the condition holds."""
    name, team = raw["metadata"]["name"], raw["metadata"]["namespace"]
    seen: list[Obj] = []

    def holds() -> bool:
        seen[:] = [client.get(PODS, name, team)]
        return condition(seen[0])

    assert wait_for(holds, 20), f"kube-scheduler says nothing of {name}"
    return seen[0]


def has_node(pod: Obj) -> bool:
    return bool(pod["spec"].get("nodeName"))


def is_decided(pod: Obj) -> bool:
    """kube-scheduler has given it a node, or said that there is none."""
    conditions = pod.get("status", {}).get("conditions", ())
    return has_node(pod) or any(one["type"] == "PodScheduled" for one in conditions)


def meet(client: Client, dice: Dice) -> None:
    """Create the seed's nodes and wait until kube-scheduler knows each: a pod for it alone is placed there."""
    for number in range(NODES_EACH):
        name = create(client, NODES, dice.node(number).build())["metadata"]["name"]
        probe = pod(f"probe-{name}", "red").scheduler("default-scheduler").select(**{HOST: name})
        fresh = create(client, PODS, probe.append("spec.tolerations", {"operator": "Exists"}).build())
        wait(client, fresh, has_node)


def play(client: Client, seed: int) -> Iterator[tuple[list[Obj], Obj]]:
    """For each pod what was there, with itself as it was created, and itself as kube-scheduler left it."""
    dice = Dice(seed)
    meet(client, dice)
    there = [one for kind in (NODES, NAMESPACES, PRIORITY_CLASSES, SERVICES, PODS) for one in listed(client, kind)]
    for number in range(PODS_EACH):
        fresh = create(client, PODS, dice.pod(number).build())
        after = wait(client, fresh, is_decided)
        yield [*there, fresh], after
        if has_node(after):
            there.append(after)
        else:
            client.delete(PODS, fresh["metadata"]["name"], fresh["metadata"]["namespace"], grace_seconds=0)


def listed(client: Client, kind: Resource) -> list[Obj]:
    """Items of a list do not name their kind."""
    return [{**one, "apiVersion": kind.api_version, "kind": kind.kind} for one in client.list(kind).items]


# --- What we say


def simulate(objects: list[list[Obj]], folder: Path, capsys: pytest.CaptureFixture[str]) -> list[Obj]:
    """What `simulate --explain` says of the last pod of each list."""
    lines = folder / "lines"
    lines.write_text("\n".join(json.dumps({"objects": one}) for one in objects))
    main(["simulate", "--jsonl", "--explain", str(lines)])
    said = capsys.readouterr()
    assert not said.err
    results = map(json.loads, said.out.splitlines())
    return [entry for result in results for entry in (*result["placements"], *result["pending"])]


def total(node: Obj) -> int:
    """The weighted sum of a node's scores."""
    return sum(DEFAULTS[plugin] * score for plugin, score in node["scores"].items())


@pytest.mark.parametrize("seed", SEEDS)
def test_no_contradiction(client: Client, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rounds = list(play(client, seed))
    entries = simulate([objects for objects, _ in rounds], tmp_path, capsys)
    bound = 0
    for (objects, after), entry in zip(rounds, entries, strict=True):
        chosen, name = after["spec"].get("nodeName"), after["metadata"]["name"]
        context = f"{name}: {chosen} {entry['reason']}\n{json.dumps(objects[-1]['spec'])}"
        feasible = {node: total(said) for node, said in entry["nodes"].items() if said["feasible"]}
        if not chosen:
            assert not feasible, f"kube-scheduler: {after['status']['conditions'][0]['message']}\n{context}"
            continue
        bound += 1
        assert chosen in feasible, f"we say of {chosen}: {entry['nodes'][chosen]}\n{context}"
        assert feasible[chosen] == max(feasible.values()), f"{feasible}\n{context}"
    assert PODS_EACH / 4 < bound < PODS_EACH, "both answers must come up often enough"
