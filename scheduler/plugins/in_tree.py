"""Disks of the kinds that Kubernetes once knew itself, as the CSI drivers that took over see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from kubenexus.common.objects import NodeSelectorTerm, Op, PersistentVolumeView, Requirement
from kubenexus.scheduler.plugins.volumes import OLD_REGION, OLD_ZONE, REGION, ZONE, ZONE_SEPARATOR


class Successor(NamedTuple):
    """Who took over a kind of volume: the old plugin, the CSI driver, and the label by which it knows zones, if any."""

    plugin: str
    driver: str
    zone_label: str


SUCCESSORS: Final[Mapping[str, Successor]] = {
    "awsElasticBlockStore": Successor("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    "azureDisk": Successor("kubernetes.io/azure-disk", "disk.csi.azure.com", ""),
    "cinder": Successor("kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    "gcePersistentDisk": Successor("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    "portworxVolume": Successor("kubernetes.io/portworx-volume", "pxd.portworx.com", ""),
}
# Old provisioners with a successor whose volumes nobody counts.
UNCOUNTED: Final = frozenset(("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"))
_DRIVERS: Final = {one.plugin: one.driver for one in SUCCESSORS.values()}

_AWS_URL: Final = "aws://"


def driver_of(provisioner: str) -> str:
    """The CSI driver that makes volumes for a provisioner; empty if they do not count anywhere."""
    return "" if provisioner in UNCOUNTED else _DRIVERS.get(provisioner, provisioner)


def handle_of(source: str, disk: str, labels: Mapping[str, str]) -> str:
    """How the successor names a disk; `labels` are those of its volume, if it has one."""
    if source == "awsElasticBlockStore" and disk.startswith(_AWS_URL):
        return disk.rpartition("/")[2]
    if source == "gcePersistentDisk":
        return f"projects/UNSPECIFIED/{_google_place(labels)}/disks/{disk}"
    return disk


def _google_place(labels: Mapping[str, str]) -> str:
    zones = (labels.get(OLD_ZONE) or labels.get(ZONE) or "UNSPECIFIED").split(ZONE_SEPARATOR)
    return f"zones/{zones[0]}" if len(zones) == 1 else f"regions/{zones[0].rpartition('-')[0]}"


def successors_terms(volume: PersistentVolumeView) -> tuple[NodeSelectorTerm, ...] | None:
    """Where the successor lets a volume be used: as it says itself, but by the driver's own zone label. None: anywhere.

    Without a zone among its terms, the zones in the volume's labels count.
    """
    terms = volume.node_affinity.terms if volume.node_affinity else None
    label = SUCCESSORS[volume.source].zone_label
    if not label:
        return terms
    old = _zone_label(volume)
    named = any(one.key == old and one.values for one in _conditions(terms or ()))
    renamed = {old: label} | ({OLD_REGION: REGION} if old == OLD_ZONE else {})
    terms = terms and tuple(_renamed(term, renamed) for term in terms)
    zones = {zone.strip() for zone in volume.meta.labels.get(old, "").split(ZONE_SEPARATOR)} - {""}
    if named or not zones:
        return terms
    inside = Requirement(label, Op.IN, frozenset(zones))
    return tuple(replace(term, labels=(*term.labels, inside)) for term in terms or (NodeSelectorTerm(),))


def _zone_label(volume: PersistentVolumeView) -> str:
    """Which zone label a volume goes by, the old or the new: the first found in its terms, then in its labels."""
    terms = volume.node_affinity.terms if volume.node_affinity else ()
    for keys in ({one.key for one in _conditions(terms)}, volume.meta.labels):
        for key in (ZONE, OLD_ZONE):
            if key in keys:
                return key
    return ZONE


def _conditions(terms: tuple[NodeSelectorTerm, ...]) -> Iterator[Requirement]:
    return (one for term in terms for one in term.labels)


def _renamed(term: NodeSelectorTerm, names: Mapping[str, str]) -> NodeSelectorTerm:
    return replace(term, labels=tuple(replace(one, key=names.get(one.key, one.key)) for one in term.labels))
