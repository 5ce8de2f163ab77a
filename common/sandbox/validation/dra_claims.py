"""ResourceClaim, ResourceClaimTemplate and DeviceClass."""

from __future__ import annotations

import ipaddress
import json
import re

from kubenexus.common.sandbox.validation import dra
from kubenexus.common.sandbox.validation.field import Field, unique
from kubenexus.common.sandbox.validation.grammar import dns_label, dns_subdomain, extended_resource
from kubenexus.common.sandbox.validation.meta import conditions, node_selector, template_metadata

REQUESTS = 32
CONSTRAINTS = 32
CONFIGS = 32
ALTERNATIVES = 8
RESERVATIONS = 256
DEVICE_CONDITIONS = 8
DATA_BYTES = 10 * 1024
INTERFACE_BYTES = 256
HARDWARE_BYTES = 128
ADDRESSES = 16

_NOT_A_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_NOT_NORMAL = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
    "with lowercase hexadecimal characters"
)
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

DeviceId = tuple[str, str, str, str]


def resource_claim(new: Field, old: Field) -> None:
    """A claim. Its spec is checked once and never changes."""
    if old.present:
        new["spec"].keep(old["spec"])
    else:
        _claim_spec(new["spec"])


def resource_claim_template(new: Field, old: Field) -> None:
    """A template of claims, which never changes either."""
    if old.present:
        new["spec"].keep(old["spec"])
    else:
        template_metadata(new["spec"]["metadata"])
        _claim_spec(new["spec"]["spec"])


def device_class(new: Field, _: Field) -> None:
    """A device class: selectors, configuration, and perhaps the name of an extended resource."""
    spec = new["spec"]
    dra.selectors(spec["selectors"])
    for config in spec["config"].items(CONFIGS):
        dra.configuration(config)
    if spec["extendedResourceName"].present:
        spec["extendedResourceName"].follow(extended_resource)


def resource_claim_status(new: Field, old: Field) -> None:
    """The status of a claim: reservations, devices' reports, and an allocation that comes once."""
    status, before = new["status"], old["status"]
    requests = _request_names(new["spec"]["devices"])
    for user in status["reservedFor"].items(RESERVATIONS):
        for name in ("resource", "name", "uid"):
            if not user[name].text():
                user[name].required()
    unique(status["reservedFor"].items(), lambda user: user["uid"].text())
    allocated = {_device_id(result) for result in status["allocation"]["devices"]["results"].items()}
    for device in status["devices"].items():
        _device_status(device, allocated)
    _distinct_devices(status["devices"])
    _reservations(status, before, deleted=old["metadata"]["deletionTimestamp"].present)
    if status["allocation"].present and before["allocation"].present:
        status["allocation"].keep(before["allocation"])
    elif status["allocation"].present:
        _allocation(status["allocation"], requests)


def _claim_spec(spec: Field) -> None:
    devices = spec["devices"]
    names = _request_names(devices)
    for request in devices["requests"].items(REQUESTS):
        _request(request)
    _unique_names(devices["requests"], REQUESTS)
    for constraint in devices["constraints"].items(CONSTRAINTS):
        _constraint(constraint, names)
    for config in devices["config"].items(CONFIGS):
        _references(config["requests"], names)
        dra.configuration(config)


def _request_names(devices: Field) -> set[str]:
    """What a reference may say: the name of a request, or `request/alternative`."""
    names = set()
    for request in devices["requests"].items():
        name = request["name"].text()
        names |= {name} | {f"{name}/{sub['name'].text()}" for sub in request["firstAvailable"].items()}
    return names


def _unique_names(field: Field, limit: int) -> None:
    if len(field.items()) <= limit:
        unique(field.items(), lambda item: item["name"].text())


def _request(request: Field) -> None:
    request["name"].follow(dns_label)
    exactly, alternatives = request["exactly"], request["firstAvailable"]
    if exactly.present and alternatives.items():
        request.invalid(f"{_ONE_OF}, but multiple fields are set", None)
    elif alternatives.items():
        for alternative in alternatives.items(ALTERNATIVES):
            alternative["name"].follow(dns_label)
            _wish(alternative)
        _unique_names(alternatives, ALTERNATIVES)
    elif exactly.present:
        _wish(exactly)
    else:
        request.required(_ONE_OF)


def _wish(field: Field) -> None:
    """A class of devices, how many of them, and which."""
    if field["deviceClassName"].text():
        field["deviceClassName"].follow(dns_subdomain)
    else:
        field["deviceClassName"].required()
    dra.selectors(field["selectors"])
    count = field["count"].integer()
    match field["allocationMode"].text():
        case "All":
            if count:
                field["count"].invalid("must not be specified when allocationMode is 'All'")
        case "ExactCount":
            if count <= 0:
                field["count"].invalid("must be greater than zero", count)
        case _:
            field["allocationMode"].unsupported(("All", "ExactCount"))
    for toleration in field["tolerations"].items():
        dra.toleration(toleration)


def _constraint(constraint: Field, names: set[str]) -> None:
    _references(constraint["requests"], names)
    if constraint["matchAttribute"].present:
        dra.full_attribute_name(constraint["matchAttribute"])
    elif constraint["distinctAttribute"].present:
        dra.full_attribute_name(constraint["distinctAttribute"])
    else:
        constraint.required(
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )


def _references(field: Field, names: set[str]) -> None:
    for reference in field.items(REQUESTS):
        _reference(reference, names)
    unique(field.items(), Field.text)


def _reference(field: Field, names: set[str]) -> None:
    parts = field.text().split("/")
    for part in parts if len(parts) <= 2 else ():
        for problem in dns_label(part):
            field.invalid(problem, part)
    if field.text() not in names:
        field.invalid(_NOT_A_REQUEST)


def _reservations(status: Field, before: Field, deleted: bool) -> None:
    field = status["reservedFor"]
    if not field.items():
        return
    if not status["allocation"].present:
        field.forbidden("may not be specified when `allocated` is not set")
    elif deleted and not _shown(field) <= _shown(before["reservedFor"]):
        field.forbidden("new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")


def _shown(field: Field) -> set[str]:
    return {json.dumps(item.value, sort_keys=True) for item in field.items()}


def _allocation(allocation: Field, names: set[str]) -> None:
    for result in allocation["devices"]["results"].items(REQUESTS):
        _reference(result["request"], names)
        dra.driver_name(result["driver"])
        dra.pool_name(result["pool"])
        result["device"].follow(dns_label)
        dra.binding_conditions(result)
        _share(result["shareID"])
    for config in allocation["devices"]["config"].items(2 * CONFIGS):
        config["source"].choose("FromClaim", "FromClass")
        _references(config["requests"], names)
        dra.configuration(config)
    if allocation["nodeSelector"].present:
        node_selector(allocation["nodeSelector"])


def _device_status(device: Field, allocated: set[DeviceId]) -> None:
    dra.driver_name(device["driver"])
    dra.pool_name(device["pool"])
    device["device"].follow(dns_label)
    _share(device["shareID"])
    if _device_id(device) not in allocated:
        device.invalid("must be an allocated device in the claim", _as_object(_device_id(device)))
    device["conditions"].items(DEVICE_CONDITIONS)
    conditions(device["conditions"])
    if device["data"].present:
        dra.raw_object(device["data"], DATA_BYTES)
    _network(device["networkData"])


def _network(data: Field) -> None:
    data["interfaceName"].fit(INTERFACE_BYTES)
    data["hardwareAddress"].fit(HARDWARE_BYTES)
    addresses = data["ips"].items(ADDRESSES)
    for address in addresses:
        _address(address)
    unique(addresses, Field.text)


def _address(field: Field) -> None:
    host, _, length = field.text().partition("/")
    # Leading zeros are read as decimal before they are refused as not canonical.
    plain = re.sub(r"(^|\.)0+(?=\d)", r"\1", host) if "." in host and ":" not in host else host
    try:
        interface = ipaddress.ip_interface(f"{plain}/{length}")
    except ValueError:
        field.invalid("must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")
        return
    canonical = f"{interface.ip}/{interface.network.prefixlen}"
    if field.text() != canonical:
        field.invalid(f'must be in canonical form ("{canonical}")')


def _share(field: Field) -> None:
    text = field.text()
    if not field.present:
        return
    if len(text) != 36:
        field.invalid(f"error validating uid: invalid UUID length: {len(text)}")
    elif not _UUID.fullmatch(text):
        field.invalid("error validating uid: invalid UUID format")
    elif text != text.lower():
        field.invalid(_NOT_NORMAL)


def _distinct_devices(devices: Field) -> None:
    seen = set()
    for device in devices.items():
        identity = _device_id(device)
        if identity in seen:
            device.duplicate(_as_object(identity))
        seen.add(identity)


def _device_id(field: Field) -> DeviceId:
    return field["driver"].text(), field["pool"].text(), field["device"].text(), field["shareID"].text()


def _as_object(identity: DeviceId) -> dict[str, str]:
    return dict(zip(("Driver", "Pool", "Device", "ShareID"), identity, strict=True))
