"""What a kubelet is set to do about NUMA nodes ↔ Node labels: the agent writes them, or people by hand.

The values are the words of the kubelet's own configuration. A setting that is unknown has no label; a value that is no
word of the kubelet's is as good as none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from kubenexus.common import vocabulary as v
from kubenexus.common.cpulist import CpuListError, encode_label, parse


class TopologyPolicy(StrEnum):
    """`topologyManagerPolicy`"""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class TopologyScope(StrEnum):
    """`topologyManagerScope`"""

    CONTAINER = "container"
    POD = "pod"


class CpuPolicy(StrEnum):
    """`cpuManagerPolicy`"""

    NONE = "none"
    STATIC = "static"


class MemoryPolicy(StrEnum):
    """`memoryManagerPolicy`"""

    NONE = "None"
    STATIC = "Static"


MAX_LABEL: Final = 63
CLOSEST: Final = "prefer-closest-numa-nodes"
FULL_CORES: Final = "full-pcpus-only"
OPTIONS: Final = frozenset((CLOSEST, FULL_CORES))
"""those that decide which pods a kubelet refuses, and where it puts them"""


class KubeletSettings(NamedTuple):
    """None where nobody knows. `options` are those that are on."""

    policy: TopologyPolicy | None = None
    scope: TopologyScope | None = None
    cpu: CpuPolicy | None = None
    memory: MemoryPolicy | None = None
    options: frozenset[str] = frozenset()
    reserved: tuple[int, ...] = ()
    """the CPUs that no pod gets to itself, if they are named"""

    @property
    def strict(self) -> bool:
        """Whether it refuses pods that do not get what they ask for from the NUMA nodes that it prefers."""
        return self.policy in (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)

    @property
    def may_refuse(self) -> bool:
        return self.strict or FULL_CORES in self.options


UNTOLD: Final = KubeletSettings()
_Word = TypeVar("_Word", bound=StrEnum)


def encode_kubelet(settings: KubeletSettings) -> dict[str, str]:
    """The labels of all that is known; a list of CPUs that is too long for one is left out."""
    reserved = encode_label(settings.reserved)
    words = {
        v.KUBELET_POLICY: settings.policy,
        v.KUBELET_SCOPE: settings.scope,
        v.KUBELET_CPU: settings.cpu,
        v.KUBELET_MEMORY: settings.memory,
        v.KUBELET_OPTIONS: "_".join(sorted(settings.options)),
        v.KUBELET_RESERVED: reserved if len(reserved) <= MAX_LABEL else "",
    }
    return {key: str(word) for key, word in words.items() if word}


def decode_kubelet(labels: Mapping[str, str]) -> KubeletSettings:
    """What labels say. Options are separated by whatever a label may contain and a name of an option does not."""
    options = frozenset(re.split(r"[_.]", labels.get(v.KUBELET_OPTIONS, "")))
    return KubeletSettings(
        word_of(TopologyPolicy, labels.get(v.KUBELET_POLICY)),
        word_of(TopologyScope, labels.get(v.KUBELET_SCOPE)),
        word_of(CpuPolicy, labels.get(v.KUBELET_CPU)),
        word_of(MemoryPolicy, labels.get(v.KUBELET_MEMORY)),
        options & OPTIONS,
        _cpus(labels.get(v.KUBELET_RESERVED, "")),
    )


def _cpus(text: str) -> tuple[int, ...]:
    try:
        return parse(text)
    except CpuListError:
        return ()


def word_of(words: type[_Word], text: object) -> _Word | None:
    """The word that a text is; None if it is none of them."""
    return next((word for word in words if word == text), None)
