"""The part of a pod that its template decides, built once for all pods of one template.

Of the spec only the keys named here are looked at. Their values are picked first, and the view is a function of these
values alone: pods whose picks are equal share one `PodSpecView`, and nothing else can leak into it. What differs from
pod to pod (node, gates, claims, the token volume's random name) is left to `PodView`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from kubenexus.common.objects.interning import Labels, fingerprint, share
from kubenexus.common.objects.placement import (
    Affinity,
    HostPort,
    SpreadConstraint,
    Toleration,
    read_affinity,
    read_host_ports,
    read_spread,
    read_tolerations,
)
from kubenexus.common.objects.reading import Fields, Obj
from kubenexus.common.objects.requests import PodResources, Qos, Role, Usage, read_resources, rounded

_WISH_KEYS: Final = (
    "activeDeadlineSeconds",
    "affinity",
    "nodeSelector",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "schedulerName",
    "schedulingGroup",
    "tolerations",
    "topologySpreadConstraints",
)
_NEED_KEYS: Final = ("hostNetwork", "hostUsers", "overhead", "resources", "containers", "initContainers", "volumes")
_KEYS: Final = (*_WISH_KEYS, *_NEED_KEYS)
_CONTAINER_KEYS: Final = ("image", "name", "ports", "resources", "restartPolicy", "restartPolicyRules")
# Kinds of volumes that are a disk, and the setting that says which one.
_DISKS: Final = {
    "awsElasticBlockStore": "volumeID",
    "azureDisk": "diskURI",
    "cinder": "volumeID",
    "csi": "driver",
    "gcePersistentDisk": "pdName",
    "iscsi": "iqn",
    "portworxVolume": "volumeID",
    "rbd": "image",
    "vsphereVolume": "volumePath",
}
_VOLUME_KEYS: Final = frozenset((*_DISKS, "image"))

# Names of the node features that a pod may rely on (node.status.declaredFeatures).
_RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
_HOST_NETWORK_USERS: Final = "UserNamespacesHostNetworkSupport"


class ContainerView(NamedTuple):
    """One container, for decisions made container by container. Requests as in `Usage`."""

    name: str
    role: Role
    requests: Mapping[str, int]


class DiskView(NamedTuple):
    """A disk named in the pod itself. `source` is the kind of volume (`iscsi`, `csi`, …); `hosts` are RBD monitors."""

    source: str
    disk: str
    read_only: bool
    hosts: tuple[str, ...]


class ClaimRequest(NamedTuple):
    """An entry of `spec.resourceClaims`: a ResourceClaim by name, or one made for the pod from a template."""

    name: str
    claim: str
    template: str


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class NeedsView:
    """What every pod of a template takes from its node: resources, images, ports, disks, features.

    `usage` and `limits` contain the overhead; all amounts are cpu in milli, everything else in units.
    """

    usage: Usage
    limits: Mapping[str, int]
    overhead: Mapping[str, int]
    qos: Qos
    exclusive_cpus: int
    has_pod_level_resources: bool
    containers: tuple[ContainerView, ...]
    images: tuple[str, ...]
    host_ports: tuple[HostPort, ...]
    disks: tuple[DiskView, ...]
    required_features: frozenset[str]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class PodSpecView:
    """What a scheduler must know of a pod's template. Equal when read from equal JSON; cheap to compare and to hash."""

    key: bytes
    needs: NeedsView
    scheduler_name: str
    priority: int
    priority_class: str
    preempts: bool
    node_selector: Labels
    affinity: Affinity
    tolerations: tuple[Toleration, ...]
    spread: tuple[SpreadConstraint, ...]
    claims: tuple[ClaimRequest, ...]
    scheduling_group: str
    active_deadline: int | None
    problems: tuple[str, ...]

    @property
    def requests(self) -> Mapping[str, int]:
        """What a pending pod of this template asks for: cpu in milli, everything else in units."""
        return self.needs.usage.requests

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, PodSpecView) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


_specs: WeakValueDictionary[bytes, PodSpecView] = WeakValueDictionary()
# Apart, because each pod of a DaemonSet has an affinity of its own.
_needs: WeakValueDictionary[bytes, NeedsView] = WeakValueDictionary()


def intern_spec(spec: Obj) -> PodSpecView:
    """The view shared by all pods whose spec says the same."""
    picked = _pick(spec)
    key = fingerprint(picked)
    known = _specs.get(key)
    if known is None:
        known = _specs[key] = _build(key, _restore(picked))
    return known


def _pick(spec: Obj) -> list[Any]:
    """The values that count, in the order of `_KEYS`: lists, because they are faster to make than mappings."""
    picked = list(map(spec.get, _KEYS))
    containers, inits, volumes = picked[-3:]
    if type(containers) is list:
        picked[-3] = [_pick_container(one) for one in containers]
    if type(inits) is list:
        picked[-2] = [_pick_container(one) for one in inits]
    if type(volumes) is list:
        picked[-1] = [one for one in volumes if type(one) is not dict or not _VOLUME_KEYS.isdisjoint(one)]
    return picked


def _pick_container(container: Any) -> list[Any] | None:
    return list(map(container.get, _CONTAINER_KEYS)) if type(container) is dict else None


def _restore(picked: list[Any]) -> Obj:
    """The mapping that `_pick` took apart, without what it left out."""
    spec = dict(zip(_KEYS, picked, strict=True))
    for key in ("containers", "initContainers"):
        if type(spec[key]) is list:
            spec[key] = [one and dict(zip(_CONTAINER_KEYS, one, strict=True)) for one in spec[key]]
    return spec


def _build(key: bytes, raw: Obj) -> PodSpecView:
    needs = _intern_needs({name: raw[name] for name in _NEED_KEYS})
    spec = Fields({name: raw[name] for name in _WISH_KEYS}, [], key="spec")
    return PodSpecView(
        key=key,
        needs=needs,
        scheduler_name=share(spec.text("schedulerName")),
        priority=spec.whole("priority"),
        priority_class=share(spec.text("priorityClassName")),
        preempts=spec.text("preemptionPolicy") != "Never",
        node_selector=spec.labels("nodeSelector"),
        affinity=read_affinity(spec),
        tolerations=read_tolerations(spec, "tolerations"),
        spread=read_spread(spec),
        claims=_claims(spec),
        scheduling_group=spec.child("schedulingGroup").text("podGroupName"),
        active_deadline=spec.whole("activeDeadlineSeconds") or None,
        problems=(*needs.problems, *spec.problems),
    )


def _intern_needs(raw: Obj) -> NeedsView:
    key = fingerprint(raw)
    known = _needs.get(key)
    if known is None:
        known = _needs[key] = _build_needs(Fields(raw, [], key="spec"))
    return known


def _build_needs(spec: Fields) -> NeedsView:
    resources = read_resources(spec, Fields({}, spec.problems))
    volumes = tuple(spec.children("volumes"))
    return NeedsView(
        usage=resources.usage(use_status=False),
        limits=rounded(resources.limits()),
        overhead=rounded(resources.overhead),
        qos=resources.qos(),
        exclusive_cpus=resources.exclusive_cpus(),
        has_pod_level_resources=resources.pod_level is not None,
        containers=_containers(resources),
        images=_images(spec, volumes),
        host_ports=_host_ports(spec),
        disks=tuple(disk for volume in volumes for disk in _read_disks(volume)),
        required_features=_required_features(spec),
        problems=tuple(dict.fromkeys(spec.problems)),  # some fields are read more than once
    )


def _containers(resources: PodResources) -> tuple[ContainerView, ...]:
    return tuple(ContainerView(one.name, one.role, rounded(one.demand.requests)) for one in resources.containers)


def _images(spec: Fields, volumes: tuple[Fields, ...]) -> tuple[str, ...]:
    """Every image the pod needs, as nodes report it; one entry per container or image volume."""
    containers = (one.text("image") for key in ("initContainers", "containers") for one in spec.children(key))
    mounted = (volume.child("image").text("reference") for volume in volumes)
    return tuple(share(normalized_image(name)) for name in (*containers, *mounted) if name)


def normalized_image(name: str) -> str:
    """The image name with its tag: `:latest` when it has none."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _host_ports(spec: Fields) -> tuple[HostPort, ...]:
    sidecars = (one for one in spec.children("initContainers") if one.text("restartPolicy") == "Always")
    return tuple(port for one in (*sidecars, *spec.children("containers")) for port in read_host_ports(one))


def _read_disks(volume: Fields) -> list[DiskView]:
    return [_disk(volume.child(source), source) for source in _DISKS if volume.raw.get(source) is not None]


def _disk(fields: Fields, source: str) -> DiskView:
    name = fields.text(_DISKS[source])
    if source == "rbd":
        name = f"{fields.text('pool', 'rbd')}/{name}"
    return DiskView(source, name, fields.flag("readOnly"), fields.texts("monitors"))


def _claims(spec: Fields) -> tuple[ClaimRequest, ...]:
    return tuple(
        ClaimRequest(one.text("name"), one.text("resourceClaimName"), one.text("resourceClaimTemplateName"))
        for one in spec.children("resourceClaims")
    )


def _required_features(spec: Fields) -> frozenset[str]:
    found = set()
    if spec.flag("hostNetwork") and not spec.flag("hostUsers", default=True):
        found.add(_HOST_NETWORK_USERS)
    for key in ("initContainers", "containers"):
        rules = (rule for one in spec.children(key) for rule in one.children("restartPolicyRules"))
        if any(rule.text("action") == "RestartAllContainers" for rule in rules):
            found.add(_RESTART_ALL)
    return frozenset(found)
