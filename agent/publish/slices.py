"""What has to happen so that a node's ResourceSlices of our driver are the wanted ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubenexus.common.vocabulary import TOPOLOGY_HASH_LABEL

Obj = dict[str, Any]

# What a slice may never change; one that differs in it has to go before the new one comes.
_FIXED = ("driver", "nodeName")


@dataclass(frozen=True, slots=True)
class Create:
    slice: Obj


@dataclass(frozen=True, slots=True)
class Replace:
    """Put this in place of what is there; its resourceVersion makes that fail should anybody have been faster."""

    slice: Obj


@dataclass(frozen=True, slots=True)
class Delete:
    name: str
    uid: str


Change = Create | Replace | Delete


@dataclass(frozen=True, slots=True)
class Echo:
    """A slice as it was sent, and as the server keeps it where that is not the same (an older one drops taints)."""

    sent: Obj
    kept: Obj


def plan(
    wanted: Sequence[Obj], live: Iterable[Obj], generations: Mapping[str, int], echoes: Mapping[str, Echo]
) -> list[Change]:
    """The changes that lead from the live slices to the wanted ones; none where they say the same.

    `generations` is the highest one seen of each pool: new content continues above it, also after a slice was wiped.
    A new owner, hash or taint is no new content.
    """
    existing = {slice_["metadata"]["name"]: slice_ for slice_ in live}
    changes: list[Change] = []
    for want in wanted:
        name = want["metadata"]["name"]
        have = existing.pop(name, None)
        if have and _fixed(have) != _fixed(want):
            changes.append(Delete(name, have["metadata"]["uid"]))
            have = None
        last = max(generations.get(pool_name(want), 0), generation(have) if have else 0)
        if have is None:
            changes.append(Create(_numbered(want, last + 1)))
        elif not _is_current(want, have, echoes.get(name)):
            number = generation(have) if _devices(want) == _devices(have) else last + 1
            changes.append(Replace(_replacement(_numbered(want, number), have)))
    strays = (Delete(name, slice_["metadata"]["uid"]) for name, slice_ in sorted(existing.items()))
    return [*strays, *changes]


def meaning(slice_: Obj) -> Obj:
    """What a slice says, without what the server or the planner adds: versions, generation, times."""
    metadata, spec = slice_["metadata"], slice_["spec"]
    taints = [device.get("taints") or () for device in spec.get("devices") or ()]
    return {
        "hash": (metadata.get("labels") or {}).get(TOPOLOGY_HASH_LABEL),
        "owners": [owner.get("uid") for owner in metadata.get("ownerReferences") or ()],
        "pool": (pool_name(slice_), spec["pool"].get("resourceSliceCount")),
        "devices": _devices(slice_),
        "taints": [[(taint.get("key"), taint.get("effect")) for taint in some] for some in taints],
    }


def generation(slice_: Obj) -> int:
    return int(slice_["spec"]["pool"].get("generation") or 0)


def pool_name(slice_: Obj) -> str:
    return str(slice_["spec"]["pool"]["name"])


def taints_dropped(echo: Echo) -> bool:
    """The server keeps the devices but not their taints: it is older than these are."""
    sent, kept = meaning(echo.sent), meaning(echo.kept)
    return bool(sent["devices"] == kept["devices"] and sent["taints"] != kept["taints"])


def _is_current(want: Obj, have: Obj, echo: Echo | None) -> bool:
    if meaning(want) == meaning(have):
        return True
    return echo is not None and (meaning(want), meaning(have)) == (meaning(echo.sent), meaning(echo.kept))


def _devices(slice_: Obj) -> list[Obj]:
    """The content of a slice: its devices without their taints."""
    devices = slice_["spec"].get("devices") or ()
    return [{key: value for key, value in device.items() if key != "taints"} for device in devices]


def _fixed(slice_: Obj) -> tuple[Any, ...]:
    return (*(slice_["spec"].get(field) for field in _FIXED), pool_name(slice_))


def _numbered(slice_: Obj, number: int) -> Obj:
    spec = slice_["spec"]
    return {**slice_, "spec": {**spec, "pool": {**spec["pool"], "generation": number}}}


def _replacement(want: Obj, have: Obj) -> Obj:
    """`want` under the identity of `have`; labels and annotations that others put on it stay."""
    labels = {**(have["metadata"].get("labels") or {}), **want["metadata"]["labels"]}
    metadata = {**have["metadata"], "labels": labels, "ownerReferences": want["metadata"]["ownerReferences"]}
    return {**want, "metadata": metadata}
