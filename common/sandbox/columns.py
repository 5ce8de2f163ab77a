"""The columns of `kubectl get`, kind by kind. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from kubenexus.common.kube import resources as r
from kubenexus.common.kube.resources import Resource

Obj = dict[str, Any]
Cell = Callable[[Obj, datetime], Any]

_NONE, _UNKNOWN = "<none>", "<unknown>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
# Up to this many seconds: the unit shown, and the smaller one that follows it, if any.
_STEPS: Final = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
_ACCESS: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and what stands under it. Priority 1 shows with `-o wide` only."""

    name: str
    cell: Cell
    priority: int = 0
    type: str = "string"


def duration(seconds: float) -> str:
    """A time span as kubectl shows it: 45s, 2m5s, 10m, 3h20m, 2d5h, 400d."""
    left = max(int(seconds), 0)
    for limit, size, unit, below, lower in _STEPS:
        if left < limit:
            rest = left % size // below if below else 0
            return f"{left // size}{unit}" + (f"{rest}{lower}" if rest else "")
    return f"{left // _YEAR}y"


def _at(path: str, default: Any = _NONE) -> Cell:
    return lambda obj, _: _read(obj, path, default)


def _read(obj: Obj, path: str, default: Any = None) -> Any:
    value: Any = obj
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return default if value in (None, "", [], {}) else value


def _since(path: str, absent: str = _UNKNOWN) -> Cell:
    def cell(obj: Obj, now: datetime) -> str:
        text = _read(obj, path)
        return duration((now - datetime.fromisoformat(text)).total_seconds()) if text else absent

    return cell


def _count(path: str) -> Cell:
    return lambda obj, _: len(_read(obj, path, ()))


def _ratio(done: str, wanted: str) -> Cell:
    return lambda obj, _: f"{_read(obj, done, 0)}/{_read(obj, wanted, 0)}"


def _joined(path: str, key: str) -> Cell:
    return lambda obj, _: ",".join(str(each.get(key, "")) for each in _read(obj, path, ())) or _NONE


def _selector(path: str) -> Cell:
    def cell(obj: Obj, now: datetime) -> str:  # noqa: ARG001 (the form of every cell)
        found = _read(obj, path, {})
        equal = found.get("matchLabels", {}) if "matchLabels" in found or "matchExpressions" in found else found
        return ",".join(f"{key}={value}" for key, value in sorted(equal.items())) or _NONE

    return cell


def _conditions(obj: Obj) -> dict[str, str]:
    return {each["type"]: each["status"] for each in _read(obj, "status.conditions", ())}


# pods


def _pod_ready(pod: Obj, _: datetime) -> str:
    sidecars = [each for each in _read(pod, "spec.initContainers", ()) if each.get("restartPolicy") == "Always"]
    named = {each["name"] for each in sidecars}
    statuses = _read(pod, "status.containerStatuses", []) + [
        each for each in _read(pod, "status.initContainerStatuses", []) if each.get("name") in named
    ]
    total = len(_read(pod, "spec.containers", ())) + len(sidecars)
    return f"{sum(bool(each.get('ready')) for each in statuses)}/{total}"


def _pod_status(pod: Obj, _: datetime) -> str:
    phase = _read(pod, "status.phase", _UNKNOWN)
    if pod["metadata"].get("deletionTimestamp") and phase not in ("Succeeded", "Failed"):
        return "Terminating"
    gated = any(each.get("reason") == "SchedulingGated" for each in _read(pod, "status.conditions", ()))
    word = "SchedulingGated" if gated else _read(pod, "status.reason", phase)
    for container in reversed(_read(pod, "status.containerStatuses", [])):
        state = container.get("state") or {}
        word = _read(state, "waiting.reason") or _ended(state.get("terminated")) or word
    return str(word)


def _ended(terminated: Obj | None) -> str:
    if terminated is None:
        return ""
    return str(terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}")


def _restarts(pod: Obj, _: datetime) -> str:
    return str(sum(each.get("restartCount", 0) for each in _read(pod, "status.containerStatuses", ())))


def _readiness_gates(pod: Obj, _: datetime) -> str:
    gates = _read(pod, "spec.readinessGates", ())
    held = _conditions(pod)
    return f"{sum(held.get(each['conditionType']) == 'True' for each in gates)}/{len(gates)}" if gates else _NONE


# other kinds


def _node_status(node: Obj, _: datetime) -> str:
    ready = {"True": "Ready", None: "Unknown"}.get(_conditions(node).get("Ready"), "NotReady")
    return ready + (",SchedulingDisabled" if _read(node, "spec.unschedulable") else "")


def _node_roles(node: Obj, _: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = _read(node, "metadata.labels", {})
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or _NONE


def _address(kind: str) -> Cell:
    def cell(node: Obj, now: datetime) -> str:  # noqa: ARG001 (the form of every cell)
        found = (each["address"] for each in _read(node, "status.addresses", ()) if each.get("type") == kind)
        return next(found, _NONE)

    return cell


def _job_status(job: Obj, _: datetime) -> str:
    held = [type_ for type_, status in _conditions(job).items() if status == "True"]
    for type_ in ("Complete", "Failed"):
        if type_ in held:
            return type_
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((type_ for type_ in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if type_ in held), "Running")


def _job_completions(job: Obj, _: datetime) -> str:
    done, wanted, parallel = (
        _read(job, path, 0) for path in ("status.succeeded", "spec.completions", "spec.parallelism")
    )
    if _read(job, "spec.completions") is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(job: Obj, now: datetime) -> str:
    begun, ended = _read(job, "status.startTime"), _read(job, "status.completionTime")
    if not begun:
        return ""
    until = datetime.fromisoformat(ended) if ended else now
    return duration((until - datetime.fromisoformat(begun)).total_seconds())


def _event_object(event: Obj, _: datetime) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_seen(event: Obj, now: datetime) -> str:
    paths = (
        "series.lastObservedTime",
        "lastTimestamp",
        "deprecatedLastTimestamp",
        "eventTime",
        "metadata.creationTimestamp",
    )
    return str(_since(next(path for path in paths if _read(event, path)))(event, now))


def _event_message(event: Obj, _: datetime) -> str:
    return str(event.get("message") or event.get("note") or "").strip()


def _claim_state(claim: Obj, _: datetime) -> str:
    states = ["deleted"] if claim["metadata"].get("deletionTimestamp") else []
    states += ["allocated"] if _read(claim, "status.allocation") else []
    states += ["reserved"] if _read(claim, "status.reservedFor") else []
    return ",".join(states or ["pending"])


def _ports(service: Obj, _: datetime) -> str:
    ports = _read(service, "spec.ports", ())
    return ",".join(f"{each['port']}/{each.get('protocol', 'TCP')}" for each in ports) or _NONE


def _access_modes(obj: Obj, _: datetime) -> str:
    return ",".join(_ACCESS.get(mode, mode) for mode in _read(obj, "spec.accessModes", ()))


def _claim_of(volume: Obj, _: datetime) -> str:
    claim = _read(volume, "spec.claimRef", {})
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


_NAME = Column("Name", _at("metadata.name"))
_AGE = Column("Age", _since("metadata.creationTimestamp"))
PLAIN: Final = (_NAME, _AGE)
_TEMPLATE: Final = (
    Column("Containers", _joined("spec.template.spec.containers", "name"), 1),
    Column("Images", _joined("spec.template.spec.containers", "image"), 1),
)
_SELECTOR = Column("Selector", _selector("spec.selector"), 1)
_WEBHOOKS: Final = (_NAME, Column("Webhooks", _count("webhooks"), type="integer"), _AGE)
_EVENT: Final = (
    Column("Last Seen", _event_seen),
    Column("Type", _at("type")),
    Column("Reason", _at("reason")),
    Column("Object", _event_object),
    Column("Message", _event_message),
    Column("Name", _at("metadata.name"), 1),
)

BUILTIN: Final[dict[Resource, tuple[Column, ...]]] = {
    r.PODS: (
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _restarts),
        _AGE,
        Column("IP", _at("status.podIP"), 1),
        Column("Node", _at("spec.nodeName"), 1),
        Column("Nominated Node", _at("status.nominatedNodeName"), 1),
        Column("Readiness Gates", _readiness_gates, 1),
    ),
    r.NODES: (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _at("status.nodeInfo.kubeletVersion", "")),
        Column("Internal-IP", _address("InternalIP"), 1),
        Column("External-IP", _address("ExternalIP"), 1),
        Column("OS-Image", _at("status.nodeInfo.osImage", _UNKNOWN), 1),
        Column("Kernel-Version", _at("status.nodeInfo.kernelVersion", _UNKNOWN), 1),
        Column("Container-Runtime", _at("status.nodeInfo.containerRuntimeVersion", _UNKNOWN), 1),
    ),
    r.NAMESPACES: (_NAME, Column("Status", _at("status.phase")), _AGE),
    r.SECRETS: (_NAME, Column("Type", _at("type")), Column("Data", _count("data"), type="integer"), _AGE),
    r.CONFIG_MAPS: (_NAME, Column("Data", _count("data"), type="integer"), _AGE),
    r.SERVICES: (
        _NAME,
        Column("Type", _at("spec.type")),
        Column("Cluster-IP", _at("spec.clusterIP")),
        Column("External-IP", _at("spec.externalName")),
        Column("Port(s)", _ports),
        _AGE,
        _SELECTOR,
    ),
    r.PERSISTENT_VOLUMES: (
        _NAME,
        Column("Capacity", _at("spec.capacity.storage", "")),
        Column("Access Modes", _access_modes),
        Column("Reclaim Policy", _at("spec.persistentVolumeReclaimPolicy", "")),
        Column("Status", _at("status.phase")),
        Column("Claim", _claim_of),
        Column("StorageClass", _at("spec.storageClassName", "")),
        _AGE,
    ),
    r.PERSISTENT_VOLUME_CLAIMS: (
        _NAME,
        Column("Status", _at("status.phase")),
        Column("Volume", _at("spec.volumeName", "")),
        Column("Capacity", _at("status.capacity.storage", "")),
        Column("Access Modes", _access_modes),
        Column("StorageClass", _at("spec.storageClassName", "")),
        _AGE,
    ),
    r.CORE_EVENTS: _EVENT,
    r.EVENTS: _EVENT,
    r.LEASES: (_NAME, Column("Holder", _at("spec.holderIdentity", "")), _AGE),
    r.PRIORITY_CLASSES: (
        _NAME,
        Column("Value", _at("value", 0), type="integer"),
        Column("Global-Default", _at("globalDefault", False), type="boolean"),
        _AGE,
        Column("PreemptionPolicy", _at("preemptionPolicy", "")),
    ),
    r.POD_DISRUPTION_BUDGETS: (
        _NAME,
        Column("Min Available", _at("spec.minAvailable", "N/A")),
        Column("Max Unavailable", _at("spec.maxUnavailable", "N/A")),
        Column("Allowed Disruptions", _at("status.disruptionsAllowed", 0), type="integer"),
        _AGE,
    ),
    r.STORAGE_CLASSES: (
        _NAME,
        Column("Provisioner", _at("provisioner", "")),
        Column("ReclaimPolicy", _at("reclaimPolicy", "")),
        Column("VolumeBindingMode", _at("volumeBindingMode", "")),
        _AGE,
    ),
    r.CSI_NODES: (_NAME, Column("Drivers", _count("spec.drivers"), type="integer"), _AGE),
    r.RESOURCE_SLICES: (
        _NAME,
        Column("Node", _at("spec.nodeName", "")),
        Column("Driver", _at("spec.driver", "")),
        Column("Pool", _at("spec.pool.name", "")),
        _AGE,
    ),
    r.RESOURCE_CLAIMS: (_NAME, Column("State", _claim_state), _AGE),
    r.JOBS: (
        _NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        _AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    r.DEPLOYMENTS: (
        _NAME,
        Column("Ready", _ratio("status.readyReplicas", "spec.replicas")),
        Column("Up-to-date", _at("status.updatedReplicas", 0), type="integer"),
        Column("Available", _at("status.availableReplicas", 0), type="integer"),
        _AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    r.REPLICA_SETS: (
        _NAME,
        Column("Desired", _at("spec.replicas", 0), type="integer"),
        Column("Current", _at("status.replicas", 0), type="integer"),
        Column("Ready", _at("status.readyReplicas", 0), type="integer"),
        _AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    r.STATEFUL_SETS: (_NAME, Column("Ready", _ratio("status.readyReplicas", "spec.replicas")), _AGE, *_TEMPLATE),
    r.MUTATING_WEBHOOKS: _WEBHOOKS,
    r.VALIDATING_WEBHOOKS: _WEBHOOKS,
    r.CUSTOM_RESOURCES: (_NAME, Column("Created At", _at("metadata.creationTimestamp"), type="date")),
}


def custom(printer_columns: Sequence[Obj]) -> tuple[Column, ...]:
    """The columns that a CustomResourceDefinition describes; only plain paths are understood."""
    columns = [
        Column(
            each["name"],
            (_since if each["type"] == "date" else _at)(each["jsonPath"].lstrip("."), ""),
            each.get("priority", 0),
        )
        for each in printer_columns
    ]
    return (_NAME, *(columns or [_AGE]))
