"""Every metric of every component, declared once, here, and documented from here.

Names are `kubenexus_<component>_<what>_<unit>`. Labels have few values: never the name of a pod or node.
`text()` is what /metrics of a component serves; `documentation()` is docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

__all__ = ["CONTENT_TYPE", "DECLARED", "REGISTRY", "documentation", "text"]


class Declared(NamedTuple):
    """One metric as people see it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


disable_created_metrics()  # type: ignore[no-untyped-call]  # A second series beside each counter, which nobody reads.
REGISTRY = CollectorRegistry()
DECLARED: list[Declared] = []
COMPONENTS: Final = frozenset(("agent", "scheduler", "webhook"))
ProcessCollector(registry=REGISTRY)


def _counter(name: str, help: str, *labels: str) -> Counter:  # noqa: A002
    DECLARED.append(Declared(name, "counter", labels, help))
    return Counter(name, help, labels, registry=REGISTRY)


def _gauge(name: str, help: str, *labels: str) -> Gauge:  # noqa: A002
    DECLARED.append(Declared(name, "gauge", labels, help))
    return Gauge(name, help, labels, registry=REGISTRY)


def _histogram(name: str, help: str, *labels: str, buckets: Sequence[float]) -> Histogram:  # noqa: A002
    DECLARED.append(Declared(name, "histogram", labels, help))
    return Histogram(name, help, labels, registry=REGISTRY, buckets=buckets)


class _Own(Collector):
    """What a component has to tell: its own metrics, and those that are of no component."""

    def __init__(self, component: str) -> None:
        self._others = tuple(f"kubenexus_{other}_" for other in COMPONENTS - {component})

    def collect(self) -> Iterator[Metric]:
        return (family for family in REGISTRY.collect() if not family.name.startswith(self._others))


def text(component: str) -> bytes:
    """The metrics of a component in the Prometheus text format.

    Without those of the others: what this process never sets would stand there as 0, and 0 is a bad sign for some.
    """
    return generate_latest(_Own(component))


def documentation() -> str:
    """The declared metrics as a page of Markdown, a table sorted by name."""
    rows = [f"| `{m.name}` | {m.kind} | {', '.join(f'`{x}`' for x in m.labels)} | {m.help} |" for m in sorted(DECLARED)]
    about = "A component serves those with its own name in them, and those with nobody's."
    return "\n".join(
        ["# Metrics", "", about, "", "| metric | type | labels | meaning |", "|---|---|---|---|", *rows, ""]
    )


SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

API_REQUESTS = _counter(
    "kubenexus_api_requests_total",
    "Requests sent to the API server, by HTTP method, resource and status code; `none` where no answer came.",
    "method",
    "resource",
    "code",
)
API_SECONDS = _histogram(
    "kubenexus_api_request_duration_seconds",
    "Time from sending a request to its answer; of a watch, to the head of it.",
    "method",
    "resource",
    buckets=SECONDS,
)
REFLECTOR_STALENESS = _gauge(
    "kubenexus_reflector_staleness_seconds",
    "Seconds since the API server was last heard from about this resource; NaN before the first contact.",
    "resource",
)
REFLECTOR_SYNCED = _gauge(
    "kubenexus_reflector_synced", "1 once the first list of this resource is complete, 0 before.", "resource"
)
REFLECTOR_OBJECTS = _gauge("kubenexus_reflector_objects", "Objects held in the cache of this resource.", "resource")
REFLECTOR_LISTS = _counter("kubenexus_reflector_lists_total", "Complete lists fetched of this resource.", "resource")
REFLECTOR_FAILURES = _counter(
    "kubenexus_reflector_failures_total",
    "Lists and watches that failed, by kind of error (`Gone`, `NoAnswer`, `Garbage`, …).",
    "resource",
    "error",
)
REFLECTOR_UNREADABLE = _counter(
    "kubenexus_reflector_unreadable_objects_total",
    "Objects that could not be projected and were left out; each is a bug, see the log.",
    "resource",
)
LEADER = _gauge("kubenexus_leader", "1 while this process holds the Lease, else 0.", "lease")
EVENTS_WRITTEN = _counter("kubenexus_events_written_total", "Events created or extended on the API server.")
EVENTS_DROPPED = _counter(
    "kubenexus_events_dropped_total",
    "Events not written: the queue was full (`queue`), too many at once (`rate`), or the API server refused (`error`).",
    "cause",
)
AGENT_SCAN_SECONDS = _histogram(
    "kubenexus_agent_scan_duration_seconds", "Time of a full look at the machine, NVML included.", buckets=SECONDS
)
AGENT_GPU_PROBES = _counter(
    "kubenexus_agent_gpu_probes_total",
    "Probes of NVML by their end: `ok`, `absent` (no driver), `off`, `error`, `hung` or `crashed`.",
    "status",
)
AGENT_WRITES = _counter(
    "kubenexus_agent_writes_total",
    "Writes to the API server by what was written (a field manager of the Node, `slices`, `nrt`), `ok` or `failed`.",
    "what",
    "result",
)
AGENT_LAST_SUCCESS = _gauge(
    "kubenexus_agent_last_success_timestamp_seconds",
    "Unix time when everything was last known to stand on the API server as wanted.",
)
AGENT_SLICES_RECREATED = _counter(
    "kubenexus_agent_slices_recreated_total",
    "ResourceSlices that somebody wiped (a kubelet does, at each start) and that were put back.",
)
AGENT_GPUS = _gauge("kubenexus_agent_gpus", "GPUs of the machine, `usable` or `lost`.", "state")
AGENT_NUMA_NODES = _gauge("kubenexus_agent_numa_nodes", "NUMA nodes with CPUs (`cpu`) or without (`memory`).", "kind")
AGENT_UNKNOWN_FACTS = _gauge("kubenexus_agent_unknown_facts", "Facts that could not be read; the annotation says why.")
AGENT_GPU_STALE = _gauge("kubenexus_agent_gpu_stale", "1 while the GPU facts are old because probes fail, else 0.")
SCHEDULER_DECISIONS = _counter(
    "kubenexus_scheduler_decisions_total",
    "Decisions by their kind: `place`, `park` or `preempt`.",
    "decision",
)
SCHEDULER_DECISION_SECONDS = _histogram(
    "kubenexus_scheduler_decision_duration_seconds", "Time to decide about one pod.", buckets=SECONDS
)
SCHEDULER_BINDS = _counter(
    "kubenexus_scheduler_binds_total",
    "Binds by their end: `bound`, `unbound` (tried again later) or `astray` (the pod is gone or elsewhere).",
    "end",
)
SCHEDULER_BIND_SECONDS = _histogram(
    "kubenexus_scheduler_bind_duration_seconds",
    "Time from a decision to the certainty that the pod is bound.",
    buckets=SECONDS,
)
SCHEDULER_LOOKUPS = _counter(
    "kubenexus_scheduler_bind_lookups_total", "Binds whose answer was lost or odd, so that the pod was looked up."
)
SCHEDULER_PENDING = _gauge(
    "kubenexus_scheduler_pending_pods",
    "Pods without a node, by where they wait: `ready`, `backoff`, `parked`, `gated`, `forming` (gangs) or `binding`.",
    "place",
)
SCHEDULER_REJECTIONS = _counter(
    "kubenexus_scheduler_kubelet_rejections_total",
    "Pods that a kubelet refused to run after they were bound, by its reason.",
    "reason",
)
SCHEDULER_SEAT_MISSES = _counter(
    "kubenexus_scheduler_seat_misses_total",
    "Pods that a kubelet gave other NUMA nodes or GPUs than they had been assigned, as far as agents tell.",
)
SCHEDULER_VICTIMS = _counter(
    "kubenexus_scheduler_preemption_victims_total", "Pods deleted to make room for pods of higher priority."
)
WEBHOOK_REVIEWS = _counter(
    "kubenexus_webhook_reviews_total",
    "Admission reviews answered, by path (`mutate`, `validate`) and end: `allowed`, `patched`, `denied` or `error` "
    "(admitted because of an error of ours).",
    "path",
    "end",
)
WEBHOOK_DENIALS = _counter("kubenexus_webhook_denials_total", "Pods refused, by the rule that they break.", "rule")
WEBHOOK_SECONDS = _histogram(
    "kubenexus_webhook_review_duration_seconds",
    "Time from having read a review to its answer, by path.",
    "path",
    buckets=SECONDS,
)
WEBHOOK_REFUSED = _counter(
    "kubenexus_webhook_bad_requests_total",
    "Requests that were no admission review, by status code: 400 no JSON, 413 too large, 415 another content type.",
    "code",
)
WEBHOOK_RENEWALS = _counter(
    "kubenexus_webhook_certificate_renewals_total",
    "Certificates renewed by this replica: `leaf` (what is served), `authority`, or `both`.",
    "what",
)
WEBHOOK_CERTIFICATE_SECONDS = _gauge(
    "kubenexus_webhook_certificate_expiry_seconds",
    "Seconds until the certificate that is served ends; negative once it has. A healthy one has ten days or more.",
)
