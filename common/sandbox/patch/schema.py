"""How each place of the built-in kinds merges: the one table behind strategic patches and server-side apply.

What the table does not name is plain: maps merge key by key, lists are replaced as a whole. That is also all there is
to a custom resource, except for its metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """How the value at one place merges."""

    fields: Mapping[str, Shape] = field(default_factory=dict)
    """Of a map: the children that are not plain."""
    item: Shape | None = None
    """Of a list: what its items are, if they merge."""
    keys: tuple[str, ...] = ()
    """Of a list in server-side apply: the fields that tell its items apart."""
    is_set: bool = False
    """Of a list in server-side apply: scalars, each there or not."""
    atomic: bool = False
    """Of a map in server-side apply: owned and replaced as a whole."""
    merge_key: str = ""
    """Of a list in a strategic patch: the field that tells its items apart."""
    merges: bool = False
    """Of a list in a strategic patch: items are added to what is there."""
    replaced: bool = False
    """Of a map in a strategic patch: replaced as a whole."""

    def child(self, name: str) -> Shape:
        return self.fields.get(name, PLAIN)

    @property
    def element(self) -> Shape:
        return self.item or PLAIN


PLAIN = Shape()
ATOMIC = Shape(atomic=True)
SET = Shape(is_set=True, merges=True)
KEY_DEFAULTS = {"protocol": "TCP"}


def struct(**fields: Shape) -> Shape:
    """A map with children that are not plain."""
    return Shape(fields=fields)


def by(*keys: str, item: Shape = PLAIN) -> Shape:
    """A list of maps told apart by these keys; strategic patches look at the first alone."""
    return Shape(item=item, keys=keys, merge_key=keys[0], merges=True)


def apply_only(shape: Shape) -> Shape:
    """Strategic patches replace such a list."""
    return replace(shape, merge_key="", merges=False)


def strategic_only(shape: Shape) -> Shape:
    """Server-side apply owns such a list as a whole."""
    return replace(shape, keys=(), is_set=False)


_CONDITIONS = by("type")
_META = struct(ownerReferences=by("uid", item=ATOMIC), finalizers=SET)
_VALUE_FROM = struct(configMapKeyRef=ATOMIC, secretKeyRef=ATOMIC, fieldRef=ATOMIC, resourceFieldRef=ATOMIC)
_RESOURCES = struct(claims=apply_only(by("name")))
_CONTAINER = struct(
    env=by("name", item=struct(valueFrom=_VALUE_FROM)),
    ports=by("containerPort", "protocol"),
    volumeDevices=by("devicePath"),
    volumeMounts=by("mountPath"),
    resources=_RESOURCES,
)
_CLAIM_SPEC = struct(selector=ATOMIC, dataSource=ATOMIC)
_VOLUME = struct(
    ephemeral=struct(volumeClaimTemplate=struct(metadata=_META, spec=_CLAIM_SPEC)),
    csi=struct(nodePublishSecretRef=ATOMIC),
)
_AFFINITY = struct(nodeAffinity=struct(requiredDuringSchedulingIgnoredDuringExecution=ATOMIC))
_POD_SPEC = struct(
    containers=by("name", item=_CONTAINER),
    initContainers=by("name", item=_CONTAINER),
    ephemeralContainers=by("name", item=_CONTAINER),
    volumes=by("name", item=_VOLUME),
    hostAliases=by("ip"),
    imagePullSecrets=by("name", item=ATOMIC),
    resourceClaims=by("name"),
    schedulingGates=by("name"),
    topologySpreadConstraints=by("topologyKey", "whenUnsatisfiable", item=struct(labelSelector=ATOMIC)),
    nodeSelector=ATOMIC,
    affinity=_AFFINITY,
    resources=_RESOURCES,
)
_POD_STATUS = struct(
    conditions=_CONDITIONS,
    podIPs=by("ip"),
    hostIPs=strategic_only(by("ip")),
    resourceClaimStatuses=by("name"),
)
_TEMPLATE = struct(metadata=_META, spec=_POD_SPEC)
_WORKLOAD_SPEC = struct(selector=ATOMIC, template=_TEMPLATE)
_WITH_CONDITIONS = struct(conditions=_CONDITIONS)
_JOB_STATUS = struct(
    conditions=strategic_only(_CONDITIONS),
    uncountedTerminatedPods=struct(failed=apply_only(SET), succeeded=apply_only(SET)),
)
_DEVICE_STATUS = struct(conditions=apply_only(_CONDITIONS))
_CLAIM_STATUS = struct(
    allocation=struct(nodeSelector=ATOMIC),
    reservedFor=by("uid"),
    devices=apply_only(by("driver", "device", "pool", "shareID", item=_DEVICE_STATUS)),
)
_WEBHOOK = struct(matchConditions=by("name"), namespaceSelector=ATOMIC, objectSelector=ATOMIC)
_META_ONLY = struct(metadata=_META)

_NO_CONTAINERS: Obj = {"containers": None}
_BLANK_TEMPLATE: Obj = {"metadata": {}, "spec": _NO_CONTAINERS}
_BLANK: Obj = {"metadata": {}, "spec": {}, "status": {}}


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind merges, and what its objects have before anything is set, which therefore no creator owns."""

    shape: Shape = _META_ONLY
    blank: Mapping[str, Any] = field(default_factory=lambda: {"metadata": {}})


def _spec_only(shape: Shape = PLAIN, **spec: Any) -> Kind:
    return Kind(struct(metadata=_META, spec=shape), {"metadata": {}, "spec": spec})


def _whole(spec: Shape = PLAIN, status: Shape = PLAIN, **blank_spec: Any) -> Kind:
    """A kind with spec and status."""
    return Kind(struct(metadata=_META, spec=spec, status=status), {**_BLANK, "spec": blank_spec})


_WEBHOOKS = Kind(struct(metadata=_META, webhooks=by("name", item=_WEBHOOK)))
_KINDS: dict[str, Kind] = {
    "v1/Pod": _whole(_POD_SPEC, _POD_STATUS, **_NO_CONTAINERS),
    "v1/Node": Kind(
        struct(metadata=_META, spec=struct(podCIDRs=SET), status=struct(addresses=by("type"), conditions=_CONDITIONS)),
        {**_BLANK, "status": {"daemonEndpoints": {"kubeletEndpoint": {}}, "nodeInfo": {}}},
    ),
    "v1/Namespace": _whole(status=_WITH_CONDITIONS),
    "v1/Secret": Kind(),
    "v1/ConfigMap": Kind(),
    "v1/ServiceAccount": Kind(struct(metadata=_META, secrets=by("name", item=ATOMIC))),
    "v1/Service": Kind(
        struct(metadata=_META, spec=struct(ports=by("port", "protocol"), selector=ATOMIC), status=_WITH_CONDITIONS),
        {**_BLANK, "status": {"loadBalancer": {}}},
    ),
    "v1/PersistentVolume": _whole(struct(nodeAffinity=struct(required=ATOMIC))),
    "v1/PersistentVolumeClaim": _whole(_CLAIM_SPEC, _WITH_CONDITIONS, resources={}),
    "v1/Event": Kind(
        struct(metadata=_META, involvedObject=ATOMIC, related=ATOMIC),
        {"metadata": {}, "involvedObject": {}, "source": {}},
    ),
    "events.k8s.io/v1/Event": Kind(
        struct(metadata=_META, regarding=ATOMIC, related=ATOMIC),
        {"metadata": {}, "deprecatedSource": {}, "regarding": {}},
    ),
    "coordination.k8s.io/v1/Lease": _spec_only(),
    "scheduling.k8s.io/v1/PriorityClass": Kind(),
    "policy/v1/PodDisruptionBudget": _whole(struct(selector=replace(ATOMIC, replaced=True)), _WITH_CONDITIONS),
    "storage.k8s.io/v1/StorageClass": Kind(),
    "storage.k8s.io/v1/CSINode": _spec_only(struct(drivers=by("name"))),
    "resource.k8s.io/v1/ResourceSlice": _spec_only(struct(nodeSelector=ATOMIC), pool={"generation": 0}),
    "resource.k8s.io/v1/ResourceClaim": _whole(PLAIN, _CLAIM_STATUS, devices={}),
    "resource.k8s.io/v1/ResourceClaimTemplate": _spec_only(_META_ONLY, metadata={}, spec={"devices": {}}),
    "resource.k8s.io/v1/DeviceClass": _spec_only(),
    "batch/v1/Job": _whole(_WORKLOAD_SPEC, _JOB_STATUS, template=_BLANK_TEMPLATE),
    "apps/v1/Deployment": _whole(
        _WORKLOAD_SPEC, _WITH_CONDITIONS, selector=None, strategy={}, template=_BLANK_TEMPLATE
    ),
    "apps/v1/ReplicaSet": _whole(_WORKLOAD_SPEC, _WITH_CONDITIONS, selector=None, template=_BLANK_TEMPLATE),
    "apps/v1/StatefulSet": _whole(
        _WORKLOAD_SPEC, _WITH_CONDITIONS, selector=None, updateStrategy={}, template=_BLANK_TEMPLATE
    ),
    "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration": _WEBHOOKS,
    "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration": _WEBHOOKS,
    "apiextensions.k8s.io/v1/CustomResourceDefinition": _whole(
        status=struct(conditions=apply_only(_CONDITIONS)), names={}
    ),
}
CUSTOM = Kind(blank={})


def kind_of(kind: str, *objects: Obj | None) -> Kind:
    """The built-in kind of this name and of the objects' `apiVersion`; otherwise a custom resource."""
    version = next((obj["apiVersion"] for obj in objects if obj and "apiVersion" in obj), None)
    if version is not None:
        return _KINDS.get(f"{version}/{kind}", CUSTOM)
    return next((found for name, found in _KINDS.items() if name.endswith(f"/{kind}")), CUSTOM)
