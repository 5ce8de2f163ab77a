"""Which gang each pod is in, as far as its owners are known; asked anew when they change. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kubenexus.common.gangs import (
    OwnerKey,
    OwnerRef,
    OwnerStore,
    PodFacts,
    Resolution,
    Single,
    Waiting,
    controller_of,
    resolve,
)
from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.roster import Group

Obj = dict[str, Any]

_JOB: Final = ("batch", "Job")
_OF_THE_NODE: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
"""labels that the API server gives a pod when it is bound; no gang is told by them"""


class _Known(NamedTuple):
    """What a pod was resolved to, and from what."""

    facts: tuple[object, ...]
    answer: Resolution


class _Successes(NamedTuple):
    """How many pods of a Job have finished well; its uid and that of its controller, if it has one."""

    own: str
    above: str
    number: int


class _Asking:
    """Owners, and which of them were asked about."""

    def __init__(self, owners: OwnerStore) -> None:
        self._owners = owners
        self.asked: set[OwnerKey] = set()

    def get(self, api_version: str, kind: str, namespace: str, name: str, uid: str) -> Obj | None:
        self.asked.add(OwnerKey(api_version.rpartition("/")[0], kind, namespace, name))
        return self._owners.get(api_version, kind, namespace, name, uid)


class Membership:
    """Answers for pods, and remembers for whom which owner matters."""

    def __init__(self) -> None:
        self._owners = OwnerStore()
        self._watched: frozenset[tuple[str, str]] = frozenset()
        self._known: dict[str, _Known] = {}
        self._asked: dict[str, frozenset[OwnerKey]] = {}
        self._dependents: defaultdict[OwnerKey, set[str]] = defaultdict(set)
        self._succeeded: dict[OwnerKey, _Successes] = {}

    def watch(self, kinds: Iterable[tuple[str, str]]) -> None:
        """Owners of these kinds will be told of; one of another kind is not waited for."""
        self._watched = frozenset(kinds)

    def of(self, pod: PodView) -> Resolution:
        """The pod's gang, as things are."""
        facts = (_lasting(pod.labels), pod.annotations, pod.owner, pod.spec.scheduling_group)
        known = self._known.get(pod.uid)
        if known is None or known.facts != facts:
            asking = _Asking(self._owners)
            owner = None if pod.owner is None else OwnerRef(*pod.owner)
            group = pod.spec.scheduling_group
            answer = resolve(PodFacts(pod.namespace, pod.labels, pod.annotations, owner, group), asking)
            known = self._known[pod.uid] = _Known(facts, answer)
            self._depend(pod.uid, frozenset(asking.asked))
        if isinstance(known.answer, Waiting) and not self._worth_waiting(known.answer):
            return Single("owner not watched")
        return known.answer

    def is_open(self, uid: str) -> bool:
        """Whether the pod's owner is not known, so that its answer may yet be another."""
        known = self._known.get(uid)
        return known is not None and isinstance(known.answer, Waiting)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._known.pop(uid, None)
        self._depend(uid, frozenset())

    def owner(self, key: OwnerKey, owner: Obj | None) -> list[str]:
        """What stands behind pods came, changed or (None) went. Returns the uids of pods whose answer may change."""
        self._succeeded.pop(key, None)
        if owner is None:
            self._owners.remove(key)
        else:
            self._owners.set(key, owner)
            if (key.group, key.kind) == _JOB and (successes := _successes(owner)).number:
                self._succeeded[key] = successes
        uids = sorted(self._dependents.get(key, ()))
        for uid in uids:
            self._known.pop(uid, None)
        return uids

    def finished(self, group: Group) -> int:
        """Members that have finished well, as far as Jobs tell: of the Jobs that members have, or all of a JobSet."""
        if not self._succeeded:
            return 0
        members = group.members.values()
        uids = {one.pod.owner.uid for one in members if one.pod.owner}
        uids |= {one.gang.owner_uid for one in members if group.key.id == f"jobset-{one.gang.owner_uid[:13]}"}
        return sum(number for own, above, number in self._succeeded.values() if own in uids or above in uids)

    def _depend(self, uid: str, keys: frozenset[OwnerKey]) -> None:
        before = self._asked.pop(uid, frozenset())
        for key in before - keys:
            self._dependents[key].discard(uid)
            if not self._dependents[key]:
                del self._dependents[key]
        for key in keys - before:
            self._dependents[key].add(uid)
        if keys:
            self._asked[uid] = keys

    def _worth_waiting(self, answer: Waiting) -> bool:
        """Whether what is not known may become known. A PodGroup that a pod names is waited for in any case."""
        return not answer.owner.uid or (answer.owner.group, answer.owner.kind) in self._watched


def _lasting(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Without those that a pod gets on its way."""
    if not any(key in labels for key in _OF_THE_NODE):
        return labels
    return {key: value for key, value in labels.items() if key not in _OF_THE_NODE}


def _successes(job: Obj) -> _Successes:
    count, above = (job.get("status") or {}).get("succeeded"), controller_of(job)
    uid = str((job.get("metadata") or {}).get("uid", ""))
    return _Successes(uid, above.uid if above else "", count if isinstance(count, int) else 0)
