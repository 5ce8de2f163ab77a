"""Rules about single names and values: each name is known and stands where it is read, each value is well-formed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Final

from kubenexus.common import quantity
from kubenexus.common import vocabulary as v
from kubenexus.common.tenants import parse_tier
from kubenexus.webhook.claims import PLACED, written_by_scheduler
from kubenexus.webhook.findings import Finding, deny, warn
from kubenexus.webhook.subject import Subject

Parser = Callable[[str, str], object]

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LONGEST_MATCHED: Final = 100
_MOST_STRAYS: Final = 5
_EITHER: Final = ("label", "annotation")
_NAMES: Final = {name.key: name for name in v.NAMES}
_ON_PODS: Final[dict[str, tuple[str, ...]]] = {
    **{name.key: tuple(name.kind.split(" or ")) for name in v.NAMES if name.place in (v.Place.POD, v.Place.PLACED)},
    # These are read in both places, whatever they are documented as.
    **dict.fromkeys((v.GANG_NAME, v.GANG_MIN_AVAILABLE, v.GANG_INFER, v.GANG_GROUP, v.INJECT), _EITHER),
    **dict.fromkeys((v.TENANT_TIER, v.TENANT_NAME), ("label",)),
}
"""Every name that means something on a pod: what it may be there."""


def _parse_name(key: str, text: str) -> str:
    if not text or _NAME.fullmatch(text):
        return text  # without any, the rule about gangs has more to say
    why = "not a name: write at most 63 letters, digits, -, _ and ., with a letter or digit at both ends."
    raise v.VocabularyError(f"{key} is {_shown(text)}, which is {why}")


def _parse_amount(key: str, text: str) -> object:
    try:
        amount = quantity.parse(text)
    except quantity.QuantityError:
        amount = None
    if amount is None or amount <= 0:
        raise v.VocabularyError(f"{key} is {_shown(text)}, which is not an amount: write it as 2, 500m or 80Gi.")
    return amount


def _shown(text: str) -> str:
    return repr(text if len(text) <= 64 else text[:61] + "...")


_PARSERS: Final[dict[str, Parser]] = {
    v.GANG_NAME: _parse_name,
    v.GANG_MIN_AVAILABLE: v.parse_gang_size,
    v.GANG_TIMEOUT: v.parse_duration,
    v.GANG_INFER: v.parse_bool,
    v.GANG_GROUP: _parse_name,
    v.NUMA_POLICY: v.parse_numa_policy,
    v.NUMA_POLICY_ALIAS: v.parse_numa_policy,
    v.NUMA_RESOURCES: v.parse_names,
    v.GANG_NUMA_SPREAD: partial(v.parse_choice, v.GangNumaSpread),
    v.MEMORY_INTENSIVE: v.parse_bool,
    v.NUMA_DISTANCE_WEIGHT: partial(v.parse_int, low=0, high=100),
    v.VRAM_REQUEST: _parse_amount,
    v.VRAM_REQUEST_ALIAS: _parse_amount,
    v.MIN_FABRIC_TIER: partial(v.parse_choice, v.FabricTier),
    v.CO_LOCATE: partial(v.parse_choice, v.CoLocate),
    v.REQUIRE_CLIQUE: v.parse_bool,
    v.NETWORK_SENSITIVE: v.parse_bool,
    v.WORKLOAD_TYPE: partial(v.parse_choice, v.WorkloadType),
    v.PREEMPTIBLE: v.parse_bool,
    v.BACKFILL: v.parse_bool,
    v.EXPECTED_DURATION: v.parse_duration,
    v.SPREAD_ZONES: v.parse_bool,
    v.EXECUTOR_COUNT: partial(v.parse_int, low=0, high=v.MAX_GANG_SIZE),
    v.EXECUTOR_CPU: _parse_amount,
    v.EXECUTOR_MEMORY: _parse_amount,
    v.INJECT: partial(v.parse_choice, v.Inject),
    v.TENANT_TIER: parse_tier,
}


def grammar(pod: Subject) -> Iterator[Finding]:
    """Every value that is read can be read."""
    for key, text in _written(pod):
        if parse := _PARSERS.get(key):
            try:
                parse(key, text)
            except v.VocabularyError as error:
                yield deny("value", str(error))


def _written(pod: Subject) -> Iterator[tuple[str, str]]:
    """Names and values where they are read. A tier is a claim wherever it stands."""
    for kind, values in (("label", pod.facts.labels), ("annotation", pod.facts.annotations)):
        for key, text in values.items():
            if key == v.TENANT_TIER or kind in _ON_PODS.get(key, ()):
                yield key, text


def names(pod: Subject) -> Iterator[Finding]:
    """Every name of ours is known, and stands where it is read; the first few that are not are told."""
    for key, kind in islice(_strays(pod), _MOST_STRAYS):
        yield warn("name", _astray(key, kind))


def _strays(pod: Subject) -> Iterator[tuple[str, str]]:
    for kind, values in (("label", pod.facts.labels), ("annotation", pod.facts.annotations)):
        yield from ((key, kind) for key in values if _is_ours(key) and kind not in _ON_PODS.get(key, ()))


def _is_ours(key: str) -> bool:
    return f".{key.partition('/')[0]}".endswith(f".{v.DOMAIN}")


def _astray(key: str, kind: str) -> str:
    if key in PLACED:
        return written_by_scheduler(key)
    if key in _ON_PODS:
        other = "label" if kind == "annotation" else "annotation"
        return f"{key} is not read as {kind}: make it {'an' if other == 'annotation' else 'a'} {other}."
    if known := _NAMES.get(key):
        return f"{key} does nothing on a pod: it is a {known.kind}."
    near = difflib.get_close_matches(key, _ON_PODS, 1, 0.8) if len(key) <= _LONGEST_MATCHED else []
    return (
        f"{key} is not known: did you mean {near[0]}?" if near else f"{key} is not known and does nothing: remove it."
    )
