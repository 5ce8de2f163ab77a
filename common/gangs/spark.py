"""Spark: the driver creates the executors, so they cannot be in one gang with it.

The driver starts alone, with room held for its executors; the executors are a gang of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

from kubenexus.common import quantity
from kubenexus.common import vocabulary as v
from kubenexus.common.gangs.dialects import SPARK_ROLE, YUNIKORN_GROUP, YUNIKORN_GROUPS, task_groups
from kubenexus.common.gangs.model import (
    Gang,
    GangKey,
    OwnerRef,
    Owners,
    Phase,
    PodFacts,
    Reservation,
    Resolution,
    Single,
    Waiting,
    label_value,
)
from kubenexus.common.gangs.read import DeclarationError, Owner, View, bounded, look_up, shown

SPARK_API: Final = "sparkoperator.k8s.io/v1beta2"
_OPERATOR_NAME: Final = "sparkoperator.k8s.io/app-name"

_MIB: Final = 2**20
_JVM_UNITS: Final = {"": _MIB, "b": 1, "k": 2**10, "m": _MIB, "g": 2**30, "t": 2**40, "p": 2**50}
_LEAST_OVERHEAD: Final = 384 * _MIB


@dataclass(frozen=True, slots=True)
class _Executors:
    """How many there will be (0: not known, or none), and how large each."""

    number: int = 0
    requests: dict[str, int] = field(default_factory=dict)
    owner_uid: str = ""


def spark(pod: PodFacts, owners: Owners) -> Resolution | None:
    """The gang of a pod of `spark-submit` or of the Spark operator; None for other pods."""
    role = pod.labels.get(SPARK_ROLE)
    selector = pod.labels.get("spark-app-selector") or pod.labels.get("spark-app-name")
    if role not in ("driver", "executor") or not selector:
        return None
    executors = _executors(pod, owners)
    if isinstance(executors, Waiting):
        return executors
    if not executors.number:
        return Single(f"Spark {role}")
    number = bounded(f"Spark {selector}", executors.number)
    key = GangKey(pod.namespace, label_value(selector))
    if role == "executor":
        return Gang(key, f"Spark {selector} executors", number, "Spark", executors.owner_uid, role)
    own_key = GangKey(pod.namespace, label_value(f"{selector}-driver"))
    held = Reservation(key, number, executors.requests)
    return Gang(own_key, f"Spark {selector} driver", 1, "Spark", executors.owner_uid, role, reserve=held)


def driver_first(pod: PodFacts, gang: Gang) -> Gang:
    """A declared gang as its Spark driver sees it: counted with its executors, it could never start."""
    if pod.labels.get(SPARK_ROLE) != "driver" or gang.min_available == 1:
        return gang
    held = Reservation(gang.key, gang.min_available - 1, _annotated_requests(pod))
    return replace(gang, role="driver", first=Phase("driver", 1), reserve=held)


# --- How many executors, how large -----------------------------------------------------------------------------------


def _executors(pod: PodFacts, owners: Owners) -> _Executors | Waiting:
    """From our annotations, else from YuniKorn's task groups, else from the SparkApplication; else none are known."""
    text = pod.annotations.get(v.EXECUTOR_COUNT)
    if text is not None:
        return _Executors(v.parse_int(v.EXECUTOR_COUNT, text, 0, v.MAX_GANG_SIZE), _annotated_requests(pod))
    if groups := task_groups(pod):
        return _from_task_groups(pod, groups)
    name = pod.labels.get(_OPERATOR_NAME)
    if not name:
        return _Executors()
    owned = pod.owner if pod.owner and pod.owner.kind == "SparkApplication" else None
    ref = owned or OwnerRef(SPARK_API, "SparkApplication", name)
    application = look_up(owners, ref, pod.namespace)
    return _from_application(application) if application else Waiting(ref)


def _annotated_requests(pod: PodFacts) -> dict[str, int]:
    keys = {"cpu": v.EXECUTOR_CPU, "memory": v.EXECUTOR_MEMORY}
    return {name: _amount(key, name, pod.annotations[key]) for name, key in keys.items() if key in pod.annotations}


def _from_task_groups(pod: PodFacts, groups: list[View]) -> _Executors:
    """The executors' groups: for a driver all but its own. Each pod is taken to be as large as one of the first."""
    is_driver = pod.labels.get(SPARK_ROLE) == "driver"
    theirs = [group for group in groups if (group.text("name") == pod.text(YUNIKORN_GROUP)) != is_driver]
    sizes = theirs[0].at("minResource") if theirs else None
    requests = {
        name: _amount(YUNIKORN_GROUPS, name, amount)
        for name, amount in (sizes.items() if isinstance(sizes, dict) else ())
    }
    return _Executors(sum(group.count("minMember", 1) for group in theirs), requests)


def _from_application(application: Owner) -> _Executors:
    instances = application.count("spec.executor.instances", 0)
    if application.flag("spec.dynamicAllocation.enabled"):
        bounds = (application.count(f"spec.dynamicAllocation.{key}", 0) for key in ("initialExecutors", "minExecutors"))
        instances = max(instances, *bounds)
    elif application.at("spec.executor.instances") is None:
        instances = 2
    return _Executors(instances, _application_requests(application), application.uid)


def _application_requests(application: Owner) -> dict[str, int]:
    executor = View(application.at("spec.executor"), f"{application.ref} in spec.executor")
    cores = executor.at("coreRequest") or executor.at("cores") or 1
    memory = _jvm_bytes(executor, "memory", "1g")
    requests = {
        "cpu": _amount(f"{executor.what}.cores", "cpu", cores),
        "memory": memory + _overhead(application, executor, memory),
    }
    if gpu := executor.text("gpu.name"):
        requests[gpu] = executor.count("gpu.quantity", 0)
    return requests


def _overhead(application: Owner, executor: View, memory: int) -> int:
    """What Spark adds for memory outside the heap, by its own rule."""
    if executor.at("memoryOverhead") is not None:
        return _jvm_bytes(executor, "memoryOverhead", "0")
    usual = "0.1" if application.text("spec.type") in ("Java", "Scala") else "0.4"
    factor = application.text("spec.memoryOverheadFactor") or usual
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,6})?", factor):
        raise DeclarationError(f"{application.ref} has spec.memoryOverheadFactor {shown(factor)}: write it as 0.1.")
    return max(_LEAST_OVERHEAD, int(memory * Fraction(factor)))


def _jvm_bytes(view: View, path: str, default: str) -> int:
    """Memory as the JVM writes it: `8g`, and `512m` is mebibytes here, not thousandths."""
    text = view.text(path) or default
    match = re.fullmatch(r"([0-9]{1,12})([bkmgtp]?)b?", text.lower())
    if not match:
        raise DeclarationError(f"{view.what} has {path} {shown(text)}: write it as 8g or 512m.")
    return int(match[1]) * _JVM_UNITS[match[2]]


def _amount(what: str, resource: str, amount: Any) -> int:
    """A quantity in the units of requests: CPU in thousandths, others whole."""
    text = amount if isinstance(amount, str) else shown(amount)
    try:
        return quantity.milli(text) if resource == "cpu" else quantity.value(text)
    except quantity.QuantityError as error:
        raise DeclarationError(f"{what} is wrong: {error}.") from None
