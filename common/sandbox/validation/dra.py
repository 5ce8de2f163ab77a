"""Grammar that the resource.k8s.io kinds share: drivers, pools, attributes, selectors, opaque configuration."""

from __future__ import annotations

import json

from kubenexus.common.sandbox.validation import cel
from kubenexus.common.sandbox.validation.field import Field, unique
from kubenexus.common.sandbox.validation.grammar import (
    c_identifier,
    dns_subdomain,
    label_value,
    qualified_name,
)

DRIVER_BYTES = 63
ID_BYTES = 32
POOL_BYTES = 253
OPAQUE_BYTES = 10 * 1024
SELECTORS = 32
BINDING_CONDITIONS = 4
TAINT_EFFECTS = ("NoExecute", "NoSchedule", "None")


def driver_name(field: Field, text: str | None = None) -> None:
    """A driver: a DNS subdomain of at most 63 bytes, in any case."""
    name = field.text() if text is None else text
    if not name:
        field.required()
        return
    if len(name.encode()) > DRIVER_BYTES:
        field.too_long(DRIVER_BYTES)
    for problem in dns_subdomain(name.lower()):
        field.invalid(problem, name)


def pool_name(field: Field) -> None:
    """A pool: DNS subdomains separated by slashes."""
    if not field.text():
        field.required()
        return
    field.fit(POOL_BYTES)
    for part in field.text().split("/"):
        for problem in dns_subdomain(part):
            field.invalid(problem, part)


def attribute_name(field: Field, name: str) -> None:
    """The key of an attribute or capacity, `[domain/]identifier`. Errors stand at the map."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        _identifier(field, name)
        return
    if "/" in identifier:  # the server lets a name with two slashes pass
        return
    if domain:
        driver_name(field, domain)
    else:
        field.invalid("the domain must not be empty", "")
    if identifier:
        _identifier(field, identifier)
    else:
        field.invalid("the name must not be empty", "")


def full_attribute_name(field: Field) -> None:
    """The name of an attribute in a constraint, which must have its domain."""
    attribute_name(field, field.text())
    if "/" not in field.text():
        field.invalid("a fully qualified name must be a domain and a name separated by a slash", field.text())


def exactly_one(field: Field, present: list[str], rule: str, several: str) -> None:
    """Exactly one of the named fields is set."""
    if not present:
        field.required(rule)
    elif len(present) > 1:
        field.invalid(several, "{" + ", ".join(f"`{name}`" for name in present) + "}")


def selectors(field: Field) -> None:
    """Device selectors: at most 32, each a CEL expression."""
    for selector in field.items(SELECTORS):
        if selector["cel"].present:
            cel.expression(selector["cel"]["expression"])
        else:
            selector["cel"].required()


def configuration(field: Field) -> None:
    """A driver's opaque configuration."""
    opaque = field["opaque"]
    if not opaque.present:
        opaque.required()
        return
    driver_name(opaque["driver"])
    raw_object(opaque["parameters"], OPAQUE_BYTES)


def raw_object(field: Field, limit: int) -> None:
    """Any JSON object of at most so many bytes."""
    if field.value is None:
        field.required()
    elif len(json.dumps(field.value, ensure_ascii=False).encode()) > limit:  # as most clients write it
        field.too_long(limit)
    elif not isinstance(field.value, dict):
        field.invalid("must be a valid JSON object", "<value omitted>")


def taint(field: Field) -> None:
    """A taint on a device."""
    field["key"].follow(qualified_name)
    field["value"].follow(label_value)
    field["effect"].choose(*TAINT_EFFECTS)


def toleration(field: Field) -> None:
    """A toleration of device taints in a request."""
    if field["key"].text():
        field["key"].follow(qualified_name)
    match field["operator"].text():
        case "Exists":
            if field["value"].text():
                field["value"].invalid("must be empty for operator `Exists`")
        case "Equal":
            field["value"].follow(label_value)
        case _:
            field["operator"].choose("Equal", "Exists")
    field["effect"].choose(*TAINT_EFFECTS, optional=True)


def binding_conditions(field: Field) -> None:
    """Binding conditions and failure conditions: few, distinct, and never the one without the other."""
    wanted, failures = field["bindingConditions"], field["bindingFailureConditions"]
    for conditions in (wanted, failures):
        for condition in conditions.items(BINDING_CONDITIONS):
            condition.follow(qualified_name)
    for conditions in (wanted, failures):
        unique(conditions.items(), Field.text)
    for condition in failures.items():
        if condition.text() in map(Field.text, wanted.items()):
            condition.invalid("bindingFailureConditions must not overlap with bindingConditions")
    _needs(wanted, failures)
    _needs(failures, wanted)


def _needs(field: Field, other: Field) -> None:
    if other.items() and not field.items():
        name, user = field.path.rpartition(".")[2], other.path.rpartition(".")[2]
        field.invalid(f"{name} are required to use {user}")


def _identifier(field: Field, name: str) -> None:
    if len(name.encode()) > ID_BYTES:
        field.too_long(ID_BYTES)
    for problem in c_identifier(name):
        field.invalid(problem, name)
