"""What all objects have: name, version, labels, the annotations that mean something to us, and their owner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from kubenexus.common import gangs, vocabulary
from kubenexus.common.objects.interning import Labels, share
from kubenexus.common.objects.reading import DEFAULT_NAMESPACE, Fields


class Owner(NamedTuple):
    """The controller that made an object."""

    api_version: str
    kind: str
    name: str
    uid: str


class Meta(NamedTuple):
    """An object's metadata. Times are seconds since 1970; `namespace` is empty for what has none.

    The resourceVersion is left out on purpose: views are equal when nothing that matters has changed.
    """

    namespace: str
    name: str
    uid: str
    created: float
    deleted: float | None
    labels: Labels
    annotations: Labels
    owner: Owner | None


@dataclass(frozen=True, slots=True)
class View:
    """An object as we keep it. `problems` names the fields that could not be read and were taken as absent."""

    meta: Meta
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.meta.name

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone."""
        return f"{self.meta.namespace}/{self.meta.name}" if self.meta.namespace else self.meta.name


def read_meta(meta: Fields, *, namespaced: bool = False) -> Meta:
    return Meta(
        namespace=share(meta.text("namespace") or DEFAULT_NAMESPACE) if namespaced else "",
        name=meta.text("name"),
        uid=meta.text("uid"),
        created=meta.time("creationTimestamp") or 0.0,
        deleted=meta.time("deletionTimestamp"),
        labels=meta.labels("labels"),
        annotations=meta.labels("annotations", is_read),
        owner=read_owner(meta),
    )


@lru_cache(maxsize=4096)
def is_read(key: str) -> bool:
    """Whether an annotation of this key means anything to us; the others are not kept."""
    prefix = str(key).partition("/")[0]
    return f".{prefix}".endswith(f".{vocabulary.DOMAIN}") or key in gangs.ANNOTATIONS


_owner = lru_cache(maxsize=4096)(Owner)  # one object for equal owners of many pods


def read_owner(meta: Fields) -> Owner | None:
    """The controller among the owners."""
    for raw in meta.items("ownerReferences"):
        if type(raw) is dict and raw.get("controller") is True:
            one = Fields(raw, meta.problems, meta, "ownerReferences")
            return _owner(one.text("apiVersion"), one.text("kind"), one.text("name"), one.text("uid"))
    return None
