"""VolumeRestrictions: disks that one pod has to itself, on its node or in the whole cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubenexus.common.objects import DiskView, PodView, VolumeClaim
from kubenexus.scheduler.engine.plugin import At, ClusterPlugin, Refusal
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.weaker import Weaker
from kubenexus.scheduler.plugins.volumes import Barred, mounted_claims

DISK_TAKEN = "node(s) had no available disk"
CLAIM_TAKEN = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

AWS: Final = "awsElasticBlockStore"
RBD: Final = "rbd"
EXCLUSIVE: Final = (AWS, RBD, "gcePersistentDisk", "iscsi")


def conflict(one: DiskView, other: DiskView) -> bool:
    """Whether two pods with these disks cannot share a node: it is the same, and not only read by both.

    AWS cannot share even those. Images of Ceph are the same only if they have a monitor in common.
    """
    if (one.source, one.disk) != (other.source, other.disk) or one.source not in EXCLUSIVE:
        return False
    if one.source == AWS:
        return True
    apart = one.source == RBD and set(one.hosts).isdisjoint(other.hosts)
    return not apart and not (one.read_only and other.read_only)


@dataclass(frozen=True, slots=True)
class Occupied:
    """The question how many pods stand in the way of a disk."""

    disk: DiskView

    def weigh(self, pod: PodView) -> int:
        return any(conflict(self.disk, other) for other in pod.spec.needs.disks)


@dataclass(frozen=True, slots=True)
class Mounted:
    """The question how many pods mount a claim."""

    namespace: str
    claim: VolumeClaim

    def weigh(self, pod: PodView) -> int:
        return pod.namespace == self.namespace and self.claim in pod.volume_claims


@dataclass(frozen=True, slots=True)
class Restricted:
    """What a pod must not share: disks with pods on its node, claims with any pod."""

    disks: tuple[Occupied, ...]
    claims: tuple[Mounted, ...]


class VolumeRestrictions(ClusterPlugin[Restricted | Barred]):
    """Refuses nodes where a disk is in use, and all nodes while a ReadWriteOncePod claim is."""

    name = "VolumeRestrictions"

    def reads(self, pod: PodView) -> tuple[str, ...]:
        return ("pvcs",) if pod.volume_claims else ()

    def compile(self, pod: PodView, state: State) -> Restricted | Barred | None:
        disks = tuple(Occupied(disk) for disk in pod.spec.needs.disks if disk.source in EXCLUSIVE)
        claims = mounted_claims(pod, state.objects)
        if isinstance(claims, Barred):
            return claims
        alone = (claim.name for claim in claims if "ReadWriteOncePod" in claim.access_modes)
        mounted = tuple(Mounted(pod.namespace, VolumeClaim(name, ephemeral=False)) for name in alone)
        return Restricted(disks, mounted) if disks or mounted else None

    def filter(self, term: Restricted | Barred, state: State, at: At) -> Iterator[Refusal]:
        if isinstance(term, Barred):
            yield term.everywhere(state, at)
            return
        taken = np.zeros(len(state.alive[at]), dtype=np.bool_)
        for disk in term.disks:
            taken |= state.count(disk)[at] > 0
        yield Refusal(taken, DISK_TAKEN)
        if any(state.count(claim).any() for claim in term.claims):
            yield Refusal(~taken, CLAIM_TAKEN)

    def filter_without(self, term: Restricted | Barred, state: State, at: At, weaker: Weaker) -> Iterator[Refusal]:
        for claim in () if isinstance(term, Barred) else term.claims:
            elsewhere = state.count(claim).sum() - weaker.count(claim)[at]
            yield Refusal(elsewhere > 0, CLAIM_TAKEN)

    def may_miss(self, _term: Restricted | Barred) -> bool:
        return False
