"""What every object's metadata must be, and the label maps and selectors that many kinds have."""

from kubenexus.common.sandbox.validation.field import Field, unique
from kubenexus.common.sandbox.validation.grammar import (
    Grammar,
    condition_reason,
    dns_label,
    label_value,
    qualified_name,
)

ANNOTATION_BYTES = 256 * 1024


def metadata(meta: Field, name: Grammar, namespaced: bool | None) -> None:
    """Metadata of a new object whose name was already generated. `namespaced` None: the scope is not known here."""
    if meta["generateName"].text():
        _prefix(meta["generateName"], name)
    if meta["name"].text():
        meta["name"].follow(name)
    else:
        meta["name"].required("name or generateName is required")
    _namespace(meta["namespace"], namespaced)
    _common(meta)
    finalizers(meta["finalizers"])
    if namespaced is not None:
        _known_finalizers(meta["finalizers"])


def metadata_update(meta: Field, old: Field) -> None:
    """Metadata of a changed object against what is stored."""
    if old["deletionTimestamp"].present:
        stored = {item.text() for item in old["finalizers"].items()}
        added = sorted(set(map(Field.text, meta["finalizers"].items())) - stored)
        if added:
            words = ", ".join(f'"{name}"' for name in added)
            meta["finalizers"].forbidden(
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{words}}}"
            )
    meta["name"].keep(old["name"])
    meta["namespace"].keep(old["namespace"])
    _common(meta)


def template_metadata(meta: Field) -> None:
    """The metadata of a ResourceClaimTemplate's claims: labels and annotations and nothing else."""
    annotations(meta["annotations"])
    labels(meta["labels"])
    for name in meta.names():
        if name not in ("labels", "annotations") and meta[name].value:
            meta[name].forbidden("cannot be set")


def labels(field: Field) -> None:
    """A map of labels. Errors stand at the map itself, as the server has it."""
    for key, value in field.entries():
        _follow_as(field, key, qualified_name)
        _follow_as(field, value.text(), label_value)


def annotations(field: Field) -> None:
    """A map of annotations: keys without regard to case, 256 KiB in all."""
    entries = field.entries()
    for key, _ in entries:
        for problem in qualified_name(key.lower()):
            field.invalid(problem, key)
    if sum(len(key.encode()) + len(value.text().encode()) for key, value in entries) > ANNOTATION_BYTES:
        field.too_long(ANNOTATION_BYTES)


def label_selector(selector: Field) -> None:
    """A LabelSelector: `matchLabels` and `matchExpressions`."""
    labels(selector["matchLabels"])
    for requirement in selector["matchExpressions"].items():
        _operator(requirement)
        requirement["key"].follow(qualified_name)
        for value in requirement["values"].items():
            value.follow(label_value)


def node_selector(selector: Field) -> None:
    """A NodeSelector: at least one term, each of expressions on labels and on the node's name."""
    terms = selector["nodeSelectorTerms"]
    if not terms.items():
        terms.required("must have at least one node selector term")
    for term in terms.items():
        node_selector_term(term)


def node_selector_term(term: Field) -> None:
    """One term of a NodeSelector."""
    for requirement in term["matchExpressions"].items():
        _operator(requirement, ordered=True)
        requirement["key"].follow(qualified_name)
        for value in requirement["values"].items():
            value.follow(label_value)
    for requirement in term["matchFields"].items():
        _field_requirement(requirement)


def conditions(field: Field) -> None:
    """A list of metav1 conditions: one of a type, each complete."""
    unique([item["type"] for item in field.items()], Field.text)
    for item in field.items():
        _condition(item)


def _condition(field: Field) -> None:
    field["type"].follow(qualified_name)
    if field["status"].text() not in ("False", "True", "Unknown"):
        field["status"].unsupported(("False", "True", "Unknown"))
    if field["observedGeneration"].integer() < 0:
        field["observedGeneration"].invalid("must be greater than or equal to zero")
    if not field["lastTransitionTime"].present:
        field["lastTransitionTime"].required()
    if field["reason"].text():
        field["reason"].follow(condition_reason)
        field["reason"].fit(1024)
    else:
        field["reason"].required()
    field["message"].fit(32 * 1024)


def finalizers(field: Field) -> None:
    """Finalizer names are qualified, and the two that contradict each other do not stand together."""
    for item in field.items():
        _follow_as(field, item.text(), qualified_name)
    if {"orphan", "foregroundDeletion"} <= {item.text() for item in field.items()}:
        field.invalid("finalizer orphan and foregroundDeletion cannot be both set")


def _known_finalizers(field: Field) -> None:
    """Built-in kinds accept names without a domain only if they are the server's own."""
    for item in field.items():
        if "/" not in item.text() and item.text() not in ("kubernetes", "orphan", "foregroundDeletion"):
            item.invalid("name is neither a standard finalizer name nor is it fully qualified")


def _common(meta: Field) -> None:
    meta["generation"].at_least(0)
    labels(meta["labels"])
    annotations(meta["annotations"])
    _owners(meta["ownerReferences"])


def _prefix(field: Field, grammar: Grammar) -> None:
    """A generateName is a name to be continued: it may end in a dash."""
    text = field.text()
    for problem in grammar(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text):
        field.invalid(problem)


def _namespace(field: Field, namespaced: bool | None) -> None:
    if namespaced is None:
        return
    if not namespaced:
        if field.text():
            field.forbidden("not allowed on this type")
    elif field.text():
        field.follow(dns_label)
    else:
        field.required()


def _owners(field: Field) -> None:
    controllers = []
    for owner in field.items():
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner[name].text():
                why = "version must not be empty" if name == "apiVersion" else "must not be empty"
                Field("", f"{field.path}.{name}", field.errors).invalid(why)
        if (owner["apiVersion"].text(), owner["kind"].text()) == ("v1", "Event"):
            field.invalid("/v1, Kind=Event is disallowed from being an owner", owner.value)
        if owner["controller"].flag():
            controllers.append(f"{owner['kind'].text()}/{owner['name'].text()}")
    for extra in controllers[1:]:
        field.invalid(
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {extra}"
        )


def _operator(requirement: Field, ordered: bool = False) -> None:
    values = requirement["values"]
    match requirement["operator"].text():
        case "In" | "NotIn":
            if not values.items():
                values.required("must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values.items():
                values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        case "Gt" | "Lt" if ordered:
            if len(values.items()) != 1:
                values.required("must be specified single value when `operator` is 'Lt' or 'Gt'")
        case other:
            requirement["operator"].invalid("not a valid selector operator", other)


def _field_requirement(requirement: Field) -> None:
    values = requirement["values"]
    if requirement["operator"].text() not in ("In", "NotIn"):
        requirement["operator"].invalid("not a valid selector operator", requirement["operator"].text())
    elif len(values.items()) != 1:
        values.required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
    if requirement["key"].text() != "metadata.name":
        requirement["key"].invalid("not a valid field selector key", requirement["key"].text())


def _follow_as(field: Field, text: str, grammar: Grammar) -> None:
    for problem in grammar(text):
        field.invalid(problem, text)
