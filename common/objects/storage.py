"""Volumes and what decides where they can be used: claims, volumes, classes, CSI drivers and the room they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

from kubenexus.common.objects.meta import View, read_meta
from kubenexus.common.objects.reading import Fields, Obj, identified
from kubenexus.common.objects.requests import rounded
from kubenexus.common.objects.selectors import LabelSelector, NodeSelector, read_label_selector, read_node_selector

_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_STORAGE: Final = "storage"


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaimView(View):
    """A PersistentVolumeClaim. `storage_class` is None when none is named, which is not the same as the class ""."""

    storage_class: str | None
    volume: str
    bound: bool
    selected_node: str
    phase: str
    access_modes: frozenset[str]
    volume_mode: str
    request: int
    selector: LabelSelector
    attributes_class: str


class ClaimRef(NamedTuple):
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PersistentVolumeView(View):
    """A PersistentVolume. `source` is its kind (`csi`, `nfs`, …); driver and handle are those of a CSI volume.

    `disk` names the disk of one of the old kinds that CSI drivers have taken over.
    """

    storage_class: str
    capacity: int
    access_modes: frozenset[str]
    volume_mode: str
    node_affinity: NodeSelector | None
    claim: ClaimRef | None
    phase: str
    attributes_class: str
    source: str
    driver: str
    handle: str
    disk: str


@dataclass(frozen=True, slots=True)
class StorageClassView(View):
    """A StorageClass. `topologies` are alternatives, each the label values a node may have; none means anywhere."""

    provisioner: str
    binding_mode: str
    is_default: bool
    topologies: tuple[Mapping[str, frozenset[str]], ...]

    @property
    def wait_for_consumer(self) -> bool:
        """Whether a volume is chosen only once it is known where it will be used."""
        return self.binding_mode == "WaitForFirstConsumer"


class DriverView(NamedTuple):
    """A CSI driver on a node; `limit` is the most volumes it can attach there, None when it does not say."""

    name: str
    node_id: str
    limit: int | None
    topology_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CsiNodeView(View):
    """The CSI drivers of the node of the same name, and the in-tree plugins that they stand in for."""

    drivers: tuple[DriverView, ...]
    migrated: frozenset[str]


@dataclass(frozen=True, slots=True)
class CsiDriverView(View):
    """A CSIDriver. With `tracks_capacity` it says where it has how much room, and makes volumes only there."""

    tracks_capacity: bool


@dataclass(frozen=True, slots=True)
class CsiStorageCapacityView(View):
    """How large a volume of a class can become on the nodes that a selector matches; None when that is not known."""

    storage_class: str
    limit: int | None
    nodes: LabelSelector


@dataclass(frozen=True, slots=True)
class VolumeAttachmentView(View):
    """A volume that a driver has attached, or is about to attach, to a node."""

    attacher: str
    node: str
    volume: str


def project_persistent_volume_claim(obj: Obj) -> PersistentVolumeClaimView:
    """The view of a raw PersistentVolumeClaim."""
    root, meta = identified(obj, "PersistentVolumeClaim")
    spec, notes = root.child("spec"), meta.child("annotations")
    volume = spec.text("volumeName")
    return PersistentVolumeClaimView(
        meta=read_meta(meta, namespaced=True),
        storage_class=_storage_class(spec, notes),
        volume=volume,
        bound=bool(volume) and _BIND_COMPLETED in notes.raw,
        selected_node=notes.text(_SELECTED_NODE),
        phase=root.child("status").text("phase"),
        access_modes=frozenset(spec.texts("accessModes")),
        volume_mode=spec.text("volumeMode", "Filesystem"),
        request=_amount(spec.child("resources"), "requests"),
        selector=read_label_selector(spec, "selector"),
        attributes_class=spec.text("volumeAttributesClassName"),
        problems=tuple(root.problems),
    )


def _storage_class(spec: Fields, notes: Fields) -> str | None:
    if _OLD_CLASS in notes.raw:
        return notes.text(_OLD_CLASS)
    return None if spec.raw.get("storageClassName") is None else spec.text("storageClassName")


def _amount(fields: Fields, key: str) -> int:
    return rounded(fields.amounts(key)).get(_STORAGE, 0)


def project_persistent_volume(obj: Obj) -> PersistentVolumeView:
    """The view of a raw PersistentVolume."""
    root, meta = identified(obj, "PersistentVolume")
    spec = root.child("spec")
    csi, source = spec.child("csi"), _source(spec)
    return PersistentVolumeView(
        meta=read_meta(meta),
        storage_class=_storage_class(spec, meta.child("annotations")) or "",
        capacity=_amount(spec, "capacity"),
        access_modes=frozenset(spec.texts("accessModes")),
        volume_mode=spec.text("volumeMode", "Filesystem"),
        node_affinity=read_node_selector(spec.child("nodeAffinity"), "required"),
        claim=_claim_ref(spec.maybe("claimRef")),
        phase=root.child("status").text("phase"),
        attributes_class=spec.text("volumeAttributesClassName"),
        source=source,
        driver=csi.text("driver"),
        handle=csi.text("volumeHandle"),
        disk=spec.child(source).text(_DISKS[source]) if source in _DISKS else "",
        problems=tuple(root.problems),
    )


def _claim_ref(fields: Fields | None) -> ClaimRef | None:
    if fields is None:
        return None
    return ClaimRef(fields.text("namespace"), fields.text("name"), fields.text("uid"))


# Kinds of volumes that CSI drivers have taken over, and the setting that says which disk it is.
_DISKS: Final = {
    "awsElasticBlockStore": "volumeID",
    "azureDisk": "diskURI",
    "cinder": "volumeID",
    "gcePersistentDisk": "pdName",
    "portworxVolume": "volumeID",
}
_NOT_A_SOURCE: Final = frozenset(("capacity", "claimRef", "nodeAffinity"))


def _source(spec: Fields) -> str:
    """The one key of a volume's spec that holds its settings."""
    kinds = (key for key, value in spec.raw.items() if type(value) is dict and key not in _NOT_A_SOURCE)
    return str(next(kinds, ""))


def project_storage_class(obj: Obj) -> StorageClassView:
    """The view of a raw StorageClass."""
    root, meta = identified(obj, "StorageClass")
    return StorageClassView(
        meta=read_meta(meta),
        provisioner=root.text("provisioner"),
        binding_mode=root.text("volumeBindingMode"),
        is_default=meta.child("annotations").text(_DEFAULT_CLASS) == "true",
        topologies=tuple(_topology(term) for term in root.children("allowedTopologies")),
        problems=tuple(root.problems),
    )


def _topology(term: Fields) -> dict[str, frozenset[str]]:
    return {one.text("key"): frozenset(one.texts("values")) for one in term.children("matchLabelExpressions")}


def project_csi_node(obj: Obj) -> CsiNodeView:
    """The view of a raw CSINode."""
    root, meta = identified(obj, "CSINode")
    migrated = meta.child("annotations").text(_MIGRATED)
    return CsiNodeView(
        meta=read_meta(meta),
        drivers=tuple(_driver(one) for one in root.child("spec").children("drivers")),
        migrated=frozenset(filter(None, migrated.split(","))),
        problems=tuple(root.problems),
    )


def _driver(one: Fields) -> DriverView:
    limit = one.child("allocatable")
    count = None if limit.raw.get("count") is None else limit.whole("count")
    return DriverView(one.text("name"), one.text("nodeID"), count, one.texts("topologyKeys"))


def project_csi_driver(obj: Obj) -> CsiDriverView:
    """The view of a raw CSIDriver."""
    root, meta = identified(obj, "CSIDriver")
    return CsiDriverView(
        meta=read_meta(meta),
        tracks_capacity=root.child("spec").flag("storageCapacity"),
        problems=tuple(root.problems),
    )


def project_csi_storage_capacity(obj: Obj) -> CsiStorageCapacityView:
    """The view of a raw CSIStorageCapacity."""
    root, meta = identified(obj, "CSIStorageCapacity")
    largest, total = root.amount("maximumVolumeSize"), root.amount("capacity")
    limit = total if largest is None else largest
    return CsiStorageCapacityView(
        meta=read_meta(meta, namespaced=True),
        storage_class=root.text("storageClassName"),
        limit=None if limit is None else ceil(limit),
        nodes=read_label_selector(root, "nodeTopology"),
        problems=tuple(root.problems),
    )


def project_volume_attachment(obj: Obj) -> VolumeAttachmentView:
    """The view of a raw VolumeAttachment."""
    root, meta = identified(obj, "VolumeAttachment")
    spec = root.child("spec")
    return VolumeAttachmentView(
        meta=read_meta(meta),
        attacher=spec.text("attacher"),
        node=spec.text("nodeName"),
        volume=spec.child("source").text("persistentVolumeName"),
        problems=tuple(root.problems),
    )
