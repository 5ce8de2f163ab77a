"""The resolver: what a pod declares, else what its labels show, else what its owner implies."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs.dialects import (
    DIALECTS,
    POD_GROUP_VERSIONS,
    YUNIKORN_APPS,
    YUNIKORN_GROUP,
    YUNIKORN_GROUPS,
    Dialect,
    declared,
)
from kubenexus.common.gangs.model import Gang, Invalid, OwnerRef, Owners, PodFacts, Resolution, Single, Waiting
from kubenexus.common.gangs.read import DeclarationError, look_up
from kubenexus.common.gangs.rules import ROWS, VOLCANO_TASK
from kubenexus.common.gangs.shapes import GROVE_API, LWS_API, LWS_SIZE, grove, leader_worker_set
from kubenexus.common.gangs.spark import SPARK_API, driver_first, spark

_SHAPES: Final = (leader_worker_set, grove, spark)
_MAX_DEPTH: Final = 8
_KAI_OPT_OUT: Final = "kai.scheduler/skip-podgrouper"

ANNOTATIONS: Final = frozenset(
    {v.GANG_INFER, v.GANG_INFERRED_FROM, v.EXECUTOR_COUNT, v.EXECUTOR_CPU, v.EXECUTOR_MEMORY, LWS_SIZE, VOLCANO_TASK}
    | {YUNIKORN_GROUPS, YUNIKORN_GROUP, *YUNIKORN_APPS}
    | {key for dialect in DIALECTS if isinstance(dialect, Dialect) for key in dialect.keys}
)
"""Every annotation of a pod that can change the answer: who keeps pods in a shorter form keeps these."""

OWNER_KINDS: Final = frozenset(
    set(ROWS)
    | {(version.partition("/")[0], "PodGroup") for version in POD_GROUP_VERSIONS}
    | {(LWS_API.partition("/")[0], "LeaderWorkerSet"), (GROVE_API.partition("/")[0], "PodGang")}
    | {(SPARK_API.partition("/")[0], "SparkApplication")}
)
"""(API group, kind) of everything that is ever looked up: what to watch, where the cluster serves it."""


def resolve(pod: PodFacts, owners: Owners) -> Resolution:
    """The gang of a pod. Pure, and never raises for what pods or owners say, however odd."""
    try:
        if v.GANG_INFERRED_FROM in pod.annotations:
            return _marked(pod, owners)
        answer = declared(pod, owners)
        if isinstance(answer, Gang):
            return driver_first(pod, answer)
        return answer or _inferred(pod, owners)
    except (DeclarationError, v.VocabularyError) as error:
        return Invalid(str(error))


def _marked(pod: PodFacts, owners: Owners) -> Resolution:
    """A pod whose labels the webhook inferred. The owner may have been resized since, so it is asked again."""
    answer = _inferred(pod, owners)
    return declared(pod, owners) or answer if isinstance(answer, Waiting) else answer


def _inferred(pod: PodFacts, owners: Owners) -> Resolution:
    if _opted_out(pod.text(v.GANG_INFER)):
        return Single("opted out")
    shapes = (shape(pod, owners) for shape in _SHAPES)
    answer = next((answer for answer in shapes if answer), None) or _from_owner(pod, owners, pod.owner)
    return answer or Single(pod.owner.kind if pod.owner else "Pod")


def _from_owner(pod: PodFacts, owners: Owners, ref: OwnerRef | None, depth: int = _MAX_DEPTH) -> Resolution | None:
    """The answer of the highest owner that decides, from `ref` upwards; None when none does."""
    row = ROWS.get((ref.group, ref.kind)) if ref and depth else None
    if ref is None or row is None:
        return None
    owner = look_up(owners, ref, pod.namespace)
    if owner is None:
        return None if row.optional else Waiting(ref)
    if _opted_out(owner.annotation(v.GANG_INFER)) or owner.annotation(_KAI_OPT_OUT) == "true":
        return Single("opted out")
    above = _from_owner(pod, owners, owner.controller, depth - 1) if row.climb else None
    return above or row.rule(pod, owner)


def _opted_out(text: str | None) -> bool:
    return text is not None and not v.parse_bool(v.GANG_INFER, text)


class Marks(NamedTuple):
    """What the webhook writes on a pod."""

    labels: dict[str, str]
    annotations: dict[str, str]


def marks(gang: Gang) -> Marks:
    """The labels and annotations of an inferred gang. A pod resolves to the same gang with and without them."""
    return Marks(
        {v.GANG_NAME: gang.key.id, v.GANG_MIN_AVAILABLE: str(gang.min_available)},
        {v.GANG_DISPLAY_NAME: gang.name, v.GANG_INFERRED_FROM: f"{gang.source}/{gang.owner_uid}"},
    )
