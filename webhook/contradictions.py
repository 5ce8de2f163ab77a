"""Rules about settings that are each well-formed but do not go together."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from math import ceil
from typing import Final

from kubenexus.common import quantity
from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import Gang, Invalid
from kubenexus.common.objects import Qos
from kubenexus.webhook.findings import Finding, deny, warn
from kubenexus.webhook.subject import Subject, known_policy

_STRICT: Final = (v.NumaPolicy.RESTRICTED, v.NumaPolicy.SINGLE_NUMA, v.NumaPolicy.ISOLATED)
_FOR_GANGS: Final = {
    v.REQUIRE_CLIQUE: ("true",),
    v.CO_LOCATE: (v.CoLocate.STRICT, v.CoLocate.PREFERRED),
    v.GANG_NUMA_SPREAD: tuple(v.GangNumaSpread),
}
"""What only a gang can have, with the values that ask for it."""
_ALIASES: Final = {v.NUMA_POLICY_ALIAS: v.NUMA_POLICY, v.VRAM_REQUEST_ALIAS: v.VRAM_REQUEST}
_GPU: Final = v.GPU_RESOURCES[0]
_MOST_TOLD: Final = 5
# No GPU has less than the one or more than the other: such an amount lacks its unit, or has the wrong one.
_SMALLEST_GPU: Final = 2**27
_LARGEST_GPU: Final = 2**40


# --- Gangs -----------------------------------------------------------------------------------------------------------


def gang(pod: Subject) -> Iterator[Finding]:
    """What the pod or its owner says about a gang can be meant."""
    if isinstance(pod.gang, Invalid):
        yield deny("gang", pod.gang.reason)


def gang_conflict(pod: Subject) -> Iterator[Finding]:
    """A pod that says several times which gang it is in says the same each time; else the first counts."""
    for key in (v.GANG_NAME, v.GANG_MIN_AVAILABLE):
        label, note = pod.facts.labels.get(key), pod.facts.annotations.get(key)
        if label is not None and note is not None and label != note:
            yield warn("gang-conflict", f"{key}: label and annotation differ, the label counts; remove one.")
    for other in pod.declared[1:]:
        if text := _difference(pod.declared[0], other):
            yield warn("gang-conflict", text)


def _difference(first: Gang, other: Gang) -> str:
    if first.key != other.key:
        return f"gang {first.name} ({first.source}) counts, not gang {other.name} ({other.source}): remove one."
    if other.min_available in (1, first.min_available):
        return ""
    sizes = f"{first.min_available} ({first.source}) counts, not {other.min_available} ({other.source})"
    return f"gang {first.name} has two sizes, {sizes}: make them equal."


def gang_sizes(pod: Subject) -> Iterator[Finding]:
    """Members that give their gang different sizes. Of a gang that was concluded the owner says how large it is."""
    if not pod.declared or v.GANG_INFERRED_FROM in pod.facts.annotations:
        return
    key, size = pod.declared[0].key, pod.declared[0].min_available
    other = pod.cluster.other_size(key, size)
    if other is not None:
        text = f"gang {key.id} needs {size} by this pod and {other} by another: the larger counts; give all the same."
        yield warn("gang-sizes", text)


def gang_needed(pod: Subject) -> Iterator[Finding]:
    """What only a gang can have is asked for by members of one."""
    if pod.alone:
        for key, asking in _FOR_GANGS.items():
            if pod.facts.annotations.get(key) in asking:
                yield warn("gang-needed", f"{key} does nothing: the pod is in no gang; name one, or remove it.")


def spread_and_packed(pod: Subject) -> Iterator[Finding]:
    notes = pod.facts.annotations
    if notes.get(v.SPREAD_ZONES) == "true" and notes.get(v.CO_LOCATE) == v.CoLocate.STRICT:
        yield warn("spread", f"{v.SPREAD_ZONES} cannot be had with co-locate strict: remove one of the two.")


# --- NUMA ------------------------------------------------------------------------------------------------------------


def isolated(pod: Subject) -> Iterator[Finding]:
    """A NUMA node is taken through its CPUs."""
    if pod.policy is v.NumaPolicy.ISOLATED and not pod.requests.get("cpu"):
        yield deny(
            "isolated",
            f"{v.NUMA_POLICY} is isolated, which takes the CPUs of a NUMA node, but the pod requests no CPU: "
            "request CPUs, or use single-numa.",
        )


def pinning(pod: Subject) -> Iterator[Finding]:
    """A strict policy is worth its price only if the kubelet pins what was chosen."""
    if pod.policy not in _STRICT:
        return
    if pod.resources.qos() is not Qos.GUARANTEED:
        yield warn(
            "pinning", f"no kubelet pins the CPUs for {pod.policy}: not Guaranteed; set limits equal to requests."
        )
    elif pod.resources.exclusive_cpus() < pod.resources.container_requests().get("cpu", 0):
        yield warn("pinning", f"no kubelet pins all CPUs for {pod.policy}: give each container a whole number of CPUs.")


def aligned(pod: Subject) -> Iterator[Finding]:
    """What shall be aligned is asked for."""
    strange = (name for name in _listed(pod) if name not in ("cpu", "memory") and not pod.requests.get(name))
    for name in islice(strange, _MOST_TOLD):
        yield warn("aligned", f"{v.NUMA_RESOURCES} lists {name}, which the pod does not request: remove it.")


def _listed(pod: Subject) -> tuple[str, ...]:
    try:
        return v.parse_names(v.NUMA_RESOURCES, pod.facts.annotations.get(v.NUMA_RESOURCES, "cpu"))
    except v.VocabularyError:
        return ()


def numa_ids(pod: Subject) -> Iterator[Finding]:
    """Ids are numbers, and nothing is both preferred and avoided. None of it keeps a pod from running."""
    known: list[set[str]] = []
    for key in (v.NUMA_AFFINITY, v.NUMA_ANTI_AFFINITY):
        parts = {part.strip() for part in pod.facts.annotations.get(key, "").split(",")} - {""}
        known.append({part for part in parts if part.isascii() and part.isdigit()})
        for part in sorted(parts - known[-1])[:1]:
            yield warn("numa-ids", f"{key} has {part[:20]!r}, which is no NUMA id: write it as 0,1.")
    if both := ",".join(sorted(known[0] & known[1])):
        yield warn("numa-ids", f"NUMA ids {both} are both preferred and avoided: avoided counts; remove them from one.")


def two_names(pod: Subject) -> Iterator[Finding]:
    """A value that stands under its name and under an older one is the same."""
    for alias, key in _ALIASES.items():
        old, new = pod.facts.text(alias), pod.facts.annotations.get(key)
        if old is not None and new is not None and (known_policy(old) or old) != (known_policy(new) or new):
            yield warn("alias", f"{key} counts, not {alias}: remove the latter.")


# --- GPU memory ------------------------------------------------------------------------------------------------------


def vram(pod: Subject) -> Iterator[Finding]:
    """GPU memory is asked for with GPUs, in an amount that GPUs have."""
    total = _vram(pod)
    if total is None or pod.spec.get("resourceClaims"):
        return  # what a claim holds is not known here
    if not pod.gpus:
        if not any("gpu" in name or "/mig-" in name for name in pod.requests):
            yield deny("vram", f"{v.VRAM_REQUEST} asks for GPU memory, but the pod for no GPU: request {_GPU}, too.")
        return
    each = ceil(total / pod.gpus)
    if each < _SMALLEST_GPU:
        yield warn("vram", f"{v.VRAM_REQUEST} is {each} bytes of each GPU: did you forget the unit, such as Gi?")
    elif each > _LARGEST_GPU:
        yield warn("vram", f"{v.VRAM_REQUEST} is {each >> 30}Gi of each GPU, more than any has: request more GPUs.")


def _vram(pod: Subject) -> Fraction | None:
    text = pod.facts.annotations.get(v.VRAM_REQUEST, pod.facts.labels.get(v.VRAM_REQUEST_ALIAS))
    try:
        amount = quantity.parse(text) if text is not None else Fraction(0)
    except quantity.QuantityError:
        return None
    return amount if amount > 0 else None
