"""The pods of manifests, as an API server would have admitted them: defaults, priority, an identity of their own. Pure.

What a server would refuse is kept as the pod's problem, so that it stays pending with that reason and disturbs nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

from kubenexus.common.objects import PodView, project_pod
from kubenexus.common.sandbox.admission_builtin import admit_new_pod
from kubenexus.common.sandbox.errors import ApiError
from kubenexus.common.sandbox.validation import apply_defaults
from kubenexus.scheduler.expand import uid_of

Obj = dict[str, Any]


class Admission:
    """Takes pods in one by one. `classes` are the raw PriorityClasses there are, besides those of the system."""

    def __init__(self, classes: Iterable[Obj]) -> None:
        self._classes = list(classes)
        self._names: dict[str, str] = {}
        self._copies = 0

    def admit(self, raw: Obj) -> PodView:
        """The view of a pod; `ProjectionError` when it has no name.

        One that was created at no known time was there before all others.
        """
        # Before defaults are filled in: they would paint over what is wrong.
        view = project_pod(raw)
        if not view.problems:
            view = self._complete(raw)
        view, taken = self._identify(view, uid_of(raw))
        created = view.created if raw["metadata"].get("creationTimestamp") is not None else -inf
        gone = ("it is being deleted",) if view.deleted is not None and not view.node else ()
        return view._replace(created=created, problems=(*view.problems, *taken, *gone))

    def _complete(self, raw: Obj) -> PodView:
        pod = _with_label_keys(apply_defaults("Pod", raw))
        if pod["spec"].get("priority") is not None:
            return project_pod(pod)
        try:
            return project_pod(admit_new_pod(pod, self._classes))
        except ApiError as error:
            return project_pod(pod)._replace(problems=(error.message.partition("forbidden: ")[2],))

    def _identify(self, view: PodView, uid: str) -> tuple[PodView, tuple[str, ...]]:
        """The pod with a uid of its own. Two of one name, without uids to tell them apart, cannot both be there."""
        known = self._names.setdefault(uid, "")
        if not known:
            self._names[uid] = view.key
            return view._replace(uid=uid), ()
        if known != view.key:  # a manifest that was copied and renamed
            return self._identify(view, f"{uid}/{view.key}")
        self._copies += 1
        return view._replace(uid=f"{uid}#{self._copies}"), ("there is another pod of this name",)


def _with_label_keys(pod: Obj) -> Obj:
    """The pod with selectors where its affinity terms name keys of its own labels, as a server writes them."""
    labels = pod["metadata"].get("labels") or {}
    for term in _affinity_terms(pod["spec"]):
        selector = term.get("labelSelector")
        if isinstance(selector, dict) and ("matchLabelKeys" in term or "mismatchLabelKeys" in term):
            wanted = [
                *_wanted(term, "matchLabelKeys", "In", labels),
                *_wanted(term, "mismatchLabelKeys", "NotIn", labels),
            ]
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or []), *wanted]
    return pod


def _wanted(term: Obj, field: str, operator: str, labels: Obj) -> list[Obj]:
    keys = [key for key in term.get(field) or () if key in labels]
    return [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys]


def _affinity_terms(spec: Obj) -> Iterator[Obj]:
    """Every term about other pods; the spec has been read without a problem before."""
    affinity = spec.get("affinity") or {}
    for part in (affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}):
        yield from part.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        weighted = part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        yield from (one.get("podAffinityTerm") or {} for one in weighted)
