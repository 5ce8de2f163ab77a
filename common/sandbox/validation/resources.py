"""Requests and limits of containers and pods, capacities of nodes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from kubenexus.common import quantity
from kubenexus.common.objects import ProjectionError, pod_resources
from kubenexus.common.sandbox.validation.field import Amount, Field
from kubenexus.common.sandbox.validation.filling import decimal
from kubenexus.common.sandbox.validation.grammar import dns_label, is_extended_resource, qualified_name

ResourceCheck = Callable[[str, Field], None]

_OVERCOMMITTED = ("cpu", "memory", "ephemeral-storage")
_COUNTED = ("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps")
HUGEPAGES = "hugepages-"


def requirements(field: Field, claims: set[str]) -> None:
    """Requests and limits of a container, and the pod's claims that it uses."""
    _both_sides(field, _container_resource)
    for claim in field["claims"].items():
        _claim(claim, claims)
    _distinct_claims(field["claims"])


def pod_requirements(spec: Field) -> None:
    """Requests and limits of the pod as a whole: cpu, memory and huge pages, not less than its containers need."""
    field = spec["resources"]
    if not field.present:
        return
    if field["claims"].present:
        field["claims"].forbidden("claims may not be set for Resources at pod-level")
    _both_sides(field, _pod_resource)
    for name, need in _container_requests(spec).items():
        entry = field["requests"].key(name)
        whole = entry.amount()
        if whole and whole.exact < need:
            entry.invalid(
                f"must be greater than or equal to aggregate container requests of {decimal(need)}", whole.text
            )


def _container_requests(spec: Field) -> dict[str, Fraction]:
    try:
        return dict(pod_resources({"spec": spec.value}).container_requests())
    except ProjectionError:
        return {}  # the containers' own check says what is wrong


def node_amount(name: str, field: Field) -> None:
    """One entry of a node's capacity or allocatable: not negative, and whole where halves make no sense."""
    _amount(name, field)


def _both_sides(field: Field, check_name: ResourceCheck) -> None:
    limits = {name: _side_entry(name, entry, check_name) for name, entry in field["limits"].entries()}
    requests = {name: _side_entry(name, entry, check_name) for name, entry in field["requests"].entries()}
    for name, request in requests.items():
        if request:
            _against_limit(field, name, request, limits)
    asked = limits | requests
    if any(name.startswith(HUGEPAGES) for name in asked) and not {"cpu", "memory"} & set(asked):
        field.forbidden("HugePages require cpu or memory")


def _side_entry(name: str, entry: Field, check_name: ResourceCheck) -> Amount | None:
    check_name(name, entry)
    amount = _amount(name, entry)
    if amount and name.startswith(HUGEPAGES):
        _hugepages(name, entry, amount)
    return amount


def _against_limit(field: Field, name: str, request: Amount, limits: dict[str, Amount | None]) -> None:
    limit = limits.get(name)
    if limit:
        if request != limit and name not in _OVERCOMMITTED:
            field["requests"].invalid(f"must be equal to {name} limit of {limit}", request.text)
        elif request > limit:
            field["requests"].invalid(f"must be less than or equal to {name} limit of {limit}", request.text)
    elif name not in _OVERCOMMITTED and name not in limits:
        field["limits"].required("Limit must be set for non overcommitable resources")


def _amount(name: str, field: Field) -> Amount | None:
    amount = field.amount()
    if amount:
        if amount.exact < 0:
            field.invalid("must be greater than or equal to 0", amount.text)
        if (name in _COUNTED or is_extended_resource(name)) and amount.exact.denominator != 1:
            field.invalid("must be an integer", amount.text)
    return amount


def _hugepages(name: str, field: Field, amount: Amount) -> None:
    try:
        size = quantity.parse(name.removeprefix(HUGEPAGES))
    except quantity.QuantityError:
        return
    if size > 0 and amount.exact % size:
        field.invalid(f"{amount} is not positive integer multiple of {name}", amount.text)


def _container_resource(name: str, field: Field) -> None:
    problems = qualified_name(name)
    for problem in problems:
        field.invalid(problem, name)
    if problems:
        return
    if "/" not in name:
        if name not in _OVERCOMMITTED and not name.startswith(HUGEPAGES):
            field.invalid("must be a standard resource type or fully qualified", name)
            field.invalid("must be a standard resource for containers", name)
    elif "kubernetes.io/" not in name and not is_extended_resource(name):
        field.invalid("doesn't follow extended resource name standard", name)


def _pod_resource(name: str, field: Field) -> None:
    if name not in ("cpu", "memory") and not name.startswith(HUGEPAGES):
        field.unsupported(("cpu", "hugepages-", "memory"), name)


def _claim(claim: Field, known: set[str]) -> None:
    name = claim["name"].text()
    if not name:
        claim.required()
        return
    if claim["request"].text():
        claim["request"].follow(dns_label)
    if name not in known:
        where = ": " + ", ".join(sorted(known)) if known else " which is empty"
        Field(name, claim.path, claim.errors).not_found(f"must be one of the names in pod.spec.resourceClaims{where}")


def _distinct_claims(claims: Field) -> None:
    """A claim is used as a whole or request by request, each once."""
    seen: set[tuple[str, str]] = set()
    for claim in claims.items():
        name, request = claim["name"].text(), claim["request"].text()
        overlapping = {(name, request), (name, "")} if request else {key for key in seen if key[0] == name}
        if name and overlapping & seen:
            claim.duplicate(f"{name}/{request}" if request and (name, "") not in seen else name)
        seen.add((name, request))
