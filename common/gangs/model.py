"""What goes into the resolver and what comes out of it: plain values, no decisions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Obj = dict[str, Any]

_REFERENCE = ("apiVersion", "kind", "name", "uid")


# --- In --------------------------------------------------------------------------------------------------------------


class OwnerRef(NamedTuple):
    """Which object is meant. `uid` is empty where it is known by name only, as a PodGroup is."""

    api_version: str
    kind: str
    name: str
    uid: str = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Owners(Protocol):
    """Read-only look-up of what stands behind pods: their owners, PodGroups, PodGangs."""

    def get(self, api_version: str, kind: str, namespace: str, name: str, uid: str) -> Obj | None:
        """The object as JSON, or None while it is not known. An empty `uid` asks for whatever has that name."""
        ...


def controller_of(obj: object) -> OwnerRef | None:
    """The controller in an object's ownerReferences; other owners keep it from deletion but do not make its pods."""
    references = _mapping(_mapping(obj).get("metadata")).get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        texts = _texts(reference)
        if _mapping(reference).get("controller") is True and all(texts.get(key) for key in _REFERENCE):
            return OwnerRef(*(texts[key] for key in _REFERENCE))
    return None


@dataclass(frozen=True, slots=True)
class PodFacts:
    """All that the resolver reads of a pod: what it has at admission, before it has a uid or even a name."""

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: OwnerRef | None = None
    scheduling_group: str = ""

    @classmethod
    def from_json(cls, pod: object, namespace: str = "") -> PodFacts:
        """From a raw pod, of any shape; `namespace` is that of the request, for a pod that does not say."""
        metadata = _mapping(_mapping(pod).get("metadata"))
        own = metadata.get("namespace")
        group = _mapping(_mapping(_mapping(pod).get("spec")).get("schedulingGroup")).get("podGroupName")
        return cls(
            namespace=own if isinstance(own, str) and own else namespace,
            labels=_texts(metadata.get("labels")),
            annotations=_texts(metadata.get("annotations")),
            owner=controller_of(pod),
            scheduling_group=group if isinstance(group, str) else "",
        )

    def text(self, key: str) -> str | None:
        """The value of a label, else of the annotation of that name: users write either."""
        return self.labels.get(key, self.annotations.get(key))


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> dict[str, str]:
    return {key: text for key, text in _mapping(value).items() if isinstance(text, str)}


# --- Out -------------------------------------------------------------------------------------------------------------


class GangKey(NamedTuple):
    """What members of one gang have in common. `id` is a valid label value, the same with and without the webhook."""

    namespace: str
    id: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.id}"


@dataclass(frozen=True, slots=True)
class Phase:
    """Who comes first when the rest is created only later: `members` pods of `role`."""

    role: str
    members: int


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room to hold for `count` pods of `gang` that do not exist yet.

    `requests` is what each will ask for (milli-CPU, else whole units); without an entry it is unknown.
    """

    gang: GangKey
    count: int
    requests: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Gang:
    """The pod is a member of this gang. A gang of one never waits, but still has an identity."""

    key: GangKey
    name: str  # for people
    min_available: int
    source: str  # the dialect, or the kind whose rule applied
    owner_uid: str = ""
    role: str | None = None  # which kind of member this pod is: worker, launcher, a replicatedJob, a Ray group
    replica: str | None = None  # which copy of that role it belongs to
    first: Phase | None = None
    reserve: Reservation | None = None

    @property
    def label_value(self) -> str:
        return self.key.id


@dataclass(frozen=True, slots=True)
class Single:
    """The pod stands alone; `source` says by which rule."""

    source: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The answer is in an object that is not known yet: the webhook admits, the scheduler decides how long it waits."""

    owner: OwnerRef

    @property
    def reason(self) -> str:
        return f"its gang is described by {self.owner}, which is not known (yet)"


@dataclass(frozen=True, slots=True)
class Invalid:
    """What is declared cannot be meant; `reason` is a sentence for its author."""

    reason: str


Resolution = Gang | Single | Waiting | Invalid


_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def label_value(text: str) -> str:
    """`text` where it is a valid label value, else the readable start of it and a digest of all of it."""
    if _LABEL_VALUE.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    start = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:50].strip("._-")
    return f"{start}-{digest}" if start else digest


# --- Together --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quorum:
    """What a whole gang needs, from what its members say."""

    min_available: int
    first: Phase | None = None
    warnings: tuple[str, ...] = ()

    def needed(self, placed: Mapping[str, int]) -> int:
        """How many members must have a node together, given how many of each role have one."""
        if self.first and placed.get(self.first.role, 0) < self.first.members:
            return self.first.members
        return self.min_available


def combine(members: Iterable[Gang]) -> Quorum:
    """The quorum of the members of one gang, at least one; where they disagree on its size, the largest counts."""
    gangs = list(members)
    sizes = sorted({gang.min_available for gang in gangs})
    first = next((gang.first for gang in gangs if gang.first), None)
    if len(sizes) == 1:
        return Quorum(sizes[0], first)
    shown = ", ".join(map(str, sizes[:-1]))
    warning = (
        f"Members of gang {gangs[0].key} disagree on its size ({shown} and {sizes[-1]}): {sizes[-1]} counts; "
        "give all members the same."
    )
    return Quorum(sizes[-1], first, (warning,))
