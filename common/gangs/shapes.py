"""Gangs that a pod's own labels show, without walking up its owners: LeaderWorkerSet groups and Grove's PodGangs."""

from __future__ import annotations

from typing import Final

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs.model import (
    Gang,
    GangKey,
    OwnerRef,
    Owners,
    Phase,
    PodFacts,
    Resolution,
    Waiting,
    label_value,
)
from kubenexus.common.gangs.read import Owner, bounded, look_up

LWS_API: Final = "leaderworkerset.x-k8s.io/v1"
LWS_PREFIX: Final = "leaderworkerset.sigs.k8s.io/"
LWS_SIZE: Final = LWS_PREFIX + "size"
GROVE_API: Final = "scheduler.grove.io/v1alpha1"
GROVE_GANG: Final = "grove.io/podgang"


def leader_worker_set(pod: PodFacts, owners: Owners) -> Resolution | None:
    """One gang for each replica. Its webhook writes all that is needed on the pod, except who starts first."""
    name, index = pod.labels.get(LWS_PREFIX + "name"), pod.labels.get(LWS_PREFIX + "group-index")
    if not name or not index:
        return None
    ref = OwnerRef(LWS_API, "LeaderWorkerSet", name)
    lws = look_up(owners, ref, pod.namespace)
    size = _group_size(pod, lws)
    if size is None:
        return Waiting(ref)
    return Gang(
        key=GangKey(pod.namespace, label_value(f"leaderworkerset-{name}-{index}")),
        name=f"{ref} group {index}",
        min_available=bounded(str(ref), size),
        source="LeaderWorkerSet",
        owner_uid=lws.uid if lws else "",
        role="leader" if pod.labels.get(LWS_PREFIX + "worker-index") == "0" else "worker",
        replica=pod.labels.get(LWS_PREFIX + "subgroup-index"),
        first=Phase("leader", 1) if lws and lws.text("spec.startupPolicy") == "LeaderReady" else None,
    )


def _group_size(pod: PodFacts, lws: Owner | None) -> int | None:
    text = pod.annotations.get(LWS_SIZE)
    if text is not None:
        return v.parse_gang_size(LWS_SIZE, text)
    return lws.count("spec.leaderWorkerTemplate.size", 1) if lws else None


def grove(pod: PodFacts, owners: Owners) -> Resolution | None:
    """The PodGang that Grove names on its pods says how many of each group must run."""
    name = pod.labels.get(GROVE_GANG)
    if not name:
        return None
    ref = OwnerRef(GROVE_API, "PodGang", name)
    podgang = look_up(owners, ref, pod.namespace)
    if podgang is None:
        return Waiting(ref)
    members = sum(group.count("minReplicas", 1) for group in podgang.items("spec.podgroups"))
    key = GangKey(pod.namespace, label_value(f"podgang-{name}"))
    role = pod.labels.get("grove.io/podclique")
    return Gang(key, str(ref), bounded(str(ref), members), "PodGang", podgang.uid, role)
