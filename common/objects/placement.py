"""What a pod says about where it may go: taints and tolerations, affinity terms, topology spread, host ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from kubenexus.common.objects.interning import share
from kubenexus.common.objects.reading import Fields
from kubenexus.common.objects.selectors import (
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    read_label_selector,
    read_node_selector,
    read_node_term,
)


class Taint(NamedTuple):
    """A taint of a node or a device."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """Which taints a pod accepts: an empty key means every key, an empty effect every effect."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


class HostPort(NamedTuple):
    """A port of the node itself that the pod occupies."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods near which, or far from which, a pod wants to be: within one value of `topology_key`."""

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector

    def matches(
        self, home: str, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> bool:
        """Whether a pod of that namespace and labels is meant by this term of a pod whose namespace is `home`."""
        return self.covers(home, namespace, namespace_labels) and self.selector.matches(labels)

    def covers(self, home: str, namespace: str, namespace_labels: Mapping[str, str]) -> bool:
        if not self.namespaces and self.namespace_selector.nil:
            return namespace == home
        return namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)


class WeightedPodTerm(NamedTuple):
    weight: int
    term: PodTerm


class WeightedNodeTerm(NamedTuple):
    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """Affinity to pods, or anti-affinity: what must hold and what would be good."""

    required: tuple[PodTerm, ...] = ()
    preferred: tuple[WeightedPodTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class Affinity:
    """`spec.affinity`; `node` is None when every node is allowed."""

    node: NodeSelector | None = None
    node_preferred: tuple[WeightedNodeTerm, ...] = ()
    pods: PodAffinity = PodAffinity()
    anti: PodAffinity = PodAffinity()


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """How evenly matching pods must (`hard`) or should lie over the values of a node label."""

    topology_key: str
    max_skew: int
    hard: bool
    selector: LabelSelector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool
    match_label_keys: tuple[str, ...]


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


# One object for equal taints, and for equal tolerations, of many nodes and pods.
_taint = lru_cache(maxsize=4096)(Taint)
_toleration = lru_cache(maxsize=4096)(Toleration)


def read_taints(fields: Fields, key: str) -> tuple[Taint, ...]:
    return tuple(_taint(one.text("key"), one.text("value"), one.text("effect")) for one in fields.children(key))


def read_tolerations(fields: Fields, key: str) -> tuple[Toleration, ...]:
    return tuple(
        _toleration(one.text("key"), one.text("operator"), one.text("value"), one.text("effect"))
        for one in fields.children(key)
    )


def read_host_ports(container: Fields) -> tuple[HostPort, ...]:
    """The ports of one container that are ports of the node."""
    ports = tuple(container.children("ports"))
    return tuple(
        HostPort(port.text("hostIP") or "0.0.0.0", port.text("protocol") or "TCP", number)
        for port in ports
        if (number := port.whole("hostPort")) > 0
    )


def read_affinity(spec: Fields) -> Affinity:
    affinity = spec.child("affinity")
    node = affinity.child("nodeAffinity")
    preferred = tuple(
        WeightedNodeTerm(one.whole("weight"), read_node_term(one.child("preference")))
        for one in node.children(_PREFERRED)
    )
    return Affinity(
        node=read_node_selector(node, _REQUIRED),
        node_preferred=preferred,
        pods=_pod_affinity(affinity.child("podAffinity")),
        anti=_pod_affinity(affinity.child("podAntiAffinity")),
    )


def _pod_affinity(fields: Fields) -> PodAffinity:
    return PodAffinity(
        tuple(_pod_term(term) for term in fields.children(_REQUIRED)),
        tuple(
            WeightedPodTerm(one.whole("weight"), _pod_term(one.child("podAffinityTerm")))
            for one in fields.children(_PREFERRED)
        ),
    )


def _pod_term(term: Fields) -> PodTerm:
    return PodTerm(
        share(term.text("topologyKey")),
        read_label_selector(term, "labelSelector"),
        frozenset(term.texts("namespaces")),
        read_label_selector(term, "namespaceSelector"),
    )


def read_spread(spec: Fields) -> tuple[SpreadConstraint, ...]:
    return tuple(_spread_constraint(one) for one in spec.children("topologySpreadConstraints"))


def _spread_constraint(one: Fields) -> SpreadConstraint:
    return SpreadConstraint(
        topology_key=share(one.text("topologyKey")),
        max_skew=one.whole("maxSkew", 1),
        hard=one.text("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
        selector=read_label_selector(one, "labelSelector"),
        min_domains=one.whole("minDomains", 1),
        honor_affinity=one.text("nodeAffinityPolicy", "Honor") == "Honor",
        honor_taints=one.text("nodeTaintsPolicy", "Ignore") == "Honor",
        match_label_keys=one.texts("matchLabelKeys"),
    )
