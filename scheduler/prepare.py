"""What must stand on the API server before a pod is bound: its volumes, its devices, and that it uses its claims.

A claim that waits for its first consumer is given a volume that exists, or the node for which its class makes one. The
controllers do the rest; the watch tells when they are done. A claim for devices gets those that were found for it, and
gives them back if the pod will not be bound there after all. Everything here may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Protocol

from kubenexus.common import logs
from kubenexus.common.kube.errors import ApiError, Conflict, NotFound
from kubenexus.common.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, RESOURCE_CLAIMS, Resource
from kubenexus.common.objects import PersistentVolumeClaimView, PodView
from kubenexus.scheduler.actions import Prepare, Prepared, Unbound, Use
from kubenexus.scheduler.dra import Grant

log = logs.get(__name__)
Obj = dict[str, Any]

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROTECTION: Final = "resource.kubernetes.io/delete-protection"
TRIES = 5


class Api(Protocol):
    """What preparing needs of a `Client`."""

    def get(self, res: Resource, name: str, namespace: str | None = None, /) -> Obj: ...
    def update(self, res: Resource, obj: Obj, /, *, subresource: str | None = None) -> Obj: ...


class Taken(Exception):  # noqa: N818 (it is no error, but a race that somebody else won)
    """The object is not as it was when we decided."""


def prepare(api: Api, wanted: Prepare) -> Prepared | Unbound:
    """Write it all, or say what stood in the way."""
    pod, node = wanted.bind.pod, wanted.bind.node
    try:
        if wanted.volumes is not None:
            for claim, volume in wanted.volumes.bindings:
                _change(api, PERSISTENT_VOLUMES, None, volume.name, partial(give, claim=claim))
            for claim in wanted.volumes.provisions:
                chosen = partial(select, uid=claim.meta.uid, node=node)
                _change(api, PERSISTENT_VOLUME_CLAIMS, pod.namespace, claim.name, chosen)
        grants = {grant.claim.name: grant for grant in wanted.grants}
        for use in wanted.bind.claims:
            _use(api, pod, use.claim, grants.get(use.claim))
    except (ApiError, Taken) as error:
        return Unbound(wanted.bind, str(error))
    return Prepared(wanted.bind)


def release(api: Api, pod: PodView, claims: Iterable[Use]) -> None:
    """Claims are not for this pod. Devices that were given for its sake are given back, unless others use them.

    What cannot be taken back stays the pod's until it is placed anew.
    """
    for name, given in claims:
        try:
            change = partial(free, pod=pod, devices=given)
            _change(api, RESOURCE_CLAIMS, pod.namespace, name, change, "status")
        except NotFound:
            continue  # a claim that is gone is nobody's
        except ApiError as error:
            log.warning("a claim could not be taken back from a pod", pod=pod.key, claim=name, error=error)


def _use(api: Api, pod: PodView, name: str, grant: Grant | None) -> None:
    """The claim has its devices, and says that the pod uses it."""
    if grant is None:
        _change(api, RESOURCE_CLAIMS, pod.namespace, name, partial(reserve, pod=pod), "status")
        return
    _change(api, RESOURCE_CLAIMS, pod.namespace, name, protect)
    _change(api, RESOURCE_CLAIMS, pod.namespace, name, partial(allocate, grant=grant, pod=pod), "status")


def give(volume: Obj, claim: PersistentVolumeClaimView) -> Obj | None:
    """The volume as the claim's; None if it is already. Raises Taken when it is another's."""
    reference = volume.get("spec", {}).get("claimRef") or {}
    if reference.get("uid") == claim.meta.uid:
        return None
    same = (reference.get("namespace"), reference.get("name")) == (claim.meta.namespace, claim.meta.name)
    if reference and (reference.get("uid") or not same):
        raise Taken(f"the volume {volume['metadata']['name']} was given to another claim")
    ours = {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUME_CLAIMS.kind,
        "namespace": claim.meta.namespace,
        "name": claim.meta.name,
        "uid": claim.meta.uid,
    }
    return _annotated({**volume, "spec": {**volume["spec"], "claimRef": ours}}, BOUND_BY_CONTROLLER, "yes")


def select(claim: Obj, uid: str, node: str) -> Obj | None:
    """The claim with the node that its volume is made for; None if it says so already."""
    meta = claim["metadata"]
    chosen = (meta.get("annotations") or {}).get(SELECTED_NODE)
    if meta.get("uid") != uid or chosen not in (None, node):
        raise Taken(f"the claim {meta['name']} has changed")
    return None if chosen == node else _annotated(claim, SELECTED_NODE, node)


def reserve(claim: Obj, pod: PodView) -> Obj | None:
    """The claim that says that the pod uses it; None if it does already."""
    status = claim.get("status") or {}
    reserved = status.get("reservedFor") or []
    if not status.get("allocation"):
        raise Taken(f"the claim {claim['metadata']['name']} is not allocated any more")
    if any(one.get("uid") == pod.uid for one in reserved):
        return None
    ours = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    return {**claim, "status": {**status, "reservedFor": [*reserved, ours]}}


def protect(claim: Obj) -> Obj | None:
    """The claim that cannot go while it has devices; None if it is so already."""
    meta = claim["metadata"]
    finalizers = meta.get("finalizers") or []
    if PROTECTION in finalizers:
        return None
    return {**claim, "metadata": {**meta, "finalizers": [*finalizers, PROTECTION]}}


def allocate(claim: Obj, grant: Grant, pod: PodView) -> Obj | None:
    """The claim with its devices, for the pod; None if it is so already. Raises Taken when it has others."""
    status, meta = claim.get("status") or {}, claim["metadata"]
    if meta.get("uid") != grant.claim.meta.uid or meta.get("deletionTimestamp"):
        raise Taken(f"the claim {meta['name']} has changed")
    known = status.get("allocation")
    if known and _devices(known) != _devices(grant.body):
        raise Taken(f"the claim {meta['name']} was given other devices")
    return reserve({**claim, "status": {**status, "allocation": known or grant.body}}, pod)


def _devices(allocation: Obj) -> list[tuple[Any, ...]]:
    results = (allocation.get("devices") or {}).get("results") or []
    return [tuple(one.get(key) for key in ("request", "driver", "pool", "device")) for one in results]


def free(claim: Obj, pod: PodView, *, devices: bool) -> Obj | None:
    """The claim that the pod does not use; None if that is so already. With `devices` it has none without users."""
    status = claim.get("status") or {}
    reserved = status.get("reservedFor") or []
    others = [one for one in reserved if one.get("uid") != pod.uid]
    if others == reserved:
        return None
    left = {key: value for key, value in status.items() if key != "allocation" or others or not devices}
    return {**claim, "status": {**left, "reservedFor": others}}


def _annotated(obj: Obj, key: str, value: str) -> Obj:
    meta = obj["metadata"]
    return {**obj, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), key: value}}}


def _change(
    api: Api,
    res: Resource,
    namespace: str | None,
    name: str,
    change: Callable[[Obj], Obj | None],
    subresource: str | None = None,
) -> None:
    """Read an object, change it and write it, anew while others are faster or an answer is lost."""
    for attempt in range(1, TRIES + 1):
        changed = change(api.get(res, name, namespace))
        if changed is None:
            return
        try:
            api.update(res, changed, subresource=subresource)
        except ApiError as error:
            if attempt == TRIES or not (error.maybe_applied or isinstance(error, Conflict)):
                raise
        else:
            return
