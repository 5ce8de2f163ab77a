"""Nodes, namespaces, priority classes and disruption budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from kubenexus.common.objects.interning import share
from kubenexus.common.objects.meta import View, read_meta
from kubenexus.common.objects.placement import Taint, read_taints
from kubenexus.common.objects.reading import Fields, Obj, identified
from kubenexus.common.objects.requests import rounded
from kubenexus.common.objects.selectors import LabelSelector, read_label_selector


class ImageView(NamedTuple):
    """An image that a node has, by all its names."""

    names: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class NodeView(View):
    """One node. `allocatable` is cpu in milli, all others in units; `ready` is None while the kubelet is silent."""

    allocatable: Mapping[str, int]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: bool | None
    images: tuple[ImageView, ...]
    features: frozenset[str]


@dataclass(frozen=True, slots=True)
class NamespaceView(View):
    """One namespace; its labels and annotations are what it is kept for."""


@dataclass(frozen=True, slots=True)
class PriorityClassView(View):
    """A priority by name."""

    value: int
    global_default: bool
    preempts: bool


@dataclass(frozen=True, slots=True)
class PodDisruptionBudgetView(View):
    """How many of the selected pods may be evicted now; `disrupted` are pods already counted."""

    selector: LabelSelector
    disruptions_allowed: int
    disrupted: frozenset[str]


def project_node(obj: Obj) -> NodeView:
    """The view of a raw Node. A node that reports no allocatable has its capacity, as the API server would say."""
    root, meta = identified(obj, "Node")
    spec, status = root.child("spec"), root.child("status")
    return NodeView(
        meta=read_meta(meta),
        allocatable=rounded(status.amounts("allocatable" if "allocatable" in status.raw else "capacity")),
        taints=read_taints(spec, "taints"),
        unschedulable=spec.flag("unschedulable"),
        ready=_ready(status),
        images=tuple(_image(one.texts("names"), one.whole("sizeBytes")) for one in status.children("images")),
        features=frozenset(status.texts("declaredFeatures")),
        problems=tuple(root.problems),
    )


_image = lru_cache(maxsize=1 << 14)(ImageView)  # nodes have the same images


def _ready(status: Fields) -> bool | None:
    for one in status.children("conditions"):
        if one.text("type") == "Ready":
            return {"True": True, "False": False}.get(one.text("status"))
    return None


def project_namespace(obj: Obj) -> NamespaceView:
    """The view of a raw Namespace."""
    root, meta = identified(obj, "Namespace")
    return NamespaceView(meta=read_meta(meta), problems=tuple(root.problems))


def project_priority_class(obj: Obj) -> PriorityClassView:
    """The view of a raw PriorityClass."""
    root, meta = identified(obj, "PriorityClass")
    return PriorityClassView(
        meta=read_meta(meta),
        value=root.whole("value"),
        global_default=root.flag("globalDefault"),
        preempts=root.text("preemptionPolicy") != "Never",
        problems=tuple(root.problems),
    )


def project_pod_disruption_budget(obj: Obj) -> PodDisruptionBudgetView:
    """The view of a raw PodDisruptionBudget."""
    root, meta = identified(obj, "PodDisruptionBudget")
    status = root.child("status")
    return PodDisruptionBudgetView(
        meta=read_meta(meta, namespaced=True),
        selector=read_label_selector(root.child("spec"), "selector"),
        disruptions_allowed=status.whole("disruptionsAllowed"),
        disrupted=frozenset(share(str(pod)) for pod in status.child("disruptedPods").raw),
        problems=tuple(root.problems),
    )
