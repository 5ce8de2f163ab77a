"""What pods need besides a node: which claims they use, whether everything is ready, and what only stands in the way.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from kubenexus.common.objects import PersistentVolumeClaimView, PodView
from kubenexus.scheduler.actions import Bind, Use
from kubenexus.scheduler.dra import Grant
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.plugins.dynamic_resources import ClaimDecision


class Ready(Enum):
    """Whether a pod can be bound."""

    YES = auto()
    NOT_YET = auto()


def uses(pod: PodView, devices: Iterable[ClaimDecision], objects: Objects) -> tuple[Use, ...]:
    """The pod's claims, also those that are reserved for it by what is known: the server may have other news by now."""
    given = {one.grant.claim.name for decision in devices for one in decision.grants}
    own = {claim.name for claim in objects.claims.of(pod) if [one.uid for one in claim.reserved_for] == [pod.uid]}
    return tuple(Use(claim.name, claim.name in given | own) for claim in objects.claims.of(pod))


def unwritten(bind: Bind, objects: Objects) -> tuple[Grant, ...]:
    """What claims that a pod uses were given and nobody has written yet, be it by the decision about another pod."""
    found = (objects.claims.unwritten(f"{bind.pod.namespace}/{use.claim}") for use in bind.claims)
    return tuple(grant for grant in found if grant is not None)


def useless(pod: PodView, objects: Objects) -> tuple[str, ...]:
    """The claims of a pod without a node that have devices for it alone: they only keep it from going elsewhere."""
    return tuple(
        claim.name
        for claim in objects.claims.of(pod)
        if claim.allocation is not None and [one.uid for one in claim.reserved_for] == [pod.uid]
    )


def readiness(bind: Bind, objects: Objects) -> Ready | str:
    """Whether volumes and devices of a pod are ready; if they will not be, why."""
    pod = bind.pod
    volumes = [objects.pvcs.get(f"{pod.namespace}/{name}") for name, _ in pod.volume_claims]
    if any(one is None or (not one.bound and not _is_coming(one, bind.node, objects)) for one in volumes):
        return "a volume that was being made for it will not be"
    claims = list(objects.claims.of(pod))
    if len(claims) < len({one.claim for one in pod.resource_claims}):
        return "a claim for devices is gone"
    waits = any(one is not None and not one.bound for one in volumes) or any(claim.unready for claim in claims)
    return Ready.NOT_YET if waits else Ready.YES


def _is_coming(claim: PersistentVolumeClaimView, node: str, objects: Objects) -> bool:
    """Whether a volume of the claim is being bound, or made for the node."""
    chosen = any(volume.claim and volume.claim.uid == claim.meta.uid for volume in objects.pvs.values())
    return bool(chosen or claim.volume or claim.selected_node == node)
