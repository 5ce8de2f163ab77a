"""What the kubelet is set to do about NUMA nodes, from its configuration files. Pure.

A file and, over it, those of a drop-in folder in the order of their paths: a later value replaces an earlier one, maps
are joined key by key. What none of them sets has the kubelet's default. Flags of its command line, which would beat
all of these, are not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

import yaml

from kubenexus.common import cpulist
from kubenexus.common.wire import KubeletSettings
from kubenexus.common.wire.kubelet import OPTIONS, CpuPolicy, MemoryPolicy, TopologyPolicy, TopologyScope, word_of

CONFIG: Final = "var/lib/kubelet/config.yaml"
KIND: Final = "KubeletConfiguration"
DROP_IN: Final = ".conf"
"""how the names of the files end that a kubelet reads from its drop-in folder"""
_OPTIONS: Final = ("topologyManagerPolicyOptions", "cpuManagerPolicyOptions")

Obj = dict[str, Any]
_Word = TypeVar("_Word", bound=StrEnum)


class UnreadableError(ValueError):
    """Why the kubelet's settings stay unknown."""


def read_settings(texts: Iterable[tuple[str, str]]) -> KubeletSettings:
    """What (name, text) pairs say, the file first and then the drop-ins; `UnreadableError` if one cannot be read."""
    merged: Obj = {}
    for name, text in texts:
        merged = _over(merged, _document(name, text))
    switched = [options for key in _OPTIONS if isinstance(options := merged.get(key), Mapping)]
    return KubeletSettings(
        _word(TopologyPolicy, merged, "topologyManagerPolicy", TopologyPolicy.NONE),
        _word(TopologyScope, merged, "topologyManagerScope", TopologyScope.CONTAINER),
        _word(CpuPolicy, merged, "cpuManagerPolicy", CpuPolicy.NONE),
        _word(MemoryPolicy, merged, "memoryManagerPolicy", MemoryPolicy.NONE),
        frozenset(name for one in switched for name in OPTIONS if str(one.get(name)).lower() == "true"),
        _reserved(merged.get("reservedSystemCPUs") or ""),
    )


def _reserved(value: object) -> tuple[int, ...]:
    try:
        return cpulist.parse(str(value))
    except cpulist.CpuListError as error:
        raise UnreadableError(f"reservedSystemCPUs is not a list of CPUs: {error}") from None


def _document(name: str, text: str) -> Obj:
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableError(f"{name} is neither YAML nor JSON: {' '.join(str(error).split())[:120]}") from None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise UnreadableError(f"{name} is no {KIND}")
    return found


def _over(below: Obj, above: Obj) -> Obj:
    """Two documents as a kubelet joins them."""
    joined = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(below.get(key), dict)
        joined[key] = _over(below[key], value) if both else value
    return joined


def _word(words: type[_Word], merged: Obj, key: str, default: _Word) -> _Word:
    text = merged.get(key) or default
    found = word_of(words, text)
    if found is None:
        raise UnreadableError(f"{key} is {str(text)[:40]!r}, which is none of {', '.join(words)}")
    return found
