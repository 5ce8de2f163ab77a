"""What a pod says about where it may run: tolerations, affinity, spreading, gates."""

from __future__ import annotations

from kubenexus.common.sandbox.validation.field import Field
from kubenexus.common.sandbox.validation.grammar import dns_label, label_value, qualified_name
from kubenexus.common.sandbox.validation.meta import label_selector, labels, node_selector, node_selector_term

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def placement(spec: Field) -> None:
    """All of a pod spec that the scheduler reads, except resources."""
    labels(spec["nodeSelector"])
    _node_affinity(spec["affinity"]["nodeAffinity"])
    for kind in ("podAffinity", "podAntiAffinity"):
        _pod_affinity(spec["affinity"][kind])
    for gate in spec["schedulingGates"].items():
        _gate(gate)
    _distinct(spec["schedulingGates"], "name")
    for index, constraint in enumerate(spec["topologySpreadConstraints"].items()):
        _spread(constraint, spec["topologySpreadConstraints"].items()[index + 1 :])
    for toleration in spec["tolerations"].items():
        tolerate(toleration)


def tolerate(field: Field) -> None:
    """One toleration."""
    key, operator, value, effect = field["key"], field["operator"], field["value"], field["effect"]
    if key.text():
        key.follow(qualified_name)
    elif operator.text() != "Exists":
        operator.invalid(
            'operator must be Exists when `key` is empty, which means "match all values and all keys"', operator.text()
        )
    if field["tolerationSeconds"].present and effect.text() != "NoExecute":
        effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set", effect.text())
    match operator.text():
        case "Equal" | "":
            if problems := label_value(value.text()):
                operator.invalid(";".join(problems), value.text())
        case "Exists":
            if value.text():
                operator.invalid("value must be empty when `operator` is 'Exists'", value.text())
        case "Lt" | "Gt":
            operator.unsupported(("Equal", "Exists", "Lt", "Gt"))
        case _:
            operator.unsupported(("Equal", "Exists"))
    effect.choose(*TAINT_EFFECTS, optional=True)


def _node_affinity(field: Field) -> None:
    if field[_REQUIRED].present:
        node_selector(field[_REQUIRED])
    for term in field[_PREFERRED].items():
        _weight(term)
        node_selector_term(term["preference"])


def _pod_affinity(field: Field) -> None:
    for term in field[_REQUIRED].items():
        _pod_term(term)
    for term in field[_PREFERRED].items():
        _weight(term)
        _pod_term(term["podAffinityTerm"])


def _weight(term: Field) -> None:
    if not 1 <= term["weight"].integer() <= 100:
        term["weight"].invalid("must be in the range 1-100", term["weight"].integer())


def _pod_term(term: Field) -> None:
    label_selector(term["labelSelector"])
    label_selector(term["namespaceSelector"])
    for name in term["namespaces"].items():
        for problem in dns_label(name.text()):
            term["namespace"].invalid(problem, name.text())
    _label_keys(term)
    if not term["topologyKey"].text():
        term["topologyKey"].required("can not be empty")
    term["topologyKey"].follow(qualified_name)


def _label_keys(field: Field) -> None:
    """Keys whose values come from the pod itself, which needs a selector to add them to."""
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        for key in field[name].items():
            key.follow(qualified_name)
        if field[name].items() and not field["labelSelector"].present:
            field[name].forbidden("must not be specified when labelSelector is not set")


def _gate(gate: Field) -> None:
    name = gate["name"].text()
    for problem in qualified_name(name):
        gate.invalid(problem, name)


def _distinct(field: Field, key: str) -> None:
    seen = set()
    for item in field.items():
        if item[key].text() in seen:
            item.duplicate(item[key].text())
        seen.add(item[key].text())


def _spread(field: Field, later: list[Field]) -> None:
    field["maxSkew"].at_least(1)
    key, action = field["topologyKey"].text(), field["whenUnsatisfiable"].text()
    if not key:
        field["topologyKey"].required("can not be empty")
    else:
        field["topologyKey"].follow(qualified_name)
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        field["whenUnsatisfiable"].unsupported(("DoNotSchedule", "ScheduleAnyway"))
    if any((other["topologyKey"].text(), other["whenUnsatisfiable"].text()) == (key, action) for other in later):
        field["{topologyKey, whenUnsatisfiable}"].duplicate(f"{{{key}, {action}}}")
    if field["minDomains"].present:
        field["minDomains"].at_least(1)
        if action != "DoNotSchedule":
            field["minDomains"].invalid(f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}")
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        field[policy].choose("Honor", "Ignore", optional=True)
    _label_keys(field)
    label_selector(field["labelSelector"])
