"""What the volume plugins share: a pod's claims, looked up, and the refusal of pods that can go nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubenexus.common.objects import PersistentVolumeClaimView, PodView, StorageClassView
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.engine.plugin import At, Code, Refusal
from kubenexus.scheduler.engine.state import State

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"
ZONE_SEPARATOR: Final = "__"
"""between the zones in a label of a volume that can be used from several"""


@dataclass(frozen=True, slots=True)
class Barred:
    """The pod can go nowhere, because of what it says itself or of its claims."""

    reason: str
    code: Code = Code.UNRESOLVABLE

    def everywhere(self, state: State, at: At) -> Refusal:
        return Refusal(np.ones(len(state.alive[at]), dtype=np.bool_), self.reason, self.code)


def claim_key(pod: PodView, name: str) -> str:
    return f"{pod.namespace}/{name}"


def mounted_claims(pod: PodView, objects: Objects) -> Sequence[PersistentVolumeClaimView] | Barred:
    """The claims that a pod names itself, ephemeral ones left out; barred when one is missing."""
    found = []
    for name in dict.fromkeys(one.name for one in pod.volume_claims if not one.ephemeral):
        claim = objects.pvcs.get(claim_key(pod, name))
        if claim is None:
            return Barred(not_found(name))
        found.append(claim)
    return found


def not_found(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


def wrong_owner(pod: PodView, claim: PersistentVolumeClaimView) -> str:
    """Why a claim is not the one that was made for this pod; empty if it is."""
    owner = claim.meta.owner
    if owner is not None and owner.uid == pod.uid:
        return ""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def no_binding_mode(view: StorageClassView) -> str:
    return f'VolumeBindingMode not set for StorageClass "{view.name}"'
