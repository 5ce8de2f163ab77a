"""What a pod asks of NUMA nodes and GPUs, read from its requests and annotations once for all pods of a shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from kubenexus.common import quantity
from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import Gang, OwnerRef, PodFacts, resolve
from kubenexus.common.objects import NeedsView, PodView, Qos, Role
from kubenexus.common.vocabulary import GangNumaSpread, NumaPolicy
from kubenexus.scheduler.devices.machine import CPU, MEMORY, NOTHING, RESOURCES, Amounts

NEUTRAL: Final = 50
"""the weight of distances that users do not change"""
GIB: Final = 1 << 30
INTENSIVE_MEMORY: Final = 16 * GIB
INTENSIVE_MEMORY_PER_CORE: Final = 4 * GIB
STRICT: Final = frozenset((NumaPolicy.RESTRICTED, NumaPolicy.SINGLE_NUMA, NumaPolicy.ISOLATED))
"""the policies that refuse nodes"""
_POLICIES: Final = (v.NUMA_POLICY, v.NUMA_POLICY_ALIAS)
_WISHES: Final = frozenset(
    (
        *_POLICIES,
        v.NUMA_RESOURCES,
        v.NUMA_AFFINITY,
        v.NUMA_ANTI_AFFINITY,
        v.NUMA_DISTANCE_WEIGHT,
        v.GANG_NUMA_SPREAD,
        v.MEMORY_INTENSIVE,
    )
)
"""whoever writes one of these minds NUMA nodes"""


class Part(NamedTuple):
    """What a kubelet may have to give to one container, or to a pod as a whole."""

    cpus: int
    """to itself"""
    gpus: int
    memory: Amounts
    """by `RESOURCES`, from memory on; nothing unless the pod is Guaranteed"""
    passing: bool = False
    """it ends before others begin, and these get what it had"""


class Ask(NamedTuple):
    """What a pod asks for; pods that ask alike are placed alike."""

    amounts: Amounts
    """by `RESOURCES`"""
    exclusive: int = 0
    """CPUs that a kubelet with the static policy gives to it alone"""
    gpus: int = 0
    policy: NumaPolicy = NumaPolicy.BEST_EFFORT
    inherited: bool = False
    """whether the policy is its namespace's"""
    aligned: Amounts = ()
    """the places in `RESOURCES` of what must come from one set of NUMA nodes"""
    aligned_gpus: bool = True
    near: frozenset[int] = frozenset()
    """preferred NUMA ids"""
    away: frozenset[int] = frozenset()
    """avoided NUMA ids"""
    distance_weight: int = NEUTRAL
    memory_intensive: bool = False
    vram: int = 0
    """bytes that each GPU must have"""
    largest: int | None = None
    """bytes that no GPU may exceed, to leave larger ones to others"""
    spread: GangNumaSpread | None = None
    gang: str = ""
    """whose other members `spread` is about"""
    guaranteed: bool = False
    parts: tuple[Part, ...] = ()
    """the containers, in the order in which a kubelet looks at them; empty if there is only one to look at"""
    heeded: bool = True
    """whether it matters what the kubelet would say"""

    @property
    def whole(self) -> Part:
        """The pod as a kubelet sees it."""
        return Part(self.exclusive, self.gpus, self.amounts[1:] if self.guaranteed else NOTHING[1:])

    @property
    def strict(self) -> bool:
        return self.policy in STRICT

    @property
    def anywhere(self) -> Ask:
        """The same without a wish where, whatever the kubelet says."""
        return self._replace(policy=NumaPolicy.NONE, heeded=False)


class Unusable(NamedTuple):
    """Why the pod's annotations cannot be used, for the person who wrote them."""

    reason: str


def read_ask(
    pod: PodView, gpu_resources: Collection[str], default: NumaPolicy | None = None, *, kubelets: bool = False
) -> Ask | Unusable | None:
    """What the pod asks for; None if NUMA nodes and GPUs are nothing to it, nor (with `kubelets`) to a kubelet.

    `default` is the policy of pods that name none, for those of which a kubelet can pin something.
    """
    named = not _WISHES.isdisjoint(pod.annotations)
    requests, exclusive = pod.spec.requests, pod.spec.needs.exclusive_cpus
    gpus = gpus_of(requests, gpu_resources)
    if not (named or gpus or exclusive):
        return _unknowing(pod) if kubelets and pod.spec.needs.qos is Qos.GUARANTEED else None
    try:
        ask = _with_default(_read(pod, gpus, gpu_resources), pod.annotations, default)
    except v.VocabularyError as error:
        return Unusable(str(error))
    return ask if gpus or kubelets or ask.policy is not NumaPolicy.NONE else None


def _with_default(ask: Ask, notes: Mapping[str, str], default: NumaPolicy | None) -> Ask:
    if default is None or not (ask.gpus or ask.exclusive) or any(key in notes for key in _POLICIES):
        return ask
    if default is NumaPolicy.ISOLATED and not ask.amounts[RESOURCES.index(CPU)]:
        return ask  # it would take a NUMA node for nothing; the webhook warns
    return ask._replace(policy=default, inherited=True)


def _unknowing(pod: PodView) -> Ask:
    """That of a pod whose memory a kubelet may manage, and which never heard of NUMA nodes."""
    needs = pod.spec.needs
    return Ask(amounts_of(pod.spec.requests), policy=NumaPolicy.NONE, guaranteed=True, parts=_parts(needs, ()))


def gpus_of(requests: Mapping[str, int], gpu_resources: Collection[str]) -> int:
    return sum(requests.get(name, 0) for name in gpu_resources)


def amounts_of(requests: Mapping[str, int]) -> Amounts:
    return tuple([requests.get(name, 0) for name in RESOURCES])


def _read(pod: PodView, gpus: int, gpu_resources: Collection[str]) -> Ask:
    notes, requests = pod.annotations, pod.spec.requests
    listed = _resources(notes)
    spread = notes.get(v.GANG_NUMA_SPREAD)
    return Ask(
        amounts=amounts_of(requests),
        exclusive=pod.spec.needs.exclusive_cpus,
        gpus=gpus,
        policy=_policy(notes),
        aligned=tuple(place for place, name in enumerate(RESOURCES) if name in (listed or (CPU, MEMORY))),
        aligned_gpus=listed is None or not listed.isdisjoint(gpu_resources),
        near=_ids(notes.get(v.NUMA_AFFINITY, "")),
        away=_ids(notes.get(v.NUMA_ANTI_AFFINITY, "")),
        distance_weight=_weight(notes),
        memory_intensive=_memory_intensive(notes, requests),
        vram=-(-_vram(pod) // gpus) if gpus else 0,
        spread=v.parse_choice(GangNumaSpread, v.GANG_NUMA_SPREAD, spread) if spread else None,
        gang=gang_of(pod) if spread else "",
        guaranteed=pod.spec.needs.qos is Qos.GUARANTEED,
        parts=_parts(pod.spec.needs, gpu_resources),
    )


def _parts(needs: NeedsView, gpu_resources: Collection[str]) -> tuple[Part, ...]:
    if len(needs.containers) == 1:
        return ()
    guaranteed = needs.qos is Qos.GUARANTEED
    found = []
    for one in needs.containers:
        cpus = one.requests.get(CPU, 0)
        alone = bool(guaranteed and needs.exclusive_cpus and cpus % 1000 == 0)
        memory = amounts_of(one.requests)[1:] if guaranteed else NOTHING[1:]
        gpus = gpus_of(one.requests, gpu_resources)
        found.append(Part(cpus // 1000 if alone else 0, gpus, memory, one.role is Role.INIT))
    some = tuple(part for part in found if part.cpus or part.gpus or any(part.memory))
    return some if len(some) > 1 else ()


def _policy(notes: Mapping[str, str]) -> NumaPolicy:
    for key in _POLICIES:
        if key in notes:
            return v.parse_numa_policy(key, notes[key])
    return NumaPolicy.BEST_EFFORT


def _resources(notes: Mapping[str, str]) -> frozenset[str] | None:
    text = notes.get(v.NUMA_RESOURCES)
    return frozenset(v.parse_names(v.NUMA_RESOURCES, text)) if text else None


def _ids(text: str) -> frozenset[int]:
    """The ids of a list; whatever is no id names no NUMA node, as does an id that a node lacks."""
    parts = (part.strip() for part in text.split(","))
    return frozenset(int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 5)


def _weight(notes: Mapping[str, str]) -> int:
    text = notes.get(v.NUMA_DISTANCE_WEIGHT)
    return NEUTRAL if text is None else v.parse_int(v.NUMA_DISTANCE_WEIGHT, text, 0, 100)


def _memory_intensive(notes: Mapping[str, str], requests: Mapping[str, int]) -> bool:
    if v.MEMORY_INTENSIVE in notes:
        return v.parse_bool(v.MEMORY_INTENSIVE, notes[v.MEMORY_INTENSIVE])
    memory = requests.get(MEMORY, 0)
    return memory > INTENSIVE_MEMORY and memory * 1000 > INTENSIVE_MEMORY_PER_CORE * requests.get(CPU, 0)


def _vram(pod: PodView) -> int:
    said = {
        v.VRAM_REQUEST: pod.annotations.get(v.VRAM_REQUEST),
        v.VRAM_REQUEST_ALIAS: pod.labels.get(v.VRAM_REQUEST_ALIAS),
    }
    key, text = next(((key, text) for key, text in said.items() if text), ("", ""))
    try:
        return max(0, quantity.value(text)) if text else 0
    except quantity.QuantityError as error:
        raise v.VocabularyError(f"{key}: {error}") from None


class _NoOwners:
    """Nothing is looked up: members of one owner know each other by it."""

    def get(self, api_version: str, kind: str, namespace: str, name: str, uid: str) -> None:  # noqa: ARG002
        return None


def gang_of(pod: PodView) -> str:
    """What the members of a pod's gang have in common: the gang that it declares, else its owner."""
    owner = None if pod.owner is None else OwnerRef(*pod.owner)
    return _gang(PodFacts(pod.namespace, pod.labels, pod.annotations, owner, pod.spec.scheduling_group))


@lru_cache(maxsize=1024)
def _gang(pod: PodFacts) -> str:
    found = resolve(pod, _NoOwners())
    return str(found.key) if isinstance(found, Gang) else pod.owner.uid if pod.owner else ""
