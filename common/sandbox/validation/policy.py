"""The small kinds: Node, PriorityClass, PodDisruptionBudget, Lease, PersistentVolumeClaim, StorageClass, CSINode,
ConfigMap and Secret.
"""

from __future__ import annotations

import copy
import re
from typing import Any

from kubenexus.common.sandbox.validation.dra import driver_name
from kubenexus.common.sandbox.validation.field import Field, same
from kubenexus.common.sandbox.validation.filling import at, drop
from kubenexus.common.sandbox.validation.grammar import dns_subdomain, label_value, qualified_name
from kubenexus.common.sandbox.validation.meta import label_selector
from kubenexus.common.sandbox.validation.placement import TAINT_EFFECTS
from kubenexus.common.sandbox.validation.resources import node_amount

HIGHEST_USER_PRIORITY = 1_000_000_000
DATA_BYTES = 1024 * 1024
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_PERCENT = "[0-9]+%"


def node(new: Field, old: Field) -> None:
    """A node: taints, quantities, and the few fields that are set once."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(new["spec"]["taints"].items()):
        # The server reports taints as if they stood in the metadata.
        _taint(Field(taint.value, f"metadata.taints[{index}]", new.errors), seen)
    node_status(new, old)
    for name in ("podCIDRs", "providerID"):
        before = old["spec"][name]
        if before.value and not same(before.value, new["spec"][name].value):
            shown = name.removesuffix("s")
            new["spec"][name].forbidden(f'node updates may not change {shown} except from "" to valid')


def node_status(new: Field, _: Field) -> None:
    """Capacity, allocatable and addresses of a node."""
    status = new["status"]
    for side in ("capacity", "allocatable"):
        for name, entry in status[side].entries():
            node_amount(name, Field(entry.value, f"status.{side}.{name}", new.errors))
    seen = []
    for address in status["addresses"].items():
        if address.value in seen:
            address.duplicate()
        seen.append(address.value)


def priority_class(new: Field, old: Field) -> None:
    """A priority class: values above a billion are the system's, and none changes."""
    name, value = new["metadata"]["name"].text(), new["value"].integer()
    if name.startswith("system-"):
        if SYSTEM_CLASSES.get(name) != value or new["globalDefault"].flag():
            new["metadata"]["name"].forbidden(
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} is not a known system priority class"
            )
    elif value > HIGHEST_USER_PRIORITY:
        new["value"].forbidden(f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
    new["preemptionPolicy"].choose("PreemptLowerPriority", "Never", optional=True)
    if old.present:
        if value != old["value"].integer():
            new["value"].forbidden("may not be changed in an update.")
        new["preemptionPolicy"].keep(old["preemptionPolicy"])


def disruption_budget(new: Field, _: Field) -> None:
    """A disruption budget: at most one of the two numbers, and a selector."""
    spec = new["spec"]
    if spec["minAvailable"].present and spec["maxUnavailable"].present:
        spec.invalid("minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        if spec[name].present:
            int_or_percent(spec[name])
            whole_at_most(spec[name])
    label_selector(spec["selector"])
    spec["unhealthyPodEvictionPolicy"].choose("AlwaysAllow", "IfHealthyBudget", optional=True)


def lease(new: Field, _: Field) -> None:
    """A lease lasts a positive time."""
    duration, transitions = new["spec"]["leaseDurationSeconds"], new["spec"]["leaseTransitions"]
    if duration.present and duration.integer() <= 0:
        duration.invalid("must be greater than 0")
    transitions.at_least(0)


def volume_claim(new: Field, old: Field) -> None:
    """A claim to storage: access modes and a size; once bound only the size may grow."""
    spec = new["spec"]
    modes = spec["accessModes"]
    if not modes.items():
        modes.required("at least 1 access mode is required")
    for mode in modes.items():
        Field(mode.value, modes.path, modes.errors).choose(*_ACCESS_MODES)
    label_selector(spec["selector"])
    size = Field(spec["resources"]["requests"]["storage"].value, f"{spec.path}.resources[storage]", spec.errors)
    amount = size.amount()
    if not size.present:
        size.required()
    elif amount and amount.exact <= 0:
        size.invalid("must be greater than zero", amount.text)
    if spec["storageClassName"].text():
        spec["storageClassName"].follow(dns_subdomain)
    spec["volumeMode"].choose("Block", "Filesystem", optional=True)
    if old.present and not same(_claim_fixed(new.value, old.value), _claim_fixed(old.value, old.value)):
        why = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        spec.forbidden(why)


def storage_class(new: Field, old: Field) -> None:
    """A storage class, which does not change."""
    provisioner = new["provisioner"]
    if not provisioner.text():
        provisioner.required()
    for problem in qualified_name(provisioner.text().lower()) if provisioner.text() else ():
        provisioner.invalid(problem)
    new["reclaimPolicy"].choose("Delete", "Retain", optional=True)
    new["volumeBindingMode"].choose("Immediate", "WaitForFirstConsumer")
    if old.present:
        for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            new[name].keep(old[name])


def csi_node(new: Field, _: Field) -> None:
    """The storage drivers of a node, each once."""
    seen = set()
    for driver in new["spec"]["drivers"].items():
        driver_name(driver["name"])
        if not driver["nodeID"].text():
            driver["nodeID"].required()
        if driver["name"].text() in seen:
            driver["name"].duplicate()
        seen.add(driver["name"].text())
        driver["allocatable"]["count"].at_least(0)
        for key in driver["topologyKeys"].items():
            for problem in qualified_name(key.text()):
                driver.invalid(problem, key.text())


def data_keys(new: Field, old: Field) -> None:
    """The keys and the size of a ConfigMap's or Secret's data, which stays when it is immutable."""
    total = 0
    for bag in ("data", "binaryData"):
        for key, entry in new[bag].entries():
            _data_key(key, entry)
            total += len(entry.text().encode())
    if total > DATA_BYTES:
        new["data"].too_long(DATA_BYTES)
    if old["immutable"].flag():
        for name in ("data", "binaryData"):
            if not same(new[name].value, old[name].value):
                new[name].forbidden("field is immutable when `immutable` is set")


def int_or_percent(field: Field) -> None:
    """A number of things, not negative, or a share of them."""
    if isinstance(field.value, str):
        if not re.fullmatch(_PERCENT, field.value):
            field.invalid(
                "a valid percent string must be a numeric string followed by an ending '%' "
                f"(e.g. '1%',  or '93%', regex used for validation is '{_PERCENT}')"
            )
    else:
        field.at_least(0)


def whole_at_most(field: Field) -> None:
    """A share is at most the whole."""
    if isinstance(field.value, str) and re.fullmatch(_PERCENT, field.value) and int(field.value[:-1]) > 100:
        field.invalid("must not be greater than 100%")


def _taint(taint: Field, seen: set[tuple[str, str]]) -> None:
    taint["key"].follow(qualified_name)
    if problems := label_value(taint["value"].text()):
        taint["value"].invalid(";".join(problems))
    taint["effect"].choose(*TAINT_EFFECTS)
    pair = taint["key"].text(), taint["effect"].text()
    if pair in seen:
        taint.duplicate(detail="taints must be unique by key and effect pair")
    seen.add(pair)


def _data_key(key: str, entry: Field) -> None:
    if not re.fullmatch("[-._a-zA-Z0-9]+", key) or len(key) > 253 or key in (".", "..") or key.startswith(".."):
        entry.invalid(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            key,
        )


def _claim_fixed(claim: Any, stored: Any) -> Any:
    """What must stay of a storage claim: the volume is named once, a bound claim may ask for more."""
    fixed = copy.copy(at(claim, "spec"))
    if not at(stored, "spec", "volumeName"):
        drop(fixed, "volumeName")
    if at(stored, "status", "phase") == "Bound":
        drop(fixed, "resources", "volumeAttributesClassName")
    return fixed
