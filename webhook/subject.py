"""The pod under review, and what the rules ask about it. Whatever the JSON holds, nothing here raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any, Final

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import Gang, PodFacts, Resolution, Single, declarations, resolve
from kubenexus.common.objects import Fields, PodResources
from kubenexus.common.objects.requests import read_resources
from kubenexus.common.workloads import Workload, classify
from kubenexus.webhook.cluster import Cluster, NamespaceFacts
from kubenexus.webhook.once import once

Obj = dict[str, Any]

_DEFAULT_SCHEDULERS: Final = ("", "default-scheduler")
"""What an API server writes where the user chose none, and what stands there before."""


@dataclass(frozen=True)
class Subject:
    """One pod in its namespace. Owners are looked up when a rule first asks, at most once: it may take a moment."""

    pod: Obj
    facts: PodFacts
    cluster: Cluster

    @classmethod
    def of(cls, pod: Obj, namespace: str, cluster: Cluster) -> Subject:
        """The pod that a request for `namespace` is about: the request is right about where it stands, not the pod."""
        facts = PodFacts.from_json(pod)
        return cls(pod, replace(facts, namespace=namespace or facts.namespace), cluster)

    @property
    def spec(self) -> Obj:
        return mapping(self.pod.get("spec"))

    @property
    def scheduler(self) -> str:
        name = self.spec.get("schedulerName")
        return name if isinstance(name, str) else ""

    @property
    def is_for_others(self) -> bool:
        """Whether another scheduler was chosen: its own controllers care for the pod, and say which gang it is in."""
        return self.scheduler not in (*_DEFAULT_SCHEDULERS, *self.cluster.schedulers)

    @property
    def is_placed(self) -> bool:
        return bool(self.spec.get("nodeName"))

    # --- Its namespace

    @once
    def namespace(self) -> NamespaceFacts | None:
        """None while it is not known."""
        return self.cluster.namespace(self.facts.namespace)

    @property
    def opted_in(self) -> bool:
        """Whether its namespace asks for us, and the pod itself does not say otherwise."""
        if self.facts.text(v.INJECT) == v.Inject.DISABLED:
            return False
        return self.namespace is not None and self.namespace.opted_in

    # --- What it asks for

    @once
    def resources(self) -> PodResources:
        return read_resources(Fields(self.pod, []).child("spec"), Fields({}, []))

    @once
    def requests(self) -> Mapping[str, Fraction]:
        """What it asks for; a limit without a request is one. An API server has written that down already."""
        demands = [one.demand for one in self.resources.containers]
        if self.resources.pod_level is None and all(one.limits.keys() <= one.requests.keys() for one in demands):
            return self.resources.requests()
        return {**self.resources.limits(), **self.resources.requests()}

    @once
    def gpu_resources(self) -> tuple[str, ...]:
        return tuple(name for name in v.GPU_RESOURCES if self.requests.get(name))

    @once
    def gpus(self) -> int:
        return sum(ceil(self.requests[name]) for name in self.gpu_resources)

    @property
    def policy(self) -> v.NumaPolicy | None:
        """The NUMA policy that it names; None if it names none, or one that is not known."""
        notes = self.facts.annotations
        text = notes.get(v.NUMA_POLICY, notes.get(v.NUMA_POLICY_ALIAS))
        return known_policy(text) if text is not None else None

    # --- Whom it belongs to

    @once
    def gang(self) -> Resolution:
        return resolve(self.facts, self.cluster.owners)

    @once
    def declared(self) -> tuple[Gang, ...]:
        """The gangs that it declares itself, the one that counts first."""
        return tuple(declarations(self.facts, self.cluster.owners))

    @property
    def alone(self) -> bool:
        """Surely in no gang of several; a pod whose owner is not known yet may be in one."""
        return isinstance(self.gang, Single) or (isinstance(self.gang, Gang) and self.gang.min_available == 1)

    @property
    def workload(self) -> Workload | None:
        return classify(self.facts, self.gang, self.gpus)


def known_policy(text: str) -> v.NumaPolicy | None:
    try:
        return v.parse_numa_policy(v.NUMA_POLICY, text)
    except v.VocabularyError:
        return None


def mapping(value: object) -> Obj:
    """The value where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}
