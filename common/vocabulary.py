"""Every name KubeNexus puts on, or reads from, Kubernetes objects, and the strict parsers of their values.

A name is declared once, by the function of the place where it stands, with its values and meaning; `docs/labels.md` is
generated from these declarations. Parsers raise `VocabularyError`, whose text says what, why and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

DOMAIN: Final = "kubenexus.io"
SCHEDULER_NAME: Final = "kubenexus-scheduler"
SYSTEM_NAMESPACE: Final = "kubenexus-system"
CONFIG_API_VERSION: Final = f"{DOMAIN}/v1alpha1"


class VocabularyError(ValueError):
    """A value that is not in the vocabulary; its text is one sentence for the person who wrote it."""


def _refusal(key: str, text: str, why: str) -> VocabularyError:
    shown = text if len(text) <= 64 else text[:61] + "..."
    return VocabularyError(f"{key} is {shown!r}, which is {why}")


class Place(StrEnum):
    """Where a name stands and who writes it; the order is that of the generated page."""

    POD = "On pods, by users"
    CLUSTER = "On namespaces and nodes, by administrators"
    NODE = "On nodes, by the agent"
    PLACED = "Where things landed"
    OTHER = "Elsewhere"


@dataclass(frozen=True, slots=True)
class Name:
    """One documented name. A `*` in `key` stands for a number or a word that varies."""

    key: str
    place: Place
    kind: str
    values: str
    meaning: str


NAMES: list[Name] = []


def _declarer(place: Place, kind: str) -> Callable[[str, str, str], str]:
    def declare(key: str, values: str, meaning: str) -> str:
        NAMES.append(Name(key, place, kind, values, meaning))
        return key

    return declare


_pod_label = _declarer(Place.POD, "label")
_pod_note = _declarer(Place.POD, "annotation")
_pod_either = _declarer(Place.POD, "label or annotation")
_namespace_label = _declarer(Place.CLUSTER, "namespace label")
_namespace_note = _declarer(Place.CLUSTER, "namespace annotation")
_admin_node_label = _declarer(Place.CLUSTER, "node label")
_node_label = _declarer(Place.NODE, "label")
_node_note = _declarer(Place.NODE, "annotation")
_placed_note = _declarer(Place.PLACED, "annotation")
_other = _declarer(Place.OTHER, "name")

# --- On pods, by users -----------------------------------------------------------------------------------------------

GANG_NAME = _pod_label(f"pod-group.scheduling.{DOMAIN}/name", "name", "gang, within the namespace")
GANG_MIN_AVAILABLE = _pod_label(
    f"pod-group.scheduling.{DOMAIN}/min-available",
    "int ≥ 1",
    "members that must be placed together; as annotation of a Job or StatefulSet: its gang's size",
)
GANG_TIMEOUT = _pod_note(
    f"pod-group.scheduling.{DOMAIN}/timeout", "duration (`10m`)", "how long an incomplete gang is waited for"
)
GANG_INFER = _pod_note(
    f"pod-group.scheduling.{DOMAIN}/infer", "bool", "`false` on a pod or its owner: no gang is inferred from the owner"
)
GANG_INFERRED_FROM = _pod_note(
    f"pod-group.scheduling.{DOMAIN}/inferred-from",
    "`rule/owner-uid`",
    "by the webhook: name and size come from the owner, which is asked again when the gang is placed",
)
GANG_DISPLAY_NAME = _pod_note(
    f"pod-group.scheduling.{DOMAIN}/display-name", "text", "by the webhook: the inferred gang in words"
)
INJECTED = _pod_note(f"scheduling.{DOMAIN}/injected", "text", "by the webhook: what it set, and why")
GANG_GROUP = _pod_note(f"scheduling.{DOMAIN}/gang-group", "name", "gang, as an annotation (read only)")
NUMA_POLICY = _pod_note(
    f"numa.scheduling.{DOMAIN}/policy",
    "`best-effort` `restricted` `single-numa` `isolated` `none`",
    "how strictly the pod's resources must share NUMA nodes",
)
NUMA_POLICY_ALIAS = _pod_note(
    f"scheduling.{DOMAIN}/numa-policy", "as above, or `single-numa-node`", "alias (read only)"
)
NUMA_RESOURCES = _pod_note(
    f"numa.scheduling.{DOMAIN}/resources", "comma list", "resources that must align; default `cpu,memory` and GPUs"
)
NUMA_AFFINITY = _pod_note(f"scheduling.{DOMAIN}/numa-affinity-node-id", "comma ints", "preferred NUMA ids of each node")
NUMA_ANTI_AFFINITY = _pod_note(
    f"scheduling.{DOMAIN}/numa-anti-affinity-node-id", "comma ints", "avoided NUMA ids of each node"
)
GANG_NUMA_SPREAD = _pod_note(
    f"scheduling.{DOMAIN}/gang-numa-spread",
    "`packed` `balanced` `isolated`",
    "how gang members share (node, NUMA) pairs",
)
MEMORY_INTENSIVE = _pod_note(
    f"scheduling.{DOMAIN}/memory-intensive", "bool", "weigh memory bandwidth; default: > 16 GiB and > 4 GiB per core"
)
NUMA_DISTANCE_WEIGHT = _pod_note(
    f"scheduling.{DOMAIN}/numa-distance-weight", "0–100, 50 neutral", "how much NUMA distance counts"
)
VRAM_REQUEST = _pod_note(f"scheduling.{DOMAIN}/vram-request", "quantity", "GPU memory the pod needs in total")
VRAM_REQUEST_ALIAS = _pod_label(f"vram.scheduling.{DOMAIN}/required", "quantity", "alias (read only)")
MIN_FABRIC_TIER = _pod_note(
    f"scheduling.{DOMAIN}/min-fabric-tier",
    "`nvswitch` `nvlink` `infiniband` `roce` `ethernet`",
    "slowest fabric the pod accepts",
)
CO_LOCATE = _pod_note(f"scheduling.{DOMAIN}/co-locate", "`strict` `preferred` `none`", "gang in one fabric domain")
REQUIRE_CLIQUE = _pod_note(f"scheduling.{DOMAIN}/require-clique", "bool", "whole gang inside one NVLink clique")
NETWORK_SENSITIVE = _pod_note(f"scheduling.{DOMAIN}/network-sensitive", "bool", "doubles the weight of fabric locality")
WORKLOAD_TYPE = _pod_either(
    f"workload.{DOMAIN}/type",
    "`training` `inference` `batch` `service` `interactive`",
    "overrides the classification",
)
PREEMPTIBLE = _pod_label(
    f"workload.{DOMAIN}/preemptible", "bool", "may be preempted for equal priority; unset means no"
)
BACKFILL = _pod_label(f"scheduling.{DOMAIN}/backfill", "bool", "may use idle reserved capacity, given back on demand")
EXPECTED_DURATION = _pod_note(
    f"scheduling.{DOMAIN}/expected-duration", "duration", "for backfill; else `activeDeadlineSeconds`"
)
SPREAD_ZONES = _pod_note(f"topology.{DOMAIN}/spread-zones", "bool", "spread this owner's pods over zones")
EXECUTOR_COUNT = _pod_note(f"scheduling.{DOMAIN}/executor-count", "int", "Spark driver: executors to hold room for")
EXECUTOR_CPU = _pod_note(f"scheduling.{DOMAIN}/executor-cpu", "quantity", "Spark driver: CPU of each executor")
EXECUTOR_MEMORY = _pod_note(f"scheduling.{DOMAIN}/executor-memory", "quantity", "Spark driver: memory of each executor")
SIMULATED_RUN_TIME = _pod_note(
    f"simulate.{DOMAIN}/run-time", "seconds", "how long the pod runs in `kubenexus simulate` and in the sandbox"
)

# --- On namespaces and nodes, by administrators ----------------------------------------------------------------------

TENANT_TIER = _namespace_label(
    f"tenant.{DOMAIN}/tier",
    "`gold` `silver` `bronze`",
    "the only source of a tenant's tier; a pod label of this key may lower it",
)
TENANT_NAME = _namespace_label(f"tenant.{DOMAIN}/name", "name", "tenant in metrics and fairness; default: namespace")
INJECT = _namespace_label(
    f"scheduling.{DOMAIN}/inject", "`enabled`", "the webhook completes the pods here; `disabled` on a pod: not this one"
)
DEFAULT_NUMA_POLICY = _namespace_note(f"scheduling.{DOMAIN}/default-numa-policy", "NUMA policy", "namespace default")
DEFAULT_WORKLOAD_TYPE = _namespace_note(
    f"scheduling.{DOMAIN}/default-workload-type", "workload type", "namespace default"
)
PRIORITY_OFFSET = _namespace_note(
    f"scheduling.{DOMAIN}/priority-offset", "int, ±1000", "added to pod priorities, never into the system range"
)
GPU_QUOTA = _namespace_note(
    f"scheduling.{DOMAIN}/gpu-quota", "int", "most GPUs held at once by the namespace's pods that KubeNexus placed"
)
RESERVED_TIER = _admin_node_label(
    f"tenant.{DOMAIN}/reserved-tier", "tier or `none`", "node takes that tier and above, or preemptible backfill"
)
HARDWARE_TIER = _admin_node_label(
    f"hardware.{DOMAIN}/tier", "`premium` `standard` `economy`", "else derived from the GPU model table"
)
FABRIC_TYPE = _admin_node_label(f"network.{DOMAIN}/fabric-type", "fabric tier", "fabric between nodes")
FABRIC_ID = _admin_node_label(f"network.{DOMAIN}/fabric-id", "name", "which fabric")
RACK_ID = _admin_node_label(f"network.{DOMAIN}/rack-id", "name", "which rack")
AVAILABILITY_ZONE = _admin_node_label(f"network.{DOMAIN}/az", "name", "zone; default `topology.kubernetes.io/zone`")

# --- On nodes, by the agent ------------------------------------------------------------------------------------------

NUMA_PREFIX: Final = f"numa.{DOMAIN}/"
GPU_PREFIX: Final = f"gpu.{DOMAIN}/"

NUMA_NODE_COUNT = _node_label(f"{NUMA_PREFIX}node-count", "`2`", "NUMA nodes with CPUs")
NUMA_NODE_IDS = _node_label(f"{NUMA_PREFIX}node-ids", "`0_8`", "their kernel ids")
NUMA_MEMORY_NODE_IDS = _node_label(f"{NUMA_PREFIX}memory-node-ids", "`250-255`", "nodes without CPUs, GPU memory too")
THREADS_PER_CORE = _node_label(f"{NUMA_PREFIX}threads-per-core", "int", "hardware threads of a core")
L3_COUNT = _node_label(f"{NUMA_PREFIX}l3-count", "int", "L3 cache domains")
SNC = _node_label(f"{NUMA_PREFIX}snc", "int", "CPU nodes per package; absent when 1")
_node_label(f"{NUMA_PREFIX}node-*-cpus", "`0-15_32-47`", "CPUs of a NUMA node")
_node_label(f"{NUMA_PREFIX}node-*-cpu-count", "`32`", "their number")
_node_label(f"{NUMA_PREFIX}node-*-memory", "bytes", "memory of a NUMA node")
_node_label(f"{NUMA_PREFIX}node-*-bandwidth", "MB/s", "read bandwidth, only where the firmware tells it")
_node_label(f"{NUMA_PREFIX}node-*-latency", "ns", "read latency, only where the firmware tells it")
_node_label(f"{NUMA_PREFIX}node-*-hugepages-2Mi", "pages", "only if > 0")
_node_label(f"{NUMA_PREFIX}node-*-hugepages-1Gi", "pages", "only if > 0")
_node_label(f"{NUMA_PREFIX}node-*-distance-*", "int", "distance between two CPU nodes, while there are at most 8")
KUBELET_POLICY = _node_label(f"{NUMA_PREFIX}kubelet-policy", "`restricted`", "the kubelet's `topologyManagerPolicy`")
KUBELET_SCOPE = _node_label(f"{NUMA_PREFIX}kubelet-scope", "`container` `pod`", "the kubelet's `topologyManagerScope`")
KUBELET_CPU = _node_label(f"{NUMA_PREFIX}kubelet-cpu-policy", "`static`", "the kubelet's `cpuManagerPolicy`")
KUBELET_MEMORY = _node_label(f"{NUMA_PREFIX}kubelet-memory-policy", "`Static`", "the kubelet's `memoryManagerPolicy`")
KUBELET_RESERVED = _node_label(f"{NUMA_PREFIX}kubelet-reserved-cpus", "`0-1_64-65`", "its `reservedSystemCPUs`")
KUBELET_OPTIONS = _node_label(f"{NUMA_PREFIX}kubelet-options", "words joined by `_`", "which options of these are on")

GPU_COUNT = _node_label(f"{GPU_PREFIX}count", "`8`", "usable GPUs")
GPU_LOST = _node_label(f"{GPU_PREFIX}lost", "int", "GPUs that fell off the bus; only if > 0")
GPU_MODEL = _node_label(f"{GPU_PREFIX}model", "`NVIDIA-H100-80GB-HBM3`", "model")
GPU_VRAM = _node_label(f"{GPU_PREFIX}vram", "bytes", "memory of each GPU")
GPU_DRIVER = _node_label(f"{GPU_PREFIX}driver", "version", "driver version")
GPU_NVLINK = _node_label(f"{GPU_PREFIX}nvlink", "`nvswitch` `mesh` `pairs` `none`", "how NVLink joins the GPUs")
GPU_ISLAND_COUNT = _node_label(f"{GPU_PREFIX}nvlink-island-count", "int", "sets of GPUs joined by NVLink")
GPU_CLIQUE = _node_label(f"{GPU_PREFIX}clique", "`uuid.id`", "NVLink fabric clique over several nodes")
GPU_TOPOLOGY = _node_label(f"{GPU_PREFIX}topology", "`nvswitch` `nvlink` `pcie`", "what fragmentation scoring reads")
GPU_STALE = _node_label(f"{GPU_PREFIX}stale", "`true`", "the GPU facts here are old: the last probes failed")
_node_label(f"{GPU_PREFIX}gpu*-numa", "`0`", "NUMA node of a GPU")
_node_label(f"{GPU_PREFIX}numa-node-*", "`0`", "alias of `gpu*-numa` (read only)")
TOPOLOGY_HASH_LABEL = _node_label(
    f"{DOMAIN}/topology-hash", "12 hex digits", "the same in labels, annotation and slices of one state"
)
TOPOLOGY_SNAPSHOT = _node_note(f"topology.{DOMAIN}/snapshot", "compact JSON", "the whole topology, without DRA")
ALLOCATIONS = _node_note(
    f"topology.{DOMAIN}/allocations",
    "compact JSON",
    "pod uid (or namespace/name) → what the kubelet gave: NUMA ids, GPUs, CPUs",
)


def numa_node_label(numa_id: int, fact: str) -> str:
    """The label of one fact (`cpus`, `memory`, `distance-1`, …) of one NUMA node."""
    return f"{NUMA_PREFIX}node-{numa_id}-{fact}"


def gpu_numa_label(index: int) -> str:
    return f"{GPU_PREFIX}gpu{index}-numa"


def gpu_numa_alias(index: int) -> str:
    return f"{GPU_PREFIX}numa-node-{index}"


# --- Where things landed ---------------------------------------------------------------------------------------------

NUMA_ASSIGNED = _placed_note(f"numa.scheduling.{DOMAIN}/assigned", "`0` or `0,1`", "NUMA nodes chosen for the pod")
GPU_ASSIGNED = _placed_note(f"gpu.scheduling.{DOMAIN}/assigned", "`0,1,2,3`", "GPU indices chosen for the pod")
TOPOLOGY_HASH = _placed_note(
    f"scheduling.{DOMAIN}/topology-hash", "12 hex digits", "the topology that the choice was made on"
)

# --- Elsewhere -------------------------------------------------------------------------------------------------------

DRA_DRIVER = _other(f"topology.{DOMAIN}", "ResourceSlice driver", "driver of the pools `<node>/numa`, `/gpu`, `/nic`")
INFORMATIONAL_TAINT = _other(
    f"topology.{DOMAIN}/informational", "device taint", "on every device: slices describe, they are not for claims"
)
LEASE_NAME: Final = SCHEDULER_NAME
ZONE: Final = "topology.kubernetes.io/zone"
NVIDIA_CLIQUE: Final = "nvidia.com/gpu.clique"  # GPU Feature Discovery's name of what we publish as `GPU_CLIQUE`
GPU_RESOURCES: Final = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
"""Extended resources that count whole GPUs."""
AGENT_NUMA_MANAGER: Final = "kubenexus-agent-numa"
AGENT_GPU_MANAGER: Final = "kubenexus-agent-gpu"


# --- Values ----------------------------------------------------------------------------------------------------------


class NumaPolicy(StrEnum):
    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA = "single-numa"
    ISOLATED = "isolated"


class GangNumaSpread(StrEnum):
    PACKED = "packed"
    BALANCED = "balanced"
    ISOLATED = "isolated"


class FabricTier(StrEnum):
    """Fastest first."""

    NVSWITCH = "nvswitch"
    NVLINK = "nvlink"
    INFINIBAND = "infiniband"
    ROCE = "roce"
    ETHERNET = "ethernet"


class CoLocate(StrEnum):
    STRICT = "strict"
    PREFERRED = "preferred"
    NONE = "none"


class WorkloadType(StrEnum):
    TRAINING = "training"
    INFERENCE = "inference"
    BATCH = "batch"
    SERVICE = "service"
    INTERACTIVE = "interactive"


class Tier(StrEnum):
    """Highest first."""

    GOLD = "gold"
    SILVER = "silver"
    BRONZE = "bronze"


class Inject(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"


class HardwareTier(StrEnum):
    PREMIUM = "premium"
    STANDARD = "standard"
    ECONOMY = "economy"


_Choice = TypeVar("_Choice", bound=StrEnum)


def parse_choice(choices: type[_Choice], key: str, text: str) -> _Choice:
    """The member of an enum that `text` names; `key` is only for the error."""
    try:
        return choices(text)
    except ValueError:
        raise _refusal(key, text, f"not known: use one of {', '.join(choices)}.") from None


def parse_numa_policy(key: str, text: str) -> NumaPolicy:
    return parse_choice(NumaPolicy, key, "single-numa" if text == "single-numa-node" else text)


def parse_bool(key: str, text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    raise _refusal(key, text, "neither true nor false: write one of these two words.")


def _integer(text: str, low: int, high: int) -> int | None:
    number = int(text) if re.fullmatch(r"-?[0-9]{1,10}", text) else None
    return number if number is not None and low <= number <= high else None


def parse_int(key: str, text: str, low: int, high: int) -> int:
    """A plain decimal number between two bounds, both allowed."""
    number = _integer(text, low, high)
    if number is None:
        problem = "not in range" if re.fullmatch(r"-?[0-9]+", text) else "not a whole number"
        raise _refusal(key, text, f"{problem}: write one from {low} to {high}.")
    return number


# A gang larger than any cluster Kubernetes supports (5,000 nodes) is a typing error.
MAX_GANG_SIZE: Final = 100_000
MAX_NUMA_ID: Final = 4095


def parse_gang_size(key: str, text: str) -> int:
    return parse_int(key, text, 1, MAX_GANG_SIZE)


def parse_ids(key: str, text: str) -> tuple[int, ...]:
    """Comma-separated ids, sorted, each once; empty text is no id."""
    if not text.strip():
        return ()
    ids = {_integer(part.strip(), 0, MAX_NUMA_ID) for part in text.split(",")}
    if None in ids:
        raise _refusal(key, text, f"not a comma-separated list of ids from 0 to {MAX_NUMA_ID}.")
    return tuple(sorted(number for number in ids if number is not None))


def parse_names(key: str, text: str) -> tuple[str, ...]:
    """Comma-separated resource names in the order given, each once."""
    names = dict.fromkeys(part.strip() for part in text.split(","))
    if all(re.fullmatch(r"[A-Za-z0-9][-A-Za-z0-9_./]{0,252}", name) for name in names):
        return tuple(names)
    raise _refusal(key, text, "not a comma-separated list of resource names: write it as cpu,memory.")


_DURATION_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")


def parse_duration(key: str, text: str) -> int:
    """A duration such as `90s`, `10m` or `1h30m`, in milliseconds."""
    if re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        return sum(int(number) * _DURATION_UNITS[unit] for number, unit in _DURATION.findall(text))
    raise _refusal(key, text, "not a duration: write it as 90s, 10m or 1h30m.")
