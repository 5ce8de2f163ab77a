"""What the kubelet gave to each pod of a node, as JSON for one Node annotation: the agent writes, the scheduler reads.

    {"<pod uid>": {"cpus": "0-3,8", "gpus": [0, 1], "numa": [0]}}

A pod whose uid the agent could not find out goes by `namespace/name`. Pods that have nothing to themselves are not in
it, so that ordinary pods coming and going change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubenexus.common import cpulist
from kubenexus.common.wire.facts import MangledError


@dataclass(frozen=True, slots=True)
class Given:
    """What one pod has to itself."""

    cpus: tuple[int, ...]
    gpus: tuple[int, ...]
    numa: tuple[int, ...]


Allocations = Mapping[str, Given]


def encode_allocations(allocations: Allocations) -> str:
    """The value of the annotation: equal for equal allocations."""
    whole = {
        pod: {"cpus": cpulist.format_list(given.cpus), "gpus": given.gpus, "numa": given.numa}
        for pod, given in allocations.items()
    }
    return json.dumps(whole, sort_keys=True, separators=(",", ":"))


def decode_allocations(text: str) -> Allocations:
    """What the annotation says; `MangledError` if it is not exactly of this form, because half of it would mislead."""
    try:
        whole = json.loads(text)
        return {str(pod): _given(entry) for pod, entry in whole.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MangledError(f"it does not list what pods were given ({error})") from None


def _given(entry: Any) -> Given:
    return Given(cpulist.parse(entry["cpus"]), _numbers(entry["gpus"]), _numbers(entry["numa"]))


def _numbers(raw: Any) -> tuple[int, ...]:
    if isinstance(raw, list) and all(type(number) is int and 0 <= number < 1 << 16 for number in raw):
        return tuple(sorted(set(raw)))
    raise ValueError("a list of numbers is none")
