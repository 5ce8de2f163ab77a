"""ResourceSlice: what a driver may publish."""

from __future__ import annotations

from kubenexus.common import quantity
from kubenexus.common.sandbox.validation import dra
from kubenexus.common.sandbox.validation.field import Amount, Field, same, unique
from kubenexus.common.sandbox.validation.grammar import Grammar, dns_label, dns_subdomain, semver
from kubenexus.common.sandbox.validation.meta import node_selector

DEVICES = 128
DEVICES_WITH_TAINTS_OR_COUNTERS = 64
COUNTER_SETS = 8
COUNTERS = 32
CONSUMPTIONS = 2
ATTRIBUTES_AND_CAPACITIES = 32
VALUE_BYTES = 64
TAINTS = 16
POLICY_VALUES = 10

_SLICE_NODES = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_NODES = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NO_DEVICE_NODES = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)


def resource_slice(new: Field, old: Field) -> None:
    """A slice. On an update `old` is the stored one: driver, pool and node stay, taints are judged when they change."""
    spec, before = new["spec"], old["spec"]
    dra.driver_name(spec["driver"])
    _pool(spec["pool"])
    if before.present:
        spec["pool"]["name"].keep(before["pool"]["name"])
        spec["driver"].keep(before["driver"])
        spec["nodeName"].keep(before["nodeName"])
    _nodes(spec)
    if spec["sharedCounters"].present and spec["devices"].present:
        spec.invalid("only one of `sharedCounters` or `devices` is allowed", "")
    _devices(spec, before)
    for counters in spec["sharedCounters"].items(COUNTER_SETS):
        _counters(counters, "name")
    unique(spec["sharedCounters"].items(), lambda item: item["name"].text())


def _pool(pool: Field) -> None:
    dra.pool_name(pool["name"])
    if pool["resourceSliceCount"].integer() <= 0:
        pool["resourceSliceCount"].invalid("must be greater than zero", pool["resourceSliceCount"].integer())
    if pool["generation"].integer() < 0:
        pool["generation"].invalid("must be greater than or equal to zero")


def _nodes(spec: Field) -> None:
    chosen = _node_name(spec["nodeName"], "must be either unset or set to a non-empty string")
    selector = spec["nodeSelector"]
    if selector.present:
        chosen.append("nodeSelector")
        node_selector(selector)
        if len(selector["nodeSelectorTerms"].items()) != 1:
            selector["nodeSelectorTerms"].invalid("must have exactly one node selector term")
    chosen += _true_or_unset(spec["allNodes"]) + _true_or_unset(spec["perDeviceNodeSelection"])
    dra.exactly_one(spec, chosen, _SLICE_NODES, _SLICE_NODES + ", but multiple fields are set")


def _node_name(field: Field, if_empty: str) -> list[str]:
    if not field.present:
        return []
    if not field.text():
        field.invalid(if_empty)
        return []
    field.follow(dns_subdomain)
    return ["nodeName"]


def _true_or_unset(field: Field) -> list[str]:
    if field.present and not field.flag():
        field.invalid("must be either unset or set to true")
    return [field.path.rpartition(".")[2]] if field.flag() else []


def _devices(spec: Field, before: Field) -> None:
    devices = spec["devices"]
    advanced = any(device["taints"].items() or device["consumesCounters"].items() for device in devices.items())
    limit = DEVICES_WITH_TAINTS_OR_COUNTERS if advanced else DEVICES
    if len(devices.items()) > limit:
        devices.too_many(len(devices.items()), limit)
        return
    stored = {device["name"].text(): device for device in before["devices"].items()}
    for device in devices.items():
        _device(device, stored.get(device["name"].text()), spec["perDeviceNodeSelection"].flag())
    unique(devices.items(), lambda item: item["name"].text())


def _device(device: Field, old: Field | None, own_nodes: bool) -> None:
    device["name"].follow(dns_label)
    attributes, capacities = device["attributes"].entries(), device["capacity"].entries()
    count = len(attributes) + len(capacities)
    if count > ATTRIBUTES_AND_CAPACITIES:
        device.invalid(
            f"the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES}", count
        )
    for name, attribute in attributes:
        dra.attribute_name(device["attributes"], name)
        _attribute(attribute)
    for name, capacity in capacities:
        dra.attribute_name(device["capacity"], name)
        _capacity(capacity, device["allowMultipleAllocations"].flag())
    if old is None or not same(old["taints"].value, device["taints"].value):
        for taint in device["taints"].items(TAINTS):
            dra.taint(taint)
    for consumption in device["consumesCounters"].items(CONSUMPTIONS):
        _counters(consumption, "counterSet")
    unique(device["consumesCounters"].items(), lambda item: item["counterSet"].text())
    _device_nodes(device, own_nodes)
    dra.binding_conditions(device)


def _attribute(field: Field) -> None:
    given = [name for name in ("bool", "int", "string", "version") if field[name].present]
    field["bool"].flag()
    field["int"].integer()
    if field["string"].present:
        field["string"].fit(VALUE_BYTES)
    if field["version"].present:
        field["version"].follow(semver)
        field["version"].fit(VALUE_BYTES)
    if len(given) != 1:
        field.invalid("exactly one value must be specified", field.value if given else "")


def _device_nodes(device: Field, own_nodes: bool) -> None:
    fields = [device["nodeName"], device["nodeSelector"], device["allNodes"]]
    if not own_nodes:
        if any(field.present for field in fields):
            device.invalid(_NO_DEVICE_NODES, None)
        return
    chosen = _node_name(device["nodeName"], "must not be empty")
    if device["nodeSelector"].present:
        chosen.append("nodeSelector")
        node_selector(device["nodeSelector"])
    chosen += _true_or_unset(device["allNodes"])
    dra.exactly_one(device, chosen, _DEVICE_NODES, _DEVICE_NODES)


def _counters(field: Field, name: str) -> None:
    """A set of counters, or a device's use of one, which names it."""
    if field[name].text():
        field[name].follow(dns_label)
    else:
        field[name].required()
    counters = field["counters"].entries()
    if not counters:
        field["counters"].required()
    if len(counters) > COUNTERS:
        field["counters"].too_many(len(counters), COUNTERS)
        return
    for key, counter in counters:
        _follow_key(field["counters"], key, dns_label)
        counter["value"].amount()


def _follow_key(field: Field, key: str, grammar: Grammar) -> None:
    for problem in grammar(key):
        field.invalid(problem, key)


def _capacity(field: Field, shareable: bool) -> None:
    total = field["value"].amount()
    policy = field["requestPolicy"]
    if not policy.present:
        return
    if not shareable:
        policy.forbidden("allowMultipleAllocations must be true")
    elif policy["validValues"].items() and policy["validRange"].present:
        policy.forbidden(
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        )
    elif total:
        _policy(policy, total)


def _policy(policy: Field, total: Amount) -> None:
    values, span = policy["validValues"], policy["validRange"]
    if not values.items() and not span.present:
        return
    if not policy["default"].present:
        rule = "validValues" if values.items() else "validRange"
        policy["default"].required(f"required when {rule} is defined")
        return
    default = policy["default"].amount()
    if default and values.items():
        _valid_values(values, default, total)
    elif default:
        _valid_range(span, default, total)


def _valid_values(values: Field, default: Amount, total: Amount) -> None:
    amounts = [amount for item in values.items() if (amount := item.amount())]
    if len(amounts) < len(values.items()):
        return
    for item, before, amount in zip(values.items()[1:], amounts, amounts[1:], strict=False):
        if before > amount:
            item.invalid("values must be sorted in ascending order")
    limited = values.items(POLICY_VALUES)
    for item, amount in zip(limited, amounts, strict=False):
        if amount > total:
            item.invalid(f"option is larger than capacity value: {total}")
    unique(limited, lambda item: str(quantity.value(item.value)))
    if not limited or default not in amounts:
        values.invalid("default value is not valid according to the requestPolicy", default.text)


def _valid_range(span: Field, default: Amount, total: Amount) -> None:
    least, most, step = span["min"].amount(), span["max"].amount(), span["step"].amount()
    if not span["min"].present:
        span["min"].required("required when validRange is defined")
        return
    if not least:
        return
    _refuse(span["min"], least > total, least, f"min is larger than capacity value: {total}")
    _refuse(span["min"], default < least, default, f"default is less than min: {least}")
    if most:
        _refuse(span["max"], least > most, least, f"min is larger than max: {most}")
        _refuse(span["max"], most > total, most, f"max is larger than capacity value: {total}")
        _refuse(span["max"], default > most, default, f"default is more than max: {most}")
    if step:
        first = least.exact + step.exact
        _refuse(span["step"], first > total.exact, step, f"one step {first} is larger than capacity value: {total}")
        for value in filter(None, (default, most)):
            uneven = (value.exact - least.exact) % step.exact != 0
            _refuse(span["step"], uneven, value, f"value is not a multiple of a given step ({step}) from ({least})")


def _refuse(field: Field, broken: bool, shown: Amount, why: str) -> None:
    if broken:
        field.invalid(why, shown.text)
