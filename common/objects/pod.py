"""Pods, as small as a scheduler can hold them: what is theirs alone, and a reference to what their template shares."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from kubenexus.common.objects.interning import Labels, json_bytes, share
from kubenexus.common.objects.meta import Owner, is_read, read_owner
from kubenexus.common.objects.podspec import NeedsView, PodSpecView, intern_spec
from kubenexus.common.objects.reading import DEFAULT_NAMESPACE, Fields, Obj, identified
from kubenexus.common.objects.requests import Usage, read_resources

_BOUND_CONDITIONS: Final = ("DisruptionTarget", "PodResizePending")
_CONDITIONS: Final = ("PodScheduled", *_BOUND_CONDITIONS)
_CLAIM: Final = "persistentVolumeClaim"
_EPHEMERAL: Final = "ephemeral"


class Condition(NamedTuple):
    type: str
    status: str
    reason: str
    message: str


class VolumeClaim(NamedTuple):
    """A PersistentVolumeClaim the pod mounts. An ephemeral one is made for the pod and must be owned by it."""

    name: str
    ephemeral: bool


class PodClaim(NamedTuple):
    """A ResourceClaim of the pod by its name in the pod; `claim` is empty while it is not there yet."""

    name: str
    claim: str
    generated: bool


class PodView(NamedTuple):
    """One pod. Times are seconds since 1970; `usage` is what it takes from its node, resizing included.

    Of the conditions DisruptionTarget and PodResizePending are kept, and PodScheduled as long as there is no node.
    The resourceVersion is left out, so that views are equal when nothing that matters has changed.
    A pod with `problems` has fields that could not be read: it must not be placed, and the first problem is the reason.
    """

    namespace: str
    name: str
    uid: str
    created: float
    deleted: float | None
    labels: Labels
    annotations: Labels
    owner: Owner | None
    spec: PodSpecView
    usage: Usage
    node: str
    nominated_node: str
    phase: str
    started: float | None
    gates: tuple[str, ...]
    volume_claims: tuple[VolumeClaim, ...]
    resource_claims: tuple[PodClaim, ...]
    conditions: tuple[Condition, ...]
    problems: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Has run to its end, well or badly, and occupies nothing any more."""
        return self.phase in ("Succeeded", "Failed")

    def condition(self, kind: str) -> Condition | None:
        return next((one for one in self.conditions if one.type == kind), None)


def project_pod(obj: Obj) -> PodView:
    """The view of a raw Pod. `ProjectionError` when it has no name; anything else wrong stands in `problems`."""
    root, meta = identified(obj, "Pod")
    spec, status = root.child("spec"), root.child("status")
    template = intern_spec(spec.raw)
    name, node = meta.text("name"), spec.text("nodeName")
    conditions = _conditions(status, _BOUND_CONDITIONS if node else _CONDITIONS)
    return PodView(
        namespace=share(meta.text("namespace") or DEFAULT_NAMESPACE),
        name=name,
        uid=meta.text("uid"),
        created=meta.time("creationTimestamp") or 0.0,
        deleted=meta.time("deletionTimestamp"),
        labels=meta.labels("labels"),
        annotations=meta.labels("annotations", is_read),
        owner=read_owner(meta),
        spec=template,
        usage=_usage(spec, status, template, conditions),
        node=share(node),
        nominated_node=share(status.text("nominatedNodeName")),
        phase=share(status.text("phase", "Pending")),
        started=status.time("startTime"),
        gates=_gates(spec) if "schedulingGates" in spec.raw else (),
        volume_claims=_volume_claims(spec, name),
        resource_claims=_resource_claims(template, status) if template.claims else (),
        conditions=conditions,
        problems=(*template.problems, *root.problems),
    )


_usages: WeakValueDictionary[tuple[NeedsView, bytes], Usage] = WeakValueDictionary()


def _usage(spec: Fields, status: Fields, template: PodSpecView, conditions: tuple[Condition, ...]) -> Usage:
    """What the pod occupies: as its template says, unless the kubelet reports resources of its own."""
    reported = [
        (one.get("name"), one.get("resources"), one.get("allocatedResources"))
        for one in (*status.items("containerStatuses"), *status.items("initContainerStatuses"))
        if type(one) is dict and "resources" in one
    ]
    whole_pod = status.raw.get("resources")
    if not reported and whole_pod is None:
        return template.needs.usage
    resize = [one.reason for one in conditions if one.type == "PodResizePending"]
    key = (template.needs, json_bytes((reported, whole_pod, status.raw.get("allocatedResources"), resize)))
    known = _usages.get(key)
    if known is None:
        before = len(status.problems)
        known = read_resources(Fields(spec.raw, []), status).usage(use_status=True)
        if len(status.problems) == before:  # shared, it could not tell the next reader what is wrong
            _usages[key] = known
    return known


def _gates(spec: Fields) -> tuple[str, ...]:
    return tuple(share(gate.text("name")) for gate in spec.children("schedulingGates"))


def _volume_claims(spec: Fields, pod: str) -> tuple[VolumeClaim, ...]:
    wanted = [raw for raw in spec.items("volumes") if type(raw) is dict and (_CLAIM in raw or _EPHEMERAL in raw)]
    return tuple([_volume_claim(Fields(raw, spec.problems, spec, "volumes"), pod) for raw in wanted])


def _volume_claim(volume: Fields, pod: str) -> VolumeClaim:
    if _EPHEMERAL in volume.raw:
        return VolumeClaim(f"{pod}-{volume.text('name')}", ephemeral=True)
    return VolumeClaim(volume.child(_CLAIM).text("claimName"), ephemeral=False)


def _resource_claims(template: PodSpecView, status: Fields) -> tuple[PodClaim, ...]:
    """The pod's claims; one made from a template is found in the status, and left out if none is needed."""
    made = {one.text("name"): one.text("resourceClaimName") for one in status.children("resourceClaimStatuses")}
    return tuple(
        PodClaim(one.name, one.claim or made.get(one.name, ""), generated=not one.claim)
        for one in template.claims
        if one.claim or made.get(one.name) != ""
    )


_condition = lru_cache(maxsize=4096)(Condition)  # one object for equal conditions of many pods


def _conditions(status: Fields, kinds: tuple[str, ...]) -> tuple[Condition, ...]:
    wanted = [raw for raw in status.items("conditions") if type(raw) is dict and raw.get("type") in kinds]
    fields = [Fields(raw, status.problems, status, "conditions") for raw in wanted]
    return tuple(
        [_condition(one.text("type"), one.text("status"), one.text("reason"), one.text("message")) for one in fields]
    )
