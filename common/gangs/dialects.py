"""Gangs that pods declare themselves: our labels first, then the ways of other schedulers.

Most dialects differ only in the names of two keys and in the object that knows the size; those are rows of data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import orjson

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs.model import (
    Gang,
    GangKey,
    Invalid,
    OwnerRef,
    Owners,
    PodFacts,
    Resolution,
    Waiting,
    label_value,
)
from kubenexus.common.gangs.read import DeclarationError, Owner, View, bounded, look_up

# API versions that may be served, the newest first.
_NATIVE: Final = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2")
_SCHEDULER_PLUGINS: Final = ("scheduling.x-k8s.io/v1alpha1",)
_VOLCANO: Final = ("scheduling.volcano.sh/v1beta1",)
_KAI: Final = ("scheduling.run.ai/v2alpha2",)
POD_GROUP_VERSIONS: Final = _NATIVE + _SCHEDULER_PLUGINS + _VOLCANO + _KAI

YUNIKORN_GROUPS: Final = "yunikorn.apache.org/task-groups"
YUNIKORN_GROUP: Final = "yunikorn.apache.org/task-group-name"
YUNIKORN_APPS: Final = ("yunikorn.apache.org/app-id", "applicationId")
SPARK_ROLE: Final = "spark-role"


@dataclass(frozen=True, slots=True)
class Dialect:
    """A gang's name in one key, and its size in another, in the PodGroup of that name, or by default."""

    source: str
    name: str
    size: str = ""
    pod_group: tuple[str, ...] = ()
    default: int = 0
    one_by_one: str = ""  # "true" here says that members are created one after the other: a quorum would never exist
    annotation_only: bool = False

    def __call__(self, pod: PodFacts, owners: Owners) -> Resolution | None:
        name = pod.annotations.get(self.name) if self.annotation_only else pod.text(self.name)
        if name is None:
            return None
        if not name:
            return Invalid(f"{self.name} is empty: write the name of the gang, or remove it.")
        if self.one_by_one and pod.text(self.one_by_one) == "true":
            return _gang(pod, self.source, name, 1)
        if self.size and (size := pod.text(self.size)) is not None:
            return _gang(pod, self.source, name, v.parse_gang_size(self.size, size))
        return self._sized_elsewhere(pod, owners, name)

    def _sized_elsewhere(self, pod: PodFacts, owners: Owners, name: str) -> Resolution:
        if group := _pod_group(owners, self.pod_group, pod.namespace, name):
            return _gang(pod, self.source, name, group.count("spec.minMember", 1), group.uid)
        if self.default:
            return _gang(pod, self.source, name, self.default)
        if self.size:
            return Invalid(f"{self.name} names a gang, but nothing tells its size: add {self.size}.")
        return Waiting(OwnerRef(self.pod_group[0], "PodGroup", name))

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(key for key in (self.name, self.size, self.one_by_one) if key)


def _native(pod: PodFacts, owners: Owners) -> Resolution | None:
    """Kubernetes' own `spec.schedulingGroup`; a PodGroup of the basic policy asks for no quorum."""
    name = pod.scheduling_group
    if not name:
        return None
    group = _pod_group(owners, _NATIVE, pod.namespace, name)
    if group is None:
        return Waiting(OwnerRef(_NATIVE[0], "PodGroup", name))
    return _gang(pod, "native", name, group.count("spec.schedulingPolicy.gang.minCount", 1), group.uid)


def task_groups(pod: PodFacts) -> list[View]:
    """YuniKorn's groups of an application, where the pod carries their list."""
    text = pod.annotations.get(YUNIKORN_GROUPS, "[]")
    try:
        return View({"groups": orjson.loads(text)}, YUNIKORN_GROUPS).items("groups")
    except orjson.JSONDecodeError:
        raise DeclarationError(f"{YUNIKORN_GROUPS} is not JSON: correct it or remove it.") from None


def _yunikorn(pod: PodFacts, _: Owners) -> Resolution | None:
    """All task groups of an application together, except Spark's, whose executors come after the driver."""
    app = next((name for key in YUNIKORN_APPS if (name := pod.text(key))), "")
    groups = task_groups(pod) if app and SPARK_ROLE not in pod.labels else []
    if not groups:
        return None
    size = sum(group.count("minMember", 1) for group in groups)
    return _gang(pod, "yunikorn", app, size, role=pod.text(YUNIKORN_GROUP))


def _nameless(pod: PodFacts, _: Owners) -> Resolution | None:
    if pod.text(v.GANG_MIN_AVAILABLE) is None:
        return None
    return Invalid(f"{v.GANG_MIN_AVAILABLE} stands without a gang's name: add {v.GANG_NAME}, or remove it.")


def _pod_group(owners: Owners, versions: tuple[str, ...], namespace: str, name: str) -> Owner | None:
    found = (look_up(owners, OwnerRef(version, "PodGroup", name), namespace) for version in versions)
    return next((group for group in found if group), None)


def _gang(pod: PodFacts, source: str, name: str, size: int, owner_uid: str = "", role: str | None = None) -> Gang:
    key = GangKey(pod.namespace, label_value(name))
    return Gang(key, name, bounded(f"gang {key}", size), source, owner_uid, role)


DIALECTS: Final[tuple[Dialect | Callable[[PodFacts, Owners], Resolution | None], ...]] = (
    Dialect("kubenexus", v.GANG_NAME, v.GANG_MIN_AVAILABLE, _SCHEDULER_PLUGINS),
    _native,
    Dialect(
        "sigs",
        "pod-group.scheduling.sigs.k8s.io/name",
        "pod-group.scheduling.sigs.k8s.io/min-available",
        _SCHEDULER_PLUGINS,
    ),
    Dialect("scheduler-plugins", "scheduling.x-k8s.io/pod-group", pod_group=_SCHEDULER_PLUGINS),
    Dialect("volcano", "scheduling.k8s.io/group-name", pod_group=_VOLCANO),
    Dialect("koordinator", "gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available"),
    Dialect(
        "kueue",
        "kueue.x-k8s.io/pod-group-name",
        "kueue.x-k8s.io/pod-group-total-count",
        one_by_one="kueue.x-k8s.io/pod-group-fast-admission",
    ),
    _yunikorn,
    # The key has no prefix, so a label of that name may be anybody's.
    Dialect("kai", "pod-group-name", pod_group=_KAI, annotation_only=True),
    # Says who belongs together; by itself it asks for no quorum.
    Dialect("gang-group", v.GANG_GROUP, v.GANG_MIN_AVAILABLE, default=1),
    _nameless,
)


def declared(pod: PodFacts, owners: Owners) -> Resolution | None:
    """What the pod itself declares, in the first dialect it speaks; None when it speaks none."""
    answers = (dialect(pod, owners) for dialect in DIALECTS)
    return next((answer for answer in answers if answer is not None), None)


def declarations(pod: PodFacts, owners: Owners) -> list[Gang]:
    """Every gang that the pod declares, by the dialects it speaks, in the order in which they count."""
    found = []
    for dialect in DIALECTS:
        try:
            answer = dialect(pod, owners)
        except (DeclarationError, v.VocabularyError):
            continue
        if isinstance(answer, Gang):
            found.append(answer)
    return found
