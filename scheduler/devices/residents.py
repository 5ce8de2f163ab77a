"""What the pods of a machine have of it to themselves, as far as anybody knows.

What the kubelet gave is told by the agent and is right; until then what the scheduler assigned counts; a pod that
neither knows of is estimated where it is counted. Ordinary pods have nothing to themselves: they are no residents.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from kubenexus.common import vocabulary as v
from kubenexus.common.objects import PodView, Qos
from kubenexus.common.vocabulary import NumaPolicy
from kubenexus.common.wire import Given
from kubenexus.scheduler.devices.ask import amounts_of, gpus_of
from kubenexus.scheduler.devices.links import mask_of
from kubenexus.scheduler.devices.machine import Amounts


class Resident(NamedTuple):
    """One pod. Sorts in the order in which residents are counted: those who surely have their place come first."""

    rank: int
    """0 in one NUMA node, 1 in several or on known GPUs only, 2 nobody knows where"""
    presumed: bool
    """by the scheduler, not the kubelet"""
    created: float
    uid: str
    amounts: Amounts
    exclusive: int
    """CPUs to itself"""
    gpus: int
    numa: tuple[int, ...]
    """ids; empty if unknown"""
    mask: int
    """which GPUs; none if unknown"""
    cpus: tuple[int, ...]
    """which CPUs to itself; empty if unknown"""
    isolated: bool
    guaranteed: bool = False
    """of that class of pods whose memory a kubelet may manage"""


class Needs(NamedTuple):
    """What a pod takes of a machine, the same for all pods of a template."""

    amounts: Amounts
    exclusive: int
    gpus: int
    guaranteed: bool = False


def needs_of(pod: PodView, gpu_resources: Collection[str]) -> Needs:
    requests, view = pod.usage.requests, pod.spec.needs
    guaranteed = view.qos is Qos.GUARANTEED
    return Needs(amounts_of(requests), view.exclusive_cpus, gpus_of(requests, gpu_resources), guaranteed)


def resident(
    pod: PodView, needs: Needs, given: Given | None = None, *, managed_memory: bool = False
) -> Resident | None:
    """What the pod has to itself; None for nothing."""
    numa = numa_of(pod, given)
    if not (needs.gpus or needs.exclusive or numa or (managed_memory and needs.guaranteed)):
        return None
    mask = _mask(pod, needs.gpus, given) if needs.gpus else 0
    return Resident(
        rank=0 if len(numa) == 1 else 1 if numa or mask else 2,
        presumed=given is None,
        created=pod.created,
        uid=pod.uid,
        amounts=needs.amounts,
        exclusive=needs.exclusive,
        gpus=needs.gpus,
        numa=numa,
        mask=mask,
        cpus=given.cpus if given else (),
        isolated=isolated(pod),
        guaranteed=needs.guaranteed,
    )


def numa_of(pod: PodView, given: Given | None) -> tuple[int, ...]:
    """The NUMA nodes that a pod is known to have."""
    notes = pod.annotations
    return (given and given.numa) or (assigned(notes[v.NUMA_ASSIGNED]) if v.NUMA_ASSIGNED in notes else ())


def missed(pod: PodView, given: Given) -> bool:
    """Whether the kubelet gave the pod something else than the scheduler had chosen."""
    gpus = assigned(pod.annotations.get(v.GPU_ASSIGNED, ""))
    numa = assigned(pod.annotations.get(v.NUMA_ASSIGNED, ""))
    return bool((gpus and given.gpus and gpus != given.gpus) or (numa and not set(given.numa) <= set(numa)))


def isolated(pod: PodView) -> bool:
    """Whether the pod wants its NUMA node for itself."""
    notes = pod.annotations
    return (notes.get(v.NUMA_POLICY) or notes.get(v.NUMA_POLICY_ALIAS)) == NumaPolicy.ISOLATED


@lru_cache(maxsize=4096)
def assigned(text: str) -> tuple[int, ...]:
    """The ids in an annotation that says where a pod landed; none if it cannot be read."""
    try:
        return v.parse_ids("", text)
    except v.VocabularyError:
        return ()


def _mask(pod: PodView, gpus: int, given: Given | None) -> int:
    """The pod's GPUs, if that are as many as it asked for: otherwise nobody knows what it has."""
    found = (given and given.gpus) or assigned(pod.annotations.get(v.GPU_ASSIGNED, ""))
    return mask_of(found) if len(found) == gpus else 0
